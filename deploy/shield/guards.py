"""Checks of what reaches the shield. Each returns why the input cannot be used, or an empty string."""

from math import dist, hypot, isfinite

import numpy as np

from deploy.shield.drone.params import ShieldParams
from deploy.shield.joints.params import JointShieldParams
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Peers, RobotState

QUAT_NORM_TOL = 0.05  # attitude filters stay far inside; a zeroed or mixed-up message does not
ORDER_TOL_S = 0.002  # clocks that stamp and clocks that compare may differ by this much from step to step
RANGE_TOL = 0.1  # of a channel's range: a policy's output beyond it violates its contract


def check_state(params: ShieldParams | JointShieldParams, state: RobotState | None) -> str:
    """Shape, finiteness, unit quaternion and age of the base of a robot's own state."""
    if state is None:
        return "no state"
    for value, size in ((state.base_pos, 3), (state.base_quat, 4), (state.base_lin_vel, 3), (state.base_ang_vel, 3)):
        if value.shape != (size,):
            return f"state has shape {value.shape} where ({size},) is due"
    quat = state.base_quat.tolist()
    if not isfinite(sum([*state.base_pos.tolist(), *state.base_lin_vel.tolist(), *state.base_ang_vel.tolist(), *quat])):
        return "state not finite"
    if abs(hypot(*quat) ** 2 - 1.0) > 2 * QUAT_NORM_TOL:
        return "quaternion not of unit length"
    return check_age(params, "state", float(state.age))


def check_age(params: ShieldParams | JointShieldParams, what: str, age_s: float) -> str:
    """Age between one period in the future and the deadline; NaN is neither."""
    if -params.control_dt_s <= age_s <= params.act_periods * params.control_dt_s:
        return ""
    return f"{what} {1e3 * age_s:.0f} ms old"


def check_order(stamp_s: float, last_stamp_s: float) -> str:
    """Measurements come in the order in which they were taken."""
    return "state older than the one before" if stamp_s < last_stamp_s - ORDER_TOL_S else ""


def check_jump(params: ShieldParams, state: RobotState, last_pos: np.ndarray, elapsed_s: float) -> str:
    """Distance of the measured position to the one `elapsed_s` before, at `last_pos` (3,) m, world."""
    jump_m = dist(state.base_pos, last_pos)
    return f"position jumped by {jump_m:.2f} m" if jump_m > params.max_jump_m + 2 * params.max_speed * elapsed_s else ""


def check_peers(peers: Peers) -> str:
    """Shapes, and finiteness of the valid slots."""
    slots = np.shape(peers.valid)
    if len(slots) != 1 or np.shape(peers.pos) != (*slots, 3) or np.shape(peers.lin_vel) != (*slots, 3):
        return f"peers have shapes {np.shape(peers.pos)}, {np.shape(peers.lin_vel)}, {slots}"
    if np.shape(peers.age) != slots:
        return f"peers' ages have shape {np.shape(peers.age)} where {slots} is due"
    # A sum of finite numbers is finite, and one with others is not. Padding may be anything, so it is looked at last.
    if isfinite(peers.pos.sum() + peers.lin_vel.sum() + peers.age.sum()):
        return ""
    sums = peers.pos.sum(-1) + peers.lin_vel.sum(-1) + peers.age
    return "" if np.isfinite(sums[peers.valid]).all() else "peers not finite"


def check_request(
    params: ShieldParams | JointShieldParams, spec: RobotSpec, requested: ActuatorCommand | None, age_s: float
) -> str:
    """Presence, shape, finiteness, range and age of what the policy asks for."""
    if requested is None:
        return "no request"
    target = requested.target
    if np.shape(target) != (len(spec.channels),):
        return f"request has shape {np.shape(target)} where ({len(spec.channels)},) is due"
    for value, channel in zip(target.tolist(), spec.channels, strict=True):
        slack = RANGE_TOL * (channel.high - channel.low)
        if not channel.low - slack <= value <= channel.high + slack:
            finite = "request not finite" if not np.isfinite(value) else ""
            return finite or f"request {channel.name} = {value:.3g} outside {channel.low:.3g} .. {channel.high:.3g}"
    return check_age(params, "request", age_s)
