"""What all nodes share: lifecycle transitions that cannot throw, and one way to run."""

import os
import signal
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, LifecyclePublisher, LifecycleState, TransitionCallbackReturn
from rclpy.qos import QoSProfile
from rclpy.signals import SignalHandlerOptions

from ros_nodes.lifecycle.loop import LoopThread, freeze_garbage
from ros_nodes.lifecycle.parameters import declare_niceness
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.lifecycle.processes import die_with_parent
from ros_nodes.lifecycle.scheduling import schedule_process
from ros_nodes.lifecycle.series import SeriesWriter
from ros_nodes.lifecycle.transport import avoid_shared_memory

ENDS_WITHIN_S = 5.0  # after a signal
SIGNAL_CHECK_S = 0.1  # a Python signal handler runs only between waits


class ManagedNode(LifecycleNode, ABC):
    """A lifecycle node. Subclasses fill `configure` and `run`, the loop, which has a thread of its own.

    An exception that leaves a transition callback would take the node with it: each is reported and becomes FAILURE.
    """

    def __init__(self, name: str):
        super().__init__(name)
        self._loop: LoopThread | None = None
        self._niceness = declare_niceness(self)
        self._mailboxes: list[Mailbox] = []
        self._advertised: list[LifecyclePublisher] = []
        self.failed = False

    @abstractmethod
    def configure(self) -> None:
        """Read parameters, load, connect; ValueError with one line when that cannot be."""

    @abstractmethod
    def run(self, stopped: threading.Event) -> None:
        """The loop; returns soon after `stopped` is set."""

    def subscribe(self, message_type: type, topic: str, profile: QoSProfile, raw: bool = False) -> Mailbox:
        """A polled subscription until clean-up."""
        self._mailboxes.append(Mailbox(self, message_type, topic, profile, raw))
        return self._mailboxes[-1]

    def advertise(self, message_type: type, topic: str, profile: QoSProfile) -> LifecyclePublisher:
        """A publisher until clean-up, silent while the node is not active."""
        self._advertised.append(self.create_lifecycle_publisher(message_type, topic, profile))
        return self._advertised[-1]

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        result = self._guard(self.configure)
        if result != TransitionCallbackReturn.SUCCESS:
            self._guard(self._release)
        return result

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        def activate() -> None:
            freeze_garbage()
            self.get_logger().info(schedule_process(self._niceness))
            self._loop = LoopThread(self.get_name(), self.run, self._loop_failed)
            self._loop.start()

        super().on_activate(state)  # publishers first: the loop may publish at once
        return self._guard(activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        result = self._guard(self._stop_loop)
        super().on_deactivate(state)
        return result

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._guard(self._release)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._guard(self.stop)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._guard(self.stop)

    def stop(self) -> None:
        """End the loop and release everything, from any state."""
        self._stop_loop()
        self._release()

    def series(self, folder: str, columns: tuple[str, ...], capacity: int, what: str = "") -> SeriesWriter | None:
        """A series writer called after this node (and `what`), or None without a folder."""
        if not folder:
            return None
        name = "_".join([*self.get_fully_qualified_name().strip("/").split("/"), *filter(None, [what])])
        return SeriesWriter(Path(folder) / f"{name}.npy", columns, capacity)

    def _stop_loop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop()

    def _release(self) -> None:
        """Undo `configure`; the loop is not running."""
        while self._mailboxes:
            self._mailboxes.pop().close()
        while self._advertised:
            self.destroy_lifecycle_publisher(self._advertised.pop())

    def _guard(self, action: Callable[[], None]) -> TransitionCallbackReturn:
        try:
            action()
        except (ValueError, OSError) as error:
            self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
        except Exception:
            self.get_logger().error(traceback.format_exc())
            return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS

    def _loop_failed(self, error: Exception) -> None:
        """A loop that fails ends the process: silence is what watchdogs and shields understand."""
        self.get_logger().fatal("".join(traceback.format_exception(error)))
        self.failed = True


def end_in_any_case(within_s: float) -> None:
    """End the process so long after a signal at the latest, also where the main thread hangs in the middleware.

    Python's handlers run in the main thread; the byte that announces a signal is written by the operating system's.
    """
    wake, signalled = os.pipe()
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled)

    def wait() -> None:
        os.read(wake, 1)
        time.sleep(within_s)
        os._exit(1)

    threading.Thread(target=wait, name="last resort", daemon=True).start()


def run_node(make: Callable[[], ManagedNode]) -> int:
    """Entry point of a node's process: serve until SIGINT or SIGTERM or a failed loop; returns the exit code.

    The executor in the main thread sees services only, as the loop polls its topics: it sleeps while the robot moves.
    """
    die_with_parent()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    end_in_any_case(ENDS_WITHIN_S)
    avoid_shared_memory()
    # With rclpy's own handlers a signal would close the publishers under a loop that is still running.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = make()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        rclpy.shutdown()
        return 2
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not (ended.is_set() or node.failed):
        executor.spin_once(timeout_sec=SIGNAL_CHECK_S)
    node.stop()
    executor.shutdown()
    node.destroy_node()  # or the middleware leaves its shared memory behind
    rclpy.shutdown()
    return 1 if node.failed else 0
