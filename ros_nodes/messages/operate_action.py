"""The action `shield/operate`: an order to a robot, its states on the way, and how that ended."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

from deploy.shield.authority import STANDING, State
from ros_nodes.messages.local_orders import Outcome

try:
    from phalanx_interfaces.action import Operate
except ImportError:  # a type of our own: a workspace builds it from `interfaces/`, no wheel has it
    Operate = None

LOOK_S = 0.05
ON_THE_WAY = {"start": State.STARTING, "land": State.LANDING}  # the other orders are done when they are answered
Standing = tuple[State, str]  # who has the robot, and why


def how_it_ended(order: str, said: str, state: State, reason: str) -> Outcome | None:
    """What came of an `order` that was obeyed, with `said`; None while the robot is on its way."""
    if order not in ON_THE_WAY:
        return Outcome(True, said)
    if state is ON_THE_WAY[order]:
        return None
    lands = state is State.DISARMED or (state is State.ARMED and reason == STANDING)
    return Outcome(state is State.POLICY if order == "start" else lands, f"{state.name}: {reason}")


@dataclass(slots=True)
class _Goal:
    handle: Any  # rclpy's ServerGoalHandle
    order: str
    answer: Future[Outcome]
    said: Standing | None = None  # as feedback


class OperateAction:
    """Serves the action where its type is installed. All of it happens in the executor's thread."""

    def __init__(self, node: Node, order: Callable[[str], Future[Outcome]], standing: Callable[[], Standing | None]):
        """`order` has the shield's thread do it; `standing` is None while the shield is not active."""
        self._order, self._standing = order, standing
        self._goals: list[_Goal] = []
        self._server: ActionServer | None = None
        if Operate is None:
            return
        self._timer = node.create_timer(LOOK_S, self._look, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._timer.cancel()
        self._server = ActionServer(
            node,
            Operate,
            "shield/operate",
            execute_callback=lambda handle: None,
            handle_accepted_callback=self._accept,
            cancel_callback=self._may_cancel,
        )

    def close(self) -> None:
        """Serve it no more; the timer ends with its node."""
        if self._server:
            self._server.destroy()

    def _accept(self, handle: Any) -> None:
        order = handle.request.order
        self._goals.append(_Goal(handle, order, self._order(order)))
        self._timer.reset()

    def _may_cancel(self, handle: Any) -> CancelResponse:
        """A start ends where the robot is, as by `hold`; nothing else is undone by less than another order."""
        return CancelResponse.ACCEPT if handle.request.order == "start" else CancelResponse.REJECT

    def _look(self) -> None:
        self._goals = [goal for goal in self._goals if not self._follow(goal)]
        if not self._goals:
            self._timer.cancel()

    def _follow(self, goal: _Goal) -> bool:
        """Say what is new of a goal; True when it has ended."""
        outcome = goal.answer.result() if goal.answer.done() else None
        standing = self._standing()
        if standing and standing != goal.said:  # it counts when it is seen again: the shield's thread may change it
            goal.said = standing
            goal.handle.publish_feedback(Operate.Feedback(state=standing[0].name, reason=standing[1]))
            return False
        if outcome and outcome.done:
            if goal.handle.is_cancel_requested:
                self._order("hold")
                return _end(goal.handle, goal.handle.canceled, Outcome(False, "canceled: held where it is"))
            shield_ended = Outcome(False, f"{goal.order}: the shield is not active")
            outcome = how_it_ended(goal.order, outcome.said, *standing) if standing else shield_ended
        if outcome:
            _end(goal.handle, goal.handle.succeed if outcome.done else goal.handle.abort, outcome)
        return outcome is not None


def _end(handle: Any, become: Callable[[], None], outcome: Outcome) -> bool:
    def end(_: Any) -> Any:
        become()
        return Operate.Result(success=outcome.done, message=outcome.said)

    handle.execute(end)
    return True
