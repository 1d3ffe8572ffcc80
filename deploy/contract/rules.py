"""What must agree inside a contract: the rules that no type can express."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from deploy.contract.tensor_specs import (
    MEMORY_OUTPUT_SUFFIX,
    PEER_INPUTS,
    REQUIRED_OUTPUTS,
    STATE_INPUTS,
    TARGET,
    correction_tensor_spec,
    object_tensor_specs,
    peer_tensor_specs,
    state_tensor_specs,
)
from deploy.contract.types import FORMAT, OLDER_FORMAT, Contract, ContractError, MemorySpec, TensorSpec
from hardware.plant import DELAYS

FLOAT32_MAX = float(np.finfo(np.float32).max)


def check_rules(contract: Contract) -> None:
    """Raise ContractError, naming the field, on the first thing that contradicts another."""
    _check_unique("robot.joint_names", contract.robot.joint_names)
    _check_unique("robot.channels", (channel.name for channel in contract.robot.channels))
    _check_unique("objects", contract.objects)
    _check_unique("memory", (memory.input for memory in contract.memory))
    _check_ranges("robot.channels", ((c.name, c.low, c.high) for c in contract.robot.channels))
    stated = contract.plant is not None
    _require(stated == (contract.format == FORMAT), "plant", f"{FORMAT} states it, {OLDER_FORMAT} does not")
    if contract.plant is not None:
        joints, own = tuple(joint.name for joint in contract.plant.joints), contract.robot.joint_names
        _require(joints == own, "plant.joints", f"{list(joints)} are not robot.joint_names, {list(own)}")
        for r in contract.plant.trained_ranges:
            _require(r.low <= r.high, f"plant.trained_ranges.{r.event}", f"low {r.low!r} is above high {r.high!r}")
        for delay in DELAYS:
            least, most = getattr(contract.plant, delay)
            _require(
                0.0 <= least <= most <= 1.0, f"plant.{delay}", f"{least!r} to {most!r}: wanted 0 <= least <= most <= 1"
            )
    for field in ("inputs", "outputs", "commands"):
        tensors = getattr(contract, field)
        _check_unique(field, (tensor.name for tensor in tensors))
        for tensor in tensors:
            first = tensor.shape[0]
            _require(first == "batch", f"{field}.{tensor.name}.shape[0]", f"{first!r} is not 'batch'")
    _check_inputs(contract)
    _check_commands(contract)
    _check_memory(contract)
    _check_outputs(contract)


def _check_numbers(field: str, numbers: Iterable[float]) -> None:
    """The graph works in float32."""
    for number in numbers:
        _require(abs(number) <= FLOAT32_MAX, field, f"{number!r} is beyond float32, {FLOAT32_MAX:.2g}")


def _check_unique(field: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        _require(count == 1, field, f"{name!r} appears {count} times")


def _check_ranges(field: str, ranges: Iterable[tuple[str, float, float]]) -> None:
    for name, low, high in ranges:
        _check_numbers(f"{field}.{name}", (low, high))
        _require(low < high, field, f"{name}: low {low!r} is not below high {high!r}")


def _check_inputs(contract: Contract) -> None:
    """Every input has exactly one source: the robot's sensors, its objects, the peers, the operator or the memory."""
    sensors = {s.name: s for s in (*state_tensor_specs(len(contract.robot.joint_names)), *peer_tensor_specs())}
    sensors |= _objects(contract)
    correction = correction_tensor_spec(channel.unit for channel in contract.robot.channels)
    sensors[correction.name] = correction
    others = {command.name for command in contract.commands} | {memory.input for memory in contract.memory}
    reserved = sorted(others & {*STATE_INPUTS, *PEER_INPUTS, *sensors})
    _require(not reserved, "commands, memory", f"{reserved} are names of sensor inputs")
    for tensor in contract.inputs:
        known = tensor.name in sensors or tensor.name in others
        _require(known, "inputs", f"{tensor.name!r} is neither a sensor input, an object's, a command nor memory")
        if tensor.name in sensors:
            for field in ("shape", "dtype", "unit", "frame"):
                found, right = getattr(tensor, field), getattr(sensors[tensor.name], field)
                _require(found == right, f"inputs.{tensor.name}.{field}", f"{found!r} is not {right!r}")
    names = {tensor.name for tensor in contract.inputs}
    peers = [name for name in PEER_INPUTS if name in names]
    missing = [name for name in PEER_INPUTS if name not in names]
    _require(not peers or not missing, "inputs", f"{peers} without {missing}: peers come all four or not at all")


