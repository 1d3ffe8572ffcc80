"""Where an obstacle's surface is, seen from a point or a body."""

from typing import Any, NamedTuple

import numpy as np

from deploy.shield.arrays import NEVER_ZERO, at_least, at_most, constant, double, greatest, norm
from deploy.shield.types import Context, Obstacles
from hardware.rotation import namespace_of, rotate
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


def ball(pos: Array, vel: Array, radius_m: float) -> Obstacles:
    """A body that moves, as one ball: around `pos` (..., 3) m, that may come nearer at the speed of `vel` (..., 3) m/s.

    It is valid where both are known.
    """
    xp = namespace_of(pos)
    pos, speed = double(pos)[..., None, :], norm(xp, double(vel))[..., None]
    quat = constant(xp, np.array([1.0, 0.0, 0.0, 0.0]), pos) + 0.0 * pos[..., :1]
    radius = 0.0 * speed + radius_m
    return Obstacles(pos, quat, 0.0 * pos, radius, speed, xp.isfinite(speed + pos.sum(-1)))


def off_boxes(xp: Any, points: Array, pos: Array, axes: Array, half: Array) -> Array:
    """Distances (..., B, P) m of points (..., 3, P) from boxes of half a size (..., B, 3); negative inside.

    `pos` (..., B, 3) m and `axes` (..., B, 3, 3), one axis a row, in the frame of the points.
    """
    local = xp.reshape(axes, (*axes.shape[:-3], -1, 3)) @ points
    local = xp.reshape(local, (*axes.shape[:-1], -1)) - axes @ pos[..., None]
    beyond = xp.abs(local) - half[..., None]
    outside = at_least(beyond, 0.0)
    return xp.sqrt((outside * outside).sum(-2) + NEVER_ZERO) + at_most(greatest(beyond, -2), 0.0)


class Body(NamedTuple):
    """Spheres for which a robot stands when it is asked what is near it."""

    points: np.ndarray  # (K, 3) m, world
    radius: np.ndarray  # (K,) m


def gaps(things: Obstacles, body: Body) -> np.ndarray:
    """Distances (B,) m of a body to the surfaces of obstacles; infinite for those that are not valid. NumPy."""
    axes = rotate(double(things.quat)[:, None, :], np.eye(3))
    off = off_boxes(np, body.points.T, double(things.pos), axes, double(things.half)) - body.radius
    return np.where(things.valid, off.min(-1) - things.radius, np.inf)


def check_clear(context: Context, body: Body, least_m: float) -> str:
    """Which obstacle the body is less than `least_m` away from, and how far it is; or an empty string."""
    if context.obstacles is None or not context.obstacles.valid.any():
        return ""
    gap = gaps(context.obstacles, body)
    if gap[nearest := int(gap.argmin())] >= least_m:
        return ""
    name, gap_m = context.name_of_obstacle(nearest), gap[nearest]
    where = f"{gap_m:.2f} m from" if gap_m >= 0.0 else f"{-gap_m:.2f} m inside"
    return f"{where} {name}, at least {least_m:.2f} needed"
