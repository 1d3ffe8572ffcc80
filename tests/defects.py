"""Policy files with planted defects, as a faulty exporter would write them: sound files, with probes of their own."""

from collections.abc import Callable
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
    """Whoever takes the input `name` is given `operation`(it, constant) instead."""
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
