"""Drives lifecycle nodes through their states, in order, and names the one that refused."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.client import Client
from rclpy.executors import Executor
from rclpy.node import Node
from rclpy.task import Future

CONFIGURE = Transition.TRANSITION_CONFIGURE
ACTIVATE = Transition.TRANSITION_ACTIVATE
DEACTIVATE = Transition.TRANSITION_DEACTIVATE
CLEAN_UP = Transition.TRANSITION_CLEANUP
_WORDS = {CONFIGURE: "configure", ACTIVATE: "activate", DEACTIVATE: "deactivate", CLEAN_UP: "clean up"}
_GOALS = {
    CONFIGURE: State.PRIMARY_STATE_INACTIVE,
    ACTIVATE: State.PRIMARY_STATE_ACTIVE,
    DEACTIVATE: State.PRIMARY_STATE_INACTIVE,
    CLEAN_UP: State.PRIMARY_STATE_UNCONFIGURED,
}
ASK_AGAIN_S = 1.0
GIVE_UP_CALL_S = 10.0  # a transition may take this long


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
    """Calls lifecycle services of other nodes from `node`, which `executor` spins."""

    def __init__(self, node: Node, executor: Executor):
        self._node = node
        self._executor = executor
        self._remotes: dict[str, _Remote] = {}

    def transition(
        self, names: Sequence[str], transition: int, timeout_s: float, check: Callable[[], None] = lambda: None
    ) -> None:
        """Send `transition` to all `names` at once and wait until each has gone through; `check` may raise in between.

        Raises BringUpError.
        """
        until = time.monotonic() + timeout_s
        for name in names:
            self._remotes.setdefault(name, _Remote(self._node, name)).begin(transition)
        while waiting := [name for name in names if not self._remotes[name].step()]:
            self._executor.spin_once(timeout_sec=0.02)
            check()
            if time.monotonic() > until:
                message = f"node {waiting[0]} did not {_WORDS[transition]} within {timeout_s:g} s"
                raise BringUpError(message, waiting[0])


class _Remote:
    """One node on its way to a state.

    It is asked for its state, again and again, and sent the transition once it has answered: a call to a node that was
    killed, and whose successor is just starting, goes to the dead one and is never answered.
    """

    def __init__(self, node: Node, name: str):
        self._name = name
        self._get_state: Client = node.create_client(GetState, f"{name}/get_state")
        self._change_state: Client = node.create_client(ChangeState, f"{name}/change_state")

    def begin(self, transition: int) -> None:
        self._transition = transition
        self._call: Future | None = None
        self._changing = False
        self._until_s = 0.0

    def step(self) -> bool:
        """Send or read the next message; True once the node is in its goal state, BringUpError when it refuses."""
        if self._call is not None and self._call.done():
            answer = self._call.result()
            if self._changing:
                if answer.success:
                    return True
                raise BringUpError(f"node {self._name} refused to {_WORDS[self._transition]}", self._name)
            if answer.current_state.id == _GOALS[self._transition]:
                return True
            change = Transition(id=self._transition)
            self._send(self._change_state, ChangeState.Request(transition=change), GIVE_UP_CALL_S)
        elif time.monotonic() > self._until_s and self._get_state.service_is_ready():
            self._send(self._get_state, GetState.Request(), ASK_AGAIN_S)
        return False

    def _send(self, client: Client, request: Any, patience_s: float) -> None:
        self._call = client.call_async(request)
        self._changing = client is self._change_state
        self._until_s = time.monotonic() + patience_s
