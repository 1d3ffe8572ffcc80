"""One order of a person to robots of a ROS domain, from outside of their programs.

For a process that does nothing else, and ends by `end_process`.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import Trigger

from deploy.shield.authority import ASKS_THE_POLICY, State
from ros_nodes.lifecycle.context import domain_context
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.diagnostics import POLICY_STATUS, REFUSED, ShieldMode, value_of
from ros_nodes.messages.operator_services import Outcome
from ros_nodes.mission.operator import MissionNode

ARM = "/shield/arm"  # a service of every robot
FIND_S = 4.0  # a participant that was not heard at first announces itself again after three seconds
LOOK_S = 0.02
ANSWER_S = 5.0
NEWEST_S = 0.2  # after what a shield said before, which comes first
KEEP_S = 0.5  # a goal is on its way, and what the policy says to it
TAKES_NO_GOAL = tuple(state.name for state in (State.LANDING, State.STOPPED, State.FAULT))
ASKING = tuple(state.name for state in ASKS_THE_POLICY)
_LEFT_OPEN = ExitStack()


def find_robots(domain: int | None) -> list[str]:
    """Names of the robots of `domain` that can be asked; takes `FIND_S`."""
    node, executor = _node((), domain)
    until_s = time.monotonic() + FIND_S
    while time.monotonic() < until_s:
        executor.spin_once(timeout_sec=LOOK_S)
    return _robots_heard(node)


def ask(what: str, robots: Sequence[str] = (), domain: int | None = None) -> dict[str, Outcome]:
    """Ask the shields of `robots` to `arm`, `start`, `land` ...; what came of it, of each by name.

    Without names every robot is asked that is found within `FIND_S`, at once: none waits for the answer of another.
    One whose policy is heard and whose shield is not, such as that of a process which hangs, is in the answer too.
    """
    node, executor = _node((), domain)
    find_until_s = time.monotonic() + (0.0 if robots else FIND_S)
    orders = {robot: _Order(node, robot, what) for robot in robots}
    while time.monotonic() < find_until_s or not all(order.is_over() for order in orders.values()):
        if not robots:
            orders |= {robot: _Order(node, robot, what) for robot in _robots_heard(node) if robot not in orders}
        for order in orders.values():
            order.send_once()
        executor.spin_once(timeout_sec=LOOK_S)
    outcomes = {robot: order.outcome() for robot, order in orders.items()}
    if not robots:
        outcomes |= {robot: Outcome(False, "its shield is not heard") for robot in _policies_heard(node) - set(orders)}
    return dict(sorted(outcomes.items()))


def send_goal(robots: Sequence[str], goal_m: np.ndarray, domain: int | None = None) -> dict[str, Outcome]:
    """Give each of `robots` the goal `goal_m` (3,) m, world; what came of it, of each by name.

    Before a start it is kept for that. A robot that a fault, a stop or a landing has is given none.
    """
    node, executor = _node(robots, domain)
    policies = {robot: Mailbox(node, DiagnosticArray, f"/{robot}/{POLICY_STATUS}", qos.LATCHED) for robot in robots}
    until_s = time.monotonic() + ANSWER_S
    listens = set[str]()
    while time.monotonic() < until_s and not (listens.issuperset(robots) and "?" not in node.modes):
        executor.spin_once(timeout_sec=LOOK_S)
        node.update()
        listens |= {robot for robot in robots if node.count_subscribers(f"/{robot}/goal")}
    time.sleep(NEWEST_S)
    node.update()
    shields = dict(zip(robots, node.shields, strict=True))
    outcomes = {robot: _takes_goal(robot in listens, shields[robot]) for robot in robots}
    for robot in (robot for robot in robots if outcomes[robot].done):
        node.send(robot, {"goal_pos": goal_m})
    time.sleep(KEEP_S)
    for robot, policy in policies.items():
        refused = ""
        while (said := policy.take()) is not None:
            refused = value_of(REFUSED, said[0])
        if outcomes[robot].done and refused:
            outcomes[robot] = Outcome(False, refused)
    return outcomes


def _takes_goal(listens: bool, shield: ShieldMode) -> Outcome:
    """What comes of a goal for a robot whose policy `listens` for one, where that does not refuse it."""
    if not listens:
        return Outcome(False, "no policy listens for a goal")
    if shield.state == "?":
        return Outcome(False, "its shield is not heard")
    if shield.state in TAKES_NO_GOAL:
        return Outcome(False, f"goal: the robot is {shield.state}{f' ({shield.reason})' if shield.reason else ''}")
    return Outcome(True, "" if shield.state in ASKING else f"kept for its start: the robot is {shield.state}")


def _node(robots: Sequence[str], domain: int | None) -> tuple[MissionNode, SingleThreadedExecutor]:
    """They live until `end_process`: a person who asked for a stop does not wait for the middleware's destructors."""
    context = _LEFT_OPEN.enter_context(domain_context(domain))
    executor = SingleThreadedExecutor(context=context)
    node = MissionNode(robots, context=context, enable_rosout=False)
    executor.add_node(node)
    return node, executor


class _Order:
    """One call of a service that may not be there yet."""

    def __init__(self, node: Node, robot: str, what: str):
        self._client = node.create_client(Trigger, f"/{robot}/shield/{what}")
        self._answer: Future | None = None
        self._until_s = time.monotonic() + ANSWER_S

    def send_once(self) -> None:
        if self._answer is None and self._client.service_is_ready():
            self._answer = self._client.call_async(Trigger.Request())

    def is_over(self) -> bool:
        return time.monotonic() > self._until_s or (self._answer is not None and self._answer.done())

    def outcome(self) -> Outcome:
        """What came of it, as far as it has been answered."""
        if self._answer is None:
            return Outcome(False, "there is no such robot, or its shield does not answer")
        response = self._answer.result() if self._answer.done() else None
        return Outcome(False, "no answer") if response is None else Outcome(response.success, response.message)


def _robots_heard(node: Node) -> list[str]:
    """Those that answer: a service of which there are only clients is known by its name too."""
    names = {name for name, _ in node.get_service_names_and_types() if name.endswith(ARM)}
    return sorted(name.removesuffix(ARM)[1:] for name in names if node.count_services(name))


def _policies_heard(node: Node) -> set[str]:
    """Robots whose policy, which lives in another process than their shield, is there."""
    ending = f"/{POLICY_STATUS}"
    names = {name for name, _ in node.get_topic_names_and_types() if name.endswith(ending)}
    return {name.removesuffix(ending)[1:] for name in names if node.count_publishers(name)}
