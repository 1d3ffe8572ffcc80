"""A UR5e behind ros2_control, over real topics: python -m devices.ros2_control --domain 7 --kind forward.

Orders come as lines of JSON on stdin. Facts: https://control.ros.org/jazzy, of `joint_state_broadcaster`, whose joints
come in no particular order and in alphabetical order by default, `forward_command_controller` and
`joint_trajectory_controller`.
"""

import argparse
import os
import random
import time
from collections import deque
from typing import Any

import numpy as np
import rclpy
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from devices.device import Device
from devices.ur_body import CYCLE_S, RANGE, Body
from ros_nodes.lifecycle.processes import ros_environment

NAMES = ["shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", "wrist_1_joint", "wrist_2_joint", "wrist_3_joint"]
TAKES = [2, 1, 0, 3, 4, 5]  # of NAMES: the order in the controller's configuration is its own
GRIPPER = "finger_joint"
QUEUE = 200  # what waits while this computer is busy is no jump
LAG_S, JUMP = 0.03, 0.05  # of its servo; rad between two set-points


class Ros2Control(Device):
    """The controller, the broadcaster, and the arm behind both."""

    def __init__(self, kind: str, prefix: str, interface: str, goes_on: bool):
        body = Body()
        super().__init__(body)
        self.is_active, self.silent, self.frozen, self.lacks_velocity = True, False, False, False
        self.loss = self.delay_s = 0.0  # of each message, each way
        self.off_rad = self.behind_s = 0.0  # what is measured, beside where the joints are; of its stamp
        self._arriving: deque[tuple[float, np.ndarray, float]] = deque()
        self._leaving: deque[tuple[float, JointState]] = deque()
        self._other: Publisher | None = None
        self.counts = {"setpoints": 0, "range": 0, "jump": 0, "garbage": 0}
        self._body, self._names = body, [prefix + name for name in NAMES]
        self._setpoint, self._from, self._command, self._point = body.q, body.q, body.q, (0.0, body.q, 0.0)
        self._heard_s, self._last_s, self.gaps_s = 0.0, 0.0, []
        options = {"use_global_arguments": False, "automatically_declare_parameters_from_overrides": False}
        self._controller = Node("arm_controller", **options)
        self._controller.declare_parameter("joints", [self._names[i] for i in TAKES])
        if kind == "trajectory":
            self._controller.declare_parameter("command_interfaces", [interface])
            self._controller.declare_parameter("open_loop_control", goes_on)
            heard = self._controller.create_subscription(
                JointTrajectory, "~/joint_trajectory", self._take_trajectory, QUEUE
            )
        else:
            self._controller.declare_parameter("interface_name", interface)
            heard = self._controller.create_subscription(Float64MultiArray, "~/commands", self._take_array, QUEUE)
        self._takes = heard.msg_type, heard.topic_name
        self._broadcaster = Node("joint_state_broadcaster", **options)
        self._publisher = self._broadcaster.create_publisher(JointState, "/joint_states", 10)
        self._executor = SingleThreadedExecutor()
        for node in (self._controller, self._broadcaster):
            self._executor.add_node(node)

    def say(self, orders: dict[str, Any]) -> dict[str, Any]:
        gaps_ms = 1e3 * np.array(self.gaps_s or [0.0])
        tool = self._body.tool.tolist()
        said = {"q": self._body.q.tolist(), "tool": tool, "fastest": float(np.abs(self._body.qd).max())}
        return said | self.counts | {"gap_ms": np.percentile(gaps_ms, [50, 99]).tolist()}

    def run(self) -> None:
        """Until stdin ends."""
        print("up", flush=True)
        next_s = time.monotonic()
        while self.obey():
            self._executor.spin_once(timeout_sec=max(0.0, next_s - time.monotonic()))
            while self._arriving and self._arriving[0][0] <= time.monotonic():
                self._take(*self._arriving.popleft()[1:])
            while next_s <= time.monotonic():
                self._cycle()
                next_s += CYCLE_S
            if not self.silent:
                self._publish()

    def _cycle(self) -> None:
        if self.is_active:
            begun_s, goal, takes_s = self._point
            share = 1.0 if takes_s == 0.0 else min((time.monotonic() - begun_s) / takes_s, 1.0)
            self._command = self._from + share * (goal - self._from)
            self._body.servo(self._command, LAG_S)
        else:
            self._body.brake()
        self._body.cycle()

    @property
    def takeover(self) -> bool:
        """Whether somebody else publishes set-points too."""
        return self._other is not None

    @takeover.setter
    def takeover(self, on: bool) -> None:
        self._other = self._broadcaster.create_publisher(*self._takes, 1) if on else None

    def _come(self, q: np.ndarray, takes_s: float) -> None:
        if random.random() >= self.loss:
            self._arriving.append((time.monotonic() + self.delay_s, q, takes_s))

    def _take_array(self, message: Float64MultiArray) -> None:
        if len(message.data) != len(TAKES):
            self.counts["garbage"] += 1
            return
        q = np.empty(6)
        q[TAKES] = message.data
        self._come(q, 0.0)

    def _take_trajectory(self, message: JointTrajectory) -> None:
        if sorted(message.joint_names) != sorted(self._names) or len(message.points) != 1:
            self.counts["garbage"] += 1
            return
        (point,) = message.points
        q = np.array([point.positions[message.joint_names.index(name)] for name in self._names])
        self._come(q, point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec)

    def _take(self, q: np.ndarray, takes_s: float) -> None:
        now_s = time.monotonic()
        if not self.is_active:
            return
        self.counts["setpoints"] += 1
        self.counts["range"] += bool((np.abs(q) > [RANGE, RANGE, np.pi, RANGE, RANGE, RANGE]).any())
        self.counts["jump"] += bool(np.abs(q - self._setpoint).max() > JUMP)
        if self._last_s:
            self.gaps_s.append(now_s - self._last_s)
        self._last_s, self._from, self._setpoint = now_s, self._command, q
        self._point = now_s, q, takes_s

    def _publish(self) -> None:
        order = sorted(range(6), key=lambda i: NAMES[i])
        message = JointState(name=[GRIPPER, *(self._names[i] for i in order)])
        message.position = [0.01, *(self._body.q[order] + self.off_rad).tolist()]
        if not self.lacks_velocity:
            message.velocity = [0.0, *self._body.qd[order].tolist()]
        if not self.frozen:
            now = self._broadcaster.get_clock().now() - Duration(nanoseconds=round(1e9 * self.behind_s))
            self._stamp = now.to_msg()
        message.header.stamp = self._stamp
        if random.random() >= self.loss:
            self._leaving.append((time.monotonic() + self.delay_s, message))
        while self._leaving and self._leaving[0][0] <= time.monotonic():
            self._publisher.publish(self._leaving.popleft()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domain", type=int, required=True, help="ROS domain")
    parser.add_argument(
        "--kind",
        choices=("forward", "trajectory"),
        default="forward",
        help="its controller: forward_command_controller or joint_trajectory_controller",
    )
    parser.add_argument("--prefix", default="", help="of the names of its joints")
    parser.add_argument("--interface", default="position", help="what its controller commands")
    parser.add_argument("--measured", action="store_true", help="a trajectory begins where the joints are")
    arguments = parser.parse_args()
    os.environ.update(ros_environment(arguments.domain))
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    Ros2Control(arguments.kind, arguments.prefix, arguments.interface, not arguments.measured).run()


if __name__ == "__main__":
    main()
