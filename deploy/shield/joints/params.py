"""JointShieldParams: every number that the shield of a robot with joints acts on; it ships in the policy's contract.

The gains of the drives are not here: they are the robot's, in its specification.
"""

from dataclasses import dataclass, fields
from typing import Any

from deploy.shield.param_checks import ShieldParamsError, require_at_most, require_finite, require_supervision
from hardware.spec import RobotSpec

MAY_BE_ANYTHING = ("position_low", "position_high", "ground_z_m")
MAY_BE_ZERO = ("range_margin", "latency_s", "pickup_share", "latch_s")
SHARES = (
    "speed_share",
    "effort_share",
    "brake_share",
    "pickup_share",
    "return_share",
    "max_jump_share",
    "target_speed_share",
    "min_height_share",
    "brake_window",
)
PER_CHANNEL = ("position_low", "position_high", "max_velocity", "max_acceleration", "max_effort")


@dataclass(frozen=True, slots=True)
class JointShieldParams:
    """Limits of the shield for one kind of robot with joints (SI; for a slide read m for rad and N for N m)."""

    control_dt_s: float  # period of the shield's loop

    # One number per channel, in command order.
    position_low: tuple[float, ...]  # rad
    position_high: tuple[float, ...]  # rad
    max_velocity: tuple[float, ...]  # rad/s
    max_acceleration: tuple[float, ...]  # rad/s^2, braking that the shield counts on in any pose
    max_effort: tuple[float, ...]  # N m

    # The filter.
    range_margin: float  # share of a joint's range that targets keep clear of at either end
    speed_share: float  # of max_velocity that a command may lead to; the rest is for other joints' pull
    effort_share: float  # of max_effort that a command may call for when it is sent
    brake_share: float  # of max_acceleration that the braking curve is drawn with
    pickup_share: float  # of max_acceleration that a joint is taken to pick up speed with while its target stands
    latency_s: float  # s, from a command's way out to the drive's answer
    approach_gain: float  # effort towards a limit, over the one that the allowed velocity keeps up against damping
    brake_window: float  # share of max_velocity: exceeding the allowed one by as much calls for the whole effort
    return_share: float  # of max_velocity, with which a joint beyond its limit is brought back at most
    max_power_w: float  # W, mechanical, all joints that drive together
    target_speed_share: float  # of max_velocity, how fast a target may run

    # Supervision.
    warn_periods: int  # age of an input, in control periods, that is reported
    act_periods: int  # ... and that trips the fallback
    recover_periods: int  # new good requests in a row that end a hold, while it is not latched
    latch_s: float  # s of hold in all, at most 0.5, that latch it until a reset; the policy's time wears off a tenth
    max_jump_share: float  # of a joint's range, farther than this from the position before is no measurement
    velocity_sense: float  # times max_velocity: what is measured beyond it is no measurement
    clock_jump_s: float  # s, a longer step of the clock trips the fallback
    ramp_s: float  # s, from holding to the policy's command after activation

    # Robots that stand on legs: leaving this envelope ends in damping.
    max_tilt_rad: float  # of the base's z axis
    fall_horizon_s: float  # s, the tilt is looked at this far ahead too
    min_height_share: float  # of the home height, below which the robot has fallen
    stand_s: float  # s, from the last targets to the home pose
    damp_s: float  # s, from the efforts of that moment to damping alone
    ground_z_m: float  # m, world

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in PER_CHANNEL:
                value = tuple(float(v) for v in value)
                object.__setattr__(self, field.name, value)
            require_finite(field.name, value)
            if field.name in SHARES:
                require_at_most(field.name, value, 1.0)
            least = min(value, default=1.0) if isinstance(value, tuple) else value
            if field.name in MAY_BE_ANYTHING or (field.name in MAY_BE_ZERO and least >= 0):
                continue
            if not least > 0:
                raise ShieldParamsError(f"shield parameter {field.name} = {value!r}: must be greater than 0")
        require_supervision(self.warn_periods, self.act_periods, self.recover_periods, self.latch_s, self.control_dt_s)
        sizes = {name: len(getattr(self, name)) for name in PER_CHANNEL}
        if len(set(sizes.values())) > 1:
            raise ShieldParamsError(f"shield parameters have one number per channel each, not {sizes}")
        for low, high in zip(self.position_low, self.position_high, strict=True):
            if not low < high:
                raise ShieldParamsError(f"shield parameter position_low = {low:g} must be below {high:g}")
        if not self.range_margin < 0.5:
            raise ShieldParamsError(f"shield parameter range_margin = {self.range_margin!r}: must be below 0.5")


