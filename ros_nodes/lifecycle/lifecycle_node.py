"""What all nodes share: lifecycle transitions that cannot throw, and a loop that may fail."""

import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import SetParametersResult
from rclpy.lifecycle import LifecycleNode, LifecyclePublisher, LifecycleState, TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile

from ros_nodes.lifecycle.claims import claim_name
from ros_nodes.lifecycle.clock import RobotClock
from ros_nodes.lifecycle.context import RCLError
from ros_nodes.lifecycle.health import REFUSAL, Health
from ros_nodes.lifecycle.loop import LoopThread, freeze_garbage
from ros_nodes.lifecycle.parameters import declare_niceness, refusal
from ros_nodes.lifecycle.polling import Mailbox, make_mailbox
from ros_nodes.lifecycle.scheduling import schedule_process
from ros_nodes.lifecycle.series import SeriesWriter
from ros_nodes.lifecycle.turns import Cycles, TurnLoop, Turns, Wait

# What ends an active node, by label or number
ENDS = ("deactivate", "shutdown", Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_ACTIVE_SHUTDOWN)
QUIET_NS = 1_000_000_000  # after a signal: robots of which nothing was heard for so long need nothing any more


class ManagedNode(LifecycleNode, ABC):
    """A lifecycle node. Subclasses fill `configure` and a loop, see `ThreadNode` and `TurnNode`.

    An exception that leaves a transition callback would take the node with it: each is reported and becomes FAILURE.
    """

    def __init__(self, name: str, namespace: str = ""):
        """`namespace` without a slash; by default that of the command line."""
        super().__init__(name, namespace=namespace)
        self._loop: LoopThread | TurnLoop | None = None
        self._claim = claim_name(self.context.get_domain_id(), self.get_fully_qualified_name())
        self.clock = RobotClock(self)
        self._mailboxes: list[Mailbox] = []  # what it hears
        self.health_report = Health(self, self.clock, self._mailboxes, lambda: self._failed, self._health)
        self.hub: Node = self  # subscribes to what nodes of this process share
        self.beside: Sequence[ManagedNode] = ()  # all nodes of this process, where they are several
        self._undo: list[Callable[[], object]] = []  # all that `configure` has begun
        self._failed = False  # the loop ended by an exception
        self._refusal = ""  # why the last transition failed, in one line
        self.wake = self.create_guard_condition(lambda: None).trigger  # the executor, from any thread
        self.add_on_set_parameters_callback(self._may_set)
        declare_niceness(self)
        self.read_parameters()

    def read_parameters(self) -> None:
        """Declare all parameters and keep their values: at the node's start, and again each time it is configured."""

    @abstractmethod
    def configure(self) -> None:
        """Load, connect; ValueError with one line when that cannot be. Parameters have been read."""

    @abstractmethod
    def start_loop(self) -> LoopThread | TurnLoop:
        """Begin the loop; an exception in it goes to `loop_failed`."""

    def subscribe(self, message_type: type, topic: str, profile: QoSProfile, raw: bool = False) -> Mailbox:
        """A polled subscription until clean-up."""
        mailbox = make_mailbox(self, message_type, topic, profile, raw)
        self.hear(mailbox, mailbox.close)
        return mailbox

    def hear(self, mailbox: Mailbox, leave: Callable[[], object]) -> None:
        """This node uses `mailbox` until clean-up, when `leave` is called."""
        self._mailboxes.append(mailbox)
        self.on_release(partial(self._mailboxes.remove, mailbox))
        self.on_release(leave)

    def advertise(self, message_type: type, topic: str, profile: QoSProfile) -> LifecyclePublisher:
        """A publisher until clean-up, silent while the node is not active."""
        publisher = self.create_lifecycle_publisher(message_type, topic, profile)
        self.on_release(partial(self.destroy_lifecycle_publisher, publisher))
        return publisher

    def on_release(self, undo: Callable[[], object]) -> None:
        """Call `undo` at clean-up, once; what was begun last ends first."""
        self._undo.append(undo)

    def _LifecycleNodeMixin__on_change_state(  # rclpy's: it leaves a request out of turn without an answer
        self, request: ChangeState.Request, response: ChangeState.Response
    ) -> ChangeState.Response:
        wanted = request.transition.label or request.transition.id
        if wanted in ENDS and (why := self.needed()):
            self.get_logger().error(why)
            response.success = False
            return response
        try:
            return super()._LifecycleNodeMixin__on_change_state(request, response)
        except RCLError:
            self.get_logger().error(f"transition {wanted} is not possible while {self._state_machine.current_state[1]}")
            response.success = False
            return response

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._failed = False
        result = self._guard(self._configure)
        if result != TransitionCallbackReturn.SUCCESS:
            self._guard(self._release)
        else:
            self._refusal = ""
        return result

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        def activate() -> None:
            if self._loop is not None:  # two loops would be two commanders
                raise ValueError(f"the loop of {self.get_fully_qualified_name()} has not ended yet")
            freeze_garbage()
            self.get_logger().info(schedule_process(declare_niceness(self)))
            self._loop = self.start_loop()

        super().on_activate(state)  # publishers first: the loop may publish at once
        return self._guard(activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        result = self._guard(self._stop_loop)
        super().on_deactivate(state)
        return TransitionCallbackReturn.ERROR if self._failed else result

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._guard(self._release)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._guard(self.stop)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        return self._guard(self.stop)

    @property
    def is_active(self) -> bool:
        """Whether the loop runs."""
        return self._loop is not None

    @property
    def failed(self) -> bool:
        """Whether the loop ended by an exception, until the node is configured again."""
        return self._failed

    def needed(self) -> str:
        """Why others may not deactivate it or shut it down now; asked before either: a shutdown cannot fail."""
        return ""

    def end_failed(self) -> None:
        """Where the loop has failed: unconfigure the node by way of its error state. Configure it to begin again."""
        if self._failed and self._loop:
            self.trigger_deactivate()

    def health(self) -> tuple[bytes, str, dict[str, str]]:
        """Level, message and more keys for `/diagnostics`; called by the executor's thread. By default the message is
        the state of the node.
        """
        return DiagnosticStatus.OK, "", {}

    def _health(self) -> tuple[bytes, str, dict[str, str]]:
        """With why it is not configured, for as long as that is so."""
        level, message, more = self.health()
        return level, message, more | ({REFUSAL: self._refusal} if self._refusal else {})

    def wind_down(self) -> bool:
        """The process has been asked to end: whether this node may; called until all of its nodes may."""
        return True

    def stop_robot(self) -> None:
        """The process has been asked to end at once: stop the robot, as a person's emergency stop does."""

    def loop_failed(self, error: Exception) -> None:
        """A node whose loop fails falls silent, which is what watchdogs and shields understand."""
        self.get_logger().fatal(str(error) if isinstance(error, LoopEnded) else _described(error))
        self._failed = True
        self.wake()

    def stop(self) -> None:
        """End the loop and release everything, from any state."""
        self._stop_loop()
        self._release()

    def series(self, folder: str, columns: tuple[str, ...], capacity: int, what: str = "") -> SeriesWriter | None:
        """A series writer called after this node (and `what`), or None without a folder."""
        if not folder:
            return None
        name = "_".join([*self.get_fully_qualified_name().strip("/").split("/"), *filter(None, [what])])
        return SeriesWriter(Path(folder) / f"{name}.npy", columns, capacity, self.get_logger().error)

    def _configure(self) -> None:
        self.read_parameters()
        self.configure()

    def _may_set(self, parameters: list[Parameter]) -> SetParametersResult:
        reason = refusal(self, parameters)
        return SetParametersResult(successful=not reason, reason=reason)

    def _stop_loop(self) -> None:
        if self._loop is not None:
            self._loop.stop()
            self._loop = None

    def _release(self) -> None:
        """Undo `configure`; the loop is not running."""
        while self._undo:
            self._undo.pop()()

    def _guard(self, action: Callable[[], None]) -> TransitionCallbackReturn:
        try:
            action()
        except Exception as error:
            said = str(error) if isinstance(error, ValueError | OSError) else _described(error)
            self.get_logger().error(said)
            self._refusal = said.partition("\n")[0]
            return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS


class LoopEnded(RuntimeError):
    """Why a loop ends itself, in one line that says all to a user."""


def _described(error: Exception) -> str:
    """What it is comes first, for those who read one line only."""
    return "".join([*traceback.format_exception_only(error), *traceback.format_tb(error.__traceback__)])


class ThreadNode(ManagedNode):
    """A node whose loop has a thread of its own."""

    ends_within_s = 2.0  # its loop, once it is asked to

    @abstractmethod
    def run(self, stopped: threading.Event) -> None:
        """The loop; returns soon after `stopped` is set."""

    def start_loop(self) -> LoopThread:
        loop = LoopThread(self.get_name(), self._run, self.loop_failed, self.ends_within_s)
        loop.start()
        return loop

    def _run(self, stopped: threading.Event) -> None:
        self.clock.start(stopped)
        self.run(stopped)


class TurnNode(ManagedNode):
    """A node whose loop takes turns, in one thread, with those of the other robots of its process."""

    def __init__(self, name: str, namespace: str = ""):
        super().__init__(name, namespace)
        self.turns = Turns(self.context)

    @abstractmethod
    def cycles(self) -> Cycles:
        """The loop; it is closed where it waits."""

    def start_loop(self) -> TurnLoop:
        return self.turns.start(self.get_name(), self._cycles(), self.clock, self.loop_failed)

    def _cycles(self) -> Cycles:
        self.clock.say_waiting()
        yield Wait((), 1)  # with `use_sim_time` until the first `/clock`
        yield from self.cycles()
