"""How far drones are from each other, as a share of what is guaranteed."""

from typing import Any

import numpy as np

from deploy.shield.arrays import NEVER_ZERO, at_least, constant, dot, double, every, functions, least
from deploy.shield.drone.params import ShieldParams
from deploy.shield.kept import kept
from deploy.shield.obstacles import Body, check_clear
from deploy.shield.types import Context
from hardware.rotation import namespace_of
from hardware.types import Array, Peers

OUTSIDE = "outside the geofence"


def safe_margin(params: ShieldParams, pos: Array, peers_pos: Array) -> Array:
    """Scaled distance over the guaranteed one, minus 1, for `pos` (..., 3) and `peers_pos` (..., P, 3) m: (..., P).

    Dimensionless; negative inside the ellipsoid (separation_m, separation_m, downwash_ratio * separation_m).
    """
    xp = namespace_of(pos)
    return xp.sqrt(_scaled_square(xp, params, pos, peers_pos) + NEVER_ZERO) / params.separation_m - 1.0


def least_margin(xp: Any, params: ShieldParams, pos: Array, peers: Peers) -> Array:
    """The smallest `safe_margin` (...) of the valid peers; infinite where there are none."""
    if not peers.pos.shape[-2]:
        return np.float64(np.inf) if pos.ndim == 1 else xp.full_like(pos[..., 0], xp.inf)
    squares = _scaled_square(xp, params, pos, peers.pos)
    if not every(peers.valid):
        squares = xp.where(peers.valid, squares, xp.inf)
    square = double(least(squares))
    margin = functions(square).sqrt(square + NEVER_ZERO) / params.separation_m - 1.0
    return np.float64(margin) if pos.ndim == 1 else margin


def _scaled_square(xp: Any, params: ShieldParams, pos: Array, peers_pos: Array) -> Array:
    diff = pos[..., None, :] - peers_pos
    return dot(diff, diff * scale_of(xp, params, pos)[:, 0])


def check_inside(params: ShieldParams, pos: Array, beyond_m: float = 0.0) -> str:
    """That `pos` (3,) m is outside the fence, by more than `beyond_m`, or an empty string; the ground is inside."""
    for axis, value, low, high in zip("xyz", pos.tolist(), params.geofence_low, params.geofence_high, strict=True):
        if value > high + beyond_m or (value < low - beyond_m and axis != "z"):
            return f"{OUTSIDE}: {axis} = {value:.6g} m, allowed {low:g} .. {high:g}"
    return ""


def check_start(params: ShieldParams, context: Context) -> str:
    """Why a robot at rest must not begin where it is, which braking could not mend; or an empty string. NumPy."""
    assert context.state is not None
    pos, peers = context.state.base_pos, context.peers
    if outside := check_inside(params, pos):
        return outside
    if near_what := check_clear(context, Body(double(pos)[None], np.zeros(1)), params.obstacle_m):
        return near_what
    separation_m = (
        at_least(context.sharing.separation_m, params.separation_m) if context.sharing else params.separation_m
    )
    apart_m = np.sqrt(_scaled_square(np, params, pos, peers.pos))
    near = np.flatnonzero(peers.valid & (apart_m < separation_m)).tolist()
    if not near:
        return ""
    least_m = np.broadcast_to(separation_m, apart_m.shape)[near[0]]
    return f"{apart_m[near[0]]:.2f} m from {context.name_of(near[0])}, at least {least_m:.2f} needed"


def scale_of(xp: Any, params: ShieldParams, like: Array) -> Array:
    """Squares (3, 2) of the factors that make the ellipsoid of a pair a sphere, and the squares of these."""
    return constant(xp, _stretch(params), like)


@kept
def _stretch(params: ShieldParams) -> np.ndarray:
    return np.array([[1.0, 1.0], [1.0, 1.0], [params.downwash_ratio**-2, params.downwash_ratio**-4]])
