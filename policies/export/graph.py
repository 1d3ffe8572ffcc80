"""A controller as a graph of named tensors, in ONNX."""

import logging
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deploy.bundle.probes import StepFn
from deploy.contract.tensor_specs import (
    MEMORY_OUTPUT_SUFFIX,
    PEER_INPUTS,
    STATE_INPUTS,
    TensorSpec,
    object_field,
    object_tensor_specs,
    state_tensor_specs,
)
from hardware import load_robot
from hardware.types import ObjectState, Peers, RobotState
from policies.networks.controller import Controller
from sim.task import PolicyInput

OPSET = 18


class GraphController(nn.Module):
    """A controller whose inputs and outputs are named tensors (batch, ...) in the order of a contract."""

    def __init__(self, controller: Controller, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> None:
        super().__init__()
        self.controller = controller
        self.inputs, self.outputs = inputs, outputs

    @property
    def measurements(self) -> set[str]:
        """Inputs that sensors give, of the robot itself and of objects."""
        given = {*PEER_INPUTS, *self.controller.group.commands, *self.memory}
        return {t.name for t in self.inputs} - given

    @property
    def memory(self) -> tuple[str, ...]:
        """Inputs that the policy carries over, of its observation and its network."""
        return (*self.controller.group.observation.memory, *self.controller.policy.memory)

    @property
    def objects(self) -> tuple[str, ...]:
        """Tracked things that some input is about."""
        about = self.measurements - set(STATE_INPUTS)
        return tuple(dict.fromkeys(object_field(t.name)[0] for t in self.inputs if t.name in about))

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

        def take(signal: TensorSpec) -> Tensor:
            absent = torch.zeros(like.shape[0], *(d for d in signal.shape[1:] if isinstance(d, int)))
            return given.get(signal.name, absent)

        age = torch.zeros(like.shape[0])
        state = {signal.name: take(signal) for signal in state_tensor_specs(len(load_robot(group.robot).joint_names))}
        state = {name: state.get(name, torch.zeros(like.shape[0], 0)) for name in STATE_INPUTS}
        objects = {}
        for name in self.objects:
            objects[name] = ObjectState(
                **{object_field(s.name)[1]: take(s) for s in object_tensor_specs(name)}, age=age
            )
        none = torch.zeros(like.shape[0], 0, 3)
        peers = Peers(none, none, none[..., 0], none[..., 0].bool())
        if group.observation.peer:
            peers = Peers(**{field: given[name] for name, field in PEER_INPUTS.items()})
        command = {name: given[name] for name in group.commands}
        memory = {name: given[name] for name in self.memory}
        return PolicyInput(RobotState(**state, age=age), peers, objects, command, memory)


def to_onnx(graph: GraphController) -> tuple[bytes, set[str]]:
    """The module as an ONNX file with the contract's names, and those of the inputs that it has.

    "batch" and "peers" stay free. Measurements that nothing depends on are left out: a robot need not have them.
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
        program = torch.onnx.export(
            graph.eval(),
            example,
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=(shapes,),
            input_names=[t.name for t in graph.inputs],
            output_names=[t.name for t in graph.outputs],
            verbose=False,
        )
    assert program is not None
    model = program.model_proto  # made anew each time that it is asked for
    used = _drop_unused(model.graph, graph.measurements)
    return model.SerializeToString(deterministic=True), used


def _drop_unused(graph: Any, names: set[str]) -> set[str]:
    """Remove those of the inputs `names` of an ONNX graph that no node reads; names of all inputs that stay."""
    read = {name for node in graph.node for name in node.input}
    for unused in [tensor for tensor in graph.input if tensor.name in names - read]:
        graph.input.remove(unused)
    return {tensor.name for tensor in graph.input}


def step_function(graph: GraphController) -> StepFn:
    """The torch module as a function of named arrays: the reference that probes are recorded from."""

    def step(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            values = graph(*(torch.from_numpy(inputs[tensor.name]) for tensor in graph.inputs))
        return {tensor.name: value.numpy() for tensor, value in zip(graph.outputs, values, strict=True)}

    return step
