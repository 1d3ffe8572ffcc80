"""A process of one node or of several: one context, one executor for their services, and a loop thread for each."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.processes import die_with_parent
from ros_nodes.lifecycle.transport import avoid_shared_memory

ENDS_WITHIN_S = 5.0  # after a signal


def end_in_any_case(within_s: float, on_signal: Callable[[], object] = lambda: None) -> None:
    """Call `on_signal` in a thread after a signal, and end the process so long after it at the latest.

    Also where the main thread hangs in the middleware: Python's handlers run in the main thread, the byte that
    announces a signal is written by the operating system's.
    """
    wake, signalled = os.pipe()
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled)

    def wait() -> None:
        os.read(wake, 1)
        on_signal()
        time.sleep(within_s)
        os._exit(1)

    threading.Thread(target=wait, name="last resort", daemon=True).start()


def run_node(make: Callable[[], ManagedNode]) -> int:
    """Entry point of a node's process, see `run_nodes`."""
    return run_nodes({"": make})


def run_nodes(nodes: Mapping[str, Callable[[], ManagedNode]]) -> int:
    """Entry point of a process: serve its nodes, by name, until SIGINT or SIGTERM; returns the exit code.

    A node that cannot be made, or whose loop fails, leaves the others as they are. The process ends when it has no node
    left, with 2 or 1. The executor in the main thread sees services only, as loops poll their topics: it sleeps while
    the robots move.
    """
    die_with_parent()
    ended = threading.Event()
    made: list[ManagedNode] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    end_in_any_case(ENDS_WITHIN_S, lambda: [node.wake() for node in made])
    avoid_shared_memory()
    # With rclpy's own handlers a signal would close the publishers under a loop that is still running.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    executor = SingleThreadedExecutor()
    for name, make in nodes.items():
        try:
            made.append(make())
        except ValueError as error:
            print(f"error: {name}: {error}" if name else f"error: {error}", file=sys.stderr)
            continue
        executor.add_node(made[-1])
    while not (ended.is_set() or all(node.failed for node in made)):
        executor.spin_once()  # until a service was called, a signal came or a loop failed
        for node in made:
            node.end_failed()
    for node in made:
        with suppress(Exception):  # what holds one up must not keep the others from ending
            node.stop()
    executor.shutdown()
    for node in made:
        node.destroy_node()  # or the middleware leaves its shared memory behind
    rclpy.shutdown()
    if not made:
        return 2
    return 1 if all(node.failed for node in made) else 0
