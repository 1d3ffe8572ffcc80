"""Parameters that describe themselves: each has a text, a range where there is one, and stays once the node runs."""

from typing import Any

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import ParameterException
from rclpy.node import Node


def declare(
    node: Node,
    name: str,
    default: Any,
    description: str,
    low: float | None = None,
    high: float | None = None,
    settable: bool = False,
) -> Any:
    """Declare `name` on `node` and return its value; `low` and `high` bound a number, in the unit of its name.

    It stays as it is unless `settable`. ValueError, one line, for a value of another type or out of bounds.
    """
    descriptor = ParameterDescriptor(description=description, read_only=not settable)
    if low is not None and high is not None:
        if isinstance(default, int):
            descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high), step=0)]
        else:
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=float(low), to_value=float(high), step=0.0)
            ]
    try:
        return node.declare_parameter(name, default, descriptor).value
    except ParameterException as error:
        given = node._parameter_overrides[name].value
        allowed = (
            f"a {type(default).__name__}" if low is None else f"a {type(default).__name__} from {low:g} to {high:g}"
        )
        raise ValueError(f"parameter {name!r} is {given!r}: must be {allowed}") from error


def declare_team(node: Node) -> tuple[str, list[str]]:
    """Parameters `robot_name` and `team`: this robot and the names of the others."""
    own = node.get_namespace().strip("/")
    name = declare(node, "robot_name", own, "Name of this robot: its namespace and tf prefix.")
    team = declare(node, "team", [name], "Names of all robots of the team; this one may be among them.")
    if not name:
        raise ValueError("parameter 'robot_name' is empty and the node has no namespace to take it from")
    return name, [other for other in team if other != name]


def declare_trusted_keys(node: Node) -> list[str]:
    """Parameter `trusted_keys`: public keys, or files with them."""
    text = (
        "Public keys (base64, or files with them): only a policy file that one of them signed is taken; none for any."
    )
    return [key for key in declare(node, "trusted_keys", [""], text) if key]


def declare_base_pose(node: Node) -> list[float]:
    """Parameter `base_pose`: x, y, z, yaw."""
    text = "Where a fixed base stands in the world: x, y, z in m and yaw in rad; not used for a robot that moves."
    pose = [float(value) for value in declare(node, "base_pose", [0.0, 0.0, 0.0, 0.0], text)]
    if len(pose) != 4:
        raise ValueError(f"parameter 'base_pose' has {len(pose)} numbers; needs 4: x, y, z, yaw")
    return pose


def declare_niceness(node: Node) -> int:
    """Parameter `niceness`."""
    text = "Niceness of this process while active; below 0 it goes before others, where the system grants that."
    return declare(node, "niceness", 0, text, low=-20, high=19)


def declare_series_dir(node: Node) -> str:
    """Parameter `series_dir`."""
    return declare(node, "series_dir", "", "Folder for time series of this node (.npy) for reports; empty for none.")
