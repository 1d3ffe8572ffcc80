"""A process of one node or of several: one context, one executor for their services, one thread for control loops."""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import InvalidHandle
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from ros_nodes.lifecycle.context import end_process
from ros_nodes.lifecycle.executor import LastingExecutor
from ros_nodes.lifecycle.health import PERIOD_S
from ros_nodes.lifecycle.lifecycle_node import ManagedNode, TurnNode
from ros_nodes.lifecycle.processes import ORPHANED, die_with_parent
from ros_nodes.lifecycle.transport import avoid_shared_memory
from ros_nodes.lifecycle.turns import Turns

ENDS_WITHIN_S = 5.0  # after a signal
WIND_DOWN_LOOK_S = 0.1
STOP_S = 0.5  # the commands of a stop are sent for so long


class Interrupts:
    """Signals to a process: SIGINT asks it to bring its robots down and end, a second one to stop them, SIGTERM to end.

    `ORPHANED` counts as a first SIGINT, however often it comes.

    Where the main thread hangs in the middleware, the process ends all the same: Python's handlers run in the main
    thread, the byte that announces a signal is written by the operating system's.
    """

    def __init__(self, on_signal: Callable[[], object]):
        """`on_signal` is called in a thread after each signal."""
        self.count, self.terminated = 0, False
        self._on_signal = on_signal
        self._beat_s = time.monotonic()
        signal.signal(signal.SIGINT, self._interrupt)
        signal.signal(ORPHANED, self._orphan)
        signal.signal(signal.SIGTERM, self._terminate)
        wake, self._signalled = os.pipe()
        os.set_blocking(self._signalled, False)
        signal.set_wakeup_fd(self._signalled)
        threading.Thread(target=self._watch, args=(wake,), name="last resort", daemon=True).start()

    def beat(self) -> None:
        """Say that the main thread is well; without it for `ENDS_WITHIN_S` after a signal the process ends."""
        self._beat_s = time.monotonic()

    def _interrupt(self, *_: object) -> None:
        self.count += 1

    def _orphan(self, *_: object) -> None:
        self.count = max(self.count, 1)

    def _terminate(self, *_: object) -> None:
        self.terminated = True

    def _watch(self, wake: int) -> None:
        os.read(wake, 1)
        self.beat()
        while time.monotonic() - self._beat_s < ENDS_WITHIN_S:
            with suppress(InvalidHandle):  # of a node that has just been destroyed: this thread has to stay
                self._on_signal()
            time.sleep(WIND_DOWN_LOOK_S)
        os._exit(1)


def _say_together(hub: Node, says: Sequence[Callable[[], None]]) -> None:
    """All reports at one moment: each time that the executor wakes it looks through all that all nodes have."""

    def say() -> None:
        for report in says:
            try:
                report()
            except Exception:  # of one robot: the others go on
                traceback.print_exc()
            time.sleep(0)  # control loops first

    hub.create_timer(PERIOD_S, say, clock=Clock(clock_type=ClockType.STEADY_TIME))


def run_node(make: Callable[[], ManagedNode]) -> NoReturn:
    """Entry point of a node's process, see `run_nodes`."""
    run_nodes({"": make})


def run_nodes(nodes: Mapping[str, Callable[[], ManagedNode]]) -> NoReturn:
    """Entry point of a process: serve its nodes, by name, until SIGINT or SIGTERM, and end it.

    After SIGINT it ends once no node has anything left to do, such as to land a robot; see `Interrupts`. A node that
    cannot be made, or whose loop fails, leaves the others as they are. The process ends when it has no node left, with
    2 or 1. The executor in the main thread sees services only, as loops poll their topics: it sleeps while the robots
    move.
    """
    made: list[ManagedNode] = []
    interrupts = Interrupts(lambda: [node.wake() for node in made])
    die_with_parent()
    avoid_shared_memory()
    # With rclpy's own handlers a signal would close the publishers under a loop that is still running.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    executor = LastingExecutor()
    hub: Node | None = None
    for name, make in nodes.items():
        try:
            made.append(make())
        except ValueError as error:
            print(f"error: {name}: {error}" if name else f"error: {error}", file=sys.stderr)
            continue
        executor.add_node(made[-1])
    if len(made) > 1:  # alone, a node subscribes itself
        hub = rclpy.create_node(
            f"{made[0].get_name()}_host",
            namespace=made[0].get_namespace(),
            start_parameter_services=False,
        )
        executor.add_node(hub)
        turns = Turns(hub.context)
        for node in made:
            node.hub, node.beside = hub, made
            if isinstance(node, TurnNode):
                node.turns = turns
        _say_together(hub, [node.health_report.hand_over() for node in made])
    until_s = None  # when the robots have been stopped for long enough
    while not (interrupts.terminated or all(node.failed for node in made)):
        executor.spin_once()  # until a service was called, a signal came or a loop failed
        for node in made:
            node.end_failed()
        if interrupts.count:
            interrupts.beat()
            # All are asked, again and again: a node that is done may be what the robot of another one needs.
            if all([node.wind_down() for node in made]) or (until_s is not None and time.monotonic() > until_s):
                break
        if interrupts.count > 1 and until_s is None:
            until_s = time.monotonic() + STOP_S
            for node in made:
                node.stop_robot()
    interrupts.beat()
    for node in made:
        with suppress(Exception):  # what holds one up must not keep the others from ending
            node.stop()
    executor.shutdown()
    for node in [*made, hub] if hub else made:
        node.destroy_node()  # or the middleware leaves its shared memory behind
    rclpy.shutdown()
    end_process(int(all(node.failed for node in made)) if made else 2)
