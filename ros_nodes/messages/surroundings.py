"""What a shield knows of its robot's surroundings: what stands there, other robots' bodies, and people."""

from functools import partial
from typing import Protocol

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState

from deploy.shield.joints.arm_obstacles import arm_obstacles
from deploy.shield.joints.capsules import link_rows
from deploy.shield.joints.guards import check_sense
from deploy.shield.joints.limits import joint_limits
from deploy.shield.joints.params import make_joint_params
from deploy.shield.obstacles import ball
from deploy.shield.params import clearance_m
from deploy.shield.types import NO_PEERS, Obstacles
from hardware import load_robot
from hardware.spec import RobotSpec
from hardware.types import Peers
from ros_nodes.lifecycle.clock import SenderClock
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.parameters import declare
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import MessageError, empty_state
from ros_nodes.messages.first_speaker import FirstSpeaker
from ros_nodes.messages.heard import Heard, listen
from ros_nodes.messages.joints import JointConverter
from ros_nodes.messages.people import PeopleTopic
from ros_nodes.messages.scene import Neighbour, read_surroundings
from ros_nodes.messages.subscriptions import place

BODY_SILENT_S = 0.3  # a robot whose body was not heard of for longer may be anywhere


def declare_surroundings(node: Node) -> tuple[str, str, int]:
    """Parameters `surroundings`, `people_topic` and `most_people`."""
    text = "Obstacles, zones and other robots that are kept off: JSON, as phalanx deploy makes it of a team file."
    topic = "Where a tracker says where people are (geometry_msgs/PoseArray, world)."
    most = "Of so many people where they are is kept: of a message with more, those who are nearest to the robot."
    return (
        declare(node, "surroundings", "{}", text),
        declare(node, "people_topic", "/people", topic),
        declare(node, "most_people", 100, most, 1, 500),
    )


class Around:
    """The newest of all that is not a peer, for a `Context`: `obstacles`, their `names`, `people`, what is `lost`."""

    def __init__(self, node: ManagedNode, spec: RobotSpec, surroundings: str, people_topic: str, most_people: int):
        """What `declare_surroundings` gave. Robots whose shields have no use for it listen to nothing.

        ValueError for text that cannot be.
        """
        given = read_surroundings(surroundings)
        self.obstacles: Obstacles | None = None
        self.names: tuple[str, ...] = ()
        self.people: Peers = NO_PEERS
        self.lost = ""
        self._bodies: list[_Body] = []
        self._people: PeopleTopic | None = None
        if spec.flight is None and link_rows(spec) is None and not spec.fallback_policy:
            return
        self._people = PeopleTopic(node, people_topic, most_people)
        self.names = given.scene.names
        parts = [given.scene.boxes()]
        for neighbour in given.neighbours:
            self._bodies.append(_body(node, neighbour))
            parts.append(self._bodies[-1].obstacles)
            self.names += (neighbour.name,) * len(parts[-1].valid)
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Obstacles.__slots__}
        self.obstacles = Obstacles(**joined) if len(joined["valid"]) else None
        begin = len(parts[0].valid)
        for body in self._bodies:  # their own entries are views of these from now on
            end = begin + len(body.obstacles.valid)
            body.obstacles = Obstacles(**{name: value[begin:end] for name, value in joined.items()})
            begin = end

    def update(self, now_ns: int, own: np.ndarray | None) -> None:
        """Take what has arrived; ages become those at `now_ns` (the node's clock).

        `own` (3,) m: where the robot is, None where that is not known.
        """
        silent = [body.name for body in self._bodies if body.update(now_ns) > BODY_SILENT_S]
        self.lost = f"{', '.join(silent)} not heard for over {BODY_SILENT_S:g} s" if silent else ""
        if self._people is not None:
            self.people, lost = self._people.update(now_ns, own)
            self.lost = "; ".join(filter(None, [self.lost, lost]))

    def missing(self) -> list[str]:
        """What keeps the robot from being armed: robots that were never heard, and what is lost."""
        never = [body.name for body in self._bodies if not body.stamp_ns]
        unheard = f"never heard where the body of {', '.join(never)} is" if never else ""
        return list(filter(None, [unheard, self.lost]))


