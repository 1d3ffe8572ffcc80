"""filter_command: the command that is sent in place of the requested one, for one robot or a batch of worlds x robots.

Guarantee. Robots that all run this filter keep their centres outside each other's ellipsoid (`separation_m` across,
`downwash_ratio * separation_m` up and down) whatever commands are requested, as long as each state is measured within
5 mm (one sigma) and `latency_s` covers the way from measurement to acceleration. It is not certified.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from deploy.shield.attitude import (
    acceleration_of,
    constant,
    lift_of,
    missing_turn,
    predicted_turn,
    rate_authority_s,
    rotation_matrix,
    turn_matrix,
)
from deploy.shield.batched import solve_rows_batched
from deploy.shield.params import ShieldParams
from deploy.shield.rows import constraint_rows, predict_state, safe_margin, split_bounds
from deploy.shield.solve import solve_rows_numpy
from hardware.spec import FlightModel, RobotSpec
from hardware.types import Array, Peers, RobotState

ROW_TOL = 1e-6  # m/s^2, by which a request may exceed a row and still count as allowed
BACKUP_STEPS = 12


@dataclass(slots=True)
class FilterInfo:
    """What the filter did. M = P + 17 rows, named by `rows.row_names`."""

    margin: Array  # (...) least scaled distance to a peer over the guaranteed one, minus 1; infinite without peers
    active: Array  # (..., M) bool, rows that hold the acceleration back
    feasible: Array  # (...) bool, False where the backup acceleration was sent
    intervention: Array  # (...) m/s^2, distance from the requested acceleration to the one sent


def filter_command(
    params: ShieldParams, spec: RobotSpec, state: RobotState, peers: Peers, target: Array
) -> tuple[Array, FilterInfo]:
    """Filter `target` (..., 4) = thrust N, body rates rad/s; returns (sent (..., 4), FilterInfo).

    A request that meets every row is sent as it is (clamped to its channel); another one is replaced by the command for
    the nearest acceleration that does. Where none does, or the request is not finite, the backup is sent: the
    acceleration that brakes and violates the rows least. Raises ValueError for a robot that is not a multirotor.
    """
    flight = spec.flight
    if flight is None:
        raise ValueError(f"robot {spec.name!r} has no flight model: nothing to filter")
    xp = array_namespace(target)
    clamped = clamp(spec, target)
    finite = xp.isfinite(target).all(-1)
    rows, bound = constraint_rows(params, state, peers)
    neutral = constant(xp, np.array([flight.hover_thrust_n, 0.0, 0.0, 0.0]), bound)
    request = xp.where(finite[..., None], xp.astype(clamped, xp.float64), neutral)
    ahead = _predicted_attitude(xp, params, flight, state, request[..., 1:])
    wanted = acceleration_of(xp, spec.mass_kg, request[..., 0], ahead[..., :, 2])
    excess = (rows @ wanted[..., None])[..., 0] - bound
    allowed = finite & (excess <= ROW_TOL).all(-1)
    accel, feasible, active = wanted, xp.ones_like(allowed), xp.zeros_like(excess, dtype=xp.bool)
    if bool(allowed.all()):
        sent = clamped
    else:
        push = tie_break(xp, params, rows, excess, peers.pos.shape[-2])
        vel = predict_state(params, state)[1]
        if rows.ndim == 2:
            accel, feasible, active = _solve_one(params, vel, rows, bound, wanted + push)
        else:
            part = ~allowed
            accel, feasible = xp.asarray(wanted, copy=True), xp.ones_like(allowed)
            active = xp.zeros_like(bound, dtype=xp.bool)
            solution = _solve(xp, params, vel[part], rows[part], bound[part], (wanted + push)[part])
            accel[part], feasible[part], active[part] = solution
        turn, lift = missing_turn(xp, ahead, lift_of(xp, accel))
        rates = request[..., 1:] + turn / rate_authority_s(params, flight)
        filtered = xp.concat([(spec.mass_kg * lift)[..., None], rates], axis=-1)
        sent = xp.where(allowed[..., None], clamped, clamp(spec, xp.astype(filtered, target.dtype)))
    change = accel - wanted
    return sent, FilterInfo(
        margin=_least_margin(xp, params, state, peers),
        active=active,
        feasible=feasible,
        intervention=xp.sqrt((change * change).sum(-1)),
    )


def clamp(spec: RobotSpec, target: Array) -> Array:
    """`target` (..., U) inside the channels' limits, same type; what is inside comes back bit by bit."""
    xp = array_namespace(target)
    low, high = constant(xp, np.array([spec.command_low, spec.command_high], dtype=np.float32), target)
    return xp.minimum(xp.maximum(target, low), high)


