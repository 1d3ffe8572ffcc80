"""The constraint rows A a <= b on a robot's world acceleration, one definition for NumPy and torch.

Every function returns (A (..., K, 3), b (..., K)) in m/s^2. To add a constraint, write one such function and name it in
`constraint_rows` and `row_names`. All rows are written for the state `latency_s` ahead, where an acceleration asked for now
becomes real. Arithmetic is float64.
"""

from math import cos, pi, sin, tan
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from deploy.shield.attitude import constant, rotation_matrix
from deploy.shield.params import ShieldParams
from hardware.spec import GRAVITY
from hardware.types import Array, Peers, RobotState

NO_LIMIT = 1e6  # m/s^2, bound of a row that must never act (a finite number, because solvers dislike infinity)
FENCE_NAMES = ("fence_high_x", "fence_high_y", "fence_high_z", "fence_low_x", "fence_low_y", "fence_low_z")
LIMIT_NAMES = ("speed", *(f"tilt_{45 * k}" for k in range(8)), "climb", "descent")
_HORIZONTAL = np.array([1.0, 1.0, 0.0])
_FENCE = np.concatenate([np.eye(3), -np.eye(3)])
_COMPASS = np.array([[cos(k * pi / 4), sin(k * pi / 4), 0.0] for k in range(8)])
_UP = np.array([[0.0, 0.0, 1.0]] * 8)


def row_names(num_peers: int) -> tuple[str, ...]:
    """Names of the rows of `constraint_rows`, in order."""
    return tuple(f"peer_{i}" for i in range(num_peers)) + FENCE_NAMES + LIMIT_NAMES


def constraint_rows(params: ShieldParams, state: RobotState, peers: Peers) -> tuple[Array, Array]:
    """All rows for one robot or a batch: (A (..., P + 17, 3), b (..., P + 17)), A a <= b with a in m/s^2, world."""
    xp = array_namespace(state.base_pos)
    pos, vel = predict_state(params, state)
    blocks = (
        pair_rows(params, pos, vel, peers),
        fence_rows(params, pos, vel),
        speed_rows(params, vel),
        envelope_rows(params, pos),
    )
    return xp.concat([a for a, _ in blocks], axis=-2), xp.concat([b for _, b in blocks], axis=-1)


def split_bounds(xp: Any, bound: Array) -> tuple[Array, Array]:
    """Bounds (..., M) twice, for when they cannot all be met: without the peers' rows, and without fence and speed.

    A fence can be broken for a moment, a peer cannot: first the one, then from there the other.
    """
    row = np.arange(bound.shape[-1])
    first = bound.shape[-1] - len(FENCE_NAMES) - len(LIMIT_NAMES)
    is_peer, is_room = row < first, (row >= first) & (row <= first + len(FENCE_NAMES))
    if not isinstance(bound, np.ndarray):
        is_peer, is_room = (xp.asarray(x, device=bound.device) for x in (is_peer, is_room))
    return xp.where(is_peer, NO_LIMIT, bound), xp.where(is_room, NO_LIMIT, bound)


def safe_margin(params: ShieldParams, pos: Array, peers_pos: Array) -> Array:
    """Scaled distance over the guaranteed one, minus 1, for `pos` (..., 3) and `peers_pos` (..., P, 3) m: (..., P).

    Dimensionless; negative inside the ellipsoid (separation_m, separation_m, downwash_ratio * separation_m).
    """
    xp = array_namespace(pos)
    diff = (pos[..., None, :] - peers_pos) * _scale(xp, params, pos)
    return xp.sqrt((diff * diff).sum(-1)) / params.separation_m - 1.0


def predict_state(params: ShieldParams, state: RobotState) -> tuple[Array, Array]:
    """World position (..., 3) m and velocity (..., 3) m/s, `latency_s` + age ahead, with the present tilt kept."""
    xp = array_namespace(state.base_pos)
    rot = rotation_matrix(xp, xp.astype(state.base_quat, xp.float64))
    vel = (rot @ xp.astype(state.base_lin_vel, xp.float64)[..., None])[..., 0]
    ahead = (xp.astype(state.age, xp.float64) + params.latency_s)[..., None]
    # Thrust is not measured; the one that carries the weight at this tilt is the least surprising guess.
    accel = rot[..., :, 2] * (GRAVITY / xp.clip(rot[..., 2:, 2], 0.5, 1.0)) * constant(xp, _HORIZONTAL, rot)
    pos = xp.astype(state.base_pos, xp.float64) + (vel + 0.5 * ahead * accel) * ahead
    return pos, vel + ahead * accel


def braking_curve(xp: Any, distance: Array, brake: float, gain: float) -> tuple[Array, Array]:
    """Closing speed (m/s) from which `brake` m/s^2 stops within `distance` m, and its slope (1/s).

    The square root of the text books, made linear with slope `gain` near and below zero distance, where its own slope
    would be infinite: there the speed is negative, which asks for moving apart.
    """
    knee = 0.5 * brake / gain**2
    root = xp.sqrt(2.0 * brake * xp.clip(distance - knee, knee, None))
    return xp.minimum(gain * distance, root), brake / root


