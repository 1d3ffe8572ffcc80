"""A joystick for one robot: `joy` becomes `cmd_vel` or a `goal` that moves, and calls of its shield's services.

Nothing is sent unless the enabling button is held; only the buttons for a landing and for the emergency stop need none.
"""

import threading
from copy import deepcopy
from functools import partial

import numpy as np
from geometry_msgs.msg import Pose, PoseStamped, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.task import Future
from sensor_msgs.msg import Joy
from std_srvs.srv import Trigger

from ros_nodes.lifecycle.host import run_node
from ros_nodes.lifecycle.lifecycle_node import ThreadNode
from ros_nodes.lifecycle.parameters import declare
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import WORLD_FRAME, base_frame, set_stamp
from ros_nodes.messages.joystick import ALWAYS, SILENCE_S, Joystick
from ros_nodes.messages.topics import GOAL, VELOCITY

PERIOD_S = 0.05
QUEUE = 50  # messages: a short press counts too
BUTTONS = {"enable": 4, "estop": 1, "land": 0, "arm": 7, "start": 3, "reset": 6}  # of a common gamepad
NS = 1_000_000_000


class JoystickNode(ThreadNode):
    """Commands the robot of its namespace."""

    def __init__(self, namespace: str = "") -> None:
        super().__init__("joystick", namespace)
        self._name = self.get_namespace().strip("/")
        self._shield = {n: self.create_client(Trigger, f"shield/{n}") for n in BUTTONS if n != "enable"}

    def read_parameters(self) -> None:
        text = "`velocity` sends `cmd_vel`; `goal` moves a `goal` that starts where the robot is."
        self._mode = declare(self, "mode", "velocity", text)
        self._axes = declare(self, "axes", [1, 0, 4, 3], "Axes for forward, left, up and turn; -1 for none.")
        self._scale = declare(
            self, "scale", [0.5, 0.5, 0.3, 0.8], "Forward, left, up m/s and turn rad/s at full stick."
        )
        text = "Number of the button; -1 for none."
        self._buttons = {n: declare(self, f"button.{n}", b, text, low=-1, high=99) for n, b in BUTTONS.items()}

    def configure(self) -> None:
        if self._mode not in ("velocity", "goal"):
            raise ValueError(f"parameter 'mode' is {self._mode!r}: velocity or goal")
        if not len(self._axes) == len(self._scale) == 4:
            raise ValueError("parameters 'axes' and 'scale' need 4 numbers each: forward, left, up, turn")
        mine = self.get_name(), self.get_namespace()
        if self.get_node_names_and_namespaces().count(mine) > 1:
            raise ValueError(f"another joystick steers {self._name} already: end it first")
        self._joystick = Joystick(self._axes, self._scale, self._buttons)
        self._joy = self.subscribe(Joy, "joy", qos.recording(QUEUE, latched=False))
        self._odometry = self.subscribe(Odometry, "odom", qos.SENSOR)
        self._velocity_out = self.advertise(TwistStamped, VELOCITY, qos.MEASURED)
        self._goal_out = self.advertise(PoseStamped, GOAL, qos.MEASURED)

    def run(self, stopped: threading.Event) -> None:
        heard_ns, velocity = 0, None
        self._goal: PoseStamped | None = None
        self._here: Pose | None = None
        while not stopped.wait(PERIOD_S):
            now_ns = self.clock.now_ns()
            if doubled := self._joy.publishers > 1:  # one may hold the enabling button that the other has let go
                self.get_logger().error("two publish on joy: they only land and stop", throttle_duration_sec=5.0)
            for taken in self._joy.drain():
                hands = self._joystick.read(taken[0].axes, taken[0].buttons)
                heard_ns, before, velocity = now_ns, velocity, None if doubled else hands.velocity
                for name in hands.asks:
                    if not doubled or name in ALWAYS:
                        self._ask(name)
                if velocity is None and before is not None:
                    self._stand_still(now_ns)  # let go: at once
            if velocity is not None and now_ns - heard_ns > SILENCE_S * NS:
                self.get_logger().warning("the joystick is silent: the robot stands still")
                velocity = None
                self._stand_still(now_ns)
            if velocity is not None:
                self._send(velocity, now_ns)
            else:
                self._goal = None

    def _stand_still(self, now_ns: int) -> None:
        self._goal = None  # it is ahead of the robot: the next one is where that is now
        self._send(np.zeros(4), now_ns)

    def _send(self, velocity: np.ndarray, now_ns: int) -> None:
        if self._mode == "goal":
            self._move_goal(velocity, now_ns)
            return
        message = TwistStamped()
        message.header.frame_id = base_frame(self._name)
        set_stamp(message.header.stamp, now_ns)
        message.twist.linear.x, message.twist.linear.y, message.twist.linear.z, message.twist.angular.z = map(
            float, velocity
        )
        self._velocity_out.publish(message)

    def _move_goal(self, velocity: np.ndarray, now_ns: int) -> None:
        """By `velocity` along the axes of the world; a goal's heading stays."""
        if (taken := self._odometry.take()) is not None:
            self._here = taken[0].pose.pose
        if self._goal is None and self._here is not None:
            self._goal = PoseStamped(pose=deepcopy(self._here))
            self._goal.header.frame_id = WORLD_FRAME
        if self._goal is not None:
            place = self._goal.pose.position
            place.x, place.y, place.z = (np.array([place.x, place.y, place.z]) + velocity[:3] * PERIOD_S).tolist()
            set_stamp(self._goal.header.stamp, now_ns)
            self._goal_out.publish(self._goal)

    def _ask(self, name: str) -> None:
        if not self._shield[name].service_is_ready():
            self.get_logger().error(f"{name}: there is no shield of {self._name}")
            return
        self._shield[name].call_async(Trigger.Request()).add_done_callback(partial(self._answered, name))

    def _answered(self, name: str, answer: Future) -> None:
        result = answer.result()
        said = f"{name}: {result.message or 'done'}"
        if result.success:
            self.get_logger().info(said)
        else:
            self.get_logger().error(said)


def main() -> int:
    """Run the node."""
    run_node(JoystickNode)


if __name__ == "__main__":
    raise SystemExit(main())
