"""The constraint rows A a <= b on a robot's world acceleration, one definition for NumPy and torch.

A is (..., K, 3) with rows of unit length, b is (..., K) in m/s^2. A constraint is one function under `@constraint` that
returns such a pair; what it looks at is in `Context`. All rows are written for the state `latency_s` ahead, where an
acceleration asked for now becomes real. Arithmetic is float64.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from math import cos, pi, sin, tan
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from deploy.shield.arrays import (
    NEVER_ZERO,
    at_least,
    at_most,
    columns,
    constant,
    dot,
    double,
    every,
    functions,
    greatest,
    join,
    some,
)
from deploy.shield.drone.attitude import Columns, rotated, rotation_matrix, thrust_axis
from deploy.shield.drone.distance import scale_of
from deploy.shield.drone.params import FRESH_S, ShieldParams
from deploy.shield.kept import kept
from deploy.shield.obstacles import outward
from deploy.shield.types import Context
from hardware.spec import GRAVITY
from hardware.types import Array, Peers, RobotState

NO_LIMIT = 1e6  # m/s^2, bound of a row that must never act (a finite number, because solvers dislike infinity)
SURE = 2 / 3  # of the fence's braking that is there in any direction, with the least thrust
GIVES = 40.0  # 1/s^2, how fast people's rows give way outside of the fence
HALF = 0.5  # of the braking that keeps two robots apart, where both do theirs
_FENCE = np.concatenate([np.eye(3), -np.eye(3)])
_BOTH_WAYS = _FENCE.T.copy()


class Priority(Enum):
    """What is given up where not all rows can be met: SOFT ones, in favour of those that avoid a COLLISION."""

    LIMIT = 0  # what the robot itself can do, and the floor: never given up
    COLLISION = 1  # with a peer, a person, an obstacle
    SOFT = 2  # may be violated for a moment


class Constraint(NamedTuple):
    """Rows of one kind, with a name and a priority each; with `each`, once for each entry of a Context field."""

    rows: Callable[["Ahead"], tuple[Array, Array]]
    priorities: Mapping[str, Priority]
    each: str


@dataclass(slots=True)
class Ahead:
    """A robot and its surroundings when a command given now takes effect; float64, world."""

    xp: Any
    params: ShieldParams
    context: Context
    pos: Array  # (..., 3) m
    vel: Array  # (..., 3) m/s
    peer_pos: Array  # (..., P, 3) m
    peer_vel: Array  # (..., P, 3) m/s
    peer_age: Array  # (..., P) s, capped
    fences: Array  # (..., 1 + P, 6) m/s^2, of the robot and of each peer


CONSTRAINTS: list[Constraint] = []  # in the order of their rows; what is about peers comes first


def constraint(priorities: Mapping[str, Priority], each: str = "") -> Callable:
    """Put the decorated function's rows, so named, into every filter; with `each`, one for every entry of that field.

    It is not called where there is no entry.
    """

    def add(rows: Callable[[Ahead], tuple[Array, Array]]) -> Callable[[Ahead], tuple[Array, Array]]:
        CONSTRAINTS.append(Constraint(rows, priorities, each))
        return rows

    return add


def row_counts(context: Context) -> tuple[int, ...]:
    """How many entries each constraint has rows for."""
    return tuple(_entries(getattr(context, each)) if each else 1 for _, _, each in CONSTRAINTS)


def row_names(context: Context) -> tuple[str, ...]:
    """Names of the rows of `constraint_rows`, in order: "peer_0", "speed"."""
    return _layout(row_counts(context))[0]


def constraint_rows(params: ShieldParams, context: Context) -> tuple[Array, Array]:
    """All rows for one robot or a batch: (A (..., M, 3), b (..., M)), A a <= b with a in m/s^2, world."""
    state = context.state
    assert state is not None
    xp = array_namespace(state.base_pos)
    ahead = predict_state(params, state, rotation_matrix(columns(state.base_quat)))
    return rows_ahead(xp, params, *ahead, context, row_counts(context))


def rows_ahead(
    xp: Any, params: ShieldParams, pos: Array, vel: Array, context: Context, counts: tuple[int, ...]
) -> tuple[Array, Array]:
    """`constraint_rows` for a robot already predicted to `pos` (..., 3) m, `vel` (..., 3) m/s, float64.

    `counts` are the `row_counts`.
    """
    peer_pos, peer_vel, age = predict_peers(xp, params, context.peers)
    everyone = xp.concat([pos[..., None, :], peer_pos, vel[..., None, :], peer_vel], axis=-2)
    count = everyone.shape[-2] // 2
    fences = fence_bound(xp, params, everyone[..., :count, :], everyone[..., count:, :])
    ahead = Ahead(xp, params, context, pos, vel, peer_pos, peer_vel, age, fences)
    given = zip(CONSTRAINTS, counts, strict=True)
    rows, bounds = zip(*[each.rows(ahead) for each, entries in given if entries], strict=True)
    return xp.concat(rows, axis=-2), xp.concat(bounds, axis=-1)


def split_bounds(xp: Any, bound: Array, counts: tuple[int, ...]) -> tuple[Array, Array]:
    """Bounds (..., M) twice, for when they cannot all be met: without the COLLISION rows, and without the SOFT ones.

    A fence can be broken for a moment, a peer cannot: first the one, then from there the other. The lower fence stays,
    because there is a floor below it, and squeezed robots would dodge downwards.
    """
    _, is_collision, is_soft = _layout(counts)
    if not isinstance(bound, np.ndarray):
        is_collision, is_soft = (xp.asarray(x, device=bound.device) for x in (is_collision, is_soft))
    return xp.where(is_collision, NO_LIMIT, bound), xp.where(is_soft, NO_LIMIT, bound)


def predict_state(params: ShieldParams, state: RobotState, rot: Columns) -> tuple[Array, Array]:
    """World position (..., 3) m and velocity (..., 3) m/s, `latency_s` + age ahead, with the tilt of `rot` kept."""
    x, y, z = columns(state.base_pos)
    vx, vy, vz = rotated(rot, columns(state.base_lin_vel))
    axis_x, axis_y, axis_z = thrust_axis(rot)
    ahead = double(state.age) + params.latency_s
    # Thrust is not measured; the one that carries the weight at this tilt is the least surprising guess.
    gain = ahead * GRAVITY / at_least(axis_z, 0.5)
    dx, dy = axis_x * gain, axis_y * gain
    pos = join((x + (vx + 0.5 * dx) * ahead, y + (vy + 0.5 * dy) * ahead, z + vz * ahead))
    return pos, join((vx + dx, vy + dy, vz))


def predict_peers(xp: Any, params: ShieldParams, peers: Peers) -> tuple[Array, Array, Array]:
    """Peers `latency_s` + age ahead at constant velocity: position (..., P, 3), velocity, capped age (..., P)."""
    age = at_least(at_most(double(peers.age), params.peer_age_cap_s), 0.0)
    vel = double(peers.lin_vel)
    return double(peers.pos) + vel * (age + params.latency_s)[..., None], vel, age


def braking_curve(xp: Any, distance: Array, brake: Array, gain: float) -> tuple[Array, Array]:
    """Closing speed (m/s) from which `brake` m/s^2 stops within `distance` m, and its slope (1/s).

    The square root of the text books, made linear with slope `gain` near and below zero distance, where its own slope
    would be infinite: there the speed is negative, which asks for moving apart.
    """
    knee = 0.5 * brake / gain**2
    root = xp.sqrt(2.0 * brake * at_least(distance - knee, knee))
    return xp.minimum(gain * distance, root), brake / root


@constraint({"peer": Priority.COLLISION}, each="peers")
def peer_rows(ahead: Ahead) -> tuple[Array, Array]:
    """One barrier row per peer: (A (..., P, 3), b (..., P)), with this robot's share of the duty, see `_apart`.

    It is half of it for a peer that shares; both brake for the fence as one, or the one behind would push the one in
    front through it. It is all of it for a peer that does not, or has fallen silent: it is taken to fly straight on.
    """
    xp, params, sharing = ahead.xp, ahead.params, ahead.context.sharing
    together = None
    if some(ahead.fences < 0.0):
        pushes = fence_push(ahead.fences)
        own, other = pushes[..., :1, :], pushes[..., 1:, :]
        together = at_least(xp.maximum(own, other), 0.0) + at_most(xp.minimum(own, other), 0.0)
    duty, separation_m = HALF, params.separation_m
    if sharing is not None:
        separation_m = at_least(sharing.separation_m, params.separation_m)
        does = sharing.shares & (ahead.peer_age <= params.act_s)
        if not bool(does.all()):
            duty = xp.where(does, HALF, 1.0)
            together = None if together is None else xp.where(does[..., None], together, 0.0)
    peers = ahead.peer_pos, ahead.peer_vel, ahead.peer_age
    return _apart(ahead, *peers, separation_m, duty, together, ahead.context.peers.valid)


@constraint({"person": Priority.COLLISION}, each="people")
def people_rows(ahead: Ahead) -> tuple[Array, Array]:
    """One barrier row per person, with all of the duty; it gives way where the robot is too far out of its fence."""
    xp, params, people = ahead.xp, ahead.params, ahead.context.people
    pos, vel, age = predict_peers(xp, params, people)
    rows, bound = _apart(ahead, pos, vel, age, params.people_m, 1.0, None, people.valid)
    both_ways = constant(xp, _BOTH_WAYS, ahead.pos)
    outside = greatest(ahead.pos @ both_ways - constant(xp, _of_fence(params)[0], ahead.pos)) - params.fence_buffer_m
    over = (outside - params.people_outside_m)[..., None]
    return rows, xp.where(over > 0.0, at_least(bound, -params.fence_most_accel) + GIVES * over, bound)


@constraint({"obstacle": Priority.COLLISION}, each="obstacles")
def obstacle_rows(ahead: Ahead) -> tuple[Array, Array]:
    """One barrier row per obstacle, with all of the braking; one that moves is taken to come straight on.

    Like the fence they never ask for more than the robot has.
    """
    xp, params, things = ahead.xp, ahead.params, ahead.context.obstacles
    assert things is not None
    away, gap = outward(xp, ahead.pos, things)
    speed = double(things.speed)
    opening = dot(away, ahead.vel[..., None, :]) - speed
    reach = params.obstacle_m + params.fence_buffer_m + params.latency_s * speed
    allowed, slope = braking_curve(xp, gap - reach, SURE * params.fence_brake_accel, params.approach_gain)
    bound = params.barrier_gain * (opening + allowed) + slope * opening
    there = xp.where(things.valid, at_least(bound, -params.fence_most_accel), NO_LIMIT)
    return xp.where(things.valid[..., None], -away, 0.0), there


_FENCE_PRIORITIES = {f"fence_{side}_{axis}": Priority.SOFT for side in ("high", "low") for axis in "xyz"}


@constraint(_FENCE_PRIORITIES | {"fence_low_z": Priority.LIMIT})
def fence_rows(ahead: Ahead) -> tuple[Array, Array]:
    """The six faces of the geofence's box."""
    return _spread(ahead.xp, _FENCE, ahead.pos.shape[:-1], ahead.pos), ahead.fences[..., 0, :]


