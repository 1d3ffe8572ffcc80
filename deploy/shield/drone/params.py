"""ShieldParams: every number that the shield acts on; it ships in the policy's contract."""

from dataclasses import dataclass, fields
from math import cos, radians
from typing import Any

from deploy.shield.param_checks import ShieldParamsError, require_at_most, require_finite, require_supervision
from hardware.spec import GRAVITY, RobotSpec


@dataclass(frozen=True, slots=True)
class ShieldParams:
    """Limits of the shield for one kind of robot (SI). `separation_m` is what evaluation counts violations against."""

    control_dt_s: float  # period of the shield's loop

    # Pairwise barrier on coordinates whose z is divided by downwash_ratio: an ellipsoid around each robot.
    separation_m: float  # guaranteed least horizontal distance between two centres
    downwash_ratio: float  # least vertical distance = ratio * separation
    buffer_m: float  # the barrier works on separation + buffer: noise, delay and model errors live in the difference
    brake_accel: float  # m/s^2, each robot's share of the braking that the barrier counts on
    approach_gain: float  # 1/s, allowed closing speed per metre where the braking curve would be steeper than this
    barrier_gain: float  # 1/s, how fast a used-up barrier is restored
    tie_break_accel: float  # m/s^2, largest push to the right of a blocking peer, so that equals do not wait for ever
    peer_accel: float  # m/s^2, what a peer may do between two of its messages
    peer_age_cap_s: float  # s, a peer not heard for longer is taken to be in its own fallback, so growth stops here

    # The road from a command to an acceleration.
    latency_s: float  # s, states are predicted this far before the rows are written
    lookahead_s: float  # s, a command is judged by the attitude that it leads to after this time
    command_delay_s: float  # s, transport part of latency and look-ahead, in which the body keeps its rate

    # The robot's own envelope.
    max_tilt_rad: float
    max_climb_accel: float  # m/s^2
    max_descent_accel: float  # m/s^2
    max_speed: float  # m/s
    geofence_low: tuple[float, float, float]  # m, world
    geofence_high: tuple[float, float, float]  # m, world
    fence_buffer_m: float  # the fence acts this much earlier: what a thrust error of 10 % can push against it
    fence_brake_accel: float  # m/s^2

    # Supervision.
    warn_periods: int  # age of an input, in control periods, that is reported
    act_periods: int  # ... and that trips the fallback
    recover_periods: int  # new good requests in a row that end a hold, while it is not latched
    latch_s: float  # s of hold in all, at most 0.5, that latch it until a reset; the policy's time wears off a tenth
    max_jump_m: float  # m, farther than this from the position before is not a measurement of the same flight
    clock_jump_s: float  # s, a longer step of the clock trips the fallback
    ramp_s: float  # s, from holding to the policy's command after activation
    hold_s: float  # s, hover in place before landing
    land_speed: float  # m/s
    landed_height_m: float  # m above ground_z_m, below which a resting robot has landed
    ground_z_m: float  # m, world

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("geofence_low", "geofence_high"):
                value = tuple(float(v) for v in value)
                object.__setattr__(self, field.name, value)
            require_finite(field.name, value)
            if field.name in ("geofence_low", "geofence_high", "ground_z_m"):
                continue
            if field.name in ("tie_break_accel", "command_delay_s", "buffer_m", "latch_s"):
                if value < 0:
                    raise ShieldParamsError(f"shield parameter {field.name} = {value!r}: must not be negative")
            elif not value > 0:
                raise ShieldParamsError(f"shield parameter {field.name} = {value!r}: must be greater than 0")
        require_supervision(self.warn_periods, self.act_periods, self.recover_periods, self.latch_s, self.control_dt_s)
        if not all(low < high for low, high in zip(self.geofence_low, self.geofence_high, strict=True)):
            raise ShieldParamsError(f"geofence {self.geofence_low} .. {self.geofence_high}: low must be below high")


def make_flight_params(spec: RobotSpec, **overrides: Any) -> ShieldParams:
    """Shield parameters for a multirotor `spec`; errors as of `make_shield_params`."""
    flight = spec.flight
    assert flight is not None
    unknown = sorted(set(overrides) - {field.name for field in fields(ShieldParams)})
    if unknown:
        known = ", ".join(field.name for field in fields(ShieldParams))
        raise ShieldParamsError(f"unknown shield parameter {unknown[0]!r}; known: {known}")
    lift = dict(zip(spec.channel_names, spec.command_high, strict=True))["thrust"] / flight.hover_thrust_n
    tilt = min(flight.max_tilt_rad, radians(31.0))
    lag = flight.rotor_time_constant_s + 2 * flight.rate_time_constant_s
    values: dict[str, Any] = {
        "control_dt_s": 1.0 / spec.control_hz,
        "separation_m": 1.6 * 2 * spec.radius_m,
        "downwash_ratio": 2.5,
        "buffer_m": 0.08,
        "brake_accel": 2.0,
        "approach_gain": 3.0,
        "barrier_gain": 5.0,
        "tie_break_accel": 1.5,
        "peer_accel": 6.0,
        "peer_age_cap_s": 0.3,
        "latency_s": lag,
        "lookahead_s": lag + 0.04,
        "command_delay_s": 0.02,
        "max_tilt_rad": tilt,
        # Full thrust at full tilt must still give the climb; 10 % of thrust stays in reserve.
        "max_climb_accel": min(4.0, GRAVITY * (0.9 * lift * cos(tilt) - 1.0)),
        "max_descent_accel": 4.0,
        "max_speed": 2.5,
        "geofence_low": (-3.0, -3.0, 0.1),
        "geofence_high": (3.0, 3.0, 3.0),
        "fence_buffer_m": 0.15,
        "fence_brake_accel": 4.0,
        "warn_periods": 2,
        "act_periods": 5,
        "recover_periods": 5,
        "latch_s": 0.5,
        "max_jump_m": 0.5,
        "clock_jump_s": 0.5,
        "ramp_s": 0.5,
        "hold_s": 2.0,
        "land_speed": 0.4,
        "landed_height_m": 0.06,
        "ground_z_m": 0.0,
    }
    params = ShieldParams(**(values | overrides))
    require_at_most("max_tilt_rad", params.max_tilt_rad, flight.max_tilt_rad)
    return params