def tie_break(xp: Any, params: ShieldParams, rows: Array, excess: Array, num_peers: int) -> Array:
    """Push (..., 3) m/s^2 to the right of every peer that stands in the way, so that equals pass instead of waiting.

    It moves the request, never the rows, so it costs no safety; everybody keeping right is consistent without talking.
    """
    weight = params.tie_break_accel * xp.clip(excess[..., :num_peers], 0.0, 1.0)
    toward = rows[..., :num_peers, :]
    push_x, push_y = (weight * toward[..., 1]).sum(-1), -(weight * toward[..., 0]).sum(-1)
    return xp.stack([push_x, push_y, 0.0 * push_x], axis=-1)


def backup_acceleration(xp: Any, params: ShieldParams, rows: Array, bound: Array, vel: Array) -> Array:
    """Where the rows (..., M, 3) cannot all be met: brake, then descend on the summed squares of the violations."""
    speed = xp.sqrt((vel * vel).sum(-1) + 1e-12)[..., None]
    accel = -vel * (params.brake_accel / xp.clip(speed, 0.5, None))
    for _ in range(BACKUP_STEPS):
        violation = xp.clip((rows @ accel[..., None])[..., 0] - bound, 0.0, None)
        count = xp.astype(violation > 0.0, xp.float64).sum(-1)
        accel = accel - (violation[..., None, :] @ rows)[..., 0, :] / xp.clip(count, 1.0, None)[..., None]
    return accel


def _predicted_attitude(
    xp: Any, params: ShieldParams, flight: FlightModel, state: RobotState, rate_command: Array
) -> Array:
    rate, age = xp.astype(state.base_ang_vel, xp.float64), xp.astype(state.age, xp.float64)
    turned = turn_matrix(xp, predicted_turn(params, flight, rate, rate_command, age))
    return rotation_matrix(xp, xp.astype(state.base_quat, xp.float64)) @ turned


def _solve(
    xp: Any, params: ShieldParams, vel: Array, rows: Array, bound: Array, request: Array
) -> tuple[Array, Array, Array]:
    """Acceleration, feasible, active rows for B robots. See `_solve_one`, which does it for one robot by DAQP."""
    accel, feasible, multipliers = solve_rows_batched(rows, bound, request)
    if not bool(feasible.all()):
        lost = ~feasible
        room, peers = split_bounds(xp, bound[lost])
        settled, _, _ = solve_rows_batched(rows[lost], room, request[lost])
        accel[lost], feasible[lost], multipliers[lost] = solve_rows_batched(rows[lost], peers, settled)
    if not bool(feasible.all()):
        lost = ~feasible
        accel[lost] = backup_acceleration(xp, params, rows[lost], bound[lost], vel[lost])
    return accel, feasible, (multipliers > 0.0) & feasible[:, None]


def _solve_one(
    params: ShieldParams, vel: np.ndarray, rows: np.ndarray, bound: np.ndarray, request: np.ndarray
) -> tuple[np.ndarray, Any, np.ndarray]:
    """Acceleration, feasible, active rows: all rows; else peers before fence and speed; else the backup."""
    accel, feasible, multipliers = solve_rows_numpy(rows, bound, request)
    if not feasible:
        room, peers = split_bounds(np, bound)
        settled, _, _ = solve_rows_numpy(rows, room, request)
        accel, feasible, multipliers = solve_rows_numpy(rows, peers, settled)
    if not feasible:
        accel = backup_acceleration(np, params, rows, bound, vel)
    return accel, np.bool_(feasible), (multipliers > 0.0) & feasible


def _least_margin(xp: Any, params: ShieldParams, state: RobotState, peers: Peers) -> Array:
    margin = xp.where(peers.valid, safe_margin(params, state.base_pos, peers.pos), xp.inf)
    return xp.min(margin, axis=-1) if peers.pos.shape[-2] else xp.full_like(state.base_pos[..., 0], xp.inf)
