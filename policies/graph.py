"""A controller as a graph of named tensors, in ONNX."""

import logging
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deploy.probes import StepFn
from deploy.signals import MEMORY_OUTPUT_SUFFIX, PEER_INPUTS, STATE_INPUTS, TensorSpec
from hardware.types import Peers, RobotState
from policies.controller import Controller

OPSET = 18


class GraphController(nn.Module):
    """A controller whose inputs and outputs are named tensors (batch, ...) in the order of a contract."""

    def __init__(self, controller: Controller, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> None:
        super().__init__()
        self.controller = controller
        self.inputs, self.outputs = inputs, outputs

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """One control period: values in the order of `inputs` -> in the order of `outputs`."""
        given = {tensor.name: value for tensor, value in zip(self.inputs, values, strict=True)}
        batch = given["base_pos"].shape[0]
        # What this robot has none of (joints) or the graph does not ask for (age) is empty or zero.
        fields = {name: given.get(name, given["base_pos"][:, :0]) for name in STATE_INPUTS}
        state = RobotState(**fields, age=given["base_pos"].new_zeros(batch))
        peers = Peers(**{field: given[name] for name, field in PEER_INPUTS.items()})
        task = self.controller.task
        command = {name: given[name] for name in task.commands}
        memory = {name: given[name] for name in task.observation.memory}
        target, after, seen, action = self.controller.decide(state, peers, command, memory)
        answers = {"target": target.target, "obs": seen.own, "action": action}
        answers |= {name + MEMORY_OUTPUT_SUFFIX: value for name, value in after.items()}
        return tuple(answers[tensor.name] for tensor in self.outputs)


def to_onnx(graph: GraphController) -> bytes:
    """The module as an ONNX file with the contract's names; "batch" and "peers" stay free."""
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
    return _without_traces(program.model_proto)


def _without_traces(model: Any) -> bytes:
    """The model without the source lines of this machine that the exporter notes on every node."""
    graph = model.graph
    for item in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        item.ClearField("metadata_props")
        item.ClearField("doc_string")
    return model.SerializeToString(deterministic=True)


def step_function(graph: GraphController) -> StepFn:
    """The torch module as a function of named arrays: the reference that probes are recorded from."""

    def step(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            values = graph(*(torch.from_numpy(inputs[tensor.name]) for tensor in graph.inputs))
        return {tensor.name: value.numpy() for tensor, value in zip(graph.outputs, values, strict=True)}

    return step
