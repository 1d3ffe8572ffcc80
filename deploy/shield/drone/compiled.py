"""The filter of one robot among peers by the compiled core: what `drone.filter` answers, in a tenth of the time."""

from typing import NamedTuple

import numpy as np

from deploy.shield import native
from deploy.shield.arrays import NEVER_ZERO
from deploy.shield.drone.ahead import SWINGS_ON
from deploy.shield.drone.apart import NO_LIMIT
from deploy.shield.drone.attitude import CALM_RATE, MIN_LIFT, OVERTURNED_RATE, UPRIGHT, rate_authority_s
from deploy.shield.drone.constraints import CLEAR_ACCEL, ROW_TOL
from deploy.shield.drone.distance import scale_of
from deploy.shield.drone.limits import FENCE, envelope, of_fence
from deploy.shield.drone.mixer import mixer
from deploy.shield.drone.params import FRESH_S, ShieldParams
from deploy.shield.kept import kept
from deploy.shield.types import Context
from hardware.spec import GRAVITY, RobotSpec

OWN_ROWS = 17  # of the fence, the speed and the envelope


class Asked(NamedTuple):
    """What a request comes to; what is not said of one that is `allowed` has no meaning there."""

    allowed: bool
    clamped: np.ndarray  # (4,) float32, inside the channels' limits
    rows: np.ndarray  # (P + 17, 3)
    bound: np.ndarray  # (P + 17,) m/s^2
    wanted: np.ndarray  # (3,) m/s^2, where the request leads to
    aim: np.ndarray  # (3,) m/s^2, what the sent one should lead to, but for the rows
    vel: np.ndarray  # (3,) m/s, ahead
    request: np.ndarray  # (4,) that can be flown
    margin: np.float64


def ask_core(params: ShieldParams, spec: RobotSpec, context: Context, target: np.ndarray) -> Asked | None:
    """All that comes before the nearest acceleration is looked for.

    None where there is no core, or it has no answer: to people, obstacles, and what is no finite number.
    """
    state, peers, sharing, things = context.state, context.peers, context.sharing, context.obstacles
    if native.compiled is None or state is None or len(context.people.pos) or (things is not None and len(things.pos)):
        return None
    count = len(peers.valid) + OWN_ROWS
    rows, bound, clamped, found = np.empty((count, 3)), np.empty(count), np.empty(4, np.float32), np.empty(14)
    allowed = native.compiled.flight_request(
        _numbers(params, spec),
        state.base_pos,
        state.base_quat,
        state.base_lin_vel,
        state.base_ang_vel,
        state.age,
        peers.pos,
        peers.lin_vel,
        peers.age,
        peers.valid,
        None if sharing is None else sharing.shares,
        None if sharing is None else sharing.separation_m,
        target,
        rows,
        bound,
        clamped,
        found,
    )
    if allowed is None:
        return None
    return Asked(allowed, clamped, rows, bound, found[:3], found[3:6], found[6:9], found[9:13], found[13])


def command_of_core(
    params: ShieldParams, spec: RobotSpec, context: Context, request: np.ndarray, accel: np.ndarray
) -> np.ndarray | None:
    """The `request` (4,), changed so that `accel` (3,) m/s^2 results: (4,) float32."""
    state, sent = context.state, np.empty(4, np.float32)
    assert native.compiled is not None and state is not None
    known = state.base_quat, state.base_ang_vel, state.age
    return sent if native.compiled.flight_command(_numbers(params, spec), *known, request, accel, sent) else None


@kept
def _numbers(params: ShieldParams, spec: RobotSpec) -> np.ndarray:
    """In the order of `struct flight`."""
    planes, bounds = envelope(params)
    flat, flat_squared = scale_of(np, params, bounds)[2]
    full_n, offset, exponent, signal_s = mixer(spec)
    assert spec.flight is not None
    numbers = [params.latency_s, params.peer_age_cap_s, FRESH_S, params.act_s, params.separation_m, params.buffer_m]
    numbers += [0.5 * params.peer_accel, params.brake_accel, params.approach_gain, params.barrier_gain]
    numbers += [flat, flat_squared, params.max_speed, params.fence_brake_accel, NO_LIMIT, NEVER_ZERO]
    numbers += [GRAVITY, spec.mass_kg, ROW_TOL, CLEAR_ACCEL, params.tie_break_accel, SWINGS_ON, params.lookahead_s]
    numbers += [rate_authority_s(params, spec.flight), params.max_rate, params.kept_rate, UPRIGHT, OVERTURNED_RATE]
    numbers += [spec.mass_kg * (GRAVITY + params.max_climb_accel), exponent == 1.0]
    numbers += [full_n, offset, 1.0 / exponent, signal_s, MIN_LIFT, GRAVITY * params.max_rate]
    numbers += [params.stops_alone, params.max_climb_accel, params.max_descent_accel, CALM_RATE]
    channels = np.array([spec.command_low, spec.command_high], dtype=np.float32).ravel()
    return np.concatenate([numbers, channels, *of_fence(params), bounds, FENCE.ravel(), np.zeros(3), planes.ravel()])
