"""The few operations that NumPy and torch name differently, or that the array API makes slow on small arrays.

One robot's own vectors are calculated with as columns of Python floats, which take a tenth of the time of NumPy arrays
of length three; a batch's columns are arrays. The same formula serves both.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hardware.rotation import namespace_of
from hardware.types import Array

NEVER_ZERO = 1e-12  # m^2 or the like, under a root that one divides by
_NUMPY = (np.ndarray, np.generic)


def swapped(x: Array) -> Array:
    """`x` (..., 2, U) with its two rows exchanged."""
    return x[..., ::-1, :] if isinstance(x, np.ndarray) else x.flip(-2)


def constant(xp: Any, values: np.ndarray, like: Array) -> Array:
    """`values` as an array of the kind, type and device of `like`; the values themselves for NumPy."""
    return values if isinstance(like, _NUMPY) else xp.asarray(values, dtype=like.dtype, device=like.device)


def columns(x: Array) -> Sequence[Array]:
    """The entries along the last axis in float64: Python floats of a single NumPy vector, (...) arrays of a batch."""
    if isinstance(x, np.ndarray):
        return x.tolist() if x.ndim == 1 else list(np.moveaxis(x.astype(np.float64), -1, 0))
    return x.double().unbind(-1)


def join(entries: Sequence[Array]) -> Array:
    """The array whose `columns` are `entries`."""
    first = entries[0]
    return np.array(entries) if isinstance(first, float) else namespace_of(first).stack(list(entries), -1)


def functions(x: Array) -> Any:
    """The module with sqrt, sin, isfinite ... for `x`, a float or an array."""
    return math if isinstance(x, float) else namespace_of(x)


def at_least(x: Array, low: float) -> Array:
    """max(x, low), elementwise; NaN stays NaN."""
    if type(x) is float:  # which np.float64 is not
        return max(x, low)
    return np.maximum(x, low) if isinstance(x, _NUMPY) else x.clamp(min=low)


def at_most(x: Array, high: float) -> Array:
    """min(x, high), elementwise; NaN stays NaN."""
    if type(x) is float:
        return min(x, high)
    return np.minimum(x, high) if isinstance(x, _NUMPY) else x.clamp(max=high)


def choose(condition: Array, x: Array, otherwise: float) -> Array:
    """`x` where the condition holds, elementwise."""
    if isinstance(x, float):
        return x if condition else otherwise
    return namespace_of(x).where(condition, x, otherwise)


def choose_each(xp: Any, condition: Array, x: Array, otherwise: Array) -> Array:
    """Vectors `x` (..., U) of those of which the condition (...) holds, of the others `otherwise`."""
    if condition.ndim == 0:
        return x if condition else otherwise
    return xp.where(condition[..., None], x, otherwise)


def side_by_side(xp: Any, a: Array, b: Array) -> Array:
    """(..., 2, U) of `a` and `b` (..., U)."""
    return np.array((a, b)) if xp is np and a.ndim == 1 else xp.stack([a, b], axis=-2)


def some(condition: Array) -> bool:
    """Whether it holds anywhere."""
    return bool(np.logical_or.reduce(condition, axis=None) if isinstance(condition, _NUMPY) else condition.any())


def every(condition: Array) -> bool:
    """Whether it holds everywhere."""
    return bool(np.logical_and.reduce(condition, axis=None) if isinstance(condition, _NUMPY) else condition.all())


def total(x: Array) -> Array:
    """Sum over the last axis."""
    return np.add.reduce(x, axis=-1) if isinstance(x, _NUMPY) else x.sum(-1)


def least(x: Array, axis: int = -1) -> Array:
    """The smallest value over an axis."""
    return np.minimum.reduce(x, axis=axis) if isinstance(x, _NUMPY) else x.amin(axis)


def greatest(x: Array, axis: int = -1) -> Array:
    """The largest value over an axis."""
    return np.maximum.reduce(x, axis=axis) if isinstance(x, _NUMPY) else x.amax(axis)


def double(x: Array) -> Array:
    """`x` in float64; a Python float for a NumPy scalar."""
    if isinstance(x, _NUMPY):
        return x.astype(np.float64, copy=False) if x.ndim else float(x)
    return x.double()


def dot(a: Array, b: Array) -> Array:
    """Scalar product over the last axis, of length 3."""
    if isinstance(a, _NUMPY):
        return np.vecdot(a, b)
    product = a * b  # torch sums three columns faster than it reduces an axis of three
    return product[..., 0] + product[..., 1] + product[..., 2]


def length(entries: Sequence[Array]) -> Array:
    """Euclidean length of columns, never quite zero, so that one may divide by it."""
    squares = sum(x * x for x in entries)
    return functions(squares).sqrt(squares + NEVER_ZERO)


def norm(xp: Any, a: Array) -> Array:
    """Euclidean length over the last axis, never quite zero, so that one may divide by it."""
    return xp.sqrt(dot(a, a) + NEVER_ZERO)
