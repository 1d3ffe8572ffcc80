"""Checks of the measured state of robots with joints. Each returns why it cannot be used, or an empty string."""

from math import atan2, hypot

import numpy as np

from deploy.shield.guards import check_age, check_state
from deploy.shield.joint_params import JointShieldParams
from deploy.shield.joints import joint_limits
from hardware.spec import RobotSpec
from hardware.types import RobotState


def check_joint_state(params: JointShieldParams, spec: RobotSpec, state: RobotState | None) -> str:
    """Shapes, finiteness, age, joints that the robot cannot have; of free bases also their pose and velocity."""
    if state is None:
        return "no state"
    size = len(spec.joints)
    for value in (state.joint_pos, state.joint_vel):
        if np.shape(value) != (size,):
            return f"state has shape {np.shape(value)} where ({size},) is due"
    # A sum of finite numbers is finite, and one with others is not.
    if not np.isfinite(state.joint_pos.sum() + state.joint_vel.sum()):
        return "state not finite"
    reason = check_age(params, "state", float(state.age)) if spec.fixed_base else check_state(params, state)
    return reason or _check_sense(params, spec, state)


def check_joint_jump(
    params: JointShieldParams, spec: RobotSpec, state: RobotState, last: RobotState, elapsed_s: float
) -> str:
    """How far the joints are from where they were `elapsed_s` before, in the state `last`."""
    limits = joint_limits(params, spec)
    jump = np.abs(state.joint_pos - last.joint_pos)[limits.joint]
    far = jump > limits.jump + params.velocity_sense * elapsed_s * limits.max_velocity
    if not far.any():
        return ""
    index = int(far.argmax())
    return f"{spec.channels[index].name} jumped by {jump[index]:.2f} {spec.channels[index].unit}"


def check_upright(params: JointShieldParams, spec: RobotSpec, state: RobotState) -> str:
    """Why a robot on legs stands no longer, or will not soon: tilt now and `fall_horizon_s` ahead, and height."""
    w, x, y, z = state.base_quat.tolist()
    up = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)  # the world's z axis in the body
    rate_x, rate_y, rate_z = state.base_ang_vel.tolist()
    step = params.fall_horizon_s  # up' = up x rate
    ahead = (
        up[0] + step * (up[1] * rate_z - up[2] * rate_y),
        up[1] + step * (up[2] * rate_x - up[0] * rate_z),
        up[2] + step * (up[0] * rate_y - up[1] * rate_x),
    )
    for (side_x, side_y, rise), verb in ((up, "tilted"), (ahead, "falling: tilt")):
        tilt = atan2(hypot(side_x, side_y), rise)
        if tilt > params.max_tilt_rad:
            return f"{verb} {tilt:.2f} rad, more than {params.max_tilt_rad:.2f}"
    height_m = float(state.base_pos[2]) - params.ground_z_m
    least_m = params.min_height_share * spec.home_height_m
    return f"base {height_m:.2f} m above ground, less than {least_m:.2f}" if height_m < least_m else ""


def _check_sense(params: JointShieldParams, spec: RobotSpec, state: RobotState) -> str:
    """Positions far outside their range and velocities far above their limit are a sensor's fault."""
    limits = joint_limits(params, spec)
    pos, vel = state.joint_pos[limits.joint], state.joint_vel[limits.joint]
    outside = np.abs(pos - limits.middle) > limits.reach
    fast = np.abs(vel) > limits.top_velocity
    if outside.any():
        index = int(outside.argmax())
        low, high = params.position_low[index], params.position_high[index]
        return f"{spec.channels[index].name} measured at {pos[index]:.3g} outside {low:.3g} .. {high:.3g}"
    if fast.any():
        index = int(fast.argmax())
        return f"{spec.channels[index].name} measured at {vel[index]:.3g} {spec.channels[index].unit}/s"
    return ""
