"""JointShieldParams: every number that the shield of a robot with joints acts on; it ships in the policy's contract.

The gains of the drives are not here: they are the robot's, in its specification.
"""

from dataclasses import dataclass
from typing import Any

from deploy.shield.param_checks import (
    HalfShare,
    Limits,
    NotNegative,
    Positive,
    Share,
    ShareOrNone,
    ShieldParamsError,
    SupervisionParams,
    make_params,
    supervision_limits,
)
from hardware.spec import RobotSpec

PER_CHANNEL = ("position_low", "position_high", "max_velocity", "max_acceleration", "max_effort")


@dataclass(frozen=True, slots=True, kw_only=True)
class JointShieldParams(SupervisionParams):
    """Limits of the shield for one kind of robot with joints (SI; for a slide read m for rad and N for N m)."""

    # One number per channel, in command order.
    position_low: tuple[float, ...]  # rad
    position_high: tuple[float, ...]  # rad
    max_velocity: tuple[Positive, ...]  # rad/s
    max_acceleration: tuple[Positive, ...]  # rad/s^2, braking that the shield counts on in any pose
    max_effort: tuple[Positive, ...]  # N m

    # The filter.
    range_margin: HalfShare = 0.02  # of a joint's range that targets keep clear of at either end
    speed_share: Share = 0.85  # of max_velocity that a command may lead to; the rest is for other joints' pull
    effort_share: Share = 0.9  # of max_effort that a command may call for when it is sent
    brake_share: Share = 0.6  # of max_acceleration that the braking curve is drawn with
    pickup_share: ShareOrNone  # of max_acceleration that a joint picks up speed with while its target stands
    latency_s: NotNegative = 0.01  # s, from a command's way out to the drive's answer
    approach_gain: Positive  # effort towards a limit, over the one that the allowed velocity keeps up against damping
    brake_window: Share = 0.03  # share of max_velocity: exceeding the allowed one by as much calls for the whole effort
    return_share: Share = 0.1  # of max_velocity, with which a joint beyond its limit is brought back at most
    max_power_w: Positive  # W, mechanical, all joints that drive together
    target_speed_share: Share = 1.0  # of max_velocity, how fast a target may run; of soft legs see `humanoid`

    # Links of arms that are bolted down, see `joints.links`.
    link_margin_m: NotNegative = 0.02  # m, between links and themselves, the floor and obstacles
    link_brake_share: Share = 0.3  # of max_acceleration that links come to rest with; the rest is for a payload
    touch_speed: NotNegative = 0.25  # m/s, at which fingers may meet floor and obstacles (ISO 10218-1, reduced speed)
    person_speed: NotNegative = 1.6  # m/s, at which a person may approach (ISO 13855, walking)
    person_radius_m: NotNegative = 0.3  # m, of a person around where it is tracked
    person_reach_m: NotNegative = 0.85  # m, how far a hand is ahead of it (ISO 13855, length of an arm)
    person_error_m: NotNegative = 0.1  # m, of tracking it, and of the arm's own place

    # Supervision.
    max_jump_share: Share = 0.1  # of a joint's range, farther than this from the position before is no measurement
    velocity_sense: Positive = 3.0  # times max_velocity: what is measured beyond it is no measurement

    # Robots that stand on legs: leaving this envelope ends in damping.
    max_tilt_rad: Positive = 0.8  # of the base's z axis
    fall_horizon_s: Positive = 0.25  # s, the tilt is looked at this far ahead too
    min_height_share: Share = 0.55  # of the home height, below which the robot has fallen
    stand_s: Positive = 0.5  # s, from the last targets to the home pose
    damp_s: Positive = 1.0  # s, from the efforts of that moment to damping alone

    def __post_init__(self) -> None:
        SupervisionParams.__post_init__(self)
        sizes = {name: len(getattr(self, name)) for name in PER_CHANNEL}
        if len(set(sizes.values())) > 1:
            raise ShieldParamsError(f"shield parameters have one number per channel each, not {sizes}")
        for low, high in zip(self.position_low, self.position_high, strict=True):
            if not low < high:
                raise ShieldParamsError(f"shield parameter position_low = {low:g} must be below {high:g}")


def joint_limits(spec: RobotSpec) -> Limits:
    """What a policy file may set, each from its widest to its narrowest value; all other fields are the robot's.

    Effort, power and the falling envelope are not among them: an arm that may not hold its weight is not safer.
    """
    usual = make_joint_params(spec)
    span = [(low, high, 0.45 * (high - low)) for low, high in zip(usual.position_low, usual.position_high, strict=True)]
    return supervision_limits(usual) | {
        "position_low": (usual.position_low, tuple(low + most for low, _, most in span)),
        "position_high": (usual.position_high, tuple(high - most for _, high, most in span)),
        "max_velocity": (usual.max_velocity, tuple(0.05 * speed for speed in usual.max_velocity)),
        "range_margin": (usual.range_margin, 0.2),
        "speed_share": (usual.speed_share, 0.1),
        "brake_share": (usual.brake_share, 0.1),
        "pickup_share": (usual.pickup_share, 0.9),
        "target_speed_share": (usual.target_speed_share, 0.05),
    }


def make_joint_params(spec: RobotSpec, **overrides: Any) -> JointShieldParams:
    """Shield parameters for a `spec` without a flight model; keyword `overrides` replace single fields.

    Raises ShieldParamsError for a channel that positions no joint, a drive without stiffness, an unknown
    field, a value out of range or of another number of channels.
    """
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
        "pickup_share": 0.0 if loaded else 0.8,  # a leg that carries the robot hardly picks up speed within a period
        "approach_gain": 3.0 if loaded else 1.0,
        # What drives give together whose torque falls in a straight line from full at rest to none at full speed.
        "max_power_w": 0.25 * sum(j.max_effort * j.max_velocity for j in joints),
    }
    hard = {name: tuple(values[name]) for name in PER_CHANNEL}
    params = make_params(JointShieldParams, values, overrides)
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
