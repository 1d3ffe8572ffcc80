"""Another policy file for a robot in flight, as a person asks for it, from outside of its programs.

For a process that does nothing else, and ends by `end_process`.
"""

import time
from collections.abc import Callable
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.srv import SetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import stamp_ns
from ros_nodes.messages.diagnostics import SWAP, value_of
from ros_nodes.messages.local_orders import Outcome
from ros_nodes.messages.names import POLICY_STATUS
from ros_nodes.messages.policy_swap import NEXT_BUNDLE
from ros_nodes.operation.ask import LOOK_S, open_node, why_unheard

LOADS_S = 20.0  # a file of the largest size that is taken, on a busy machine
NO_ANSWER = "swap: its policy does not answer"
ENDS_S = 20.0  # a swap takes 3.5 s from when the new file is checked


def swap_policy(robot: str, file: str, domain: int | None, say: Callable[[str], None]) -> Outcome:
    """Have the policy of `robot` hand over to `file`, a path at its computer; what came of it in the end.

    `say` hears each stage. A refusal, and a file that was taken back, is a failure with the reason.
    """
    node, executor = open_node(domain)
    status = Mailbox(node, DiagnosticArray, f"/{robot}/{POLICY_STATUS}", qos.LATCHED)
    set_file = node.create_client(SetParameters, f"/{robot}/policy/set_parameters")
    swap = node.create_client(Trigger, f"/{robot}/policy/swap")
    if silent := why_unheard(node, executor, robot, [set_file, swap], NO_ANSWER):
        return Outcome(False, silent)
    parameter = Parameter(NEXT_BUNDLE, value=file).to_parameter_msg()
    given = _answer(executor, set_file.call_async(SetParameters.Request(parameters=[parameter])))
    if given is None or not given.results[0].successful:
        return Outcome(False, given.results[0].reason if given else NO_ANSWER)
    before = [taken[0] for taken in status.drain()]
    answer = _answer(executor, swap.call_async(Trigger.Request()))
    if answer is None or not answer.success:
        return Outcome(False, answer.message if answer else NO_ANSWER)
    return _follow(status, before[-1] if before else None, file, say)


def _answer(executor: SingleThreadedExecutor, call: Any) -> Any:
    """What a service answers, None where nothing comes within `LOADS_S`."""
    executor.spin_until_future_complete(call, timeout_sec=LOADS_S)
    return call.result() if call.done() else None


def _follow(status: Mailbox, before: DiagnosticArray | None, file: str, say: Callable[[str], None]) -> Outcome:
    """Until the policy says on `status` how it ended; `before`: what it had said before it was asked.

    What it says of other things repeats what became of an earlier swap, maybe of the same file.
    """
    last = value_of(SWAP, before)
    asked_ns = stamp_ns(before.header.stamp) if before else 0
    until_s = time.monotonic() + ENDS_S
    while time.monotonic() < until_s:
        for message, _ in status.drain():
            said = value_of(SWAP, message)
            if said == last or stamp_ns(message.header.stamp) <= asked_ns:
                continue
            last = said
            if said.startswith(f"{file} was taken back"):
                return Outcome(False, said)
            if said == f"{file} flies":
                return Outcome(True, said)
            say(said)
        time.sleep(LOOK_S)
    return Outcome(False, f"how it ended was not heard within {ENDS_S:g} s; its policy said last: {last or 'nothing'}")