def _body(node: ManagedNode, neighbour: Neighbour) -> "_Body":
    spec = load_robot(neighbour.type)
    return _Body(node, neighbour.name, (_Ball if link_rows(spec) is None else _Links)(node, neighbour, spec))


class _Listener(Protocol):
    """What says where a body is; at first nothing of it is valid."""

    obstacles: Obstacles

    def hear(self, now_ns: int) -> tuple[Obstacles, int] | None:
        """What arrived since the last call, and its stamp."""


class _Body:
    """Another robot's body; nothing is valid before it was heard."""

    stamp_ns = 0  # time of the node

    def __init__(self, node: ManagedNode, name: str, listener: _Listener):
        self.name, self._sender, self._listener = name, SenderClock(node.clock), listener
        self.obstacles = listener.obstacles
        self._newest: Obstacles | None = None

    def update(self, now_ns: int) -> float:
        """Age in s, 0 before anything was heard. What is old is larger, by how far it may have moved since."""
        heard = self._listener.hear(now_ns)
        if heard is not None:
            self._newest, sent_ns = heard
            self.stamp_ns = min(self._sender.to_own(sent_ns, now_ns), now_ns)
            for name in Obstacles.__slots__:
                getattr(self.obstacles, name)[:] = getattr(self._newest, name)
        if self._newest is None:
            return 0.0
        age_s = (now_ns - self.stamp_ns) * 1e-9
        np.multiply(self._newest.speed, min(age_s, BODY_SILENT_S), out=self.obstacles.radius)
        self.obstacles.radius += self._newest.radius
        return age_s


class _Links:
    """An arm's links, from its `joint_states`."""

    def __init__(self, node: ManagedNode, neighbour: Neighbour, spec: RobotSpec):
        self._name, self._logger = neighbour.name, node.get_logger()
        mailbox = node.subscribe(JointState, f"/{neighbour.name}/joint_states", qos.JOINTS_IN, raw=True)
        self._speaker = FirstSpeaker(mailbox)
        self._converter, self._state = JointConverter(spec.joint_names), empty_state(len(spec.joints))
        self._spec, self._limits = spec, joint_limits(make_joint_params(spec), spec)
        place(self._state, *neighbour.base_pose)
        self._place = partial(arm_obstacles, spec, self._state, neighbour.lands_on)
        self._state.joint_pos[:] = spec.home
        self._state.joint_vel[:] = 0.0
        home = self._place()
        assert home is not None
        home.valid[:] = False
        self.obstacles = home

    def hear(self, now_ns: int) -> tuple[Obstacles, int] | None:
        taken = self._speaker.take()
        if taken is None:
            return None
        try:
            sent_ns = self._converter.read(taken[0], self._state)
        except MessageError as error:
            self._logger.error(f"{self._name}: {error}", throttle_duration_sec=1.0)
            return None
        if wrong := check_sense(self._spec, self._limits, self._state):  # as its own shield would refuse it
            self._logger.error(f"{self._name}: {wrong}", throttle_duration_sec=1.0)
            return None
        found = self._place()
        assert found is not None
        return (found, sent_ns) if np.isfinite(found.pos).all() and np.isfinite(found.speed).all() else None


class _Ball:
    """All that a robot on legs can reach, around its base; around a drone the room that its shield wants."""

    def __init__(self, node: ManagedNode, neighbour: Neighbour, spec: RobotSpec):
        self._topic, self._radius_m = listen(node, f"/{neighbour.name}/odom"), clearance_m(spec)
        self._heard: Heard | None = None
        self.obstacles = ball(np.zeros(3), np.zeros(3), self._radius_m)
        self.obstacles.valid[:] = False

    def hear(self, now_ns: int) -> tuple[Obstacles, int] | None:
        heard = self._topic.overheard(now_ns)
        if heard is None or heard is self._heard or heard.world is None:
            return None
        self._heard, (pos, vel) = heard, heard.world
        return ball(np.asarray(pos), np.asarray(vel), self._radius_m), heard.motion.stamp_ns
