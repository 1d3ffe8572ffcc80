"""filter_command: the command that is sent in place of the requested one, for one robot or a batch of worlds x robots.

What it guarantees, in numbers and under which assumptions, stands in docs/shield.md.
"""

from deploy.shield.drone.constraints import row_names
from deploy.shield.drone.filter import filter_flight
from deploy.shield.drone.params import ShieldParams
from deploy.shield.joints.filter import filter_joints, joint_row_names
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.types import Context, FilterInfo
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


def row_kinds(spec: RobotSpec, context: Context) -> tuple[str, ...]:
    """What each row of `FilterInfo.active` is about: "tilt", "peer"; of joints "speed", "links: floor"."""
    if spec.flight is not None:
        return tuple(name.partition("_")[0] for name in row_names(context))
    return tuple(name if name.startswith("links: ") else name.rpartition(": ")[2] for name in joint_row_names(spec))
