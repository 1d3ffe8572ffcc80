"""The operator of a launched team, in a process of its own: brings it up, arms it, sends the orders of its mission."""

import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import rclpy
from rclpy.signals import SignalHandlerOptions

from ros_nodes.lifecycle.bring_up import BringUp, BringUpError, KeepUp, NotUp, node_names
from ros_nodes.lifecycle.context import end_process
from ros_nodes.lifecycle.executor import LastingExecutor
from ros_nodes.lifecycle.parameters import declare
from ros_nodes.lifecycle.processes import ORPHANED, die_with_parent
from ros_nodes.lifecycle.transport import avoid_shared_memory
from ros_nodes.operation.arming import ArmError, Orders, StoppedError, arm, first_orders
from ros_nodes.operation.operator import MissionNode, OrderSender
from ros_nodes.plans.mission import load_mission

WATCH_S = 0.02
ONCE = ("/recorder", "/simulated_robots")  # what they did before is lost with them


class _Ended(Exception):
    """This process was asked to end."""


def main() -> int:
    """Serve until SIGINT or SIGTERM, also when they come during bring-up; 1 when the team could not be brought up."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, ORPHANED):
        signal.signal(number, lambda *_: ended.set())
    die_with_parent()
    avoid_shared_memory()
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node, executor = MissionNode(commands=()), LastingExecutor()
    executor.add_node(node)

    def watch() -> None:
        if ended.is_set():
            raise _Ended

    code = 0
    try:
        _operate(node, executor, watch)
    except _Ended:
        pass
    except (BringUpError, ValueError) as error:
        for why in [each.why for each in getattr(error, "not_up", [])] or [str(error)]:
            node.get_logger().fatal(why)
        code = 1
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()
    end_process(code)


def _operate(node: MissionNode, executor: LastingExecutor, watch: Callable[[], None]) -> None:
    """All that the operator does, until `watch` raises."""
    path = declare(node, "mission", "", "Mission file (.json) with the orders to the robots.")
    simulated = declare(node, "simulated", True, "Whether /simulated_robots belongs to the team; then it is armed too.")
    recorded = declare(node, "recorded", True, "Whether /recorder belongs to the team.")
    drivers = [n for n in declare(node, "drivers", [""], "Names of the robots that are real; armed by a person.") if n]
    timeout_s = declare(
        node, "bring_up_timeout_s", 30.0, "Longest time in bring-up without progress, s.", low=1.0, high=300.0
    )
    not_up = declare(node, "not_up", "", "File (.json) of nodes that are not up, written after bring-up.")
    mission = load_mission(path)
    node.advertise(mission.command_names)
    send_and_watch = first_orders(mission, node, watch)
    stages = node_names(node.team, simulated, recorded, drivers, node.get_namespace().strip("/"))
    try:
        BringUp(node, executor).up(stages, timeout_s, send_and_watch)
    except BringUpError as error:
        _write(not_up, error.not_up)
        raise
    _write(not_up, ())
    kept = KeepUp(node, [name for stage in stages for name in stage if not name.endswith(ONCE)])
    sender = OrderSender(mission, node)

    def keep_up() -> None:
        before = list(kept.refused)
        kept.step()
        if list(kept.refused) != before:
            _write(not_up, list(kept.refused.values()))

    if not drivers and simulated:  # a real robot is for a person to arm

        def keep_up_and_watch() -> None:
            keep_up()
            send_and_watch()
            if not mission.task and not any(order.t_s for order in mission.orders):  # courses wait for no other robot
                sender.step(0.0)

        _arm(node, executor, keep_up_and_watch)
    node.get_logger().info(f"{', '.join(node.team)}: the mission begins, {mission.duration_s:g} s")
    over, begin = False, time.monotonic()
    while True:  # after the mission too, for nodes that subscribe late
        watch()
        executor.spin_once(timeout_sec=WATCH_S)
        keep_up()
        now = time.monotonic() - begin
        if now < mission.duration_s or mission.courses:  # a person may start a robot late
            if mission.courses:
                node.update()
            sender.step(now)
        elif not over:
            over = True
            node.get_logger().info("the mission is over; its last orders stand")


def _write(file: str, not_up: Sequence[NotUp]) -> None:
    if file:
        whole = Path(file).with_suffix(".new")  # who looks never reads half of it
        whole.write_text(json.dumps([asdict(each) for each in not_up]))
        whole.replace(file)


def _arm(node: MissionNode, executor: LastingExecutor, watch: Callable[[], None]) -> None:
    """Until policies have all robots but those that a person took; says again and again what is missing."""
    robots, orders = list(node.team), Orders()
    while robots:
        try:
            arm(node, executor, watch, robots, shared=True, orders=orders)
            return
        except StoppedError as error:
            robots.remove(error.robot)
            node.get_logger().error(f"{error}; a person arms and starts it again")
        except ArmError as error:
            node.get_logger().error(str(error))


if __name__ == "__main__":
    raise SystemExit(main())