def _objects(contract: Contract) -> dict[str, TensorSpec]:
    """The inputs that the listed objects may fill, by name: each is of one object, and each object is an input."""
    inputs = {tensor.name for tensor in contract.inputs}
    found: dict[str, TensorSpec] = {}
    for name in contract.objects:
        own = {spec.name: spec for spec in object_tensor_specs(name)}
        clash = sorted(own.keys() & {*STATE_INPUTS, *PEER_INPUTS, *found})
        _require(not clash, "objects", f"{name!r} would give {clash}, which are others' inputs")
        _require(bool(own.keys() & inputs), "objects", f"{name!r} is listed, but no input is about it")
        found |= own
    return found


def _check_commands(contract: Contract) -> None:
    inputs = {tensor.name: tensor for tensor in contract.inputs}
    for command in contract.commands:
        field = f"commands.{command.name}"
        _require(command.name in inputs, field, "is not among the inputs")
        tensor = inputs[command.name]
        _require(tensor.dtype == "float32", f"{field}.dtype", f"{tensor.dtype!r} is not 'float32'")
        for name in ("shape", "unit", "frame"):
            found, other = getattr(command, name), getattr(tensor, name)
            _require(found == other, f"{field}.{name}", f"{found!r} is not {other!r} as in inputs")
        vector = len(command.shape) == 2 and isinstance(command.shape[1], int)
        _require(vector, f"{field}.shape", f"{command.shape} is not (batch, n)")
        sizes = (len(command.low), len(command.high))
        _require(sizes == (command.shape[1],) * 2, field, f"has {sizes} limits for shape {command.shape}")
        _check_ranges(field, zip(map(str, range(sizes[0])), command.low, command.high, strict=True))


def _check_memory(contract: Contract) -> None:
    inputs = {tensor.name: tensor for tensor in contract.inputs}
    outputs = {tensor.name: tensor for tensor in contract.outputs}
    for memory in contract.memory:
        field = f"memory.{memory.input}"
        expected = memory.input + MEMORY_OUTPUT_SUFFIX
        _require(memory.output == expected, field, f"output is {memory.output!r}, not {expected!r}")
        _require(memory.input in inputs, field, "is not among the inputs")
        _require(memory.output in outputs, field, f"{memory.output!r} is not among the outputs")
        _require(memory.input not in {c.name for c in contract.commands}, field, "is also a command")
        for side in (inputs[memory.input], outputs[memory.output]):
            fits = side.dtype == "float32" and side.shape == inputs[memory.input].shape and "peers" not in side.shape
            _require(fits, f"{field}.{side.name}", f"{side.dtype} {side.shape} is not float32 of one fixed shape")
        _check_initial(memory, inputs[memory.input].shape[1:])


def _check_initial(memory: MemorySpec, shape: tuple[int | str, ...]) -> None:
    field = f"memory.{memory.input}.initial"
    try:
        initial = np.array(memory.initial)
    except ValueError:
        _require(False, field, f"has shape None, not {shape}")  # ragged
    _require(initial.dtype.kind in "if", field, f"{memory.initial!r} holds more than numbers")
    _require(initial.shape == shape, field, f"has shape {initial.shape}, not {shape}")
    _check_numbers(field, initial.ravel().tolist())


def _check_outputs(contract: Contract) -> None:
    outputs = {tensor.name: tensor for tensor in contract.outputs}
    allowed = {*REQUIRED_OUTPUTS, *(memory.output for memory in contract.memory)}
    for name in REQUIRED_OUTPUTS:
        _require(name in outputs, "outputs", f"{name!r} is missing")
    for tensor in contract.outputs:
        _require(tensor.name in allowed, "outputs", f"{tensor.name!r} is neither {REQUIRED_OUTPUTS} nor memory")
        _require(tensor.dtype == "float32", f"outputs.{tensor.name}.dtype", f"{tensor.dtype!r} is not 'float32'")
        _require("peers" not in tensor.shape, f"outputs.{tensor.name}.shape", "depends on the number of peers")
    width = ("batch", len(contract.robot.channels))
    shape = outputs[TARGET].shape
    _require(shape == width, "outputs.target.shape", f"{shape} is not {width}, one per actuator channel")


def _require(holds: bool, field: str, message: str) -> None:
    if not holds:
        raise ContractError(f"contract.{field}: {message}")
