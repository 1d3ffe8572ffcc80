"""The filter of robots with joints: the targets that are sent in place of the requested ones.

Every channel sets the target q* of a position servo, whose effort is kp (q* - q) - kd dq. With default parameters a
target is moved to where, for the measured and predicted q and dq,
- range: it lies inside its joint's limits by `range_margin` (2 %) of the range;
- braking: the speed v = kp (q* - q) / kd at which the servo would stop pulling is one from which the joint, going on for
  one control period and `latency_s`, still stops before that margin with `brake_share` (60 %) of the deceleration that
  its drive guarantees; a joint that is faster is braked with up to its whole effort. This needs no model of what the
  joint carries: whatever its inertia, a servo slows down what is faster than v;
- speed: v is no more than `speed_share` (85 %) of the joint's speed limit;
- effort: the servo calls for no more than `effort_share` (90 %) of the drive's effort, at the end of the control period
  if the joint goes on as it is. A stiff servo whose target stands still for a whole period calls for more at its
  beginning, and its drive cuts that off;
- power: all joints that drive together give no more than `max_power_w`.

What is guaranteed, and when. Whatever is requested, at 50 Hz, no joint of the Panda, the UR5e or a three-joint arm of
8 kg leaves its range, and none is faster than 105 % of its limit, if
- positions are known to 0.2 mrad and velocities to 5 mrad/s (one sigma), and are at most 4 ms old;
- commands reach the drive within `latency_s` (10 ms), and gravity is compensated;
- nothing touches the arm.
The servos of the soft arm are never asked for more than their effort; those of the Panda's wrist, in which 5 mrad of error
are the whole effort, are for about half of the time of an attack. A joint by itself crosses its range at 57 to 80 % of its
speed limit, because its servo slows down towards a target that stands still for a period. Joints of a humanoid that is
thrown about in the air by all of its limbs touch their stops: there the filter bounds efforts and speeds, but promises no
range. A channel in m is taken for a gripper's finger, which works by being stopped: for it only range without margin,
effort and, in the supervisor, the speed of its target count.

Rates of change are the supervisor's (`JointBackup.pace`), because they need the target before: no target moves faster than
`target_speed_share` of the joint's speed limit, which bounds the steps of effort and so the jerk. This is an engineering
margin, shown by simulation against adversaries (tests/test_shield_joints.py); it is not a certificate.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from deploy.shield.arrays import at_least, at_most, constant, double, greatest, least
from deploy.shield.info import FilterInfo
from deploy.shield.joint_params import JointShieldParams
from hardware.spec import RobotSpec
from hardware.types import Array, RobotState

RANGE_TOL = 0.1  # of a joint's range: what is measured that far beyond it was not measured at that joint
NO_LIMIT = 1e3  # rad/s, or m/s
KINDS = ("range", "effort", "braking", "speed", "power")
_SIDES = np.array([[1.0], [-1.0]])  # up and down: every bound is written once, for the distance along its side


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers of the filter as arrays (U,) in channel order, made once for a pair of parameters and robot."""

    joint: np.ndarray | slice  # of joint arrays, the entries in channel order
    table: np.ndarray  # (17, U) float64, see `_Row`
    span: float  # rad, the longest range of a joint
    turning: np.ndarray | slice  # channels that the margin is taken over
    lead_s: np.ndarray  # s, by which the target of a joint that moves evenly runs ahead of it
    brake: np.ndarray  # rad/s^2, of the braking curve
    max_velocity: np.ndarray  # rad/s
    top_velocity: np.ndarray  # rad/s, beyond which a measurement is none
    jump: np.ndarray  # rad, farther than this at once is no measurement either
    middle: np.ndarray  # rad, of the range
    reach: np.ndarray  # rad, from the middle to where a measurement makes no sense any more


class _Row:
    """Rows of `Limits.table`."""

    BOX = slice(0, 2)  # upper bound of a target, and lower bound with its sign turned
    LOW, HIGH = 2, 3  # of the joint's range
    MAX_SPEED, EFFORT, STIFFNESS, DAMPING, INVERSE = 4, 5, 6, 7, 8
    BRAKE, BRAKE_TIME, BRAKE_TIME_SQUARED = 9, 10, 11
    FREE_GAIN, BRAKE_GAIN, BACK, PER_RANGE, LEAST_SPEED = 12, 13, 14, 15, 16


