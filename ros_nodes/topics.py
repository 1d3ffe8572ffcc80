"""The topics of a team, by name and type: what a bag holds."""

from collections.abc import Sequence

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseArray, PoseStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

GROUND_TRUTH = "/ground_truth"


def team_topics(team: Sequence[str]) -> dict[str, tuple[type, bool]]:
    """Topic -> (message type, whether it is latched) of the robots in `team`."""
    topics: dict[str, tuple[type, bool]] = {GROUND_TRUTH: (PoseArray, False)}
    for robot in team:
        topics[f"/{robot}/odom"] = (Odometry, False)
        topics[f"/{robot}/goal"] = (PoseStamped, True)
        topics[f"/{robot}/requested"] = (JointState, False)
        topics[f"/{robot}/command"] = (JointState, False)
        topics[f"/{robot}/status"] = (DiagnosticArray, True)
    return topics
