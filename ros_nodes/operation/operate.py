"""A goal that a person gives to robots of a ROS domain, from outside of their programs.

For a process that does nothing else, and ends by `end_process`.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.executors import SingleThreadedExecutor

from deploy.shield.authority import ASKS_THE_POLICY, State
from ros_nodes.lifecycle.context import domain_context
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.commands import NO_ORIENTATION
from ros_nodes.messages.diagnostics import REFUSED, ShieldMode, value_of
from ros_nodes.messages.local_orders import Outcome
from ros_nodes.messages.names import POLICY_STATUS
from ros_nodes.operation.ask import ANSWER_S, LOOK_S
from ros_nodes.operation.operator import MissionNode

NEWEST_S = 0.2  # after what a shield said before, which comes first
KEEP_S = 0.5  # a goal is on its way, and what the policy says to it
TAKES_NO_GOAL = tuple(state.name for state in (State.LANDING, State.STOPPED, State.FAULT))
ASKING = tuple(state.name for state in ASKS_THE_POLICY)
_LEFT_OPEN = ExitStack()


def send_goal(
    robots: Sequence[str], goal_m: Sequence[float], quat: Sequence[float] | None = None, domain: int | None = None
) -> dict[str, Outcome]:
    """Give each of `robots` the goal `goal_m` (3,) m, world, turned as `quat` wxyz; what came of it, of each by name.

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
        node.send(robot, goal_command(goal_m, quat))
    time.sleep(KEEP_S)
    for robot, policy in policies.items():
        refused = ""
        while (said := policy.take()) is not None:
            refused = value_of(REFUSED, said[0])
        if outcomes[robot].done and refused:
            outcomes[robot] = Outcome(False, refused + "; give it by --quat W X Y Z" * (NO_ORIENTATION in refused))
    return outcomes


def goal_command(goal_m: Sequence[float], quat: Sequence[float] | None) -> dict[str, np.ndarray]:
    """As `MissionNode.send` takes it: without `quat` its orientation is none, which only who needs one refuses."""
    return {"goal_pos": np.array(goal_m), "goal_quat": np.array(quat or np.zeros(4))}


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
    node = MissionNode(robots, node_name="operate", context=context, enable_rosout=False)
    executor.add_node(node)
    return node, executor