class _Same:
    """A key by identity: specifications and parameters are frozen, and hashing all their numbers takes longer."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


def joint_limits(params: JointShieldParams, spec: RobotSpec) -> Limits:
    """The `Limits` of one robot; ValueError where parameters and robot do not have the same channels."""
    return _limits(_Same(params), _Same(spec))


def joint_row_names(spec: RobotSpec) -> tuple[str, ...]:
    """Names of `FilterInfo.active`, in order: "elbow: braking"."""
    return tuple(f"{name}: {kind}" for kind in KINDS for name in spec.channel_names)


def reaction_s(params: JointShieldParams) -> float:
    """Seconds for which a joint may go on as it is before the next command can brake it."""
    return params.control_dt_s + params.latency_s


def filter_joints(
    params: JointShieldParams, spec: RobotSpec, state: RobotState, target: Array
) -> tuple[Array, FilterInfo]:
    """Filter `target` (..., U) rad for the measured `state`; returns (sent (..., U), FilterInfo).

    A target that meets every bound is sent as it is, bit by bit; another one is moved to the nearest that does. A
    request with an entry that is not finite counts as the measured position of all joints, which damps. Only a state
    that is not finite gives an answer that means nothing: check it before. Peers are not looked at.
    """
    xp = array_namespace(target)
    limits = joint_limits(params, spec)
    table = constant(xp, limits.table, target) if isinstance(target, np.ndarray) else _as_tensor(xp, limits, target)
    measured = double(state.joint_pos)[..., limits.joint]
    vel = double(state.joint_vel)[..., limits.joint]
    pos = measured + vel * double(state.age)[..., None] if target.ndim > 1 else measured + vel * float(state.age)
    request = double(target)
    finite = xp.isfinite(request.sum(-1))
    asked = xp.where(finite[..., None], request, pos)

    sides = constant(xp, _SIDES, pos)
    gap = table[_Row.BOX] - sides * pos[..., None, :]
    speed = sides * vel[..., None, :]
    allowed = allowed_speed(xp, params, table, gap)
    reach, driven = _reach(xp, params, table, speed, allowed - speed)
    high, low = pos + reach[..., 0, :], pos - reach[..., 1, :]
    inner = xp.minimum(xp.maximum(asked, low), high)
    bounded = xp.minimum(xp.maximum(inner, -table[1]), table[0])
    sent, weak = _within_power(xp, params, table, bounded, pos, vel)

    changed = greatest(xp.abs(sent - asked))
    intervention = xp.where(finite, changed, limits.span)
    rest = (measured - table[_Row.LOW]) * table[_Row.PER_RANGE]
    margin = least(xp.minimum(rest, 1.0 - rest)[..., limits.turning])
    if _any(intervention > 0.0):
        active = _active(xp, table, asked, high, low, inner, bounded, allowed, driven, weak)
    else:
        active = xp.zeros((*target.shape[:-1], len(KINDS) * target.shape[-1]), dtype=xp.bool, **_place(target))
    info = FilterInfo(margin, active, xp.ones_like(finite), intervention)
    return sent.astype(target.dtype) if isinstance(sent, np.ndarray) else sent.to(target.dtype), info


def allowed_speed(xp: Any, params: JointShieldParams, table: Array, gap: Array) -> Array:
    """Speed (..., 2, U) rad/s towards either limit from which the joint still stops within `gap` (..., 2, U) rad.

    It goes on for the reaction time and brakes after that. Beyond the limit it is negative: a slow way back.
    """
    curve = xp.sqrt(table[_Row.BRAKE_TIME_SQUARED] + 2.0 * table[_Row.BRAKE] * at_least(gap, 0.0))
    back = xp.maximum(at_most(gap, 0.0) * (1.0 / reaction_s(params)), table[_Row.BACK])
    speed = xp.minimum(curve - table[_Row.BRAKE_TIME], table[_Row.MAX_SPEED]) + back
    return xp.maximum(speed, table[_Row.LEAST_SPEED])


def _reach(xp: Any, params: JointShieldParams, table: Array, speed: Array, room: Array) -> tuple[Array, Array]:
    """How far (..., 2, U) rad a target may lie ahead towards either limit, and whether the drive's effort says so.

    `speed` (..., 2, U) rad/s goes towards that limit, `room` is what is left of the allowed one.
    """
    # One gain for both sides, or the bounds of a joint that must brake one way might leave nothing in between.
    gain = xp.where((room < 0.0).any(-2)[..., None, :], table[_Row.BRAKE_GAIN], table[_Row.FREE_GAIN])
    most = table[_Row.EFFORT]
    push = xp.maximum(gain * room, -most)
    # The servo's pull fades while the joint follows: its effort counts where the joint will be when the period is over.
    most = most + (params.control_dt_s * table[_Row.STIFFNESS]) * at_least(speed, 0.0)
    return (xp.minimum(push, most) + table[_Row.DAMPING] * speed) * table[_Row.INVERSE], push >= most


def _within_power(
    xp: Any, params: JointShieldParams, table: Array, target: Array, pos: Array, vel: Array
) -> tuple[Array, Array]:
    """Targets (..., U) whose driving efforts are weakened alike where they would give more than `max_power_w`.

    The effort is that in the middle of the control period, if the joints go on as they are.
    """
    called = (target - pos - (0.5 * params.control_dt_s) * vel) * table[_Row.STIFFNESS] - vel * table[_Row.DAMPING]
    effort = xp.minimum(xp.maximum(called, -table[_Row.EFFORT]), table[_Row.EFFORT])
    power = at_least(effort * vel, 0.0)
    total = power.sum(-1)
    if not _any(total > params.max_power_w):
        return target, power < 0.0
    share = at_most(params.max_power_w / at_least(total, params.max_power_w), 1.0)[..., None]
    weak = (power > 0.0) & (share < 1.0)
    return xp.where(weak, target - (called - share * effort) * table[_Row.INVERSE], target), weak


def _active(
    xp: Any,
    table: Array,
    asked: Array,
    high: Array,
    low: Array,
    inner: Array,
    bounded: Array,
    allowed: Array,
    driven: Array,
    weak: Array,
) -> Array:
    """Which rows (..., 5 U) moved a target: the tightest of each joint, and power."""
    over = xp.stack([asked > high, asked < low], axis=-2)
    slow = allowed < table[_Row.MAX_SPEED]
    kinds = ((over & driven), (over & ~driven & slow), (over & ~driven & ~slow))
    effort, braking, speed = ((kind.any(-2)) for kind in kinds)
    return xp.concat([inner != bounded, effort, braking, speed, weak], axis=-1)


def _any(x: Array) -> bool:
    return bool(x) if x.ndim == 0 else bool(x.any())


def _place(like: Array) -> dict[str, Any]:
    return {} if isinstance(like, np.ndarray) else {"device": like.device}


def _as_tensor(xp: Any, limits: Limits, like: Array) -> Array:
    return xp.asarray(limits.table, dtype=xp.float64, device=like.device)


@lru_cache(maxsize=64)
def _limits(params_key: _Same, spec_key: _Same) -> Limits:
    params, spec = params_key.value, spec_key.value
    index = np.array(spec.joint_of_channel)
    if len(index) != len(params.max_effort) or (index < 0).any():
        raise ValueError(f"shield parameters for {len(params.max_effort)} joints do not fit {spec.name!r}")
    joints = [spec.joints[i] for i in index]
    low, high, most_speed, accel, most_effort = (
        np.array(x)
        for x in (
            params.position_low,
            params.position_high,
            params.max_velocity,
            params.max_acceleration,
            params.max_effort,
        )
    )
    stiffness, damping = np.array([j.stiffness for j in joints]), np.array([j.damping for j in joints])
    turning = np.array([channel.unit == "rad" for channel in spec.channels])
    margin = np.where(turning, params.range_margin, 0.0) * (high - low)
    brake = params.brake_share * accel
    allowed_speed = params.speed_share * most_speed
    effort = params.effort_share * most_effort
    # A joint at rest in the middle of its range may use its whole effort: a gripper lives on that.
    free = np.maximum(params.approach_gain * damping, effort / most_speed)
    brake_time = brake * reaction_s(params)
    table = np.stack(
        [
            high - margin, -(low + margin), low, high, allowed_speed, effort, stiffness, damping, 1.0 / stiffness,
            brake, brake_time, brake_time**2, free, np.maximum(free, effort / (params.brake_window * most_speed)),
            -params.return_share * most_speed, 1.0 / (high - low), np.where(turning, -NO_LIMIT, NO_LIMIT),
        ]
    )  # fmt: skip
    return Limits(
        joint=_as_slice(index),
        table=table,
        span=float((high - low).max()),
        turning=_some(turning),
        lead_s=damping / stiffness,
        brake=brake,
        max_velocity=most_speed,
        top_velocity=params.velocity_sense * most_speed,
        jump=params.max_jump_share * (high - low),
        middle=0.5 * (low + high),
        reach=(0.5 + RANGE_TOL) * (high - low),
    )


def _as_slice(index: np.ndarray) -> np.ndarray | slice:
    """A slice, which costs no copy, where the channels are the first joints in order."""
    return slice(0, len(index)) if (index == np.arange(len(index))).all() else index


def _some(chosen: np.ndarray) -> np.ndarray | slice:
    """The chosen channels; all of them where none is."""
    return slice(None) if chosen.all() or not chosen.any() else np.flatnonzero(chosen)
