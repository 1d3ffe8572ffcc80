"""The filter of multirotors.

It keeps two robots' centres `separation_m` apart across and `downwash_ratio` times that up and down, and one robot
inside its geofence, whatever commands are requested, while the bounds of `drone.guarantee` hold. docs/shield.md has
them, what is outside, and what attacks found. This is an engineering margin, shown by simulation against adversaries
(tests/shield/test_shield_adversary.py, `phalanx attack`); it is not a certificate.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from deploy.shield.arrays import (
    at_least,
    at_most,
    choose,
    columns,
    constant,
    dot,
    double,
    functions,
    greatest,
    join,
    length,
    norm,
)
from deploy.shield.drone.ahead import predict_state
from deploy.shield.drone.apart import NO_LIMIT, peer_rows
from deploy.shield.drone.attitude import (
    OVERTURNED_RATE,
    UPRIGHT,
    Columns,
    acceleration_of,
    lift_of,
    missing_turn,
    predicted_turn,
    rate_authority_s,
    rotated,
    rotated_back,
    rotation_matrix,
    shortened,
    spared_rate,
    turn_matrix,
    turned_axis,
)
from deploy.shield.drone.compiled import ask_core, command_of_core
from deploy.shield.drone.constraints import (
    CLEAR_ACCEL,
    ROW_TOL,
    are_shipped,
    climb_row,
    free_height,
    knows_people,
    row_counts,
    rows_ahead,
    rows_of,
    split_bounds,
)
from deploy.shield.drone.distance import least_margin
from deploy.shield.drone.limits import envelope_rows
from deploy.shield.drone.params import THRUST_ERROR, ShieldParams
from deploy.shield.kept import kept
from deploy.shield.qp.batched import solve_batch
from deploy.shield.qp.single import solve_one
from deploy.shield.types import Context, FilterInfo
from hardware.rotation import namespace_of
from hardware.spec import GRAVITY, RobotSpec
from hardware.types import Array

FALLBACK_STEPS = 12  # of gradient descent; more change the fallback by less than the noise of a measurement
_TO_THE_RIGHT = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])


def filter_flight(params: ShieldParams, spec: RobotSpec, context: Context, target: Array) -> tuple[Array, FilterInfo]:
    """Filter `target` (..., 4) = thrust N, body rates rad/s, of multirotors.

    A request that meets every row is sent as it is (clamped to its channel), whatever its climb where nothing is near;
    another one is replaced by the command for the nearest acceleration that does. Where none does, the fallback is
    sent: the acceleration that brakes and violates the rows least. A request that is not finite counts as level flight.
    Only a state that is not finite gives an answer that means nothing: check it before.
    """
    flight, state = spec.flight, context.state
    assert flight is not None and state is not None
    if isinstance(target, np.ndarray) and target.ndim == 1 and (answer := _by_core(params, spec, context, target)):
        return answer
    xp = namespace_of(target)
    clamped = clamp(xp, spec, target)
    total = sum(columns(target), 0.0)  # of finite numbers it is finite, of others not
    finite = functions(total).isfinite(total)
    rot = rotation_matrix(columns(state.base_quat))
    pos, vel = predict_state(params, state, rot)
    counts, driven = row_counts(context), None
    if context.obstacles is not None and context.sent is not None:
        lift = double(context.sent)[..., 0] / spec.mass_kg
        weakest = predict_state(params, state, rot, at_most(lift, GRAVITY))
        driven = weakest, predict_state(params, state, rot, at_least((1.0 + THRUST_ERROR) * lift, GRAVITY))
    rows, bound = rows_ahead(xp, params, pos, vel, context, counts, driven)
    level = (flight.hover_thrust_n, 0.0, 0.0, 0.0)
    request: list[Array] = [choose(finite, asked, safe) for asked, safe in zip(columns(clamped), level, strict=True)]
    rate, age = columns(state.base_ang_vel), double(state.age)
    axis = _axis_ahead(params, spec, rot, rate, age, request[1:])
    wanted = join(acceleration_of(spec.mass_kg, request[0], axis))
    excess = dot(rows, wanted[..., None, :]) - bound
    climb, own = climb_row(counts), rows_of(envelope_rows, counts)
    others = xp.concat([excess[..., : own.start], excess[..., own.stop :]], axis=-1)
    clear = greatest(others) <= -CLEAR_ACCEL
    bound[..., climb] = xp.where(clear, NO_LIMIT, bound[..., climb])
    excess[..., climb] = xp.where(clear, -NO_LIMIT, excess[..., climb])
    allowed = finite & (greatest(excess) <= ROW_TOL)
    margin = least_margin(xp, params, state.base_pos, context.peers)
    if allowed.ndim == 0:
        if allowed:
            return clamped, FilterInfo(margin, np.zeros(bound.shape, dtype=bool), np.True_, np.float64(0.0))
        asked, request = request[1:], _flyable(params, spec, request, free_height(xp, params, bound, counts))
        if request[1:] != asked:  # else the axis is the same
            axis = _axis_ahead(params, spec, rot, rate, age, request[1:])
        aim = join(acceleration_of(spec.mass_kg, request[0], axis))
        push = tie_break(xp, params, rows, excess, rows_of(peer_rows, counts))
        accel, feasible, active = _solve_one(params, vel, rows, bound, aim + push, counts)
        sent = _command(xp, params, spec, rot, rate, age, request, accel).astype(target.dtype)
        return sent, FilterInfo(margin, active, feasible, np.float64(length(columns(accel - wanted))))
    info = FilterInfo(margin, xp.zeros_like(excess, dtype=xp.bool), xp.ones_like(allowed), xp.zeros_like(bound[..., 0]))
    if bool(allowed.all()):
        return clamped, info
    part = ~allowed
    rot, rate, request = ([column[part] for column in value] for value in (rot, rate, request))
    free = free_height(xp, params, bound, counts)[part]
    request, age = _flyable(params, spec, request, free), age[part]
    axis = _axis_ahead(params, spec, rot, rate, age, request[1:])
    aim = join(acceleration_of(spec.mass_kg, request[0], axis))
    push = tie_break(xp, params, rows[part], excess[part], rows_of(peer_rows, counts))
    accel, info.feasible[part], info.active[part] = _solve_many(
        xp, params, vel[part], rows[part], bound[part], aim + push, counts
    )
    info.intervention[part] = norm(xp, accel - wanted[part])
    sent = xp.asarray(clamped, copy=True)
    sent[part] = xp.astype(_command(xp, params, spec, rot, rate, age, request, accel), target.dtype)
    return sent, info


def _by_core(
    params: ShieldParams, spec: RobotSpec, context: Context, target: np.ndarray
) -> tuple[np.ndarray, FilterInfo] | None:
    """`filter_flight` of one robot by the compiled core; None where it has no answer."""
    if not are_shipped() or (asked := ask_core(params, spec, context, target)) is None:
        return None
    if asked.allowed:
        return asked.clamped, FilterInfo(asked.margin, np.zeros(asked.bound.shape, bool), np.True_, np.float64(0.0))
    counts = row_counts(context)
    accel, feasible, active = _solve_one(params, asked.vel, asked.rows, asked.bound, asked.aim, counts)
    sent = command_of_core(params, spec, context, asked.request, accel)
    if sent is None:
        return None
    held_back = np.float64(length((accel - asked.wanted).tolist()))
    return sent, FilterInfo(asked.margin, active, feasible, held_back)


def clamp(xp: Any, spec: RobotSpec, target: Array) -> Array:
    """`target` (..., U) inside the channels' limits, same type; what is inside comes back bit by bit."""
    low, high = constant(xp, _channels(spec), target)
    return xp.minimum(xp.maximum(target, low), high)


