"""One order of a person to robots of a ROS domain: those of this computer at once, the others by their services.

For a process that does nothing else, and ends by `end_process`. Where the machine is busy each import counts.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from rclpy.client import Client
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import Trigger

from hardware.names import nearest
from ros_nodes.lifecycle.claims import taken_names
from ros_nodes.lifecycle.context import domain_context
from ros_nodes.messages.local_orders import Outcome
from ros_nodes.messages.names import POLICY_STATUS

ARM = "/shield/arm"  # a service of every robot
FIND_S = 4.0  # a participant that was not heard at first announces itself again after three seconds
LOOK_S = 0.02
WAIT = "wait until `phalanx deploy` says that robots can be armed"
BROUGHT_UP = f"its processes are there: where its team is being brought up, {WAIT}"
ANSWER_S = 5.0
_LEFT_OPEN = ExitStack()


def find_robots(domain: int | None) -> list[str]:
    """Names of the robots of `domain` that can be asked; takes `FIND_S`."""
    node, executor = open_node(domain)
    until_s = time.monotonic() + FIND_S
    while time.monotonic() < until_s:
        executor.spin_once(timeout_sec=LOOK_S)
    return _robots_heard(node)


def ask(
    what: str,
    robots: Sequence[str] = (),
    domain: int | None = None,
    answered: Sequence[str] = (),
    waits_for: Callable[[str], None] = lambda what: None,
) -> dict[str, Outcome]:
    """Ask the shields of `robots` to `arm`, `start`, `land` ...; what came of it, of each by name.

    Without names every robot is asked that is found within `FIND_S` and has not `answered` yet, at once: none waits for
    the answer of another.
    One whose policy is heard and whose shield is not, such as that of a process which hangs, is in the answer too.
    `waits_for` hears what is waited for.
    """
    node, executor = open_node(domain)
    find_until_s = time.monotonic() + (0.0 if robots else FIND_S)
    orders = {robot: _Order(node, robot, what) for robot in robots}
    while time.monotonic() < find_until_s or not all(order.is_over() for order in orders.values()):
        if not robots:
            new = set(_robots_heard(node)) - {*orders, *answered}
            orders |= {robot: _Order(node, robot, what) for robot in new}
        for order in orders.values():
            order.send_once()
        executor.spin_once(timeout_sec=LOOK_S)
        unfound = [robot for robot, order in orders.items() if not order.is_sent]
        asked = [robot for robot, order in orders.items() if not order.is_over()]
        waits_for(f"discovery of {', '.join(unfound) or 'robots'}" if unfound or not asked else answers_of(asked))
    outcomes = {r: o.outcome() or Outcome(False, why_silent(node, r)) for r, o in orders.items()}
    if not robots:
        silent = _policies_heard(node) - {*orders, *answered}
        outcomes |= {robot: Outcome(False, why_silent(node, robot)) for robot in silent}
    return outcomes


def open_node(domain: int | None) -> tuple[Node, SingleThreadedExecutor]:
    """A node, and what spins it, which live until `end_process`: who asked for a stop waits for no destructor."""
    context = _LEFT_OPEN.enter_context(domain_context(domain))
    executor = SingleThreadedExecutor(context=context)
    node = Node("operate", context=context, enable_rosout=False, start_parameter_services=False)
    executor.add_node(node)
    return node, executor


class _Order:
    """One call of a service that may not be there yet."""

    def __init__(self, node: Node, robot: str, what: str):
        self._client = node.create_client(Trigger, f"/{robot}/shield/{what}")
        self._answer: Future | None = None
        self._until_s = time.monotonic() + ANSWER_S

    @property
    def is_sent(self) -> bool:
        return self._answer is not None

    def send_once(self) -> None:
        if self._answer is None and self._client.service_is_ready():
            self._answer = self._client.call_async(Trigger.Request())

    def is_over(self) -> bool:
        return time.monotonic() > self._until_s or (self._answer is not None and self._answer.done())

    def outcome(self) -> Outcome | None:
        """What came of it, as far as it has been answered; None where no shield was there to be asked."""
        if self._answer is None:
            return None
        response = self._answer.result() if self._answer.done() else None
        return Outcome(False, "no answer") if response is None else Outcome(response.success, response.message)


def why_unheard(
    node: Node, executor: SingleThreadedExecutor, robot: str, services: Sequence[Client], unheard: str
) -> str:
    """Wait for `services` of a node of `robot`; empty once all are there, else after `ANSWER_S` why not.

    That is `unheard`, or that there is no such robot.
    """
    until_s = time.monotonic() + ANSWER_S
    while not all(service.service_is_ready() for service in services):
        if time.monotonic() > until_s:
            silent = why_silent(node, robot)
            return silent if "no such robot" in silent else unheard
        executor.spin_once(timeout_sec=LOOK_S)
    return ""


def answers_of(robots: Sequence[str]) -> str:
    """In words for who waits for them."""
    return f"the answer of {', '.join(robots)}"


def why_silent(node: Node, robot: str) -> str:
    """Of a `robot` whose shield was not found: that there is none of this name, and which there are; or what it lacks.

    A robot of which anything is heard is there.
    """
    there = _robots_heard(node)
    domain = node.context.get_domain_id()
    comes = taken_names(domain, [f"/{robot}/{kind}" for kind in ("shield", "driver", "policy")])
    if robot in there or robot in _policies_heard(node) or comes:
        return f"its shield is not heard{f'; {BROUGHT_UP}' if comes else ''}"
    if there:
        known = f"there are {', '.join(there)}; where it is being deployed, {WAIT}"
        return f"there is no such robot: {known}{nearest(robot, there)}"
    none = f"none is heard in ROS domain {domain} (--domain names another)"
    return f"there is no such robot: {none}; where it is being deployed, {WAIT}"


def _robots_heard(node: Node) -> list[str]:
    """Those that answer: a service of which there are only clients is known by its name too."""
    names = {name for name, _ in node.get_service_names_and_types() if name.endswith(ARM)}
    return sorted(name.removesuffix(ARM)[1:] for name in names if node.count_services(name))


def _policies_heard(node: Node) -> set[str]:
    """Robots whose policy, which lives in another process than their shield, is there."""
    ending = f"/{POLICY_STATUS}"
    names = {name for name, _ in node.get_topic_names_and_types() if name.endswith(ending)}
    return {name.removesuffix(ending)[1:] for name in names if node.count_publishers(name)}
