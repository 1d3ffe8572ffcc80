"""ShieldParams: every number that the shield of a multirotor acts on; it ships in the policy's contract."""

from dataclasses import dataclass
from math import ceil, cos, radians
from typing import Annotated, Any

from msgspec import Meta

from deploy.shield.drone.mixer import rate_room
from deploy.shield.param_checks import (
    Limits,
    NotNegative,
    Positive,
    ShieldParamsError,
    SupervisionParams,
    check_at_most,
    make_params,
    supervision_limits,
)
from hardware.spec import GRAVITY, RobotSpec

FRESH_S = 0.03  # up to this age a message counts as what a peer does now; see `drone.guarantee`
AboveFresh = Annotated[float, Meta(gt=FRESH_S)]
THRUST_ERROR = 0.1  # share by which thrust over mass may differ from the nominal one
COMMAND_DELAY_S = 0.02  # as `drone.guarantee` assumes it
MAX_RATE = 3.0  # rad/s
MIN_SIDE_M = 0.6  # of a geofence: below, its faces leave no room between their braking distances


@dataclass(frozen=True, slots=True, kw_only=True)
class ShieldParams(SupervisionParams):
    """Limits of the shield for one kind of robot (SI). `separation_m` is what evaluation counts violations against."""

    # Barrier of a pair, on coordinates whose z is divided by downwash_ratio: an ellipsoid around the centre of the one
    # that the centre of the other stays out of. Distances are of the pair: a robot's own part is half of them.
    separation_m: Positive  # guaranteed least horizontal distance between the centres of a pair
    downwash_ratio: Positive = 2.5  # least vertical distance = ratio * separation: a drone blows air down on others
    buffer_m: NotNegative = 0.16  # added to separation in the barrier: room for noise, delay and model errors
    brake_accel: Positive = 2.0  # m/s^2, each robot's share of the braking that the barrier counts on
    approach_gain: Positive = 3.0  # 1/s, allowed closing speed per metre where the braking curve is steeper
    barrier_gain: Positive = 5.0  # 1/s, how fast a used-up barrier is restored
    stops_alone: bool = False  # it closes in no faster than its share of the braking stops: no other has to make way
    tie_break_accel: NotNegative = 1.5  # m/s^2, largest push to the right of a blocking peer, which ends deadlocks
    peer_accel: Positive = 6.0  # m/s^2, what a peer may do between two of its messages
    peer_age_cap_s: AboveFresh = 0.3  # s, a peer silent for longer is taken to have stopped where it was by then
    peer_silent_s: AboveFresh = 0.5  # s, a peer that is silent for longer ends the policy's turn
    people_m: Positive = 1.5  # least distance to a person's middle, m, across
    people_outside_m: NotNegative = 0.4  # out of the fence, from where on it makes no way for people any more
    obstacle_buffer_m: Positive  # rows of obstacles act this much earlier: the fence's, and what slow turners need
    obstacle_m: Positive  # least distance of the centre to the surface of an obstacle, or of another robot's link

    # The road from a command to an acceleration.
    latency_s: Positive  # s, states are predicted this far before the rows are written
    lookahead_s: Positive  # s, a command is assessed by the attitude that it leads to after this time
    command_delay_s: NotNegative = COMMAND_DELAY_S  # s, transport part of both, in which the body keeps its rate

    # The robot's own envelope.
    max_tilt_rad: Positive
    max_rate: Positive = MAX_RATE  # rad/s, of roll and pitch together, that the filter itself asks for
    kept_rate: Positive = 2.5  # rad/s, the same, of a request that has to be changed
    max_climb_accel: Positive  # m/s^2, upwards, where something is near (`constraints.CLEAR_ACCEL`)
    max_descent_accel: Positive = 4.0  # m/s^2
    max_speed: Positive = 2.5  # m/s
    geofence_low: tuple[float, float, float]  # m, world
    geofence_high: tuple[float, float, float] = (3.0, 3.0, 3.0)  # m, world
    fence_buffer_m: Positive = 0.15  # the fence acts this much earlier: what a thrust error of 10 % can push against it
    fence_brake_accel: Positive  # m/s^2, that way to a stop is planned with, but for its lower face
    sure_brake_accel: Positive  # m/s^2, there in any direction with the least thrust: for the lower face and obstacles
    fence_most_accel: Positive = 4.0  # m/s^2, that a face asks for at most

    # The fallback.
    max_jump_m: Positive = 0.5  # m, farther than this from the position before is not a measurement of the same flight
    hold_s: Positive = 2.0  # s, hover in place before landing
    land_speed: Positive = 0.4  # m/s
    landed_height_m: Positive = 0.06  # m above ground_z_m, below which a resting robot has landed

    def __post_init__(self) -> None:
        SupervisionParams.__post_init__(self)
        if not all(low < high for low, high in zip(self.geofence_low, self.geofence_high, strict=True)):
            raise ShieldParamsError(f"geofence {self.geofence_low} .. {self.geofence_high}: low must be below high")
        if not all(high - low >= MIN_SIDE_M for low, high in zip(self.geofence_low, self.geofence_high, strict=True)):
            raise ShieldParamsError(
                f"geofence {self.geofence_low} .. {self.geofence_high}: every side must have at least {MIN_SIDE_M} m"
            )