def fence_bound(xp: Any, params: ShieldParams, pos: Array, vel: Array) -> Array:
    """Bounds (..., 6) m/s^2 of +a and -a that keep `pos` (..., 3) in the geofence's box.

    They never ask for more than the robot has, so that each can be met: what is planned with, `fence_brake_accel`, is
    less where thrust may be short.
    """
    both_ways = constant(xp, _BOTH_WAYS, pos)
    faces, most = (constant(xp, each, pos) for each in _of_fence(params))
    speed, distance = vel @ both_ways, faces - pos @ both_ways
    allowed, slope = braking_curve(xp, distance, params.fence_brake_accel, params.approach_gain)
    return xp.maximum(params.barrier_gain * (allowed - speed) - slope * speed, -most)


def fence_push(bound: Array) -> Array:
    """The acceleration (..., 3) m/s^2 that fence bounds (..., 6) ask for; zero where they leave the robot free."""
    demand = at_most(bound, 0.0)
    return demand[..., :3] - demand[..., 3:]


@constraint({"speed": Priority.SOFT})
def speed_rows(ahead: Ahead) -> tuple[Array, Array]:
    """One row that lets the speed approach `max_speed` no faster than exponentially."""
    params, (x, y, z) = ahead.params, columns(ahead.vel)
    speed = functions(x).sqrt(x * x + y * y + z * z + NEVER_ZERO)
    bound = params.barrier_gain * (params.max_speed - speed)
    row = join((x / speed, y / speed, z / speed))
    return row[..., None, :], join((at_least(bound, -params.fence_brake_accel),))


