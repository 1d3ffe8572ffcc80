"""Policy files with planted defects, as a faulty exporter would write them: sound files, with probes of their own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from deploy.bundle import load_bundle
from deploy.bundle.probes import Probes, record_sequence
from deploy.bundle.session import open_session, run_session
from deploy.contract import Contract
from policies.export.save import save_bundle

Edit = Callable[[Any], None]
NOISE = (0.4, 0.15, 0.05)  # of weights, in the spread of their matrix


def save_edited(source: Path, path: Path, edit: Edit, contract: Contract | None = None) -> Path:
    """Write `source` to `path` with `edit` applied to its graph; its probes are then recorded again."""
    bundle = load_bundle(source)
    model = onnx.load_from_string(bundle.model_bytes)
    del model.metadata_props[:]
    edit(model.graph)
    data = model.SerializeToString()
    session = open_session(data)
    probes = [
        record_sequence(lambda inputs: run_session(session, inputs), one.inputs, one.memory)
        for one in bundle.probes.sequences
    ]
    save_bundle(data, contract or bundle.contract, Probes(tuple(probes)), path)
    return path


def _before(graph: Any, name: str, operation: str, constant: np.ndarray, **attributes: Any) -> None:
    """What takes the input `name` is given `operation`(it, constant) instead."""
    for node in graph.node:
        node.input[:] = [f"{name}/edited" if taken == name else taken for taken in node.input]
    graph.initializer.append(onnx.numpy_helper.from_array(constant, f"{name}/constant"))
    made = onnx.helper.make_node(operation, [name, f"{name}/constant"], [f"{name}/edited"], **attributes)
    graph.node.insert(0, made)


def swap_joints(graph: Any) -> None:
    """The second joint is taken for the fourth, and the other way round."""
    for name in ("joint_pos", "joint_vel"):
        (size,) = [value.type.tensor_type.shape.dim[1].dim_value for value in graph.input if value.name == name]
        order = np.arange(size)
        order[[1, 3]] = 3, 1
        _before(graph, name, "Gather", order, axis=1)


def turn_frames(graph: Any) -> None:
    """The attitude is taken for world to body."""
    _before(graph, "base_quat", "Mul", np.array([1, -1, -1, -1], np.float32))


def drop_normaliser(graph: Any) -> None:
    """The network is given what its normaliser was to be given."""
    (first,) = [node for node in graph.node if any(name.endswith("trunk.own.weight") for name in node.input)]
    first.input[0] = "obs"


def forget(graph: Any) -> None:
    """What the policy carries from one period to the next is lost."""
    inputs, outputs = ({value.name for value in side} for side in (graph.input, graph.output))
    for name in sorted(name for name in inputs if f"{name}_out" in outputs):
        _before(graph, name, "Mul", np.array(0, np.float32))


def raise_gain(graph: Any, factor: float = 1.5) -> None:
    """The action is `factor` times what the network says."""
    (at,) = [place for place, node in enumerate(graph.node) if "action" in node.output]
    graph.node[at].output[:] = ["action/edited"]
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(factor, np.float32), "action/constant"))
    made = onnx.helper.make_node("Mul", ["action/edited", "action/constant"], ["action"])
    graph.node.insert(at + 1, made)


def add_noise(graph: Any, size: float) -> None:
    """Each weight differs by `size` times the spread of its matrix."""
    rng = np.random.default_rng(0)
    for tensor in graph.initializer:
        if tensor.name.endswith(".weight"):
            value = onnx.numpy_helper.to_array(tensor)
            noisy = value + size * value.std() * rng.standard_normal(value.shape)
            tensor.CopyFrom(onnx.numpy_helper.from_array(noisy.astype(value.dtype), tensor.name))


def defects(contract: Contract) -> Mapping[str, Edit]:
    """Those that can be planted in a file with that contract, by name."""
    inputs = {tensor.name for tensor in contract.inputs}
    found: dict[str, Edit] = {"normaliser dropped": drop_normaliser}
    if "joint_pos" in inputs:
        found["joints swapped"] = swap_joints
    if "base_quat" in inputs and contract.robot.kind != "manipulator":  # whose base does not turn
        found["wrong frame"] = turn_frames
    if contract.memory:
        found["memory lost"] = forget
    found["gain x1.5"] = raise_gain
    return found | {f"weights {size:.0%} off": lambda graph, size=size: add_noise(graph, size) for size in NOISE}