def make_joint_params(spec: RobotSpec, **overrides: Any) -> JointShieldParams:
    """Shield parameters for a `spec` without a flight model; keyword `overrides` replace single fields.

    Raises ShieldParamsError for a channel that positions no joint, a drive without stiffness, an unknown
    field, a value out of range or of another number of channels.
    """
    unknown = sorted(set(overrides) - {field.name for field in fields(JointShieldParams)})
    if unknown:
        known = ", ".join(field.name for field in fields(JointShieldParams))
        raise ShieldParamsError(f"unknown shield parameter {unknown[0]!r}; known: {known}")
    if not spec.channels:
        raise ShieldParamsError(f"robot {spec.name!r} has no channels: nothing to shield")
    for channel, index in zip(spec.channels, spec.joint_of_channel, strict=True):
        if index < 0:
            raise ShieldParamsError(
                f"robot {spec.name!r} has no flight model, and its channel {channel.name!r} [{channel.unit}] "
                "positions no joint: there is no shield for it"
            )
        if spec.joints[index].stiffness <= 0:
            raise ShieldParamsError(f"the drive of joint {channel.name!r} has no stiffness")
    joints = [spec.joints[index] for index in spec.joint_of_channel]
    loaded = not spec.fixed_base  # legs carry the robot, and what they carry also slows down what drives them
    values: dict[str, Any] = {
        "control_dt_s": 1.0 / spec.control_hz,
        "position_low": [max(j.low, c.low) for j, c in zip(joints, spec.channels, strict=True)],
        "position_high": [min(j.high, c.high) for j, c in zip(joints, spec.channels, strict=True)],
        "max_velocity": [j.max_velocity for j in joints],
        "max_acceleration": [j.max_acceleration for j in joints],
        "max_effort": [j.max_effort for j in joints],
        "range_margin": 0.02,
        "speed_share": 0.85,
        "effort_share": 0.9,
        "brake_share": 0.6,
        "pickup_share": 0.0 if loaded else 0.8,  # a leg that carries the robot hardly picks up speed within a period
        "latency_s": 0.01,
        "approach_gain": 3.0 if loaded else 1.0,
        "brake_window": 0.03,
        "return_share": 0.1,
        # What drives give together whose torque falls in a straight line from full at rest to none at full speed.
        "max_power_w": 0.25 * sum(j.max_effort * j.max_velocity for j in joints),
        "target_speed_share": 1.0,
        "warn_periods": 2,
        "act_periods": 5,
        "recover_periods": 5,
        "latch_s": 0.5,
        "max_jump_share": 0.1,
        "velocity_sense": 3.0,
        "clock_jump_s": 0.5,
        "ramp_s": 0.5,
        "max_tilt_rad": 0.8,
        "fall_horizon_s": 0.25,
        "min_height_share": 0.55,
        "stand_s": 0.5,
        "damp_s": 1.0,
        "ground_z_m": 0.0,
    }
    hard = {name: tuple(values[name]) for name in PER_CHANNEL}
    params = JointShieldParams(**(values | overrides))
    if len(params.max_effort) != len(spec.channels):
        raise ShieldParamsError(f"{len(params.max_effort)} numbers per field for {len(spec.channels)} channels")
    # The robot's own limits may be made narrower, never wider.
    for name, limits in hard.items():
        sign = -1.0 if name == "position_low" else 1.0
        for name_of, value, limit in zip(spec.channel_names, getattr(params, name), limits, strict=True):
            if sign * (value - limit) > 1e-6 * max(abs(limit), 1.0):
                bound = "least" if sign < 0 else "most"
                raise ShieldParamsError(
                    f"shield parameter {name} of {name_of} = {value:g}: must be at {bound} {limit:g}"
                )
    return params