_ENVELOPE_NAMES = (*(f"tilt_{45 * k}" for k in range(8)), "climb", "descent")


@constraint(dict.fromkeys(_ENVELOPE_NAMES, Priority.LIMIT))
def envelope_rows(ahead: Ahead) -> tuple[Array, Array]:
    """What thrust and tilt can give: an eight-sided cone of tilt and the climb and descent limits."""
    batch = ahead.pos.shape[:-1]
    rows, bounds = _envelope(ahead.params)
    return _spread(ahead.xp, rows, batch, ahead.pos), _spread(ahead.xp, bounds, batch, ahead.pos)


def _apart(
    ahead: Ahead,
    pos: Array,
    vel: Array,
    age: Array,
    separation_m: Array,
    duty: Array,
    together: Array | None,
    valid: Array,
) -> tuple[Array, Array]:
    """Rows (..., P, 3) and bounds (..., P) that keep `separation_m` from each of P bodies.

    h = opening speed + braking_curve(distance - reach) on coordinates whose z is divided by `downwash_ratio`; a row is
    the share `duty` of dh/dt >= -barrier_gain h (Wang, Ames, Egerstedt, 2017), where `together` (..., P, 3) m/s^2 is
    what both do anyway. Circling opens the distance too, but earns no credit: estimated from noisy velocities of
    different ages it is what adversaries spiral in on. A body that flew away when it was heard may have stopped since.
    """
    xp, params = ahead.xp, ahead.params
    scale = scale_of(xp, params, ahead.pos)
    diff = ahead.pos[..., None, :] - pos
    away = diff * scale[:, 0]  # times the distance
    lengths = xp.sqrt((diff * diff) @ scale + NEVER_ZERO)
    distance, length = lengths[..., 0], lengths[..., 1]
    opening = dot(away, ahead.vel[..., None, :] - vel) / distance
    if some(age > FRESH_S):
        doubt = at_least(age - FRESH_S, 0.0) / (params.peer_age_cap_s - FRESH_S)
        opening = opening - doubt * at_least(-dot(away, vel), 0.0) / distance
    reach = (separation_m + params.buffer_m) + (0.5 * params.peer_accel) * age * age
    allowed, slope = braking_curve(xp, distance - reach, params.brake_accel / duty, params.approach_gain)
    part = duty * (params.barrier_gain * (opening + allowed) + slope * opening)
    bound = part * distance if together is None else part * distance - dot(away, together)
    rows, bound = away / -length[..., None], bound / length
    if not every(valid):
        rows, bound = xp.where(valid[..., None], rows, 0.0), xp.where(valid, bound, NO_LIMIT)
    return rows, bound


