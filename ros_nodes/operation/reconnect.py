"""A new connection of robots' drivers to their devices, as a person asks for it, while the robots are not armed.

For a process that does nothing else, and ends by `end_process`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.task import Future

from ros_nodes.lifecycle.health import REFUSAL
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages.diagnostics import value_of
from ros_nodes.messages.local_orders import Outcome
from ros_nodes.operation.ask import open_node, why_unheard

BUSY_S = 40.0  # a process answers nothing while it connects another robot's device, which may take half a minute
CONNECTS_S = 120.0  # so may its own, and others of its process that are tried again and again take turns with it
ENDS_S = 20.0  # a driver brings its device to rest before it lets go
AGAIN_S = 0.5
SAY_S = 5.0
UNSAID = "the output of `phalanx deploy` says why"
REFUSES = "reconnect: its driver refuses while the robot is armed: land or disarm it first"
WORDS = {Transition.TRANSITION_DEACTIVATE: "deactivate", Transition.TRANSITION_CLEANUP: "clean up"}
# What a driver in each state is sent, so that it lets go of its device; its deployment brings it up again.
LETS_GO: Mapping[int, Sequence[int]] = {
    State.PRIMARY_STATE_ACTIVE: (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP),
    State.PRIMARY_STATE_INACTIVE: (Transition.TRANSITION_CLEANUP,),
    State.PRIMARY_STATE_UNCONFIGURED: (),
}


def reconnect(robots: Sequence[str], domain: int | None, say: Callable[[str, str], None]) -> dict[str, Outcome]:
    """Have the driver of each of `robots`, one after the other, connect again; what came of it, of each by name.

    `say(robot, what)` hears what is waited for. Refused while a robot is armed.
    """
    node, executor = open_node(domain)
    return {robot: _reconnect(node, executor, robot, partial(say, robot)) for robot in robots}


def _reconnect(node: Node, executor: SingleThreadedExecutor, robot: str, say: Callable[[str], None]) -> Outcome:
    get_state = node.create_client(GetState, f"/{robot}/driver/get_state")
    change = node.create_client(ChangeState, f"/{robot}/driver/change_state")
    if silent := why_unheard(node, executor, robot, [get_state, change], "reconnect: it has no driver that is heard"):
        return Outcome(False, silent)

    def answer(call: Future, within_s: float) -> GetState.Response | ChangeState.Response | None:
        until_s = time.monotonic() + within_s
        while not call.done() and (left_s := until_s - time.monotonic()) > 0.0:
            executor.spin_until_future_complete(call, timeout_sec=min(SAY_S, left_s))
            if not call.done():
                say("its driver is waited for: its process is busy, such as with a device that it connects")
        return call.result() if call.done() else None

    def state() -> int | None:
        said = answer(get_state.call_async(GetState.Request()), BUSY_S)
        return said.current_state.id if said else None

    if (before := state()) is None:  # not taken for one that has let go: it would be called connected as it was
        return Outcome(False, f"reconnect: its driver did not answer within {BUSY_S:g} s")
    for transition in LETS_GO.get(before, ()):
        request = ChangeState.Request(transition=Transition(id=transition))
        said = answer(change.call_async(request), ENDS_S + BUSY_S)
        if said is None:
            return Outcome(False, f"reconnect: its driver did not {WORDS[transition]} within {ENDS_S + BUSY_S:g} s")
        if not said.success:
            return Outcome(False, REFUSES)
    began_s = said_s = time.monotonic()
    health = Mailbox(node, DiagnosticArray, "/diagnostics", QoSProfile(depth=100))
    why = UNSAID
    try:
        while (now_s := time.monotonic()) < began_s + CONNECTS_S:
            if state() == State.PRIMARY_STATE_ACTIVE:
                return Outcome(True, f"connected after {now_s - began_s:.1f} s; not armed")
            why = _refusal(health, robot) or why
            if now_s > said_s + SAY_S:
                said_s = now_s
                say(f"its device is waited for: {why}")
            time.sleep(AGAIN_S)
    finally:
        health.close()
    return Outcome(False, f"reconnect: not connected within {CONNECTS_S:g} s: {why}")


def _refusal(health: Mailbox, robot: str) -> str:
    """Why the driver of `robot` could not connect, as it said last on `/diagnostics`; empty where it says nothing."""
    name = f"{robot}/driver: node"
    said = [
        value_of(REFUSAL, DiagnosticArray(status=[status]))
        for message, _ in health.drain()
        for status in message.status
        if status.name == name
    ]
    return said[-1] if said else ""
