"""A goal that a person gives to robots of a ROS domain, from outside of their programs.

For a process that does nothing else, and ends by `end_process`.
"""

import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack
from itertools import compress

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import GetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.task import Future

from deploy.shield.authority import ASKS_THE_POLICY, State
from deploy.shield.obstacles import outward
from ros_nodes.lifecycle.context import domain_context
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.commands import NO_ORIENTATION
from ros_nodes.messages.diagnostics import HEARD, REFUSED, TAKES, ShieldMode, value_of
from ros_nodes.messages.local_orders import Outcome
from ros_nodes.messages.names import POLICY_STATUS
from ros_nodes.messages.scene import NO_SCENE, read_surroundings
from ros_nodes.messages.topics import VELOCITY, command_topic
from ros_nodes.operation.ask import ANSWER_S, LOOK_S, answers_of, why_silent
from ros_nodes.operation.operator import MissionNode

NEWEST_S = 0.2  # after what a shield said before, which comes first
AGAIN_S = 1.0  # after which a goal is sent again that was not heard
TAKES_NO_GOAL = tuple(state.name for state in (State.LANDING, State.STOPPED, State.FAULT))
ASKING = tuple(state.name for state in ASKS_THE_POLICY)
FENCE = ("shield.geofence_low", "shield.geofence_high")  # parameters of a drone's shield
AROUND = ("surroundings",)  # of any shield
_LEFT_OPEN = ExitStack()


def send_goal(
    robots: Sequence[str],
    goal_m: Sequence[float],
    quat: Sequence[float] | None = None,
    domain: int | None = None,
    waits_for: Callable[[str], None] = lambda what: None,
) -> dict[str, Outcome]:
    """Give each of `robots` the goal `goal_m` (3,) m, world, turned as `quat` wxyz; what came of it, of each by name.

    Before a start it is kept for that. A robot that a fault, a stop or a landing has is given none, and none is given
    that is outside the fence of a drone's shield, or in what a shield keeps out of: it would be held off for good.
    `waits_for` hears what is waited for.
    """
    waits_for(f"discovery of {', '.join(robots)}")
    node, executor = _node(robots, domain)
    policies = {robot: Mailbox(node, DiagnosticArray, f"/{robot}/{POLICY_STATUS}", qos.LATCHED) for robot in robots}
    until_s = time.monotonic() + ANSWER_S
    listens, takes, no_goals = set[str](), dict[str, str](), set[str]()
    bounds = {robot: _Bounds(node, robot) for robot in robots}
    known = False
    while time.monotonic() < until_s and not (
        (listens | no_goals).issuperset(robots) and "?" not in node.modes and known
    ):
        executor.spin_once(timeout_sec=LOOK_S)
        node.update()
        known = all([each.is_known() for each in bounds.values()])  # each is asked at once
        listens |= {robot for robot in robots if _takes_goals(node, robot)}
        takes |= _commands_of(policies)
        no_goals = {robot for robot in takes if _no_goal(robot, takes[robot])}
        if lacking := _lacking(node, robots, listens | no_goals, bounds):
            waits_for(f"discovery of {lacking}")
    time.sleep(NEWEST_S)
    node.update()
    shields = dict(zip(robots, node.shields, strict=True))
    outcomes = {robot: _takes_goal(robot in listens, shields[robot], bounds[robot].why_not(goal_m)) for robot in robots}
    gone = [robot for robot in robots if robot not in listens and shields[robot].state == "?"]
    outcomes |= {robot: Outcome(False, why_silent(node, robot)) for robot in gone}
    takes |= _commands_of(policies)
    outcomes |= {robot: Outcome(False, how) for robot in takes if (how := _no_goal(robot, takes[robot]))}
    if quat is not None:
        outcomes |= {r: no for r in robots if outcomes[r].done and (no := _takes_no_quat(takes.get(r, "")))}
    taken = [robot for robot in robots if outcomes[robot].done]
    waits_for(answers_of(taken))
    said = _send_until_heard(node, {robot: policies[robot] for robot in taken}, goal_command(goal_m, quat))
    for robot, refused in said.items():
        if refused:
            outcomes[robot] = Outcome(False, refused + "; give it by --quat W X Y Z" * (NO_ORIENTATION in refused))
    return outcomes


def _send_until_heard(
    node: MissionNode, policies: Mapping[str, Mailbox], commands: Mapping[str, np.ndarray]
) -> dict[str, str]:
    """Send it until every policy says that it has heard it, for `ANSWER_S` at most; why it was refused, or empty.

    A goal of a program that ends at once is lost where it was not read before.
    """
    refused = dict.fromkeys(policies, f"goal: its policy has not answered within {ANSWER_S:g} s")
    first_ns, waiting = dict[str, int](), set(policies)
    begin_s = last_s = time.monotonic()
    while waiting and (now_s := time.monotonic()) < begin_s + ANSWER_S:
        if not first_ns or now_s - last_s > AGAIN_S:
            last_s = now_s
            for robot in waiting:
                first_ns.setdefault(robot, node.send(robot, commands))
        time.sleep(LOOK_S)
        for robot in tuple(waiting):
            for said, _ in policies[robot].drain():
                heard = value_of(HEARD, said)
                if heard.isdigit() and int(heard) >= first_ns[robot]:
                    waiting.discard(robot)
                    refused[robot] = value_of(REFUSED, said)
    return refused


