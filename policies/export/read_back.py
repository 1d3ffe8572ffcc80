"""The networks in a policy file, for a training that begins with them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from deploy.bundle import Bundle
from deploy.bundle.probes import Probes, replay
from deploy.contract.tensor_specs import ACTION, OBS
from policies.checkpoint import CheckpointError, renamed
from policies.export.graph import GraphController, step_function
from policies.networks.controller import Controller
from policies.networks.history import PAST
from policies.networks.normaliser import EPSILON
from policies.networks.policy import Policy

PREFIXES = ("controller.policy.", "controller.actor.")  # of a policy's parameters in a graph; now, and before
FLIES = ("trunk.", "head.", "normaliser.policy.", "normaliser.neighbours.")  # what of a policy is in its file
TOLERANCE = 1e-3  # of outputs, in their units: variances were rounded on the way
COUNT = 1e8  # observations for which the statistics in a file stand


def read_policy(file: Path, bundle: Bundle, policy: Policy, group: Any, objects: Sequence[str]) -> None:
    """Put the networks in a policy `file`, loaded as `bundle`, into `policy`.

    `group` (`GroupCfg`) and tracked `objects` are of the task that it is for. What a file does not have stays as it is:
    critics, how actions are drawn. CheckpointError for networks that do not fit, or do not do what the file says.
    """
    there = {memory.input: len(memory.initial) for memory in bundle.contract.memory}
    periods = 1 + there.get(PAST, 0) // policy.own_dim
    if periods != policy.history:
        raise CheckpointError(
            f"cannot start from {file}: networks differ in periods of history ({periods} there, {policy.history} here)"
        )
    held = _constants(file)
    state = policy.state_dict()
    for name, value in state.items():
        if name.endswith(".count") and name.startswith(FLIES):
            state[name] = torch.full_like(value, COUNT)
        elif name.startswith(FLIES) and "mirror" not in name and value.numel():
            state[name] = _found(name, value, held, file)
    policy.load_state_dict(state)
    kept = GraphController(Controller(group, policy).eval(), objects)
    kept.inputs = tuple(tensor for tensor in kept.inputs if tensor.name in {t.name for t in bundle.contract.inputs})
    error = _differs(kept, bundle)
    policy.train()
    if not error <= TOLERANCE:
        raise CheckpointError(
            f"cannot start from {file}: with its networks the policy of this task does something else than the file "
            f"(by {error:.3g}): it was made for another task, with another network.activation, with or without "
            "network.symmetric, or by another version"
        )


def _constants(file: Path) -> dict[str, Tensor]:
    """Those of a graph by name, of a policy's parameters as the policy calls them."""
    found = {i.name: torch.tensor(numpy_helper.to_array(i)) for i in onnx.load(file).graph.initializer}
    for prefix in PREFIXES:
        found = {name.removeprefix(prefix): value for name, value in found.items()}
    return renamed(found)


def _found(name: str, value: Tensor, held: Mapping[str, Tensor], file: Path) -> Tensor:
    """The parameter `name` among the constants `held` in a graph, which has some of them in another form."""
    own = held.get(name)
    if own is None and name.endswith(".var"):  # folded to the factor that the graph multiplies with
        factors = [x for key, x in held.items() if key.startswith("rsqrt") and x.shape == value.shape]
        found = [factor.square().reciprocal().clamp(min=EPSILON) for factor in factors]
    elif own is None:
        found = [x.T for key, x in held.items() if "." not in key and x.dim() == 2 and x.T.shape == value.shape]
    else:
        found = [own]
    if len(found) != 1 or found[0].shape != value.shape:
        there = f"it has {tuple(own.shape)}" if own is not None else f"it has {len(found)} that may be it"
        raise CheckpointError(f"cannot start from {file}: this run's {name} is {tuple(value.shape)}, {there}")
    return found[0].to(value.dtype)


def _differs(graph: GraphController, bundle: Bundle) -> float:
    """By how much what the torch module sees and does, before it is decoded, differs from the file's probes.

    Infinite where it asks for other inputs.
    """
    if {tensor.name for tensor in graph.inputs} != {tensor.name for tensor in bundle.contract.inputs}:
        return float("inf")
    said = [replace(s, outputs={name: s.outputs[name] for name in (OBS, ACTION)}) for s in bundle.probes.sequences]
    try:
        return replay(step_function(graph), Probes(tuple(said)))
    except (RuntimeError, ValueError, KeyError):
        return float(np.inf)