def _entries(field: Any) -> int:
    if field is None:
        return 0
    return len(field) if isinstance(field, Mapping) else field.pos.shape[-2]


@lru_cache(maxsize=64)
def _layout(counts: tuple[int, ...]) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Names (M,) of the rows, and which (M,) are COLLISION and SOFT rows."""
    rows = [
        (f"{name}_{index}" if each else name, priority)
        for count, (_, priorities, each) in zip(counts, CONSTRAINTS, strict=True)
        for index in range(count)
        for name, priority in priorities.items()
    ]
    priorities = np.array([priority for _, priority in rows])
    return tuple(name for name, _ in rows), priorities == Priority.COLLISION, priorities == Priority.SOFT


@kept
def _of_fence(params: ShieldParams) -> tuple[np.ndarray, np.ndarray]:
    """Of each face (6,): where it is, m along its axis, and the most braking; off the floor a robot climbs."""
    faces = np.array([*params.geofence_high, *(-x for x in params.geofence_low)]) - params.fence_buffer_m
    most = params.fence_most_accel
    return faces, np.array([most] * 5 + [min(most, params.max_climb_accel)])


@kept
def _envelope(params: ShieldParams) -> tuple[np.ndarray, np.ndarray]:
    c, s = cos(params.max_tilt_rad), sin(params.max_tilt_rad)
    cone = [(c * cos(k * pi / 4), c * sin(k * pi / 4), -s) for k in range(8)]
    bounds = [GRAVITY * c * tan(params.max_tilt_rad)] * 8 + [params.max_climb_accel, params.max_descent_accel]
    return np.array([*cone, (0, 0, 1), (0, 0, -1)]), np.array(bounds)


def _spread(xp: Any, values: np.ndarray, batch: tuple[int, ...], like: Array) -> Array:
    """Constant `values`, repeated for every robot of the batch."""
    return xp.broadcast_to(constant(xp, values, like), (*batch, *values.shape)) if batch else constant(xp, values, like)