def goal_command(goal_m: Sequence[float], quat: Sequence[float] | None) -> dict[str, np.ndarray]:
    """As `MissionNode.send` takes it: without `quat` its orientation is none, which only who needs one refuses."""
    return {"goal_pos": np.array(goal_m), "goal_quat": np.array(quat or np.zeros(4))}


def _lacking(node: MissionNode, robots: Sequence[str], listens: Container[str], bounds: Mapping[str, "_Bounds"]) -> str:
    """What is not known yet, in words, of which robots."""
    shields = dict(zip(robots, node.shields, strict=True))
    found = [f"the policy of {robot}" for robot in robots if robot not in listens]
    found += [f"the shield of {robot}" for robot in robots if shields[robot].state == "?"]
    found += [
        f"the fence of {robot}" for robot in robots if shields[robot].state != "?" and not bounds[robot].is_known()
    ]
    return ", ".join(found)


class _Bounds:
    """Where a robot's shield lets it be, as its node states it. No other robot than a drone has a fence."""

    def __init__(self, node: MissionNode, robot: str):
        self._client = node.create_client(GetParameters, f"/{robot}/shield/get_parameters")
        self._answers: list[Future] = []

    def is_known(self) -> bool:
        """Whether it has been said; asks for it once the shield can be asked."""
        if not self._answers and self._client.service_is_ready():  # a name that a node lacks leaves all unanswered
            self._answers = [self._client.call_async(GetParameters.Request(names=names)) for names in (FENCE, AROUND)]
        return bool(self._answers) and all(answer.done() for answer in self._answers)

    def why_not(self, goal_m: Sequence[float]) -> str:
        """What is said of a goal (3,) m where it may not be, empty for others and where nothing is known."""
        if not self.is_known():
            return ""
        fence, around = (answer.result().values for answer in self._answers)
        if fence:
            low, high = (list(value.double_array_value) for value in fence)
            if not all(a <= x <= b for a, x, b in zip(low, goal_m, high, strict=True)):
                return f"goal: {list(goal_m)} is outside the fence of its shield, {low} to {high} m"
        scene = read_surroundings(around[0].string_value).scene if around else NO_SCENE
        inside = outward(np, np.array(goal_m), scene.boxes())[1] <= 0.0 if scene.names else []
        for name in compress(scene.names, inside):
            return f"goal: {list(goal_m)} is inside {name}, which its shield keeps out of"
        return ""


def _takes_goals(node: MissionNode, robot: str) -> bool:
    """Whether its policy is among those that read its goal, as recorders do too."""
    readers = node.get_subscriptions_info_by_topic(f"/{robot}/goal")
    return any(reader.node_namespace == f"/{robot}" for reader in readers)


def _takes_goal(listens: bool, shield: ShieldMode, outside: str = "") -> Outcome:
    """What comes of a goal for a robot whose policy `listens` for one, where that does not refuse it.

    `outside`: what is said of a goal where its shield does not let it be.
    """
    if not listens:
        return Outcome(False, "no policy listens for a goal")
    if shield.state == "?":
        return Outcome(False, "its shield is not heard")
    if shield.state in TAKES_NO_GOAL:
        return Outcome(False, f"goal: the robot is {shield.state}{f' ({shield.reason})' if shield.reason else ''}")
    if outside:
        return Outcome(False, outside)
    return Outcome(True, "" if shield.state in ASKING else f"kept for its start: the robot is {shield.state}")


def _commands_of(policies: Mapping[str, Mailbox]) -> dict[str, str]:
    """The commands, by name, that policies take, as far as they have said it since the last call."""
    said = {robot: [value_of(TAKES, message) for message, _ in box.drain()] for robot, box in policies.items()}
    return {robot: takes[-1] for robot, takes in said.items() if takes and takes[-1]}


def _no_goal(robot: str, takes: str) -> str:
    """How a policy is commanded that `takes` these commands, where a goal is none of them; or an empty string."""
    names = takes.split(", ")
    if "goal_pos" in names or "goal_quat" in names:
        return ""
    if "velocity" not in names:
        topics = " and ".join(f"/{robot}/{command_topic(name)}" for name in names)
        return f"goal: its policy takes {takes}, and no goal; publish on {topics}"
    how = f"ros2 topic pub -r 10 /{robot}/{VELOCITY} geometry_msgs/msg/TwistStamped '{{twist: {{linear: {{x: 0.3}}}}}}'"
    return f"goal: its policy takes {takes}, and no goal; as long as it is to move: {how}, or a joystick (docs/ros2.md)"


def _takes_no_quat(takes: str) -> Outcome | None:
    """That a policy that `takes` these commands takes no orientation, which it would ignore; "" where not known."""
    if not takes or "goal_quat" in takes.split(", "):
        return None
    return Outcome(False, f"goal: its policy takes {takes}, and no orientation; give it without --quat")


def _node(robots: Sequence[str], domain: int | None) -> tuple[MissionNode, SingleThreadedExecutor]:
    """They live until `end_process`: a person who asked for a stop does not wait for the middleware's destructors."""
    context = _LEFT_OPEN.enter_context(domain_context(domain))
    executor = SingleThreadedExecutor(context=context)
    node = MissionNode(robots, node_name="operate", context=context, enable_rosout=False)
    executor.add_node(node)
    return node, executor
