"""Drives lifecycle nodes through their states, in order, and names the one that refused."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
LOOK_S = 0.05  # between two looks who is there: a core is better used by those who start
COMES_WITHIN_S = 3.0  # after another node has refused
GIVE_UP_CALL_S = 10.0  # a transition may take this long


@dataclass(frozen=True)
class NotUp:
    """A node that is not there, or refuses a transition."""

    node: str  # its fully qualified name
    why: str
    late: bool = False  # it may only be slow

    @property
    def robot(self) -> str:
        """Its namespace: the robot, where it is one of a robot's own."""
        return self.node.strip("/").rpartition("/")[0]


class BringUpError(RuntimeError):
    """Says why of the first of the nodes that are `not_up`."""

    def __init__(self, *not_up: NotUp):
        super().__init__(not_up[0].why)
        self.not_up = not_up


def node_names(
    team: Sequence[str], simulated: bool, recorded: bool, drivers: Sequence[str] = (), namespace: str = ""
) -> list[list[str]]:
    """Fully qualified names of the nodes of a team in the order of bring-up, those of one stage together.

    `drivers`: robots that have one. `namespace`, without slashes: that of the nodes that serve the whole team.
    """
    own = f"/{namespace}" if namespace else ""
    stages = [[f"{own}/simulated_robots"] * simulated]
    stages += [[f"/{name}/{node}" for name in names] for node, names in (("driver", drivers), ("shield", team))]
    stages += [[f"/{name}/policy" for name in team] + [f"{own}/recorder"] * recorded]
    return [stage for stage in stages if stage]


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
            self._executor.spin_once(timeout_sec=LOOK_S)
            check()
            if time.monotonic() > until:
                raise self._late(waiting[0], timeout_s)

    def up(self, stages: Sequence[Sequence[str]], timeout_s: float, check: Callable[[], None] = lambda: None) -> None:
        """Configure and activate all nodes of `stages`; `check` may raise in between.

        Each goes its own way, so that a slow one holds up as few as can be: all are configured as soon as they are
        there, and activated once the stages before are active. Raises BringUpError, for those that refuse, as soon as
        all others have answered, and where none has got any further for `timeout_s`.
        """
        refused: dict[str, NotUp] = {}
        waiting = [(stage, name) for stage, names in enumerate(stages) for name in names]
        for _, name in waiting:
            self._remotes.setdefault(name, _Remote(self._node, name)).begin(CONFIGURE)
        until = time.monotonic() + timeout_s
        while waiting:
            first = waiting[0][0]  # all stages before it are active
            for stage, name in list(waiting):
                remote = self._remotes[name]
                try:
                    # Who was asked before another one refused is heard out: it may refuse as well, or be up.
                    goes_on = remote.transition == CONFIGURE or remote.is_asked or (stage == first and not refused)
                    done = goes_on and remote.step()
                except BringUpError as error:
                    (refused[name],) = error.not_up
                    until = time.monotonic() + timeout_s
                    waiting.remove((stage, name))
                    continue
                if done:
                    until = time.monotonic() + timeout_s
                    if remote.transition == ACTIVATE:
                        waiting.remove((stage, name))
                    else:
                        remote.begin(ACTIVATE)
            if refused and self._all_answered([name for _, name in waiting], until - timeout_s):
                raise BringUpError(*(refused[name] for names in stages for name in names if name in refused))
            self._executor.spin_once(timeout_sec=LOOK_S)
            check()
            if time.monotonic() > until:
                raise self._late(waiting[0][1], timeout_s)

    def _all_answered(self, names: Sequence[str], since_s: float) -> bool:
        """Whether all are configured, or none is on its way and none has come since `since_s` for a while."""
        remotes = [self._remotes[name] for name in names]
        if any(remote.is_asked for remote in remotes):
            return False
        return all(r.transition == ACTIVATE for r in remotes) or time.monotonic() > since_s + COMES_WITHIN_S

    def _late(self, name: str, timeout_s: float) -> BringUpError:
        word = _WORDS[self._remotes[name].transition]
        return BringUpError(NotUp(name, f"node {name} did not {word} within {timeout_s:g} s", late=True))


