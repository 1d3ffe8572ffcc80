"""Rotations as wxyz unit quaternions, for NumPy arrays and torch tensors alike; `...` is any batch."""

from array_api_compat import array_namespace

from hardware.types import Array


def rotate(quat: Array, vec: Array) -> Array:
    """Rotate body vectors (..., 3) into the world by `quat` (..., 4) body -> world."""
    return _sandwich(quat[..., :1], quat[..., 1:], vec)


def rotate_inverse(quat: Array, vec: Array) -> Array:
    """Rotate world vectors (..., 3) into the body by `quat` (..., 4) body -> world."""
    return _sandwich(quat[..., :1], -quat[..., 1:], vec)


def multiply(left: Array, right: Array) -> Array:
    """Hamilton product (..., 4): the rotation `right` followed by `left`."""
    xp = array_namespace(left, right)
    w1, v1, w2, v2 = left[..., :1], left[..., 1:], right[..., :1], right[..., 1:]
    scalar = w1 * w2 - (v1 * v2).sum(-1)[..., None]
    return xp.concat([scalar, w1 * v2 + w2 * v1 + cross(v1, v2)], axis=-1)


def body_z_w(quat: Array) -> Array:
    """The body's z axis in the world (..., 3): where a multirotor's thrust points."""
    xp = array_namespace(quat)
    w, x, y, z = quat[..., 0], quat[..., 1], quat[..., 2], quat[..., 3]
    return xp.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], axis=-1)


def cross(a: Array, b: Array) -> Array:
    """Cross product (..., 3); broadcasts, and is the same arithmetic on both array types."""
    xp = array_namespace(a, b)
    return xp.stack(
        [
            a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1],
            a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2],
            a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0],
        ],
        axis=-1,
    )


def _sandwich(w: Array, v: Array, vec: Array) -> Array:
    """v' = v + 2 w (u x v) + 2 u x (u x v), the expanded quaternion sandwich."""
    t = 2.0 * cross(v, vec)
    return vec + w * t + cross(v, t)
