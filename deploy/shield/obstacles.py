"""Where an obstacle's surface is, seen from a point."""

from typing import Any

import numpy as np

from deploy.shield.arrays import at_least, constant, double, greatest, norm
from deploy.shield.types import Obstacles
from hardware.rotation import rotate
from hardware.types import Array

_UNLIKE = np.array([1.0, 1.0 + 1e-9, 1.0 + 2e-9])  # so that of several faces that are as near one is the nearest


def outward(xp: Any, pos: Array, things: Obstacles) -> tuple[Array, Array]:
    """Unit vectors (..., B, 3) that lead away from each of B obstacles at `pos` (..., 3) m, and distances (..., B) m.

    A distance is that of the surface; it is negative inside, where the vector leads out through the nearest face.
    """
    away = pos[..., None, :] - double(things.pos)
    axes = rotate(double(things.quat)[..., None, :], constant(xp, np.eye(3), away))  # one a row, in the world
    local = (axes @ away[..., None])[..., 0]
    beyond = xp.abs(local) - double(things.half)
    outside = at_least(beyond, 0.0)
    gap = norm(xp, outside)
    off = outside / gap[..., None]
    deepest = greatest(beyond)
    if bool((deepest <= 0.0).any()):
        face = xp.where(beyond >= deepest[..., None], constant(xp, _UNLIKE, beyond), 0.0)
        face = xp.where(face >= greatest(face)[..., None], 1.0, 0.0)
        is_inside = deepest <= 0.0
        off, gap = xp.where(is_inside[..., None], face, off), xp.where(is_inside, deepest, gap)
    off = xp.where(local < 0.0, -off, off)
    return (off[..., None, :] @ axes)[..., 0, :], gap - double(things.radius)
