"""Where an obstacle's surface is, seen from a drone."""

from typing import Any

import numpy as np

from deploy.shield.arrays import at_least, constant, double, greatest, norm
from deploy.shield.types import Obstacles
from hardware.rotation import rotate, rotate_inverse
from hardware.types import Array


def outward(xp: Any, pos: Array, things: Obstacles) -> tuple[Array, Array]:
    """Unit vectors (..., B, 3) that lead away from each of B obstacles at `pos` (..., 3) m, and distances (..., B) m.

    A distance is that of the surface; it is negative inside, where the vector leads out through the nearest face.
    """
    quat = double(things.quat)
    local = rotate_inverse(quat, pos[..., None, :] - double(things.pos))
    beyond = xp.abs(local) - double(things.half)
    outside = at_least(beyond, 0.0)
    deepest = greatest(beyond)
    # Inside the box: through the face that is nearest, one of them where several are.
    face = xp.where(beyond >= deepest[..., None], constant(xp, np.array([1.0, 1.0 + 1e-9, 1.0 + 2e-9]), beyond), 0.0)
    face = xp.where(face >= greatest(face)[..., None], 1.0, 0.0)
    is_inside = deepest <= 0.0
    length = norm(xp, outside)
    off = xp.where(is_inside[..., None], face, outside / length[..., None])
    side = xp.where(local < 0.0, -1.0, 1.0)
    gap = xp.where(is_inside, deepest, length)
    return rotate(quat, side * off), gap - double(things.radius)
