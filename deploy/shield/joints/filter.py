"""The filter of robots with joints: the targets that are sent in place of the requested ones.

Every channel sets the target q* of a position servo, whose effort is kp (q* - q) - kd dq. With default parameters a
target is moved to where, for the measured and predicted q and dq,
- range: it lies inside its joint's limits by `range_margin` (2 %) of the range;
- braking: the speed v = kp (q* - q) / kd at which the servo would stop pulling is one from which the joint, going on
  for one control period and `latency_s`, still stops before that margin with `brake_share` (60 %) of the deceleration
  that its drive guarantees; a joint that is faster is braked with up to its whole effort. This needs no model of what
  the joint carries: whatever its inertia, a servo slows down what is faster than v. Where the robot stands on its
  joints, `approach_gain` lets them carry it near their limits too;
- speed: v is no more than `speed_share` (85 %) of the joint's speed limit;
- effort: the servo calls for no more than `effort_share` (90 %; of a finger all) of the drive's effort, at the end of
  the control period, if until then the joint goes on as it is and picks up speed with `pickup_share` (80 %, of a
  humanoid 0) of the acceleration that its drive guarantees. What was measured is old when the command arrives: a target
  may call for as much at the speed that the joint has by then, if it follows the target before as a critically damped
  servo does. Drawn about an old speed alone this bound holds a wrist to it, and 20 ms of age and 20 ms of delay make it
  swing. A stiff servo whose target stands still for a whole period calls for more at its beginning, and while its joint
  is blocked: up to 4 times its effort in the Panda's arm and the UR5e, 9 times in the Panda's wrist, 19 times in the
  FR3's. Its drive has to cut that off, as the drives of all do; where one stops the robot instead, set `pickup_share`
  to 0: nothing is predicted then, and no target calls for more than `effort_share` of a joint at rest;
- one that brakes is not pushed on: the faster an arm's joint is than its braking allows, the less the others are
  driven, down to 20 % of their effort about where they coast, unless they brake for their own limits. What they do to
  it through the arm's inertia is more than its drive has: a joint that reverses with 60 N m throws the Panda's second
  one by 20 rad/s^2, against the 87 N m that brake it;
- power: all joints that drive together give no more than `max_power_w`;
- links, of an arm that is bolted down: see `joints.links`.

What is guaranteed, and when. Whatever is requested, at 50 Hz, no turning joint of the Panda, the UR5e or an arm of
three joints and 6 kg leaves its range, and none is faster than 105 % of its limit, if
- positions are known to 0.2 mrad and velocities to 5 mrad/s (one sigma), and are at most 4 ms old;
- commands reach the drive within `latency_s` (10 ms), and gravity is compensated;
- nothing touches the arm.
Under attack servos are asked for more than their effort in less than 1 % of the time by an arm with soft ones, in up
to 15 % by the UR5e and the Panda's arm, and in 60 % by the Panda's wrist, in which 5 mrad of error are all of it. A
joint by itself crosses its range at 50 to 80 % of its speed limit, because its servo slows down towards a target that
stands still for a period. A humanoid that is thrown about in the air by all of its limbs is beyond this: its
short-ranged joints reach their stops, its lightest ones run at up to 2.2 times their speed limit, and what the filter
bounds is what the drives add to it. A channel in m is taken for a gripper's finger, which works by being stopped: for
it only range without margin, effort and the speed of its target count.

How fast targets move is bounded before that (`joints.pace`), by the target before: no target moves faster than
`target_speed_share` of the joint's speed limit, which bounds the steps of effort and so the jerk; those of a humanoid's
soft drives as far as changes their effort by half of the greatest in a control period. This is an engineering
margin, shown by simulation against adversaries (tests/shield/test_shield_joints.py), and no certificate.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from deploy.shield.arrays import (
    at_least,
    at_most,
    choose,
    choose_each,
    constant,
    double,
    greatest,
    least,
    side_by_side,
    some,
    swapped,
    total,
)
from deploy.shield.joints.capsules import link_rows
from deploy.shield.joints.compiled import targets_of_core
from deploy.shield.joints.limits import Limits, Rows, joint_limits, reaction_s
from deploy.shield.joints.links import KINDS as LINK_KINDS
from deploy.shield.joints.links import free_share
from deploy.shield.joints.load import braking_left, loaded
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.types import Context, FilterInfo
from hardware.rotation import namespace_of
from hardware.spec import RobotSpec
from hardware.types import Array

KINDS = ("range", "effort", "braking", "speed", "power")


def joint_row_names(spec: RobotSpec) -> tuple[str, ...]:
    """Names of `FilterInfo.active`, in order: "elbow: braking", and of an arm "links: floor"."""
    links = tuple(f"links: {kind}" for kind in LINK_KINDS) if link_rows(spec) else ()
    return tuple(f"{name}: {kind}" for kind in KINDS for name in spec.channel_names) + links


def filter_joints(
    params: JointShieldParams, spec: RobotSpec, context: Context, target: Array
) -> tuple[Array, FilterInfo]:
    """Filter `target` (..., U) rad for the measured state; returns (sent (..., U), FilterInfo).

    A target that meets every bound is sent as it is, bit by bit; another one is moved to the nearest that does. A
    request with an entry that is not finite counts as the measured position of all joints, which damps. Only a state
    that is not finite gives an answer that means nothing: check it before. Peers are not looked at.
    """
    xp, limits = namespace_of(target), joint_limits(params, spec)
    found = _by_core(params, limits, context, target) if xp is np and target.ndim == 1 else None
    if found is None:
        found = _bounded(xp, params, limits, context, target)
    pos, rows, sent, blocked = found.pos, found.rows, found.sent, None
    if links := link_rows(spec):
        turning, rests, left = constant(xp, limits.turns, pos), pos, None
        if context.load is not None:
            left, *_ = braking_left(xp, rows.max_effort, double(context.load))
        if context.sent is not None:
            rests = _resting(xp, constant(xp, limits.rests, pos), double(context.sent), found.ahead, pos)
        way = turning * (sent - rests)
        ways = side_by_side(xp, way / constant(xp, limits.lead_s, pos), turning * found.vel)
        share, blocked = free_share(params, links, context, pos, ways, left)
        if some(share < 1.0):
            slow = xp.minimum(xp.maximum(sent + (share - 1.0) * way, found.low), found.high)
            sent = xp.where(share < 1.0, xp.minimum(xp.maximum(slow, rows.box_low), rows.box_high), sent)
    if found.ahead is not None:
        there = xp.minimum(xp.maximum(sent + found.ahead, rows.box_low), rows.box_high)
        sent = xp.where(sent == found.wanted, found.asked, there)

    intervention = choose(found.finite, greatest(xp.abs(sent - found.asked)), limits.span)
    moved = intervention > 0.0
    active = found.active(some(moved))
    if blocked is not None:
        active = xp.concat([active, blocked & moved[..., None]], axis=-1)
    info = FilterInfo(found.margin, active, found.finite | ~found.finite, intervention)
    return sent.astype(target.dtype) if xp is np else sent.to(target.dtype), info


def _resting(xp: Any, near: Array, before: Array, ahead: Array | None, pos: Array) -> Array:
    """Targets (..., U) rad that leave joints where they are: those `before`, where joints are as `near` as is known.

    A target that is where its joint was measured moves on by the error of that again in each period, for ever.
    """
    before = before if ahead is None else before - ahead
    return xp.where(xp.abs(before - pos) <= near, before, pos)


class _Bounded(NamedTuple):
    """Targets that keep every bound but that of links; (..., U) rad where nothing else is said."""

    rows: Rows  # without a load
    finite: Array  # (...) bool, whether the request is
    pos: Array
    vel: Array  # rad/s
    low: Array  # what the drives can reach
    high: Array
    asked: Array
    wanted: Array  # without what a load bends, and so are the bounds before it and `sent`
    ahead: Array | None  # by how much a load bends the drives; None without one
    sent: Array
    margin: Array  # (...)
    active: Callable[[bool], Array]  # of `KINDS` the rows (..., 5 U) bool that act, where any target was moved


def _by_core(params: JointShieldParams, limits: Limits, context: Context, target: np.ndarray) -> _Bounded | None:
    """`_bounded` of one robot by the compiled core; None where it has no answer."""
    if (found := targets_of_core(params, limits, context, target)) is None:
        return None
    (pos, vel, low, high, asked, wanted, ahead, sent), marks, margin = found

    def active(moved: bool) -> np.ndarray:
        return marks.ravel() if moved else np.zeros(marks.size, bool)

    bent = None if context.load is None else ahead
    return _Bounded(limits.rows, np.True_, pos, vel, low, high, asked, wanted, bent, sent, np.float64(margin), active)


def _bounded(xp: Any, params: JointShieldParams, limits: Limits, context: Context, target: Array) -> _Bounded:
    state = context.state
    assert state is not None
    rows = unloaded = limits.rows if xp is np else _as_tensors(xp, limits.rows, target)
    measured = double(state.joint_pos)[..., limits.joint]
    vel = double(state.joint_vel)[..., limits.joint]
    pos = measured + vel * (double(state.age)[..., None] if target.ndim > 1 else float(state.age))
    request = double(target)
    finite = xp.isfinite(total(request))
    asked = choose_each(xp, finite, request, pos)
    # A drive that holds a load needs its target ahead of the joint: all that follows is about what is left of it.
    wanted, ahead, sent_before = asked, None, context.sent
    if context.load is not None:
        rows, ahead = loaded(xp, rows, double(context.load))
        wanted = asked - ahead
        sent_before = None if context.sent is None else context.sent - ahead

    speed = rows.sides * vel[..., None, :]
    allowed = allowed_speed(xp, params, rows, rows.box - rows.sides * pos[..., None, :])
    lead, most = _lead(xp, rows, speed, allowed), _most_lead(rows, speed)
    if sent_before is not None and params.pickup_share:  # what is predicted may be wrong: it only adds room
        then, fast = _on_arrival(xp, params, rows, context, measured, vel, double(sent_before))
        later = _most_lead(rows, rows.sides * fast[..., None, :])
        most = most + rows.foreseen * at_least(later + rows.sides * (then - pos)[..., None, :] - most, 0.0)
    most = _yielding(xp, rows, speed, allowed, lead, most)
    reach, driven = xp.minimum(lead, most), lead >= most
    high, low = pos + reach[..., 0, :], pos - reach[..., 1, :]
    inner = xp.minimum(xp.maximum(wanted, low), high)
    bounded = xp.minimum(xp.maximum(inner, rows.box_low), rows.box_high)
    sent, weak = _within_power(xp, params, rows, bounded, pos, vel)
    rest = (measured - rows.low) * rows.per_range
    margin = least(xp.minimum(rest, 1.0 - rest)[..., limits.turning])

    def active(moved: bool) -> Array:
        if not moved:
            return xp.concat([weak] * len(KINDS), axis=-1)  # all False
        over = rows.sides * (wanted - pos)[..., None, :] > reach
        return xp.concat(_active(rows, over, inner != bounded, allowed, driven, weak), axis=-1)

    return _Bounded(unloaded, finite, pos, vel, low, high, asked, wanted, ahead, sent, margin, active)


def allowed_speed(xp: Any, params: JointShieldParams, rows: Rows, gap: Array) -> Array:
    """Speed (..., 2, U) rad/s towards either limit from which the joint still stops within `gap` (..., 2, U) rad.

    It goes on for the reaction time and brakes after that. Beyond the limit it is negative: a slow way back.
    """
    curve = xp.sqrt(rows.brake_time_squared + rows.brake_twice * at_least(gap, 0.0)) - rows.brake_time
    back = xp.maximum(at_most(gap, 0.0) * (1.0 / reaction_s(params)), rows.return_speed)
    return xp.maximum(xp.minimum(curve, rows.max_speed) + back, rows.least_speed)


def _lead(xp: Any, rows: Rows, speed: Array, allowed: Array) -> Array:
    """How far (..., 2, U) rad a target may lie ahead towards either limit, whatever effort that calls for.

    `speed` (..., 2, U) rad/s is that towards the limit, measured and allowed.
    """
    excess = at_least(speed - at_least(allowed, 0.0), 0.0)
    push = rows.free_gain * (allowed - speed + excess) - rows.brake_gain * excess
    push = xp.maximum(push, -rows.effort)
    # The side that brakes comes first: what the other one calls for must not stand in its way.
    push = xp.where(excess > 0.0, push, xp.maximum(push, -swapped(push)))
    return (push + rows.damping * speed) * rows.compliance


def _most_lead(rows: Rows, speed: Array) -> Array:
    """The same (..., 2, U) rad that the drives' effort leaves at this speed (..., 2, U) rad/s towards the limits.

    The servo's pull fades while the joint follows: its effort counts where the joint will be when the period is over.
    """
    most = rows.effort + at_least(rows.pull * speed + rows.pickup, 0.0)
    return (most + rows.damping * speed) * rows.compliance


def _yielding(xp: Any, rows: Rows, speed: Array, allowed: Array, lead: Array, most: Array) -> Array:
    """What of `most` (..., 2, U) rad is left to an arm's joints while one of them brakes.

    The others would push it on, with more than its drive has. They coast instead, with a little of their effort to
    either side, and brake for what they have to brake for themselves: for `lead` (..., 2, U) rad.
    """
    excess = at_least(speed - at_least(allowed, 0.0), 0.0)
    whole = greatest(greatest(at_most(excess * rows.brake_gain / rows.effort, 1.0)))[..., None, None]
    coasts = xp.maximum(rows.coast * speed + rows.yields, -swapped(lead))
    return most - whole * at_least(most - coasts, 0.0)


def _on_arrival(
    xp: Any, params: JointShieldParams, rows: Rows, context: Context, measured: Array, vel: Array, sent: Array
) -> tuple[Array, Array]:
    """Where joints are (..., U) rad and how fast (..., U) rad/s when this command arrives.

    For the age of the measurement and `latency_s` they follow the target before, `sent`, as a critically damped servo
    does. What was measured does not say it: in 40 ms a wrist gets from rest to its full speed.
    """
    assert context.state is not None
    age_s = double(context.state.age)
    time_s = params.latency_s + (age_s if isinstance(age_s, float) else age_s[..., None])
    rate, off = rows.follow_rate, measured - sent
    pull, left = vel + rate * off, xp.exp(-rate * time_s)
    return sent + left * (off + time_s * pull), left * (vel - rate * time_s * pull)


def _within_power(
    xp: Any, params: JointShieldParams, rows: Rows, target: Array, pos: Array, vel: Array
) -> tuple[Array, Array]:
    """Targets (..., U) whose driving efforts are weakened alike where they would give more than `max_power_w`.

    The effort is that in the middle of the control period, if the joints go on as they are.
    """
    called = (target - pos) * rows.stiffness - vel * rows.fading
    effort = xp.minimum(xp.maximum(called, -rows.max_effort), rows.max_effort)
    power = at_least(effort * vel, 0.0)
    given = total(power)
    if not some(given > params.max_power_w):
        return target, power < 0.0
    share = (params.max_power_w / at_least(given, params.max_power_w))[..., None]
    weak = (power > 0.0) & (share < 1.0)
    return xp.where(weak, target - (called - share * effort) / rows.stiffness, target), weak


def _active(rows: Rows, over: Array, out_of_range: Array, allowed: Array, driven: Array, weak: Array) -> list[Array]:
    """Which rows of each of the `KINDS` (..., U) moved a target that is `over` (..., 2, U) a side: the tightest."""
    slow = allowed < rows.max_speed
    brake = over & ~driven
    kinds = (over & driven, brake & slow, brake & ~slow)
    return [out_of_range, *(kind[..., 0, :] | kind[..., 1, :] for kind in kinds), weak]


def _as_tensors(xp: Any, rows: Rows, like: Array) -> Rows:
    return Rows(*(xp.asarray(row, dtype=xp.float64, device=like.device) for row in rows))