def flight_limits(spec: RobotSpec) -> Limits:
    """What a policy file may set, each from its widest to its narrowest value; all other fields are the robot's.

    Tilt, descent and the buffers are not among them: braking rests on them, so that less of them is not safer.
    """
    flight = spec.flight
    assert flight is not None
    usual = make_flight_params(spec)
    lift = dict(zip(spec.channel_names, spec.command_high, strict=True))["thrust"] / flight.hover_thrust_n
    low, high = usual.geofence_low, usual.geofence_high
    return (
        supervision_limits(usual)
        | {
            "separation_m": (usual.separation_m, 2.0 * usual.separation_m),
            "downwash_ratio": (usual.downwash_ratio, 2.0 * usual.downwash_ratio),
            "max_climb_accel": (GRAVITY * (lift - 1.0), usual.max_climb_accel),  # full thrust
            "max_speed": (usual.max_speed, 0.5),
            "geofence_low": ((*low[:2], usual.ground_z_m), tuple(x - MIN_SIDE_M for x in high)),
            "geofence_high": (high, tuple(x + MIN_SIDE_M for x in low)),
            "land_speed": (usual.land_speed, 0.2),
        }
    )


def make_flight_params(spec: RobotSpec, **overrides: Any) -> ShieldParams:
    """Shield parameters for a multirotor `spec`; errors as of `make_shield_params`."""
    flight = spec.flight
    assert flight is not None
    lift = dict(zip(spec.channel_names, spec.command_high, strict=True))["thrust"] / flight.hover_thrust_n
    tilt = min(flight.max_tilt_rad, radians(31.0))
    # Full thrust at full tilt must still give the climb, with the least thrust.
    least = 1.0 - THRUST_ERROR
    climb = min(4.0, GRAVITY * (least * lift * cos(tilt) - 1.0))
    keep_off_m = spec.radius_m + 0.02
    rate = min(MAX_RATE, rate_room(spec, flight.hover_thrust_n))
    lag = flight.rotor_time_constant_s + 2 * flight.rate_time_constant_s
    values = {
        "control_dt_s": 1.0 / spec.control_hz,
        "separation_m": 1.6 * 2 * spec.radius_m,
        "obstacle_m": keep_off_m,
        # Slow turners lean away late: with 0.15 m they came up to 1.6 cm too near, in 3 of 62 flights.
        "obstacle_buffer_m": 0.15 if rate == MAX_RATE else 0.23,
        # No part of it meets the ground at any tilt: one that stands high on its legs trips over them in flight.
        "geofence_low": (-3.0, -3.0, max(0.1, ceil(100.0 * keep_off_m) / 100.0)),
        "latency_s": lag + 0.03,
        # It decides the attitude gain, 8.7 1/s: a shorter one circles at the delays of `guarantee`, see
        # tests/shield/test_shield_attitude.py.
        "lookahead_s": COMMAND_DELAY_S + flight.turn_lag_s + 0.115,
        "max_tilt_rad": tilt,
        # More would take thrust at hover: an X500 that shook fell short of it near its floor.
        "max_rate": rate,
        # One between two cannot lean over for both in time.
        "stops_alone": rate < MAX_RATE,
        "max_climb_accel": climb,
        "fence_brake_accel": climb,
        "sure_brake_accel": least * (GRAVITY + climb) - GRAVITY,
    }
    params = make_params(ShieldParams, values, overrides)
    check_at_most("max_tilt_rad", params.max_tilt_rad, flight.max_tilt_rad)
    return params