@kept
def _channels(spec: RobotSpec) -> np.ndarray:
    return np.array([spec.command_low, spec.command_high], dtype=np.float32)


@kept
def _ranges(spec: RobotSpec) -> list[list[float]]:
    return _channels(spec).T.tolist()


def _held(value: Array, limits: Sequence[float]) -> Array:
    """A column inside `limits` of its channel."""
    low, high = limits
    return at_most(at_least(value, low), high)


def tie_break(xp: Any, params: ShieldParams, rows: Array, excess: Array, of_peers: slice) -> Array:
    """Push (..., 3) m/s^2 to the right of every peer that stands in the way, so that equals pass instead of waiting.

    It moves the request, never the rows, so it costs no safety; keeping right is consistent without communication.
    """
    weight = params.tie_break_accel * at_most(at_least(excess[..., of_peers], 0.0), 1.0)
    return (weight[..., None, :] @ rows[..., of_peers, :])[..., 0, :] @ constant(xp, _TO_THE_RIGHT, rows)


def fallback_acceleration(xp: Any, params: ShieldParams, rows: Array, bound: Array, vel: Array) -> Array:
    """Where the rows (..., M, 3) cannot all be met: brake, then descend on the summed squares of the violations."""
    accel = -vel * (params.brake_accel / at_least(norm(xp, vel), 0.5))[..., None]
    for _ in range(FALLBACK_STEPS):
        violation = at_least(dot(rows, accel[..., None, :]) - bound, 0.0)
        count = double(violation > 0.0).sum(-1)
        accel = accel - (violation[..., None, :] @ rows)[..., 0, :] / at_least(count, 1.0)[..., None]
    return accel