class KeepUp:
    """Brings nodes up again that have restarted after they had been up; to be called again and again."""

    def __init__(self, node: Node, names: Sequence[str]):
        self._remotes = {name: _Remote(node, name) for name in names}
        self._logger = node.get_logger()
        self.refused: dict[str, NotUp] = {}  # by name, those that are not up for that

    def step(self) -> None:
        """Send or read the next messages."""
        for name, remote in self._remotes.items():
            try:
                if remote.keep():
                    self._logger.warning(f"{name} has restarted: it is up again")
                    self.refused.pop(name, None)
            except BringUpError as error:
                self._logger.error(str(error), throttle_duration_sec=10.0)
                self.refused[name] = error.not_up[0]


class _Remote:
    """One node on its way to a state.

    It is asked for its state, again and again, and sent the transition once it has answered: a call to a node that was
    killed, and whose successor is just starting, goes to the dead one and is never answered.
    """

    def __init__(self, node: Node, name: str):
        self._name = name
        self._get_state: Client = node.create_client(GetState, f"{name}/get_state")
        self._change_state: Client = node.create_client(ChangeState, f"{name}/change_state")
        self._call: Future | None = None
        self._late: Future | None = None  # a transition without an answer so far, while it is asked for its state
        self._looks = 0  # how often it has said its state since then
        self._changing = self._configured = False
        self._until_s = 0.0

    @property
    def is_asked(self) -> bool:
        """Whether it was sent a transition and has not answered."""
        return self._call is not None and self._changing

    def begin(self, transition: int) -> None:
        self.transition = transition
        self._call = self._late = None
        self._changing = False
        self._until_s = 0.0

    def step(self) -> bool:
        """Send or read the next message; True once the node is in its goal state, BringUpError when it refuses."""
        if change := next((c for c in (self._late, self._call if self._changing else None) if c and c.done()), None):
            if change.result().success:
                return True
            raise self._refused()
        if self._call is not None and self._call.done():
            if self._call.result().current_state.id == _GOALS[self.transition]:
                return True
            self._looks += 1
            if self._late is not None and self._looks < 2:  # its answer to the transition may just be on its way
                self._send(self._get_state, GetState.Request(), ASK_AGAIN_S)
                return False
            self._late = None
            change = Transition(id=self.transition)
            self._send(self._change_state, ChangeState.Request(transition=change), GIVE_UP_CALL_S)
        elif time.monotonic() > self._until_s and self._get_state.service_is_ready():
            if self._changing:
                self._late, self._looks = self._call, 0
            self._send(self._get_state, GetState.Request(), ASK_AGAIN_S)
        return False

    def keep(self) -> bool:
        """Ask for the state once a second, configure and activate what is unconfigured; True when that is done."""
        call, self._call = self._call, None
        if call is not None and not call.done() and time.monotonic() < self._until_s:
            self._call = call
        elif call is not None and call.done() and self._changing:
            if not call.result().success:
                self._configured = False
                raise self._refused()
            up = self.transition == ACTIVATE
            self._configured = not up
            return up
        elif call is not None and call.done():
            state = call.result().current_state.id
            if self._configured and state == _GOALS[ACTIVATE]:
                self._configured = False  # its answer to that is not waited for any more
                return True
            if state == State.PRIMARY_STATE_UNCONFIGURED or (self._configured and state == _GOALS[CONFIGURE]):
                self.transition = CONFIGURE if state == State.PRIMARY_STATE_UNCONFIGURED else ACTIVATE
                self._configured = True  # also where it answers too late: it is activated then all the same
                change = ChangeState.Request(transition=Transition(id=self.transition))
                self._send(self._change_state, change, GIVE_UP_CALL_S)
        elif self._configured or (time.monotonic() > self._until_s and self._get_state.service_is_ready()):
            self._send(self._get_state, GetState.Request(), ASK_AGAIN_S)
        return False

    def _refused(self) -> BringUpError:
        return BringUpError(NotUp(self._name, f"node {self._name} refused to {_WORDS[self.transition]}"))

    def _send(self, client: Client, request: Any, patience_s: float) -> None:
        self._call = client.call_async(request)
        self._changing = client is self._change_state
        self._until_s = time.monotonic() + patience_s
