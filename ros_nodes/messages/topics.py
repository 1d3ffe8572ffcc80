"""The topics of a team, by name and type: what a bag holds."""

from collections.abc import Sequence

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseArray, PoseStamped, TwistStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import Log
from sensor_msgs.msg import BatteryState, JointState
from std_msgs.msg import Float64MultiArray

from ros_nodes.messages import battery, course, device
from ros_nodes.messages.names import DRIVER_STATUS, POLICY_STATUS

GROUND_TRUTH = "/ground_truth"
GOAL = "goal"
VELOCITY = "cmd_vel"
OF_EVERY_NODE = {"/rosout": (Log, True), "/diagnostics": (DiagnosticArray, False)}  # as long as there is one


def object_topic(name: str) -> str:
    """Where a tracker publishes the state of the object `name`."""
    return f"/objects/{name}/odom"


def command_topic(name: str) -> str:
    """Where the operator gives the command `name`, which no message type is made for; in the robot's namespace."""
    return f"commands/{name}"


def team_topics(
    team: Sequence[str], joints: bool = False, objects: Sequence[str] = (), commands: Sequence[str] = ()
) -> dict[str, tuple[type, bool]]:
    """Topic -> (message type, whether it is latched) of the robots in `team`.

    `joints`: whether the robots have any. `commands`: those that go to topics of their own, see `command_topic`.
    """
    topics: dict[str, tuple[type, bool]] = {GROUND_TRUTH: (PoseArray, False)}
    topics |= OF_EVERY_NODE | {object_topic(name): (Odometry, False) for name in objects}
    for robot in team:
        topics[f"/{robot}/odom"] = (Odometry, False)
        if joints:
            topics[f"/{robot}/joint_states"] = (JointState, False)
        topics[f"/{robot}/{GOAL}"] = (PoseStamped, True)
        topics[f"/{robot}/{VELOCITY}"] = (TwistStamped, False)
        topics |= {f"/{robot}/{command_topic(name)}": (Float64MultiArray, True) for name in commands}
        topics[f"/{robot}/requested"] = (JointState, False)
        topics[f"/{robot}/command"] = (JointState, False)
        topics[f"/{robot}/sent"] = (JointState, False)
        topics[f"/{robot}/status"] = (DiagnosticArray, True)
        topics[f"/{robot}/{POLICY_STATUS}"] = (DiagnosticArray, True)
        topics[f"/{robot}/{DRIVER_STATUS}"] = (DiagnosticArray, True)
        topics[f"/{robot}/{battery.TOPIC}"] = (BatteryState, True)
        topics[f"/{robot}/{device.TOPIC}"] = (DiagnosticArray, True)
        topics[f"/{robot}/{course.TOPIC}"] = (DiagnosticArray, True)
    return topics
