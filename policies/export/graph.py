"""A controller as a graph of named tensors, in ONNX."""

import logging
import re
import warnings
from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
import onnx
import torch
from onnxscript.optimizer import optimize
from torch import Tensor, nn

from deploy.bundle.probes import StepFn
from deploy.contract import CommandSpec, TensorSpec
from deploy.contract.tensor_specs import (
    ACTION,
    CORRECTION,
    MEMORY_OUTPUT_SUFFIX,
    OBS,
    PEER_INPUTS,
    STATE_INPUTS,
    TARGET,
    correction_tensor_spec,
    object_field,
    object_tensor_specs,
    peer_tensor_specs,
    state_tensor_specs,
)
from hardware import load_robot
from hardware.types import ObjectState, Peers, RobotState
from policies.networks import chunk, history
from policies.networks.controller import Controller
from policies.task_data import first_sentence
from sim.task import PolicyInput

OPSET = 18
_UNIT = re.compile(r"\(\.\.\.[^)]*\)(?: (?!in )([\w/^ ]+(?:, (?!world|body)[\w/^ ]+)*))?(?:, (world|body))?(?=[:,.]|$)")


class GraphController(nn.Module):
    """A controller whose inputs and outputs are named tensors (batch, ...), in the order of `inputs` and `outputs`.

    At first `inputs` has all that robot, `objects`, peers, commands and memory can give; `to_onnx` leaves what is used.
    """

    def __init__(self, controller: Controller, objects: Sequence[str] = ()) -> None:
        super().__init__()
        self.controller = controller
        self.robot = load_robot(controller.group.robot)
        self.memory = memory_specs(controller)
        self._correction = correction_tensor_spec(channel.unit for channel in self.robot.channels)
        self._measured = (
            *state_tensor_specs(len(self.robot.joint_names)),
            *(spec for name in objects for spec in object_tensor_specs(name)),
            self._correction,
        )
        self.inputs = (
            *self._measured,
            *(peer_tensor_specs() if controller.group.observation.peer else ()),
            *(TensorSpec(c.name, c.shape, "float32", c.unit, c.frame, c.meaning) for c in self.commands),
            *(spec for spec, _ in self.memory),
        )
        width, units = len(self.robot.channels), dict.fromkeys(channel.unit for channel in self.robot.channels)
        seen, own = controller.policy.own_dim, ", ".join(controller.group.observation.own)
        self.outputs = (
            TensorSpec(TARGET, ("batch", width), "float32", ", ".join(units), "body", "command to each channel"),
            TensorSpec(OBS, ("batch", seen), "float32", "SI", "body", f"seen: {own}"),
            TensorSpec(ACTION, ("batch", width), "float32", "1", "none", "network output in [-1, 1] before decoding"),
            *(msgspec.structs.replace(spec, name=spec.name + MEMORY_OUTPUT_SUFFIX) for spec, _ in self.memory),
        )

    @property
    def commands(self) -> tuple[CommandSpec, ...]:
        """What an operator may ask for."""
        return tuple(
            CommandSpec(name, ("batch", len(c.low)), c.unit, c.frame, c.meaning, c.low, c.high)
            for name, c in self.controller.group.commands.items()
        )

    @property
    def objects(self) -> tuple[str, ...]:
        """Tracked objects that some input is about."""
        measured = {spec.name for spec in self._measured} - {*STATE_INPUTS, CORRECTION}
        return tuple(dict.fromkeys(object_field(t.name)[0] for t in self.inputs if t.name in measured))

    def keep(self, used: Collection[str]) -> None:
        """Leave out the measurements, of the robot and of objects, and the correction, that are not in `used`."""
        unused = {spec.name for spec in self._measured} - set(used)
        self.inputs = tuple(tensor for tensor in self.inputs if tensor.name not in unused)

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """One control period: values in the order of `inputs` -> in the order of `outputs`."""
        given = {tensor.name: value for tensor, value in zip(self.inputs, values, strict=True)}
        target, after, own, action = self.controller(self._policy_input(given))
        answers = {"target": target.target, "obs": own, "action": action}
        answers |= {name + MEMORY_OUTPUT_SUFFIX: value for name, value in after.items()}
        return tuple(answers[tensor.name] for tensor in self.outputs)

    def _policy_input(self, given: Mapping[str, Tensor]) -> PolicyInput:
        """What the controller is given; zero where the graph has no such input, which then is not used."""
        group, like = self.controller.group, next(iter(given.values()))

        def take(spec: TensorSpec) -> Tensor:
            absent = torch.zeros(like.shape[0], *(d for d in spec.shape[1:] if isinstance(d, int)))
            return given.get(spec.name, absent)

        age = torch.zeros(like.shape[0])
        state = {name: torch.zeros(like.shape[0], 0) for name in STATE_INPUTS}
        state |= {spec.name: take(spec) for spec in self._measured if spec.name in STATE_INPUTS}
        objects = {}
        for name in self.objects:
            objects[name] = ObjectState(
                **{object_field(s.name)[1]: take(s) for s in object_tensor_specs(name)}, age=age
            )
        none = torch.zeros(like.shape[0], 0, 3)
        peers = Peers(none, none, none[..., 0], none[..., 0].bool())
        if group.observation.peer:
            valid = given["peers_valid"]
            fields = {field: given[name] for name, field in PEER_INPUTS.items() if field != "valid"}
            peers = Peers(**{field: _of_peers(value, valid) for field, value in fields.items()}, valid=valid)
        command = {name: given[name] for name in group.commands}
        memory = {spec.name: given[spec.name] for spec, _ in self.memory}
        own = RobotState(**state, age=age)
        return PolicyInput(own, peers, objects, command, memory, take(self._correction))


