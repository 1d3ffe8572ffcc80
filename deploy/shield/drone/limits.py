"""Rows about the robot itself: its fence, its speed, and what its thrust and tilt can give."""

from math import cos, pi, sin, tan
from typing import Any

import numpy as np

from deploy.shield.arrays import at_least, at_most, columns, constant, join, length
from deploy.shield.drone.ahead import Ahead, braking_curve, knee_of
from deploy.shield.drone.params import ShieldParams
from deploy.shield.kept import kept
from hardware.spec import GRAVITY
from hardware.types import Array

FENCE = np.concatenate([np.eye(3), -np.eye(3)])
BOTH_WAYS = FENCE.T.copy()


def fence_rows(ahead: Ahead) -> tuple[Array, Array]:
    """The six faces of the geofence's box."""
    return _spread(ahead.xp, FENCE, ahead.pos.shape[:-1], ahead.pos), ahead.fences[..., 0, :]


def fence_bound(xp: Any, params: ShieldParams, moving: Array) -> Array:
    """Bounds (..., N, 6) m/s^2 of +a and -a that keep N bodies in the geofence's box.

    `moving` (..., 2 N, 3) are their positions, m, and then their velocities, m/s.
    They never ask for more than the robot has, so that each can be met.
    """
    faces, least, brake, knee = [constant(xp, each, moving) for each in of_fence(params)]
    along, count = moving @ constant(xp, BOTH_WAYS, moving), moving.shape[-2] // 2
    speed, distance = along[..., count:, :], faces - along[..., :count, :]
    allowed, slope = braking_curve(xp, distance, brake, params.approach_gain, knee)
    return xp.maximum(params.barrier_gain * (allowed - speed) - slope * speed, least)


def fence_push(bound: Array) -> Array:
    """The acceleration (..., 3) m/s^2 that fence bounds (..., 6) ask for; zero where they leave the robot free."""
    demand = at_most(bound, 0.0)
    return demand[..., :3] - demand[..., 3:]


def speed_rows(ahead: Ahead) -> tuple[Array, Array]:
    """One row that lets the speed approach `max_speed` no faster than exponentially."""
    params, (x, y, z) = ahead.params, columns(ahead.vel)
    speed = length((x, y, z))
    bound = params.barrier_gain * (params.max_speed - speed)
    row = join((x / speed, y / speed, z / speed))
    return row[..., None, :], join((at_least(bound, -params.fence_brake_accel),))


def envelope_rows(ahead: Ahead) -> tuple[Array, Array]:
    """What thrust and tilt can give: an eight-sided cone of tilt and the climb and descent limits."""
    batch = ahead.pos.shape[:-1]
    rows, bounds = envelope(ahead.params)
    return _spread(ahead.xp, rows, batch, ahead.pos), _spread(ahead.xp, bounds, batch, ahead.pos)


@kept
def of_fence(params: ShieldParams) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of each face (6,): place, m along its axis, least bound, the braking that is planned with, and its knee.

    Off the floor a robot climbs, for which thrust may be short.
    """
    faces = np.array([*params.geofence_high, *(-x for x in params.geofence_low)]) - params.fence_buffer_m
    least = np.array([-params.fence_most_accel] * 5 + [-min(params.fence_most_accel, params.max_climb_accel)])
    planned = np.array([params.fence_brake_accel] * 5 + [params.sure_brake_accel])
    return faces, least, planned, knee_of(planned, params.approach_gain)


@kept
def envelope(params: ShieldParams) -> tuple[np.ndarray, np.ndarray]:
    """Rows (10, 3) and bounds (10,) m/s^2 of what thrust and tilt can give."""
    c, s = cos(params.max_tilt_rad), sin(params.max_tilt_rad)
    cone = [(c * cos(k * pi / 4), c * sin(k * pi / 4), -s) for k in range(8)]
    bounds = [GRAVITY * c * tan(params.max_tilt_rad)] * 8 + [params.max_climb_accel, params.max_descent_accel]
    return np.array([*cone, (0, 0, 1), (0, 0, -1)]), np.array(bounds)


def _spread(xp: Any, values: np.ndarray, batch: tuple[int, ...], like: Array) -> Array:
    """Constant `values`, repeated for every robot of the batch."""
    return xp.broadcast_to(constant(xp, values, like), (*batch, *values.shape)) if batch else constant(xp, values, like)
