"""Checks of what reaches the shield. Each returns why the input cannot be used, or an empty string."""

from collections.abc import Callable
from math import dist, hypot, isfinite, nan
from typing import Any

import numpy as np

from deploy.shield.drone.params import ShieldParams
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.types import Obstacles, Sharing
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Peers, RobotState

QUAT_NORM_TOL = 0.05  # attitude filters stay far inside; a zeroed or mixed-up message does not
# m, m/s, rad/s: of a robot, and of all that messages say is around it; single precision holds 1 mm there. Numbers of
# others that are larger count as silence before they come to a shield.
FARTHEST = 1e4
LARGEST = 1e8  # that a shield is given at all, ages and sums among them
SIZES: tuple[tuple[str, tuple[int, ...] | None], ...] = (
    ("base_pos", (3,)),
    ("base_quat", (4,)),
    ("base_lin_vel", (3,)),
    ("base_ang_vel", (3,)),
    ("joint_pos", None),
    ("joint_vel", None),
)
TOO_OLD = " ms old"  # in what is said of an age
ORDER_TOL_S = 0.002  # clocks that stamp and clocks that compare may differ by this much from step to step
RANGE_TOL = 0.1  # of a channel's range: a policy's output beyond it violates its contract


def check_state(params: ShieldParams | JointShieldParams, state: RobotState | None) -> str:
    """Type, shape, finiteness, unit quaternion and age of the base of a robot's own state."""
    if not isinstance(state, RobotState):
        return "no state"
    try:  # a dozen numbers are looked at in plain Python: one NumPy call takes longer than all of it
        pos, quat = state.base_pos.tolist(), state.base_quat.tolist()
        vel, rate = state.base_lin_vel.tolist(), state.base_ang_vel.tolist()
        length = hypot(*pos, *vel, *rate, *quat)
        sizes = len(pos), len(quat), len(vel), len(rate)
    except (AttributeError, TypeError, ValueError, OverflowError):
        sizes = None
    if sizes != (3, 4, 3, 3) or not _are_floats(state):
        return next(
            filter(None, (check_array("state", getattr(state, name), size) for name, size in SIZES)), "no state"
        )
    if not length < FARTHEST:
        return f"state has values of {length:.3g}" if isfinite(length) else "state not finite"
    if abs(hypot(*quat) - 1.0) > QUAT_NORM_TOL:
        return "quaternion not of unit length"
    return check_age(params, "state", seconds(state.age))


def _are_floats(state: RobotState) -> bool:
    """Whether all of it but its age are arrays of floats; of the base they are known to be arrays."""
    joints = state.joint_pos, state.joint_vel
    kinds = state.base_pos.dtype.kind + state.base_quat.dtype.kind
    kinds += state.base_lin_vel.dtype.kind + state.base_ang_vel.dtype.kind
    return kinds == "ffff" and all(isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in joints)


