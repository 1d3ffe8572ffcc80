"""The operator's side: brings a team up in order, sends commands, and follows positions and shield modes."""

from collections.abc import Iterable, Mapping, Sequence
from math import hypot
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.task import Future
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from deploy.shield.authority import State
from ros_nodes.lifecycle.clock import RobotClock
from ros_nodes.lifecycle.parameters import declare, keep_clock
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import course as course_status
from ros_nodes.messages import qos
from ros_nodes.messages.commands import own_topics
from ros_nodes.messages.conversion import WORLD_FRAME, base_frame, set_stamp
from ros_nodes.messages.diagnostics import ShieldMode, read_status
from ros_nodes.messages.operator_services import SERVICES
from ros_nodes.messages.topics import GOAL, VELOCITY, command_topic
from ros_nodes.plans.course import Course, CourseProgress
from ros_nodes.plans.mission import Mission, Order

REPEAT_S = 0.1  # velocities are repeated: without one a robot stops


class MissionNode(Node):
    """Publishes commands to robots; keeps each robot's last position and the modes of its shield."""

    def __init__(
        self,
        team: Sequence[str] | None = None,
        commands: Sequence[str] = ("goal_pos",),
        node_name: str = "mission",
        **node_options: Any,
    ):
        """`team` by default from the parameter of that name; `node_options` as for rclpy's Node."""
        super().__init__(node_name, **node_options)
        self._robot_clock = RobotClock(self)
        keep_clock(self)
        self.team = list(team) if team is not None else declare(self, "team", [""], "Names of the robots.")
        self._publishers_of: dict[str, dict[str, Publisher]] = {}
        self.advertise(commands)
        self._odometry = {name: Mailbox(self, Odometry, f"/{name}/odom", qos.SENSOR) for name in self.team}
        self._status = {name: Mailbox(self, DiagnosticArray, f"/{name}/status", qos.HISTORY) for name in self.team}
        self._asks = {
            (name, what): self.create_client(Trigger, f"/{name}/shield/{what}")
            for name in self.team
            for what in SERVICES
        }
        self.refusals: dict[str, str] = {}  # why a robot's shield did not do what it was asked for last
        self.positions = np.full((len(self.team), 3), np.nan)
        self.speeds = np.full(len(self.team), np.nan)
        self.shields = [ShieldMode("?")] * len(self.team)
        self.changes: dict[str, list[ShieldMode]] = {name: [] for name in self.team}  # of mode, to latched, and delays

    def advertise(self, commands: Iterable[str]) -> None:
        """Get ready to send `commands`, once."""
        self._publishers_of = {name: self._advertise(name, commands) for name in self.team}

    def send(self, robot: str, commands: Mapping[str, np.ndarray]) -> int:
        """Send `robot` `commands` (n,), on the topics of `messages.commands`; goals are in the world.

        Returns their stamp, ns of robot time.
        """
        publishers, now_ns = self._publishers_of[robot], self.now_ns()
        if commands.keys() & {"goal_pos", "goal_quat"}:
            publishers[GOAL].publish(_goal(commands, now_ns))
        if "velocity" in commands:
            publishers[VELOCITY].publish(_velocity(robot, commands["velocity"], now_ns))
        for name in own_topics(commands):
            publishers[name].publish(Float64MultiArray(data=np.asarray(commands[name], float).tolist()))
        return now_ns

    def now_ns(self) -> int:
        """Robot time."""
        return self._robot_clock.now_ns()

    def ask(self, robot: str, what: str) -> None:
        """Ask the shield of `robot` to `arm`, `start`, `land` ...; the outcome shows in `shields` and `refusals`."""

        def keep(answer: Future) -> None:
            response = answer.result()
            self.refusals[robot] = "" if response is None or response.success else response.message

        self._asks[robot, what].call_async(Trigger.Request()).add_done_callback(keep)

    def update(self) -> None:
        """Bring `positions` (N, 3) m, `speeds` (N,) m/s, `shields` and `changes` up to date."""
        for index, name in enumerate(self.team):
            odometry = self._odometry[name].take()
            if odometry is not None:
                p, v = odometry[0].pose.pose.position, odometry[0].twist.twist.linear
                self.positions[index] = p.x, p.y, p.z
                self.speeds[index] = hypot(v.x, v.y, v.z)
            for status, _ in self._status[name].drain():
                last, now = self.shields[index], read_status(status)
                self.shields[index] = now
                known = last.state, last.mode, last.latched, last.delays
                if (now.state, now.mode, now.latched, now.delays) != known:
                    self.changes[name].append(now)

    @property
    def modes(self) -> list[str]:
        """The mode of each shield; "?" before its first status."""
        return [shield.mode for shield in self.shields]

    def _advertise(self, robot: str, commands: Iterable[str]) -> dict[str, Publisher]:
        found: dict[str, Publisher] = {}
        if {*commands} & {"goal_pos", "goal_quat"}:
            found[GOAL] = self.create_publisher(PoseStamped, f"/{robot}/{GOAL}", qos.LATCHED)
        if "velocity" in commands:
            found[VELOCITY] = self.create_publisher(TwistStamped, f"/{robot}/{VELOCITY}", qos.SENSOR)
        for name in own_topics(commands):
            topic = f"/{robot}/{command_topic(name)}"
            found[name] = self.create_publisher(Float64MultiArray, topic, qos.LATCHED)
        return found