def _of_peers(value: Tensor, valid: Tensor) -> Tensor:
    """`value` (batch, peers, ...) where a slot is `valid` (batch, peers), 0 elsewhere: even NaN there is not seen."""
    return torch.where(valid.view(*valid.shape, *[1] * (value.ndim - valid.ndim)), value, torch.zeros(()))


def memory_specs(controller: Controller) -> list[tuple[TensorSpec, tuple[float, ...]]]:
    """What observation and network carry from one period to the next, (batch, n) each, with its initial value (n,)."""
    terms = controller.group.observation.memory.items()
    carried = {name: (t.initial, first_sentence(t.func).rstrip(".")) for name, t in terms}
    known, meanings = controller.policy.memory.items(), {**chunk.MEANING, **history.MEANING}
    carried |= {name: (initial, meanings.get(name, "state of the network")) for name, initial in known}
    return [
        (TensorSpec(name, ("batch", len(initial)), "float32", *unit_and_frame(meaning), meaning), initial)
        for name, (initial, meaning) in carried.items()
    ]


def unit_and_frame(sentence: str) -> tuple[str, str]:
    """Unit and frame that a docstring names after the shape, as in "(..., 3) m s, world: ..."; by default 1, none.

    What is no quantity of one unit names that of each of its parts: "m/s, rad/s".
    """
    found = _UNIT.search(sentence)
    return (found[1] or "1", found[2] or "none") if found else ("1", "none")


def to_onnx(graph: GraphController) -> bytes:
    """The module as an ONNX file with the names of its inputs and outputs; "batch" and "peers" stay free.

    Measurements that nothing depends on are left out, of `graph.inputs` as well: a robot need not have them.
    """
    sizes = {"batch": 3, "peers": 2}
    example = tuple(
        torch.zeros([sizes[d] if isinstance(d, str) else d for d in t.shape], dtype=getattr(torch, t.dtype))
        for t in graph.inputs
    )
    free = {name: torch.export.Dim(name, min=1) for name in sizes}
    shapes = tuple({i: free[d] for i, d in enumerate(t.shape) if isinstance(d, str)} for t in graph.inputs)
    # The exporter warns about its own deprecations and about torchvision, which nothing here needs.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        graph.eval()(*example)  # what is wrong with it is said in plain words here
        program = torch.onnx.export(
            graph,
            example,
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=(shapes,),
            input_names=[t.name for t in graph.inputs],
            output_names=[t.name for t in graph.outputs],
            optimize=False,
            verbose=False,
        )
    assert program is not None
    optimize(program.model, num_iterations=1)  # torch's two rounds take twice as long for a hundredth fewer nodes
    return without_unused_inputs(graph, program.model_proto)  # a new one each time that it is asked for


def without_unused_inputs(graph: GraphController, model: onnx.ModelProto) -> bytes:
    """The file of the exported `model` without measurements that nothing depends on; `graph.inputs` loses them too."""
    graph.keep({name for node in model.graph.node for name in node.input})
    names = {tensor.name for tensor in graph.inputs}
    for unused in [tensor for tensor in model.graph.input if tensor.name not in names]:
        model.graph.input.remove(unused)
    return model.SerializeToString(deterministic=True)


def step_function(graph: GraphController) -> StepFn:
    """The torch module as a function of named arrays: the reference that probes are recorded from."""

    def step(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            values = graph(*(torch.from_numpy(inputs[tensor.name]) for tensor in graph.inputs))
        return {tensor.name: value.numpy() for tensor, value in zip(graph.outputs, values, strict=True)}

    return step
