"""The operator's side: brings a team up in order, tells robots where to go, and watches how they are."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from std_srvs.srv import Trigger

from ros_nodes import qos
from ros_nodes.bringup import ACTIVATE, CONFIGURE, BringUp, node_names
from ros_nodes.conversion import WORLD_FRAME, set_stamp
from ros_nodes.parameters import declare
from ros_nodes.polling import Mailbox


class MissionNode(Node):
    """Publishes `<robot>/goal`; keeps each robot's last position and shield mode for whoever watches."""

    def __init__(self, team: Sequence[str] | None = None, **node_options: Any):
        """`team` by default from the parameter of that name; `node_options` as for rclpy's Node."""
        super().__init__("mission", **node_options)
        self.team = list(team) if team is not None else declare(self, "team", [""], "Names of the robots.")
        self._goals = {name: self.create_publisher(PoseStamped, f"/{name}/goal", qos.LATCHED) for name in self.team}
        self._odometry = {name: Mailbox(self, Odometry, f"/{name}/odom", qos.SENSOR) for name in self.team}
        self._status = {name: Mailbox(self, DiagnosticArray, f"/{name}/status", qos.LATCHED) for name in self.team}
        self._reset = {name: self.create_client(Trigger, f"/{name}/shield/reset") for name in self.team}
        self.positions = np.full((len(self.team), 3), np.nan)
        self.modes = ["?"] * len(self.team)

    def send_goal(self, robot: str, position: np.ndarray) -> None:
        """Tell `robot` to hover at `position` (3,) m, world."""
        message = PoseStamped()
        message.header.frame_id = WORLD_FRAME
        set_stamp(message.header.stamp, time.time_ns())
        p = message.pose.position
        p.x, p.y, p.z = np.asarray(position, float).tolist()
        self._goals[robot].publish(message)

    def reset_shield(self, robot: str) -> None:
        """Free the shield of `robot` from a latched fallback; whether it heard shows in `modes`."""
        self._reset[robot].call_async(Trigger.Request())

    def look(self) -> None:
        """Bring `positions` (N, 3) and `modes` up to date."""
        for index, name in enumerate(self.team):
            odometry = self._odometry[name].take()
            if odometry is not None:
                p = odometry[0].pose.pose.position
                self.positions[index] = p.x, p.y, p.z
            status = self._status[name].take()
            if status is not None and status[0].status:
                self.modes[index] = status[0].status[0].message.split(":")[0]


def bring_up(
    node: Node,
    executor: SingleThreadedExecutor,
    stages: Sequence[Sequence[str]],
    timeout_s: float,
    check: Callable[[], None],
) -> None:
    """Configure all nodes, then activate them stage by stage. Raises BringUpError, or what `check` raises."""
    driver = BringUp(node, executor)
    driver.transition([name for stage in stages for name in stage], CONFIGURE, timeout_s, check)
    for stage in stages:
        driver.transition(stage, ACTIVATE, timeout_s, check)


def main() -> int:
    """For a launch file: bring the parameter's team up, send `goals` once, and stay for late listeners."""
    rclpy.init()
    node = MissionNode()
    goals = declare(
        node, "goals", [0.0], "Goal of each robot: x, y, z in m, world, one after the other; or one 0 for none."
    )
    simulated = declare(node, "simulated", True, "Whether /simulated_robots belongs to the team.")
    recorded = declare(node, "recorded", True, "Whether /recorder belongs to the team.")
    timeout_s = declare(node, "bring_up_timeout_s", 20.0, "Time for each stage of bring-up, s.", low=1.0, high=300.0)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    bring_up(node, executor, node_names(node.team, simulated, recorded), timeout_s, lambda: None)
    if len(goals) == 3 * len(node.team):
        for name, goal in zip(node.team, np.array(goals).reshape(-1, 3), strict=True):
            node.send_goal(name, goal)
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        executor.spin()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
