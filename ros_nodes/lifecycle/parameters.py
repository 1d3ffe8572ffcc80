"""Parameters that describe themselves: each has a text, a range where there is one, and says when it may be set."""

from typing import Any
from weakref import WeakKeyDictionary

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import ParameterException
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.parameter import Parameter

AT_CONFIGURE = "Read at configure: may be set while the node is unconfigured."
ALWAYS = "May be set at any time."
CLOCK = "use_sim_time"  # of rclpy: set in flight, it takes the time away from a loop
NEVER = "Only a parameter file or the command line sets it."
_DEFAULTS: WeakKeyDictionary[Node, dict[str, Any]] = WeakKeyDictionary()  # by parameter, see `declare_following`


def declare(
    node: Node,
    name: str,
    default: Any,
    description: str,
    low: float | None = None,
    high: float | None = None,
    may_be_set: str = AT_CONFIGURE,
) -> Any:
    """Declare `name` on `node`, if it is not there yet, and return its value; `low` and `high` bound a number.

    `may_be_set` after the node's start: AT_CONFIGURE, ALWAYS or NEVER, the last for all of a node without a lifecycle.
    ValueError, one line, for a value of another type or out of bounds.
    """
    if node.has_parameter(name):
        return node.get_parameter(name).value
    when = may_be_set if isinstance(node, LifecycleNode) else NEVER
    descriptor = ParameterDescriptor(description=description, additional_constraints=when, read_only=when == NEVER)
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


def declare_following(node: Node, name: str, default: Any, *described: Any) -> Any:
    """As `declare`, but a value that no person gave is that of the last `default`, which may change."""
    defaults = _DEFAULTS.setdefault(node, {})
    before, defaults[name] = defaults.get(name, default), default
    value = declare(node, name, default, *described)
    same = list(value) == before if isinstance(before, list) else value == before
    if before == default or not same or name in node._parameter_overrides:
        return value
    node.set_parameters([Parameter(name, value=default)])
    return default


def refusal(node: LifecycleNode, parameters: list[Parameter]) -> str:
    """Why these parameters cannot be set now, or an empty string."""
    state = node._state_machine.current_state[1]
    known = [p.name for p in parameters if node.has_parameter(p.name)]
    held = [
        name for name in known if name == CLOCK or node.describe_parameter(name).additional_constraints == AT_CONFIGURE
    ]
    if not held or state in ("unconfigured", "configuring"):
        return ""
    return f"{held[0]} is read at configure, and the node is {state}: clean it up first"


def keep_clock(node: Node) -> None:
    """Have a `node` without a lifecycle keep the clock that it began with."""

    def may_set(parameters: list[Parameter]) -> SetParametersResult:
        is_clock = any(parameter.name == CLOCK for parameter in parameters)
        return SetParametersResult(successful=not is_clock, reason=f"{CLOCK}: {NEVER}" if is_clock else "")

    node.add_on_set_parameters_callback(may_set)


def declare_team(node: Node) -> tuple[str, list[str]]:
    """Parameters `robot_name` and `team`: this robot and the names of the others."""
    own = node.get_namespace().strip("/")
    name = declare(node, "robot_name", own, "Name of this robot: its namespace and tf prefix.", may_be_set=NEVER)
    team = declare(node, "team", [name], "Names of all robots of the team; this one may be among them.")
    if not name:
        raise ValueError("parameter 'robot_name' is empty and the node has no namespace to take it from")
    return name, [other for other in team if other != name]


def declare_trusted_keys(node: Node) -> list[str]:
    """Parameter `trusted_keys`: public keys, or files with them."""
    text = (
        "Public keys (base64, or files with them): only a policy file that one of them signed is taken; none for any."
    )
    return [key for key in declare(node, "trusted_keys", [""], text, may_be_set=NEVER) if key]


def declare_requires(node: Node) -> str:
    """Parameter `requires`."""
    from deploy.bundle.verification import LEVELS, check_level  # here, for a shield needs no onnxruntime

    text = "What the record of its verification must say of a policy file that is taken: one of"
    text = f"{text} {', '.join(LEVELS)}, the first for any that did not fail; empty for any file."
    return check_level(declare(node, "requires", "", text, may_be_set=NEVER))


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
