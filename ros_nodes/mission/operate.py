"""One order of a person to robots of a ROS domain, from outside of their programs.

For a process that does nothing else, and ends by `end_process`.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor

from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.diagnostics import POLICY_STATUS, REFUSED, value_of
from ros_nodes.mission.monitor import domain_context
from ros_nodes.mission.operator import MissionNode

ARM = "/shield/arm"  # a service of every robot
FIND_S = 4.0  # a participant that was not heard at first announces itself again after three seconds
ANSWER_S = 5.0
KEEP_S = 0.5  # a goal is on its way, and what the policy says to it
_LEFT_OPEN = ExitStack()


def find_robots(domain: int | None) -> Iterator[str]:
    """Names of the robots of `domain` that can be asked, each as soon as it is found; takes `FIND_S`."""
    node, executor = _node((), domain)
    found: set[str] = set()
    until_s = time.monotonic() + FIND_S
    while time.monotonic() < until_s:
        executor.spin_once(timeout_sec=0.05)
        services = node.get_service_names_and_types()
        new = {name.removesuffix(ARM)[1:] for name, _ in services if name.endswith(ARM)} - found
        found |= new
        yield from sorted(new)


def ask(what: str, robots: Sequence[str], domain: int | None = None) -> dict[str, str]:
    """Ask the shields of `robots` to `arm`, `start`, `land` ...; why not, or an empty string, of each."""
    node, executor = _node(robots, domain)
    asked: set[str] = set()
    until_s = time.monotonic() + ANSWER_S
    while len(node.refusals) < len(robots) and time.monotonic() < until_s:
        for robot in set(robots) - asked:
            if node.can_ask(robot, what):
                node.ask(robot, what)
                asked.add(robot)
        executor.spin_once(timeout_sec=0.02)
    silent = {robot: "no answer" if robot in asked else "there is no such robot" for robot in robots}
    return silent | node.refusals


def send_goal(robots: Sequence[str], goal_m: np.ndarray, domain: int | None = None) -> dict[str, str]:
    """Give each of `robots` the goal `goal_m` (3,) m, world; why not, or an empty string, of each."""
    node, executor = _node(robots, domain)
    waiting, until_s = set(robots), time.monotonic() + ANSWER_S
    policies = {robot: Mailbox(node, DiagnosticArray, f"/{robot}/{POLICY_STATUS}", qos.LATCHED) for robot in robots}
    for robot in robots:
        node.send(robot, {"goal_pos": goal_m})
    while waiting and time.monotonic() < until_s:
        executor.spin_once(timeout_sec=0.02)
        waiting -= {robot for robot in waiting if node.count_subscribers(f"/{robot}/goal")}
    time.sleep(KEEP_S)
    refused = dict.fromkeys(robots, "")
    for robot, policy in policies.items():
        while (said := policy.take()) is not None:
            refused[robot] = value_of(REFUSED, said[0])
    return {robot: "no policy listens for a goal" if robot in waiting else why for robot, why in refused.items()}


def _node(robots: Sequence[str], domain: int | None) -> tuple[MissionNode, SingleThreadedExecutor]:
    """They live until `end_process`: a person who asked for a stop does not wait for the middleware's destructors."""
    context = _LEFT_OPEN.enter_context(domain_context(domain))
    executor = SingleThreadedExecutor(context=context)
    node = MissionNode(robots, context=context, enable_rosout=False)
    executor.add_node(node)
    return node, executor
