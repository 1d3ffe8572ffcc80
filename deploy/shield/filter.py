"""filter_command: the command that is sent in place of the requested one, for one robot or a batch of worlds x robots.

What it guarantees, in numbers and under which assumptions, stands in docs/shield.md.
"""

from dataclasses import replace

from deploy.shield.arrays import greatest
from deploy.shield.drone.constraints import row_names
from deploy.shield.drone.filter import filter_flight
from deploy.shield.drone.params import ShieldParams
from deploy.shield.joints.filter import filter_joints, joint_row_names
from deploy.shield.joints.pace import TARGET_SPEED, paced
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.types import Context, FilterInfo
from hardware.rotation import namespace_of
from hardware.spec import RobotSpec
from hardware.types import Array


def filter_command(
    params: ShieldParams | JointShieldParams, spec: RobotSpec, context: Context, target: Array
) -> tuple[Array, FilterInfo]:
    """Filter `target` (..., U) in the units of the robot's channels; returns (sent (..., U), FilterInfo).

    Robots with a flight model go through `filter_flight`, all others through `filter_joints`. Raises ValueError for
    parameters of another class of robot.
    """
    if spec.flight is None:
        if isinstance(params, JointShieldParams):
            return filter_joints(params, spec, context, target)
    elif isinstance(params, ShieldParams):
        return filter_flight(params, spec, context, target)
    raise ValueError(f"{type(params).__name__} are not the shield parameters of {spec.name!r}, a {spec.kind}")


def filter_request(
    params: ShieldParams | JointShieldParams, spec: RobotSpec, context: Context, target: Array
) -> tuple[Array, FilterInfo]:
    """As `filter_command`, for the `target` that a policy asks for a control period after `context.sent`.

    As in the supervisor, the targets of joints move no faster than `joints.pace` says; `FilterInfo.active` has one more
    row for that, and what it changes counts as intervention.
    """
    if spec.flight is not None or not isinstance(params, JointShieldParams):
        return filter_command(params, spec, context, target)
    if context.sent is None:
        raise ValueError("what was sent before is not known: how fast a target moves cannot be bounded")
    slow = paced(params, spec, target, context.sent, params.control_dt_s)
    sent, info = filter_command(params, spec, context, slow)
    xp, too_fast = namespace_of(sent), (slow != target).any(-1)
    changed = greatest(xp.abs(sent - target))
    active = xp.concat([info.active, too_fast[..., None]], axis=-1)
    return sent, replace(info, active=active, intervention=xp.where(too_fast, changed, info.intervention))


def row_kinds(spec: RobotSpec, context: Context) -> tuple[str, ...]:
    """What each row of `FilterInfo.active` of a request is about: "tilt", "peer"; of joints "speed", "links: floor"."""
    if spec.flight is not None:
        return tuple(name.partition("_")[0] for name in row_names(context))
    kinds = (name if name.startswith("links: ") else name.rpartition(": ")[2] for name in joint_row_names(spec))
    return (*kinds, TARGET_SPEED)
