"""What a person may ask a robot's shield for: one service each, or here; answered by the shield's own thread."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from functools import partial
from math import inf
from queue import SimpleQueue
from threading import Event

from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_srvs.srv import Trigger

from ros_nodes.messages.local_orders import ESTOP, ON_LINUX, LocalOrders, Outcome
from ros_nodes.messages.operate_action import OperateAction, Standing

SERVICES = ("arm", "disarm", "start", "land", "hold", ESTOP, "reset")
# A call is answered within a cycle. Others wait: one that a full queue has pushed out would never be answered.
CALLS = QoSProfile(depth=500, reliability=ReliabilityPolicy.RELIABLE)
ANSWER_WITHIN_S = 1.0  # the shield's thread serves once a cycle
STOP_RULES_S = 0.3  # after a stop: what comes now may have been sent before it, whatever its sender's clock says
# What a middleware sends again, where a socket was full, comes seconds later, and says when it was sent. Whose clock
# differs by more than this may order again at once; by less, and behind, so much later. Goals of the action do not say.
SENT_AGAIN_S, OLDEST_S = 5.0, 60.0
ALWAYS = (ESTOP, "land", "hold")  # what brings a robot to rest is done however old it is
STOOD_S = 1.0  # between two looks: the process stood still, and who asked meanwhile may be gone
OLD = "sent before the stop, or while the process stood still, by its sender's clock; ask again"
NOT_ACTIVE = (  # what a person does about it who was too quick
    "the shield is not active; while its team is brought up it waits for the robot's driver, or its simulation: "
    "wait until `phalanx deploy` says that robots can be armed"
)
QUEUED_S = 0.05  # nor is done what follows something refused so soon: the queue is not empty yet


class OperatorServices:
    """The services `shield/<name>`; an answer that is a success has happened already."""

    def __init__(
        self,
        node: Node,
        is_active: Callable[[], bool],
        keep_stop: Callable[[str], str],
        waits: Callable[[], bool] = lambda: True,
        standing: Callable[[], Standing | None] = lambda: None,
    ):
        """`keep_stop` is called with the reason of a stop, in the executor's thread; it says why that is not kept.

        Where `waits` says no, as under simulated time, whose clock that thread moves, an answer says nothing but that
        the shield will look at it. `standing` is who has the robot and why, for the action of the same orders.
        """
        self._is_active, self._keep_stop, self._waits = is_active, keep_stop, waits
        self._asked: SimpleQueue[tuple[str, Future[Outcome], float]] = SimpleQueue()
        self._before_s = -inf  # what was sent before it is not done, monotonic: a clock that is set changes nothing
        self._looked_s = inf  # when the shield's thread looked last, monotonic
        self._stop_came = Event()  # since the shield's thread looked last
        self._stop_rules_until_s, self._not_kept = 0.0, ""
        served = {
            name: node.create_service(Trigger, f"shield/{name}", partial(self._serve, name), qos_profile=CALLS)
            for name in SERVICES
        }
        for name, service in served.items():
            service.timed = partial(self._serve, name)
        self._stops = served[ESTOP]
        self._action = OperateAction(node, self._order_after_stops, standing)
        self._here = LocalOrders(node.context.get_domain_id(), node.get_namespace().strip("/"), self._answer)
        if ON_LINUX and not self._here.is_open:
            node.get_logger().warning("orders of this computer are taken by another program, and come by services only")

    def close(self) -> None:
        """Receive no more orders of this computer; the services end with their node."""
        self._here.close()
        self._action.close()

    def ask(self, name: str) -> None:
        """Ask as a service call would, without waiting for the answer."""
        self._asked.put((name, Future(), time.monotonic()))

    def serve(self, act: Callable[[str], Outcome]) -> None:
        """For the shield's thread, every cycle: `act(name)` does what was asked for, or says why not.

        A stop wins over everything that was asked in the same cycle, in either order. What was
        answered with a failure is not done later.
        """
        now_s = time.monotonic()
        if self._waits() and now_s - self._looked_s > STOOD_S:  # simulated time may stand still for long
            self._before_s = now_s
        self._looked_s = now_s
        self._stop_came.clear()
        waiting: list[tuple[str, Future[Outcome], float]] = []
        while not self._asked.empty():
            waiting.append(self._asked.get_nowait())
        stopped = any(name == ESTOP for name, *_ in waiting)
        for name, answer, sent_s in waiting:
            if not answer.set_running_or_notify_cancel():
                continue
            if stopped and name != ESTOP:
                answer.set_result(Outcome(False, f"{name}: stopped"))
            elif self._is_old(name, sent_s):
                answer.set_result(Outcome(False, f"{name}: {OLD}"))
            else:
                answer.set_result(act(name))

    @property
    def stop_waits(self) -> bool:
        """Whether a stop has come that is not served yet: what it is kept in may have been there already."""
        return self._stop_came.is_set()

    def drop(self) -> None:
        """Refuse what has not been served: the shield's thread has ended."""
        self.serve(lambda name: Outcome(False, f"{name}: the shield is not active"))
        self._looked_s = inf

    def _is_old(self, name: str, sent_s: float) -> bool:
        """Whether it was sent before the last stop, or before the process stood still, and would move the robot."""
        return name not in ALWAYS and 0.0 < self._before_s - sent_s < OLDEST_S

    def _serve(
        self, name: str, request: Trigger.Request, response: Trigger.Response, sent_ns: int = 0
    ) -> Trigger.Response:
        self._serve_stops()
        age_s = (time.time_ns() - sent_ns) * 1e-9 if sent_ns else 0.0
        response.success, response.message = self._answer(name, time.monotonic() - age_s)
        return response

    def _order_after_stops(self, name: str) -> Future[Outcome]:
        """Of the action, whose goals do not tell when they were sent."""
        self._serve_stops()
        return self.order(name, time.monotonic() - SENT_AGAIN_S)

    def _serve_stops(self) -> None:
        """Stops that wait in their queue come before all else: where a process stood still, all queues are full."""
        while (taken := self._stops.handle.service_take_request(Trigger.Request))[0] is not None:
            success, message = self._answer(ESTOP, time.monotonic())
            self._stops.send_response(Trigger.Response(success=success, message=message), taken[1])

    def order(self, name: str, sent_s: float) -> Future[Outcome]:
        """Have the shield's thread do it, from any other thread; what will have come of it. `sent_s`: monotonic.

        After a stop nothing else is done for a moment: services have queues of their own, and clocks differ.
        """
        answer: Future[Outcome] = Future()
        if name not in SERVICES:
            answer.set_result(Outcome(False, f"{name}: not one of {', '.join(SERVICES)}"))
            return answer
        if name == ESTOP:
            self._stop_rules_until_s = time.monotonic() + STOP_RULES_S
            self._before_s = time.monotonic()
        elif self._is_old(name, sent_s):
            answer.set_result(Outcome(False, f"{name}: {OLD}"))
            return answer
        elif (now_s := time.monotonic()) < self._stop_rules_until_s:
            self._stop_rules_until_s = max(self._stop_rules_until_s, now_s + QUEUED_S)
            answer.set_result(Outcome(False, f"{name}: stopped; ask again"))
            return answer
        is_active = self._is_active()
        if is_active:
            self._asked.put((name, answer, sent_s))
        if name == ESTOP:
            self._stop_came.set()
            reason = f"emergency stop by service, {time.strftime('%Y-%m-%d %H:%M:%S')}"
            self._not_kept = self._keep_stop(reason)  # after it is on its way: a disk may be slow
        if not is_active:
            # Nothing holds the robot now, and a person has to know.
            kept = "; it will be stopped when it is activated" if name == ESTOP else ""
            why = f"the shield is not active{kept}" if kept else NOT_ACTIVE
            answer.set_result(Outcome(False, f"{name}: {why}"))
        return answer

    def _answer(self, name: str, sent_s: float) -> Outcome:
        answer = self.order(name, sent_s)
        if not answer.done() and not self._waits():
            return Outcome(True, "asked; the outcome is on `status`")
        try:
            outcome = answer.result(ANSWER_WITHIN_S)
        except NoAnswer:
            if name != ESTOP:
                answer.cancel()
            return Outcome(False, f"{name}: the shield did not answer within {ANSWER_WITHIN_S:g} s")
        if name == ESTOP and self._not_kept:
            return outcome._replace(said="; ".join(filter(None, [outcome.said, self._not_kept])))
        return outcome