class CourseFollower:
    """Follows one robot along its course, and says on its topic how far it has come."""

    def __init__(self, node: MissionNode, robot: str, course: Course):
        self.robot = robot
        self._row, self._goals, self._progress = node.team.index(robot), len(course.goals), CourseProgress(course)
        self._publisher = node.create_publisher(DiagnosticArray, f"/{robot}/{course_status.TOPIC}", qos.LATCHED)
        self._say()

    def step(self, node: MissionNode) -> np.ndarray | None:
        """The goal (3,) m to send after the last update of `node`, see `CourseProgress`."""
        before, flown = len(self._progress.passed_ns), node.shields[self._row].state == State.POLICY.name
        goal = self._progress.step(flown, node.positions[self._row], node.speeds[self._row], node.now_ns())
        if (passed := len(self._progress.passed_ns)) > before:
            self._say()
            node.get_logger().info(f"{self.robot}: goal {passed} of {self._goals} is passed")
        return goal

    def _say(self) -> None:
        self._publisher.publish(course_status.message(self.robot, self._goals, self._progress.passed_ns))


class OrderSender:
    """Sends the orders of a mission when they are due, and the next goal of a course when one is passed."""

    def __init__(self, mission: Mission, node: MissionNode):
        self._mission, self._node = mission, node
        self._waiting = list(mission.orders)
        self._legs_s = list(mission.legs_s)
        self._courses = [CourseFollower(node, name, course) for name, course in mission.courses.items()]
        self.sent = list(mission.orders)  # as `step` sent them, those of courses too, in the order of their times
        self._velocity: dict[str, np.ndarray] = {}
        self._repeat_s = 0.0

    def step(self, now_s: float) -> bool:
        """Send what is due at `now_s` of the mission, after the last update of the node; True when a leg has begun."""
        due: dict[str, dict[str, np.ndarray]] = {name: {} for name in self._mission.names}
        while self._waiting and self._waiting[0].t_s <= now_s:
            for name, commands in self._waiting.pop(0).commands.items():
                due[name] |= commands
        for course in self._courses:
            if (goal := course.step(self._node)) is not None:
                due[course.robot]["goal_pos"] = goal
                self.sent.append(Order(now_s, {course.robot: {"goal_pos": goal}}))
        self._velocity |= {name: commands["velocity"] for name, commands in due.items() if "velocity" in commands}
        if now_s >= self._repeat_s:
            self._repeat_s = now_s + REPEAT_S
            for name, velocity in self._velocity.items():
                due[name]["velocity"] = velocity
        for name, commands in due.items():
            self._node.send(name, commands)
        begun = [leg_s for leg_s in self._legs_s if leg_s <= now_s]
        self._legs_s = self._legs_s[len(begun) :]
        return bool(begun)


def _goal(commands: Mapping[str, np.ndarray], now_ns: int) -> PoseStamped:
    message = PoseStamped()
    message.header.frame_id = WORLD_FRAME
    set_stamp(message.header.stamp, now_ns)
    p, q = message.pose.position, message.pose.orientation
    if "goal_pos" in commands:
        p.x, p.y, p.z = np.asarray(commands["goal_pos"], float).tolist()
    if "goal_quat" in commands:
        q.w, q.x, q.y, q.z = np.asarray(commands["goal_quat"], float).tolist()
    return message


def _velocity(robot: str, velocity: np.ndarray, now_ns: int) -> TwistStamped:
    message = TwistStamped()
    message.header.frame_id = base_frame(robot)
    set_stamp(message.header.stamp, now_ns)
    message.twist.linear.x, message.twist.linear.y, message.twist.angular.z = np.asarray(velocity, float).tolist()
    return message
