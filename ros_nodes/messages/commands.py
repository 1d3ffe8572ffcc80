"""Commands of an operator to a robot: the topic of each command of a contract, and its default.

| command                         | topic in the robot's namespace | message                                           |
|---------------------------------|--------------------------------|---------------------------------------------------|
| goal_pos (3) m, goal_quat (4)   | goal                           | geometry_msgs/PoseStamped, latched                |
| velocity (3) m/s, m/s, rad/s    | cmd_vel                        | geometry_msgs/TwistStamped, again and again       |
| any other `<name>` (n)          | commands/<name>                | std_msgs/Float64MultiArray with n numbers, latched|

Latched means reliable and transient-local. What is out of the range that the policy was trained for is refused, and
the command before stays in force. Until the first one robots hold their position, see `hold_command`; an arm's
shield holds every joint until each of its topics has been received.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped
from std_msgs.msg import Float64MultiArray

from deploy.contract import CommandSpec
from deploy.runtime import NO_OBJECTS
from deploy.runtime.graph_inputs import as_typed
from hardware.spec import RobotSpec
from hardware.types import ObjectState, RobotState
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import WORLD_FRAME, MessageError, base_frame, stamp_ns
from ros_nodes.messages.hold_command import HoldCommand, upper_half
from ros_nodes.messages.reach import beyond_reach, range_beyond_reach, reach_m
from ros_nodes.messages.topics import GOAL, VELOCITY, command_topic

Command = Mapping[str, np.ndarray]
NEVER = 2**63  # ns
MOST_LOST = 20  # velocities in a row
DOUBLED_NS = 1_000_000_000  # after two have spoken
NO_ORIENTATION = "it has no orientation, and this policy needs one"
UNIT_WITHIN = 1e-2  # a quaternion whose norm is off by more is a mistake, not rounding


@dataclass(slots=True)
class _Source:
    mailbox: Mailbox
    read: Callable[[Any], dict[str, np.ndarray]]
    lasts_ns: int = NEVER  # after a message, until the safe command is back
    received_ns: int = 0
    received: bool = False  # since the start
    number: int = 0  # of the last message, and when it arrived; of velocities
    heard_ns: int = 0
    doubled_ns: int = 0  # until when two publish velocities


def own_topics(commands: Iterable[str]) -> list[str]:
    """Those of the commands that go to a topic of their own."""
    return sorted(set(commands) - {"goal_pos", "goal_quat", "velocity"})


class CommandInbox:
    """The commands (n,) float32 of one robot, from messages that `check` accepts; before the first one: hold position.

    A velocity holds for `velocity_timeout_s`, then the robot stops. While two publish velocities none is obeyed; of
    other commands the last one stands, of whichever sender.
    """

    def __init__(
        self,
        node: ManagedNode,
        commands: Sequence[CommandSpec],
        check: Callable[[Command], None],
        spec: RobotSpec,
        robot: str,
        velocity_timeout_s: float,
        base_pose: Sequence[float],
    ):
        """`check` raises ValueError for commands that the policy refuses; `base_pose` of an arm: x, y, z m, yaw rad.

        ValueError for a size that no message has.
        """
        self._logger, self._clock = node.get_logger(), node.clock
        self._check = check
        self._commands = {command.name: command for command in commands}
        self._base_frame, self._base_pose, self._reach_m = base_frame(robot), base_pose, reach_m(spec)
        self.unreachable = range_beyond_reach(commands, self._reach_m, base_pose)  # why it comes to no goal, or empty
        self._waits = spec.kind == "manipulator"
        self._hold_command = HoldCommand(spec, commands)
        for name, size in (("goal_pos", 3), ("goal_quat", 4), ("velocity", 3)):
            if name in self._commands and self._commands[name].shape[1] != size:
                shape = self._commands[name].shape
                raise ValueError(f"command {name!r}: has shape {shape}, its message has {size} numbers")
        self._sources = self._listen(node, round(velocity_timeout_s * 1e9))
        self._safe: dict[str, np.ndarray] = {}
        self._command: dict[str, np.ndarray] = {}
        self._given: dict[str, np.ndarray] = {}  # received since `forget`
        self._refused: dict[str, str] = {}  # by topic, why its last message was
        self.goal_ns = 0  # stamp of the last goal that was taken or refused

    def start(self, state: RobotState, objects: Mapping[str, ObjectState] = NO_OBJECTS) -> Command:
        """What has been received, and for the rest: hold the positions of `state` and `objects` (no batch)."""
        self._safe = self._hold_command(state, objects)
        self._command = self._safe | self._given
        return self._command

    def forget(self) -> None:
        """The policy's turn is over: the next one begins without the commands of this one."""
        self._given, self._refused = {}, {}
        for source in self._sources:
            source.received = False

    @property
    def awaited(self) -> list[str]:
        """Topics on which an acceptable command is still missing before the robot may move.

        Only of arms: no goal in the range of a policy is sure to keep an arm where it is, but its shield is.
        """
        return [source.mailbox.topic for source in self._sources if self._waits and not source.received]

    def update(self, now_ns: int) -> Command:
        """Take what has arrived by `now_ns` (the node's clock)."""
        for source in self._sources:
            for taken in source.mailbox.drain():
                arrived_ns = self._clock.arrived_ns(taken[1])
                if source.lasts_ns != NEVER and self._is_doubled(source, arrived_ns):
                    self._logger.error(self.warning, throttle_duration_sec=5.0)
                else:
                    self._accept(source, taken[0], arrived_ns)
            if source.received_ns and now_ns - source.received_ns > source.lasts_ns:
                source.received_ns = 0
                self._given.pop("velocity", None)
                self._command = self._command | {"velocity": self._safe["velocity"]}
        return self._command

    @property
    def warning(self) -> str:
        """Why no velocity is obeyed, or an empty string."""
        now_ns = self._clock.now_ns()
        doubled = [source.mailbox.topic for source in self._sources if now_ns < source.doubled_ns]
        return f"two publish on {doubled[0]}: no velocity is obeyed" if doubled else ""

    @property
    def refused(self) -> str:
        """Why the last command on a topic was refused, or an empty string."""
        return "; ".join(self._refused.values())

    @staticmethod
    def _is_doubled(source: _Source, arrived_ns: int) -> bool:
        """Whether two steer at once: unlike goals, velocities of two would take turns, and none would be followed.

        Each numbers its own messages. One that was killed is still counted for a while, but says nothing.
        """
        number, last, before_ns = source.mailbox.number, source.number, source.heard_ns
        source.number, source.heard_ns = number or 0, arrived_ns
        follows = number is not None and last < number <= last + MOST_LOST
        if source.mailbox.publishers > 1 and not follows and arrived_ns - before_ns < source.lasts_ns:
            source.doubled_ns = arrived_ns + DOUBLED_NS
        return arrived_ns < source.doubled_ns

    def _accept(self, source: _Source, message: Any, arrived_ns: int) -> None:
        topic = source.mailbox.topic
        try:
            given = source.read(message)
            self._check(self._command | given)
            for name, value in given.items():
                if far := beyond_reach(self._commands[name], value, self._reach_m, self._base_pose):
                    raise MessageError(f"{name} {as_typed(value)} is {far}")
        except ValueError as error:
            hint = f"; {self.unreachable}" if self.unreachable else ""
            self._refused[topic] = f"{topic} refused: {error}{hint}"
            self._logger.error(self._refused[topic], throttle_duration_sec=1.0)
            return
        self._refused.pop(topic, None)
        self._given |= given
        self._command, source.received_ns, source.received = self._command | given, arrived_ns, True

    def _listen(self, node: ManagedNode, velocity_lasts_ns: int) -> list[_Source]:
        sources = []
        if self._commands.keys() & {"goal_pos", "goal_quat"}:
            sources.append(_Source(node.subscribe(PoseStamped, GOAL, qos.LATCHED), self._goal))
        if "velocity" in self._commands:
            mailbox = node.subscribe(TwistStamped, VELOCITY, qos.COMMANDS_IN)
            sources.append(_Source(mailbox, self._velocity, velocity_lasts_ns))
        for name in own_topics(self._commands):
            mailbox = node.subscribe(Float64MultiArray, command_topic(name), qos.LATCHED)
            sources.append(_Source(mailbox, partial(_array, name)))
        return sources

    def _goal(self, message: PoseStamped) -> dict[str, np.ndarray]:
        p, q = message.pose.position, message.pose.orientation
        self.goal_ns = stamp_ns(message.header.stamp)
        found: dict[str, np.ndarray] = {}
        if "goal_pos" in self._commands:
            self._check_frame(message.header.frame_id, self._commands["goal_pos"])
            found |= _numbers("goal_pos", (p.x, p.y, p.z))
        if "goal_quat" in self._commands:
            self._check_frame(message.header.frame_id, self._commands["goal_quat"])
            found["goal_quat"] = _unit(np.array((q.w, q.x, q.y, q.z)))
        return found

    def _velocity(self, message: TwistStamped) -> dict[str, np.ndarray]:
        frame, twist = message.header.frame_id, message.twist
        if frame not in ("", "base_link", self._base_frame):
            raise MessageError(f"frame {frame!r}; expected {self._base_frame!r}")
        return _numbers("velocity", (twist.linear.x, twist.linear.y, twist.angular.z))

    def _check_frame(self, found: str, spec: CommandSpec) -> None:
        expected = WORLD_FRAME if spec.frame == "world" else self._base_frame
        if found not in ("", expected):
            raise MessageError(f"frame {found!r}; expected {expected!r}")


def _numbers(name: str, values: Sequence[float]) -> dict[str, np.ndarray]:
    with np.errstate(over="ignore"):  # what float32 does not hold is infinite, and refused
        return {name: np.array(values, np.float32)}


def _array(name: str, message: Float64MultiArray) -> dict[str, np.ndarray]:
    return _numbers(name, message.data)


def _unit(quat: np.ndarray) -> np.ndarray:
    """A unit quaternion with w >= 0; MessageError when `quat` is far from one."""
    norm = float(np.linalg.norm(quat))
    if norm == 0.0:
        raise MessageError(NO_ORIENTATION)
    if not abs(norm - 1.0) < UNIT_WITHIN:
        raise MessageError(f"orientation has norm {norm:g}; expected 1")
    return upper_half((quat / norm).astype(np.float32))