def pair_rows(params: ShieldParams, pos: Array, vel: Array, peers: Peers) -> tuple[Array, Array]:
    """One barrier row per peer slot, with this robot's half of the duty; padding slots get a row that never acts."""
    xp = array_namespace(pos)
    scale = _scale(xp, params, pos)
    age = xp.clip(xp.astype(peers.age, xp.float64), 0.0, params.peer_age_cap_s)
    peer_vel = xp.astype(peers.lin_vel, xp.float64)
    peer_pos = xp.astype(peers.pos, xp.float64) + peer_vel * (age + params.latency_s)[..., None]
    diff = (pos[..., None, :] - peer_pos) * scale
    diff_vel = (vel[..., None, :] - peer_vel) * scale
    distance = xp.sqrt((diff * diff).sum(-1) + 1e-12)
    normal = diff / distance[..., None]
    opening = (normal * diff_vel).sum(-1)
    # Turning around each other opens the distance too. It gets no credit: estimated from noisy and differently old
    # velocities it was what adversaries used to spiral into the ellipsoid.
    reach = params.separation_m + params.buffer_m + 0.5 * params.peer_accel * age * age
    allowed, slope = braking_curve(xp, distance - reach, 2.0 * params.brake_accel, params.approach_gain)
    half = 0.5 * (params.barrier_gain * (opening + allowed) + slope * opening)
    away = normal * scale
    length = xp.sqrt((away * away).sum(-1) + 1e-12)
    valid = peers.valid
    # Both brake for the fence as one, or the one behind would push the one in front through it.
    own, other = fence_push(params, pos, vel)[..., None, :], fence_push(params, peer_pos, peer_vel)
    shared = xp.clip(xp.maximum(own, other), 0.0, None) + xp.clip(xp.minimum(own, other), None, 0.0)
    half = half - (away * shared).sum(-1)
    return xp.where(valid[..., None], -away / length[..., None], 0.0), xp.where(valid, half / length, NO_LIMIT)


def fence_rows(params: ShieldParams, pos: Array, vel: Array) -> tuple[Array, Array]:
    """Six rows that keep a box in the world; never ask for more than `fence_brake_accel`, so that they can be met."""
    return _spread(array_namespace(pos), _FENCE, pos), _fence_bound(params, pos, vel)


def fence_push(params: ShieldParams, pos: Array, vel: Array) -> Array:
    """The acceleration (..., 3) m/s^2 that the fence asks of a robot at `pos`, `vel`; zero where it leaves it free."""
    xp = array_namespace(pos)
    bound = xp.clip(_fence_bound(params, pos, vel), None, 0.0)
    return bound[..., :3] - bound[..., 3:]


def _fence_bound(params: ShieldParams, pos: Array, vel: Array) -> Array:
    xp = array_namespace(pos)
    low, high = constant(xp, np.array([params.geofence_low, params.geofence_high]), pos)
    distance = xp.concat([high - pos, pos - low], axis=-1) - params.fence_buffer_m
    speed = xp.concat([vel, -vel], axis=-1)
    allowed, slope = braking_curve(xp, distance, params.fence_brake_accel, params.approach_gain)
    bound = params.barrier_gain * (allowed - speed) - slope * speed
    return xp.clip(bound, -params.fence_brake_accel, None)


def speed_rows(params: ShieldParams, vel: Array) -> tuple[Array, Array]:
    """One row that lets the speed approach `max_speed` no faster than exponentially."""
    xp = array_namespace(vel)
    speed = xp.sqrt((vel * vel).sum(-1) + 1e-12)[..., None]
    bound = params.barrier_gain * (params.max_speed - speed)
    return (vel / speed)[..., None, :], xp.clip(bound, -params.fence_brake_accel, None)


def envelope_rows(params: ShieldParams, pos: Array) -> tuple[Array, Array]:
    """What thrust and tilt can give: an eight-sided cone of `max_tilt_rad` and the climb and descent limits."""
    xp = array_namespace(pos)
    slope = tan(params.max_tilt_rad)
    rows = np.concatenate([_COMPASS - slope * _UP, _UP[:1], -_UP[:1]])
    bound = np.array([GRAVITY * slope] * 8 + [params.max_climb_accel, params.max_descent_accel])
    return _spread(xp, rows, pos), xp.broadcast_to(constant(xp, bound, pos), (*pos.shape[:-1], 10))


def _spread(xp: Any, rows: np.ndarray, pos: Array) -> Array:
    """Constant rows (K, 3), repeated for every robot of the batch `pos` (..., 3)."""
    return rows if pos.ndim == 1 else xp.broadcast_to(constant(xp, rows, pos), (*pos.shape[:-1], *rows.shape))


def _scale(xp: Any, params: ShieldParams, pos: Array) -> Array:
    return constant(xp, np.array([1.0, 1.0, 1.0 / params.downwash_ratio]), pos)
