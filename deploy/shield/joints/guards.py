"""Checks of the measured state of robots with joints. Each returns why it cannot be used, or an empty string."""

from math import acos, atan2, hypot, isfinite

import numpy as np

from deploy.shield.guards import FARTHEST, QUAT_NORM_TOL, check_age, check_array, check_request, check_state, seconds
from deploy.shield.joints.limits import Limits
from deploy.shield.joints.params import JointShieldParams
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, RobotState

TURN_RAD = 0.2  # noise and delay of an attitude estimate from one measurement to the next
MOVED_RAD = 0.3  # over a period of 20 ms, in which 500 rad/s^2 are 0.1 rad and twice that where they turn round
MOVED_RAD_S2 = 500.0  # over longer ones
TURN_RAD_S = 10.0  # a robot on legs that falls or is thrown over turns no faster
# Of what is measured, four standard deviations; a robot that is on its limit is seen beyond it in each measurement.
TILT_ERROR_RAD = 0.065  # 0.25 s ahead, by an attitude to 0.01 rad and rates to 0.05 rad/s
HEIGHT_ERROR_M = 0.02  # by a height to 5 mm


def check_joint_state(params: JointShieldParams, spec: RobotSpec, limits: Limits, state: RobotState | None) -> str:
    """Shapes, finiteness, age, joints that the robot cannot have; of free bases also their pose and velocity."""
    if not isinstance(state, RobotState):
        return "no state"
    size = len(spec.joints)
    for value in (state.joint_pos, state.joint_vel):
        if reason := check_array("state", value, (size,)):
            return reason
    if spec.fixed_base:  # its base does not move, but its links are where it is
        for value, shape in ((state.base_pos, (3,)), (state.base_quat, (4,)), (state.base_lin_vel, None)):
            if reason := check_array("state", value, shape):
                return reason
        if reason := check_array("state", state.base_ang_vel):
            return reason
        if not hypot(*state.base_pos.tolist()) < FARTHEST:
            return "base not measured"
        if not abs(hypot(*state.base_quat.tolist()) - 1.0) < QUAT_NORM_TOL:
            return "quaternion not of unit length"
    # A sum of finite numbers is finite, and one with others is not.
    if not isfinite(np.add.reduce(state.joint_pos) + np.add.reduce(state.joint_vel)):
        return "state not finite"
    reason = check_age(params, "state", seconds(state.age)) if spec.fixed_base else check_state(params, state)
    return reason or check_sense(spec, limits, state)


def check_joint_jump(
    params: JointShieldParams, spec: RobotSpec, limits: Limits, state: RobotState, last: RobotState, elapsed_s: float
) -> str:
    """How far the joints are from where they were `elapsed_s` before, in the state `last`."""
    jump = np.abs(state.joint_pos - last.joint_pos)[limits.joint]
    far = jump > limits.jump + params.velocity_sense * elapsed_s * limits.max_velocity
    if not np.logical_or.reduce(far):
        return ""
    index = int(far.argmax())
    return f"{spec.channels[index].name} jumped by {jump[index]:.2f} {spec.channels[index].unit}"


def check_motion(spec: RobotSpec, state: RobotState, last: RobotState, elapsed_s: float) -> str:
    """Why a robot on legs cannot have come from the state `last`, `elapsed_s` before; or an empty string.

    Its attitude may change as fast as it can turn, a joint's position about as its measured velocities say.
    """
    angle = 2.0 * acos(min(abs(float(state.base_quat @ last.base_quat)), 1.0))
    if angle > TURN_RAD + TURN_RAD_S * elapsed_s:
        return f"attitude jumped by {angle:.2f} rad"
    change = state.joint_pos - last.joint_pos - (0.5 * elapsed_s) * (state.joint_vel + last.joint_vel)
    slack = max(MOVED_RAD, 0.5 * MOVED_RAD_S2 * elapsed_s**2) + elapsed_s * np.maximum(
        np.abs(state.joint_vel), np.abs(last.joint_vel)
    )
    if not np.logical_or.reduce(np.abs(change) > slack):
        return ""
    index = int((np.abs(change) - slack).argmax())
    return f"{spec.joints[index].name} jumped by {change[index]:.2f} rad more than it moved"


def check_upright(params: JointShieldParams, spec: RobotSpec, state: RobotState, exact: bool = False) -> str:
    """Why a robot on legs stands no longer, or will not soon: tilt now and `fall_horizon_s` ahead, and height.

    Unless the state is `exact`, what may be beyond a limit by the error of a measurement is.
    """
    most_rad = params.max_tilt_rad - (0.0 if exact else TILT_ERROR_RAD)
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
        if tilt > most_rad:
            return f"{verb} {tilt:.2f} rad, more than {most_rad:.2f}"
    return check_height(params, spec, state, exact)


def check_height(params: JointShieldParams, spec: RobotSpec, state: RobotState, exact: bool = False) -> str:
    """Why a robot on legs has fallen: the height of its base; or an empty string."""
    height_m = float(state.base_pos[2]) - params.ground_z_m
    least_m = params.min_height_share * spec.home_height_m + (0.0 if exact else HEIGHT_ERROR_M)
    return f"base {height_m:.2f} m above ground, less than {least_m:.2f}" if height_m < least_m else ""


def check_joint_request(
    params: JointShieldParams, spec: RobotSpec, limits: Limits, requested: ActuatorCommand | None, age_s: float
) -> str:
    """`check_request`, asked only where something is wrong: it looks at one channel after the other."""
    if isinstance(requested, ActuatorCommand) and not check_array("request", requested.target, (len(spec.channels),)):
        low, high = limits.asked
        if np.logical_and.reduce((low <= requested.target) & (requested.target <= high)):
            return check_age(params, "request", age_s)
    return check_request(params, spec, requested, age_s)


def check_sense(spec: RobotSpec, limits: Limits, state: RobotState) -> str:
    """Positions (J,) far outside their range and velocities far above their limit are a sensor's fault."""
    pos, vel = state.joint_pos[limits.joint], state.joint_vel[limits.joint]
    low, high = limits.found
    wrong = (pos < low) | (pos > high) | (np.abs(vel) > limits.top_velocity)
    if not np.logical_or.reduce(wrong):
        return ""
    index = int(wrong.argmax())
    channel = spec.channels[index]
    if low[index] <= pos[index] <= high[index]:
        return f"{channel.name} measured at {vel[index]:.3g} {channel.unit}/s"
    joint = spec.joints[spec.joint_of_channel[index]]
    return f"{channel.name} measured at {pos[index]:.3g} outside {joint.low:.3g} .. {joint.high:.3g}"
