"""The few operations that NumPy and torch name differently, or that array_api_compat makes slow on small arrays."""

from typing import Any

import numpy as np

from hardware.types import Array

_NUMPY = (np.ndarray, np.generic)


def constant(xp: Any, values: np.ndarray, like: Array) -> Array:
    """`values` as an array of the kind, type and device of `like`; the values themselves for NumPy."""
    return values if isinstance(like, _NUMPY) else xp.asarray(values, dtype=like.dtype, device=like.device)


def at_least(x: Array, low: float) -> Array:
    """max(x, low), elementwise; NaN stays NaN."""
    return np.maximum(x, low) if isinstance(x, _NUMPY) else x.clamp(min=low)


def at_most(x: Array, high: float) -> Array:
    """min(x, high), elementwise; NaN stays NaN."""
    return np.minimum(x, high) if isinstance(x, _NUMPY) else x.clamp(max=high)


def least(x: Array) -> Array:
    """The smallest value over the last axis."""
    return np.minimum.reduce(x, axis=-1) if isinstance(x, _NUMPY) else x.amin(-1)


def double(x: Array) -> Array:
    """`x` in float64."""
    return x.astype(np.float64) if isinstance(x, _NUMPY) else x.double()


def dot(a: Array, b: Array) -> Array:
    """Scalar product over the last axis, of length 3."""
    if isinstance(a, _NUMPY):
        return np.vecdot(a, b)
    product = a * b  # torch sums three columns faster than it reduces an axis of three
    return product[..., 0] + product[..., 1] + product[..., 2]


def norm(xp: Any, a: Array) -> Array:
    """Euclidean length over the last axis, never quite zero, so that one may divide by it."""
    return xp.sqrt(dot(a, a) + 1e-12)
