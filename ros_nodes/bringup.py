"""Drives lifecycle nodes through their states, in order, and says which one would not go."""

import time
from collections.abc import Callable, Sequence

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.client import Client
from rclpy.executors import Executor
from rclpy.node import Node
from rclpy.task import Future

CONFIGURE = Transition.TRANSITION_CONFIGURE
ACTIVATE = Transition.TRANSITION_ACTIVATE
_WORDS = {CONFIGURE: "configure", ACTIVATE: "activate"}


class BringUpError(RuntimeError):
    """A node is not there or refuses a transition; names it."""

    def __init__(self, message: str, node: str):
        super().__init__(message)
        self.node = node


def node_names(team: Sequence[str], simulated: bool, recorded: bool) -> list[list[str]]:
    """Fully qualified names of the nodes of a team in the order of bring-up, those of one stage together."""
    stages = [["/recorder"] * recorded + ["/simulated_robots"] * simulated]
    return [stage for stage in [*stages, [f"/{n}/shield" for n in team], [f"/{n}/policy" for n in team]] if stage]


class BringUp:
    """Calls `change_state` of other nodes from `node`, which `executor` spins."""

    def __init__(self, node: Node, executor: Executor):
        self._node = node
        self._executor = executor
        self._clients: dict[str, Client] = {}

    def transition(
        self, names: Sequence[str], transition: int, timeout_s: float, check: Callable[[], None] = lambda: None
    ) -> None:
        """Send `transition` to all `names` at once and wait until each has gone through; `check` may raise in between.

        Raises BringUpError.
        """
        until = time.monotonic() + timeout_s
        for name in names:
            if name not in self._clients:
                self._clients[name] = self._node.create_client(ChangeState, f"{name}/change_state")
        request = ChangeState.Request(transition=Transition(id=transition))
        waiting = list(names)
        calls: dict[str, Future] = {}
        while waiting or not all(call.done() for call in calls.values()):
            for name in [name for name in waiting if self._clients[name].service_is_ready()]:
                waiting.remove(name)
                calls[name] = self._clients[name].call_async(request)
            self._executor.spin_once(timeout_sec=0.02)
            check()
            if time.monotonic() > until:
                name = next(name for name in names if name in waiting or not calls[name].done())
                what = "was not found" if name in waiting else "did not answer"
                raise BringUpError(f"node {name} {what} within {timeout_s:g} s ({_WORDS[transition]})", name)
        for name, call in calls.items():
            if not call.result().success:
                raise BringUpError(f"node {name} refused to {_WORDS[transition]}", name)