def check_array(what: str, value: Any, shape: tuple[int, ...] | None = None) -> str:
    """Whether `value` is an array of floats, of this shape where one is given."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return f"{what} is {getattr(value, 'dtype', None) or type(value).__name__} where floats are due"
    if shape is not None and value.shape != shape:
        return f"{what} has shape {value.shape} where {shape} is due"
    return ""


def seconds(value: Any) -> float:
    """`value` as a number, NaN where it is none: what is late is refused, and so is what says nothing of it."""
    if isinstance(value, float):
        return value
    single = np.ndim(value) == 0 if isinstance(value, (np.ndarray, np.generic, int)) else False
    return float(value) if single and np.asarray(value).dtype.kind in "fiu" else nan


def check_age(params: ShieldParams | JointShieldParams, what: str, age_s: float) -> str:
    """Age between one period in the future and the deadline; NaN is neither."""
    if -params.control_dt_s <= age_s <= params.act_s:
        return ""
    limit = f", limit {1e3 * params.act_s:.0f} ms" if age_s > params.act_s else ""
    return f"{what} {1e3 * age_s:.0f}{TOO_OLD}{limit}"


def check_order(stamp_s: float, last_stamp_s: float) -> str:
    """Measurements come in the order in which they were taken."""
    return "state older than the one before" if stamp_s < last_stamp_s - ORDER_TOL_S else ""


def check_jump(params: ShieldParams, state: RobotState, last_pos: np.ndarray, elapsed_s: float) -> str:
    """Distance of the measured position to the one `elapsed_s` before, at `last_pos` (3,) m, world."""
    jump_m = dist(state.base_pos.tolist(), last_pos.tolist())
    return f"position jumped by {jump_m:.2f} m" if jump_m > params.max_jump_m + 2 * params.max_speed * elapsed_s else ""


def check_peers(peers: Peers, what: str = "peers") -> str:
    """Types, shapes, and finiteness of the valid slots; `what` they are is in the reason."""
    if not isinstance(peers, Peers):
        return f"no {what}"
    valid = peers.valid
    if not isinstance(valid, np.ndarray) or valid.dtype.kind != "b" or valid.ndim != 1:
        return f"{what} do not say which of them are valid"
    slots = valid.shape
    for value, shape in ((peers.pos, (*slots, 3)), (peers.lin_vel, (*slots, 3)), (peers.age, slots)):
        if reason := check_array(what, value, shape):
            return reason
    # Padding may be anything, so which of them are valid is looked at last. Plain Python, as in `check_state`: a robot
    # that slept since its last period would have to load all that NumPy calculates with.
    if hypot(*peers.pos.ravel().tolist(), *peers.lin_vel.ravel().tolist(), *peers.age.tolist()) < LARGEST:
        return ""
    size = (np.abs(peers.pos).sum(-1) + np.abs(peers.lin_vel).sum(-1) + np.abs(peers.age))[valid]
    if (size < LARGEST).all():
        return ""
    return f"{what} have values of {size.max():.3g}" if np.isfinite(size).all() else f"{what} not finite"


def check_obstacles(obstacles: Obstacles | None) -> str:
    """Types, shapes, and finiteness of the valid ones; none need be known."""
    if obstacles is None:
        return ""
    if not isinstance(obstacles, Obstacles):
        return "no obstacles"
    valid = obstacles.valid
    if not isinstance(valid, np.ndarray) or valid.dtype.kind != "b" or valid.ndim != 1:
        return "obstacles do not say which of them are valid"
    for name, entries in {"pos": (3,), "quat": (4,), "half": (3,), "radius": (), "speed": ()}.items():
        value = getattr(obstacles, name)
        if reason := check_array(f"obstacles' {name}", value, (*valid.shape, *entries)):
            return reason
        if not (np.abs(value[valid]) < LARGEST).all():
            return f"obstacles' {name} not finite"
    if (np.abs(np.vecdot(obstacles.quat[valid], obstacles.quat[valid]) - 1.0) > 2 * QUAT_NORM_TOL).any():
        return "obstacles' quaternions not of unit length"
    if min(getattr(obstacles, name)[valid].min(initial=0.0) for name in ("half", "radius", "speed")) < 0.0:
        return "obstacles have a size or speed below zero"
    return ""


def usable_sharing(sharing: Any, slots: tuple[int, ...]) -> Sharing | None:
    """`sharing` where it fits `slots` peers; else one in which no peer shares. None, for all that share, stays."""
    if sharing is None:
        return None
    if isinstance(sharing, Sharing):
        shares, separation_m = sharing.shares, sharing.separation_m
        says = isinstance(shares, np.ndarray) and shares.dtype == bool and shares.shape == slots
        if (
            says
            and not check_array("separation", separation_m, slots)
            and np.vdot(separation_m, separation_m) < LARGEST
        ):
            return sharing
    return Sharing(np.zeros(slots, bool), np.zeros(slots))


def check_silent(params: ShieldParams, peers: Peers, name_of: Callable[[int], str]) -> str:
    """Peers that were heard, and have been silent for so long that nothing is known of them any more."""
    ages = enumerate(zip(peers.age.tolist(), peers.valid.tolist(), strict=True))
    if not (silent := [slot for slot, (age_s, valid) in ages if valid and age_s > params.peer_silent_s]):
        return ""
    return f"{', '.join(map(name_of, silent))} silent for over {params.peer_silent_s:g} s"


def check_request(
    params: ShieldParams | JointShieldParams, spec: RobotSpec, requested: ActuatorCommand | None, age_s: float
) -> str:
    """Presence, type, shape, finiteness, range and age of what the policy asks for."""
    if not isinstance(requested, ActuatorCommand):
        return "no request"
    target = requested.target
    if reason := check_array("request", target, (len(spec.channels),)):
        return reason
    for value, channel in zip(target.tolist(), spec.channels, strict=True):
        slack = RANGE_TOL * (channel.high - channel.low)
        if not channel.low - slack <= value <= channel.high + slack:
            finite = "request not finite" if not np.isfinite(value) else ""
            return finite or f"request {channel.name} = {value:.3g} outside {channel.low:.3g} .. {channel.high:.3g}"
    return check_age(params, "request", age_s)
