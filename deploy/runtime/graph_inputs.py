"""Inputs checked against the contract before they reach the graph, so that errors speak the contract's names."""

from collections.abc import Mapping
from operator import le
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deploy.contract import CommandSpec, Contract
from deploy.contract.tensor_specs import PEER_INPUTS, TensorSpec


class InputError(ValueError):
    """An input is missing, unknown, mis-shaped, out of range or not finite."""


def fill(buffer: NDArray, value: Any, label: str) -> None:
    """Copy `value` into `buffer`; raises InputError instead of broadcasting a shape that does not fit."""
    value = np.asarray(value)
    if value.shape != buffer.shape:
        raise InputError(f"{label}: has shape {value.shape}, not {buffer.shape}")
    if value.dtype != buffer.dtype and not np.can_cast(value.dtype, buffer.dtype, "same_kind"):
        raise InputError(f"{label}: is {value.dtype}, not {buffer.dtype}")
    buffer[...] = value


def check_names(found: Mapping[str, Any], needed: Mapping[str, Any], what: str) -> None:
    """Raise InputError unless both have the same keys."""
    if found.keys() != needed.keys():
        raise InputError(f"{what}: got {sorted(found)}, the policy needs {sorted(needed)}")


def float32_limits(spec: CommandSpec) -> tuple[list[float], list[float]]:
    """Lowest and highest (n,) as float32, as the value will be: 0.2 must not fall below a limit of 0.2 by rounding."""
    return np.array(spec.low, np.float32).tolist(), np.array(spec.high, np.float32).tolist()


def check_range(spec: CommandSpec, value: NDArray, limits: tuple[list[float], list[float]]) -> None:
    """Raise InputError unless the float32 `value` (n,) is within the `float32_limits` of `spec`; NaN never is."""
    numbers, (low, high) = value.tolist(), limits  # for a few numbers plain Python takes a third of NumPy's time
    if not (all(map(le, low, numbers)) and all(map(le, numbers, high))):
        raise InputError(f"command {spec.name}: {as_typed(value)} {spec.unit} is outside of {spec.low} to {spec.high}")


def as_typed(value: NDArray) -> list[float]:
    """Numbers (n,) of float32 as a person would type them: 0.2, not 0.20000000298."""
    return [float(str(number)) for number in value]


def batch_inputs(contract: Contract, inputs: Mapping[str, Any]) -> dict[str, NDArray]:
    """Every graph input (batch, ...) in its dtype; no peers at all become one slot that is not valid."""
    tensors = {tensor.name: tensor for tensor in contract.inputs}
    check_names(inputs, tensors, "inputs")
    sizes: dict[str, int] = {}
    arrays = {name: _batched(tensor, inputs[name], sizes) for name, tensor in tensors.items()}
    if sizes.get("peers") == 0:
        arrays |= {name: _one_empty_slot(arrays[name]) for name in PEER_INPUTS}
    return arrays


def _batched(tensor: TensorSpec, value: Any, sizes: dict[str, int]) -> NDArray:
    array = np.asarray(value)
    fits = array.ndim == len(tensor.shape) and all(
        size == (sizes.setdefault(dimension, size) if isinstance(dimension, str) else dimension)
        for size, dimension in zip(array.shape, tensor.shape, strict=True)
    )
    if not fits:
        raise InputError(f"{tensor.name}: has shape {array.shape}, not {tensor.shape} with {sizes}")
    if not np.can_cast(array.dtype, tensor.dtype, "same_kind"):
        raise InputError(f"{tensor.name}: is {array.dtype}, not {tensor.dtype}")
    return np.ascontiguousarray(array, tensor.dtype)


def _one_empty_slot(array: NDArray) -> NDArray:
    return np.zeros((array.shape[0], 1, *array.shape[2:]), array.dtype)
