"""Rotations as wxyz unit quaternions, for NumPy arrays and torch tensors alike; `...` is any batch."""

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from hardware.once import once
from hardware.types import Array

_NAMESPACES: dict[type, Any] = {}


def namespace_of(array: Array) -> Any:
    """The module of functions for arrays of this kind; as `array_namespace`, which takes longer than a small operation.

    Of NumPy it is NumPy itself: what `array_namespace` puts around it loads all of NumPy, a tenth of a second.
    """
    found = _NAMESPACES.get(type(array))
    if found is None:
        is_numpy = isinstance(array, np.ndarray | np.generic)
        found = _NAMESPACES[type(array)] = np if is_numpy else array_namespace(array)
    return found


def rotate(quat: Array, vec: Array) -> Array:
    """Rotate body vectors (..., 3) into the world by `quat` (..., 4) body -> world."""
    return (_matrix(quat) @ vec[..., None])[..., 0]


def rotate_inverse(quat: Array, vec: Array) -> Array:
    """Rotate world vectors (..., 3) into the body by `quat` (..., 4) body -> world."""
    return (vec[..., None, :] @ _matrix(quat))[..., 0, :]


def rotate_inverse_each(quat: Array, vecs: Array) -> Array:
    """Rotate world vectors (..., P, 3) into one body by its `quat` (..., 4) body -> world: one matrix for all P."""
    return vecs @ _matrix(quat)


def down_b(quat: Array) -> Array:
    """The world's downward axis in the body (..., 3): attitude without heading."""
    return -_matrix(quat)[..., 2, :]


def up_w(quat: Array) -> Array:
    """The body's upward axis in the world (..., 3), along which rotors lift."""
    return _matrix(quat)[..., 2]


def multiply(left: Array, right: Array) -> Array:
    """Hamilton product (..., 4): the rotation `right` followed by `left`."""
    xp = namespace_of(left)
    w1, v1, w2, v2 = left[..., :1], left[..., 1:], right[..., :1], right[..., 1:]
    scalar = w1 * w2 - (v1 * v2).sum(-1)[..., None]
    return xp.concat([scalar, w1 * v2 + w2 * v1 + cross(v1, v2)], axis=-1)


def cross(a: Array, b: Array) -> Array:
    """Cross product (..., 3); broadcasts, and is the same arithmetic on both array types."""
    xp = namespace_of(a)
    return xp.stack(
        [
            a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1],
            a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2],
            a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0],
        ],
        axis=-1,
    )


def products(quat: Array) -> Array:
    """(..., 10) products w w, w x, .. z z of the components of quaternions (..., 4): what rotations are linear in."""
    pairs = quat @ _FACTORS.like(quat)
    return pairs[..., :10] * pairs[..., 10:]


def of_products(vecs: np.ndarray) -> np.ndarray:
    """(10, P, 3) from the `products` of a turn to vectors (P, 3) turned by it."""
    return np.einsum("aij,pj->api", _OF_PAIRS.values.reshape(10, 3, 3), vecs)


def as_like(values: np.ndarray, like: Array) -> Array:
    """`values` as an array of the kind, type and device of `like`."""
    if isinstance(like, np.ndarray):
        return values.astype(like.dtype, copy=False)
    return namespace_of(like).asarray(values, dtype=like.dtype, device=device(like))


class Constant:
    """An array that is asked for in the kind of others again and again."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self._made: dict[tuple, Array] = {}

    def like(self, array: Array) -> Array:
        """See `as_like`; what is made for a plain tensor is kept, what a trace makes is not."""
        made = self._made.get((array.dtype, array.device)) if type(array).__module__ == "torch" else None
        if made is None:
            made = as_like(self.values, array)
            if type(array).__module__ == type(made).__module__ == "torch":
                self._made[array.dtype, array.device] = made
        return made


def _matrix(quat: Array) -> Array:
    """Rotation matrices (..., 3, 3), body -> world.

    Each element is linear in the products of two components of the quaternion. As a product with a constant matrix this
    takes a fifth of the operations of writing it out, which is what a single robot's controller spends its time on. A
    tensor is most often a large batch, in which that product also picks the factors: twice as fast as broadcasting.
    """
    if isinstance(quat, np.ndarray):
        all_products = np.reshape(quat[..., :, None] * quat[..., None, :], (*quat.shape[:-1], 16))
        return np.reshape(all_products @ _ELEMENTS.astype(quat.dtype, copy=False), (*quat.shape[:-1], 3, 3))
    return once(_tensor_matrix, quat)


def _tensor_matrix(quat: Array) -> Array:
    return namespace_of(quat).reshape(products(quat) @ _OF_PAIRS.like(quat), (*quat.shape[:-1], 3, 3))


def _matrix_elements() -> np.ndarray:
    """(16, 9): from the products w w, w x, .. z z of a quaternion's components to the elements of its matrix."""
    elements = np.zeros((4, 4, 3, 3), dtype=np.float32)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        elements[0, 0, i, i] = elements[1 + i, 1 + i, i, i] = 1.0
        elements[1 + j, 1 + j, i, i] = elements[1 + k, 1 + k, i, i] = -1.0
        elements[1 + i, 1 + j, i, j] = elements[1 + i, 1 + j, j, i] = 2.0
        elements[0, 1 + k, j, i], elements[0, 1 + k, i, j] = 2.0, -2.0
    return elements.reshape(16, 9)


_ELEMENTS = _matrix_elements()
_FIRST, _SECOND = np.triu_indices(4)  # w w, w x, .. z z, each pair once
_FACTORS = Constant(np.asfortranarray(np.eye(4, dtype=np.float32)[:, np.concatenate([_FIRST, _SECOND])]))  # (4, 20)
_OF_PAIRS = Constant(
    np.where((_FIRST == _SECOND)[:, None], 0.5, 1.0).astype(np.float32)  # (10, 9)
    * (_ELEMENTS.reshape(4, 4, 9)[_FIRST, _SECOND] + _ELEMENTS.reshape(4, 4, 9)[_SECOND, _FIRST])
)