def _axis_ahead(
    params: ShieldParams, spec: RobotSpec, rot: Columns, rate: Columns, age: Array, asked: Columns
) -> Columns:
    """Thrust axis (3), world, that the body rates `asked` (3) rad/s lead to after the look-ahead."""
    assert spec.flight is not None
    return rotated(rot, turned_axis(predicted_turn(params, spec.flight, rate, asked, age)))


def _flyable(params: ShieldParams, spec: RobotSpec, request: Columns, free: Array) -> list[Array]:
    """A request that has to be changed: with rates that its thrust leaves room for, and no more thrust than may be.

    Rates that change sides would take the thrust that a climb needs, or add to it: see `spared_rate` for `free`.
    """
    thrust, *asked = request
    rates = shortened(asked, spared_rate(params, spec, thrust, free))
    return [at_most(thrust, spec.mass_kg * (GRAVITY + params.max_climb_accel)), *rates]


def _command(
    xp: Any,
    params: ShieldParams,
    spec: RobotSpec,
    rot: Columns,
    rate: Columns,
    age: Array,
    request: Columns,
    accel: Array,
) -> Array:
    """The request, changed so that `accel` (..., 3) results after the look-ahead.

    Without its yaw: in a body that turns, a tilt that is asked for now is one to another side then. The thrust is the
    part of the wanted one along the axis that the rates which are sent lead to: under the request's own ones the axis
    may point anywhere.
    """
    assert spec.flight is not None
    authority = rate_authority_s(params, spec.flight)
    level = (request[1], request[2], 0.0 * request[3])
    turn = turn_matrix(predicted_turn(params, spec.flight, rate, level, age))
    lift = rotated_back(turn, rotated_back(rot, lift_of(columns(accel))))
    missing, _ = missing_turn(lift)
    # One that turns over levels as fast as it can: nothing near that tilt is ever asked for.
    most = choose(rot[8] > UPRIGHT, params.max_rate + 0.0 * rot[8], OVERTURNED_RATE)
    rates = shortened([rate + angle / authority for rate, angle in zip(level, missing, strict=True)], most)
    of_thrust, *of_rates = _ranges(spec)
    sent = [_held(rate, limits) for rate, limits in zip(rates, of_rates, strict=True)]
    done = turn_matrix([authority * (rate - asked) for rate, asked in zip(sent, level, strict=True)])
    lift = rotated_back(done, lift)
    return join((_held(spec.mass_kg * lift[2], of_thrust), *sent))


def _solve_many(
    xp: Any, params: ShieldParams, vel: Array, rows: Array, bound: Array, request: Array, counts: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """Acceleration, feasible, active rows of B robots: all; else others before fence and speed; else people last.

    Where that has no answer either, the fallback.
    """
    accel, feasible, multipliers = solve_batch(rows, bound, request)
    if not bool(feasible.all()):
        lost = ~feasible
        clear, firm, last = split_bounds(xp, bound[lost], counts)
        settled, calm, _ = solve_batch(rows[lost], clear, request[lost])
        if not bool(calm.all()):  # in a corner of the fence even the robot alone cannot meet all
            wild = ~calm
            settled[wild] = fallback_acceleration(xp, params, rows[lost][wild], clear[wild], vel[lost][wild])
        accel[lost], feasible[lost], multipliers[lost] = solve_batch(rows[lost], firm, settled)
    if not bool(feasible.all()):
        wild, lost = ~feasible[lost], ~feasible
        accel[lost] = fallback_acceleration(xp, params, rows[lost], bound[lost], vel[lost])
        if knows_people(counts):
            settled, calm, held = solve_batch(rows[lost], last[wild], accel[lost])
            accel[lost] = xp.where(calm[:, None], settled, accel[lost])
            feasible[lost], multipliers[lost] = calm, held
    return accel, feasible, (multipliers > 0.0) & feasible[:, None]


def _solve_one(
    params: ShieldParams,
    vel: np.ndarray,
    rows: np.ndarray,
    bound: np.ndarray,
    request: np.ndarray,
    counts: tuple[int, ...],
) -> tuple[np.ndarray, Any, np.ndarray]:
    """`_solve_many` for one robot, by DAQP."""
    accel, feasible, multipliers = solve_one(rows, bound, request)
    if not feasible:
        clear, firm, last = split_bounds(np, bound, counts)
        settled, calm, _ = solve_one(rows, clear, request)
        if not calm:  # in a corner of the fence even the robot alone cannot meet all
            settled = fallback_acceleration(np, params, rows, clear, vel)
        accel, feasible, multipliers = solve_one(rows, firm, settled)
    if not feasible:
        accel = fallback_acceleration(np, params, rows, bound, vel)
        if knows_people(counts):
            settled, feasible, multipliers = solve_one(rows, last, accel)
            accel = settled if feasible else accel
    return accel, np.bool_(feasible), multipliers > 0.0 if feasible else np.zeros(bound.shape, dtype=bool)
