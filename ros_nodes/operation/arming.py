"""Arming and starting a team, and bringing it down again, as a person would: one service call after the other."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rclpy.executors import SingleThreadedExecutor

from deploy.shield.authority import ASKED, ASKED_TO_END, HELD, LANDED, PUT_DOWN
from ros_nodes.operation.operator import MissionNode, OrderSender
from ros_nodes.plans.mission import Mission

ARM_S = 30.0  # a busy machine needs most of it
LAND_S = 20.0
STEADY_S = 0.7  # every policy has to fly its robot for this long before the mission begins
GAP_S = 0.3  # without a look
ASK_AGAIN_S = 0.5
REFUSED_S = 0.1  # what is missing for arming comes within moments
WATCH_S = 0.02
RESETS = 10  # of a robot that lost its policy, until a person has to look at it
DOWN = ("DISARMED", "FAULT", "STOPPED")


class ArmError(RuntimeError):
    """A robot is not handed to its policy; names the robot and the reason."""

    def __init__(self, robot: str, why: str):
        super().__init__(f"{robot}{why}")
        self.robot = robot


class StoppedError(ArmError):
    """A person has stopped, landed or held it, or has to look at it: it is not armed again by itself."""


@dataclass
class Orders:
    """What was asked of each robot last, and when, s; and how often it was reset."""

    last: dict[str, tuple[str, float]] = field(default_factory=dict)
    resets: Counter[str] = field(default_factory=Counter)


def first_orders(mission: Mission, node: MissionNode, watch: Callable[[], None]) -> Callable[[], None]:
    """Calls `watch`, and sends a task's first order before: its policies were trained with a command from the start."""
    if not mission.task or not mission.orders:
        return watch
    first = replace(mission, orders=mission.orders[:1], courses={})  # goals are passed in the mission only
    sender, began = OrderSender(first, node), time.monotonic()

    def send() -> None:
        sender.step(time.monotonic() - began)
        watch()

    return send


def arm(
    node: MissionNode,
    executor: SingleThreadedExecutor,
    watch: Callable[[], None],
    robots: Sequence[str] | None = None,
    shared: bool = False,
    orders: Orders | None = None,
) -> None:
    """Arm all `robots`, start their policies, and wait until these have flown them for a moment.

    A robot that lost its policy meanwhile is started again, `RESETS` times at most. `watch` is called again and again,
    and may raise. `shared`: a person may land or hold robots too. `orders` of earlier calls go on to count. Raises
    StoppedError for a robot that is a person's now, and ArmError where `ARM_S` are over.
    """
    begin = steady_since = looked_s = time.monotonic()
    orders = orders or Orders()
    while True:
        now = time.monotonic()
        if now - looked_s > GAP_S and now - begin < ARM_S:  # what happened meanwhile was not seen
            steady_since = now
        looked_s = now
        watch()
        node.update()
        executor.spin_once(timeout_sec=WATCH_S)
        for name, shield in zip(node.team, node.shields, strict=True):
            if shield.state == "POLICY" or (robots is not None and name not in robots):
                continue
            steady_since = now
            if shield.state == "STOPPED" or (shared and (shield.state, shield.reason) in BY_A_PERSON):
                raise StoppedError(name, f" is {shield.state}: {shield.reason}")
            if now - begin > ARM_S:
                why = node.refusals.get(name) or shield.reason
                raise ArmError(name, f": its policy did not get it within {ARM_S:g} s ({shield.state}: {why})")
            last, asked_s = orders.last.get(name, ("", 0.0))
            patience_s = REFUSED_S if node.refusals.get(name) else ASK_AGAIN_S
            if (step := NEXT_STEP.get(shield.state)) and (step != last or now - asked_s > patience_s):
                orders.last[name] = step, now
                orders.resets[name] += step == "reset" and last != step
                if orders.resets[name] > RESETS:
                    raise StoppedError(name, f" lost its policy {orders.resets[name]} times: {shield.reason}")
                node.ask(name, step)
        if now - steady_since >= STEADY_S:
            return


# A landing is waited for: in the air what it is for may last, or come again at once.
NEXT_STEP = {"DISARMED": "arm", "ARMED": "start", "FAULT": "reset"}
# States with reasons that nothing here asks for
BY_A_PERSON = {
    ("LANDING", ASKED),
    ("LANDING", ASKED_TO_END),
    ("ARMED", HELD),
    ("DISARMED", PUT_DOWN),
    ("DISARMED", LANDED),
}


def land(
    node: MissionNode, executor: SingleThreadedExecutor, watch: Callable[[], None], robots: Sequence[str] | None = None
) -> list[str]:
    """Land, park or sit all `robots`; names of those that were not down within `LAND_S`."""
    waiting, landing = list(robots if robots is not None else node.team), set[str]()
    until, ask_s = time.monotonic() + LAND_S, 0.0
    while waiting and (now := time.monotonic()) < until:
        watch()
        node.update()
        states = {name: shield.state for name, shield in zip(node.team, node.shields, strict=True)}
        landing |= {name for name in waiting if states[name] == "LANDING"}
        # What stands on its feet is held on when it has come to rest.
        waiting = [n for n in waiting if states[n] not in DOWN and not (n in landing and states[n] == "ARMED")]
        if now >= ask_s:
            ask_s = now + ASK_AGAIN_S
            for name in waiting:
                if states[name] != "LANDING":
                    node.ask(name, "land")
        executor.spin_once(timeout_sec=WATCH_S)
    return waiting
