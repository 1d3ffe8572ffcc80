"""Whether a graph is what its contract says: names, types and static dimensions of inputs and outputs."""

from collections.abc import Sequence

import onnxruntime as ort

from deploy.contract import Contract, ContractError
from deploy.contract.tensor_specs import TensorSpec

_ONNX_TYPES = {"float32": "tensor(float)", "bool": "tensor(bool)"}


def check_graph(session: ort.InferenceSession, contract: Contract) -> None:
    """Raise ContractError on the first input or output of the graph that the contract describes differently."""
    _check_side("inputs", session.get_inputs(), contract.inputs)
    _check_side("outputs", session.get_outputs(), contract.outputs)


def _check_side(side: str, nodes: Sequence[ort.NodeArg], tensors: Sequence[TensorSpec]) -> None:
    graph = {node.name: node for node in nodes}
    described = {tensor.name: tensor for tensor in tensors}
    for name in graph.keys() - described.keys():
        raise ContractError(f"contract.{side}: the graph has {name!r}, the contract does not")
    for name, tensor in described.items():
        if name not in graph:
            raise ContractError(f"contract.{side}: {name!r} is not in the graph")
        node = graph[name]
        if node.type != _ONNX_TYPES[tensor.dtype]:
            raise ContractError(f"contract.{side}.{name}.dtype: {tensor.dtype}, but the graph has {node.type}")
        # An exporter may leave a dimension of an output without a number; the probes then tell its size.
        unknown_is_fine = side == "outputs"
        same_rank = len(node.shape) == len(tensor.shape)
        if not same_rank or not all(map(_fits, node.shape, tensor.shape, [unknown_is_fine] * len(tensor.shape))):
            raise ContractError(f"contract.{side}.{name}.shape: {tensor.shape}, but the graph has {tuple(node.shape)}")


def _fits(graph: int | str | None, contract: int | str, unknown_is_fine: bool) -> bool:
    """Numbers must be equal; a named dimension of the contract must be free in the graph."""
    if isinstance(contract, int) and (isinstance(graph, int) or not unknown_is_fine):
        return graph == contract
    return not isinstance(graph, int)
