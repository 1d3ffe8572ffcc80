"""How fast the targets of a robot with joints may move, which bounds the steps of effort and so the jerk."""

import numpy as np

from deploy.shield.arrays import constant
from deploy.shield.joints.limits import joint_limits
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.kept import kept
from hardware.rotation import namespace_of
from hardware.spec import RobotSpec
from hardware.types import Array

TARGET_SPEED = "target speed"  # in reports, what held a target back
EFFORT_STEP = 0.5  # of a soft drive's effort, by which its target may change within a control period, if slow otherwise


@kept
def target_speed(params: JointShieldParams, spec: RobotSpec) -> np.ndarray:
    """(U,) rad/s, `target_speed_share` of each joint's speed limit.

    The targets of drives as soft as a humanoid's are efforts, and run ahead of joints that hardly move: theirs may
    change the effort by `EFFORT_STEP` in a control period.
    """
    limits = joint_limits(params, spec)
    speed = params.target_speed_share * limits.max_velocity
    if spec.fixed_base:
        return speed
    effort_rad = EFFORT_STEP * np.array(params.max_effort) / limits.rows.stiffness
    return np.maximum(speed, params.target_speed_share * effort_rad / params.control_dt_s)


def paced(params: JointShieldParams, spec: RobotSpec, request: Array, sent: Array, elapsed_s: float) -> Array:
    """The `request` (..., U) rad, no farther from the last target `sent` than targets may move in `elapsed_s`.

    More calls in a period lead no farther. Nor does a pause: a target that stood still leaps no more than a period.
    """
    xp = namespace_of(request)
    step = constant(xp, min(elapsed_s, params.control_dt_s) * target_speed(params, spec), request)
    slow = xp.minimum(xp.maximum(request, sent - step), sent + step)
    return slow.astype(np.float32, copy=False) if xp is np else slow
