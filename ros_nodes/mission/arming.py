"""Arming: wait until every policy controls its robot; shields that tripped at start-up are reset."""

import time
from collections.abc import Callable
from dataclasses import replace

from rclpy.executors import SingleThreadedExecutor

from ros_nodes.mission.failures import POLICY_FLIES
from ros_nodes.mission.mission import Mission
from ros_nodes.mission.operator import MissionNode, OrderSender

ARM_S = 30.0  # a busy machine needs most of it
STEADY_S = 0.7  # every policy has to fly its robot for this long before the mission begins
RESET_AFTER_S = 1.0
WATCH_S = 0.05


class ArmError(RuntimeError):
    """A shield does not hand its robot to the policy; names the robot and the reason."""


def first_orders(mission: Mission, node: MissionNode) -> Callable[[], None]:
    """Sends the first order of a task's mission: its policies were trained with a command from the start."""
    if not mission.task or not mission.orders:
        return lambda: None
    sender, began = OrderSender(replace(mission, orders=mission.orders[:1]), node), time.monotonic()

    def send() -> None:
        sender.step(time.monotonic() - began)

    return send


def arm(node: MissionNode, executor: SingleThreadedExecutor, watch: Callable[[], None]) -> None:
    """Wait until all policies may fly; a shield that tripped while nodes started is reset, as by a person.

    `watch` is called again and again, and may raise. Raises ArmError.
    """
    begin = steady_since = time.monotonic()
    flying_since = dict.fromkeys(node.team, begin)
    while (now := time.monotonic()) - steady_since < STEADY_S:
        watch()
        node.update()
        executor.spin_once(timeout_sec=WATCH_S)
        for name, shield in zip(node.team, node.shields, strict=True):
            if shield.mode in POLICY_FLIES:
                flying_since[name] = now
                continue
            steady_since = now
            if now - begin > ARM_S:
                raise ArmError(f"{name}: its shield does not hand it to the policy ({shield.mode}: {shield.reason})")
            if now - flying_since[name] > RESET_AFTER_S:
                flying_since[name] = now
                node.reset_shield(name)
