"""The moment before a mission: every policy gets to fly its robot, and shields that start-up tripped are freed."""

import time
from collections.abc import Callable
from dataclasses import replace

from rclpy.executors import SingleThreadedExecutor

from ros_nodes.mission.failures import POLICY_FLIES
from ros_nodes.mission.mission import Mission
from ros_nodes.mission.operator import Conductor, MissionNode

ARM_S = 12.0
STEADY_S = 0.7  # every policy has to fly its robot for this long before the mission begins
RESET_AFTER_S = 1.0
WATCH_S = 0.05


class ArmError(RuntimeError):
    """A shield does not let its policy fly; names the robot and says why."""


def first_words(mission: Mission, node: MissionNode) -> Callable[[], None]:
    """Says the first order of a task's mission: its policies were trained to be asked for something from the start."""
    if not mission.task or not mission.orders:
        return lambda: None
    conductor, began = Conductor(replace(mission, orders=mission.orders[:1]), node), time.monotonic()

    def say() -> None:
        conductor.step(time.monotonic() - began)

    return say


def arm(node: MissionNode, executor: SingleThreadedExecutor, watch: Callable[[], None]) -> None:
    """Wait until all policies may fly; a shield that tripped in the bustle of start-up is reset, as by a person.

    `watch` is called again and again, and may raise. Raises ArmError.
    """
    begin = steady_since = time.monotonic()
    flying_since = dict.fromkeys(node.team, begin)
    while (now := time.monotonic()) - steady_since < STEADY_S:
        watch()
        node.look()
        executor.spin_once(timeout_sec=WATCH_S)
        for name, shield in zip(node.team, node.shields, strict=True):
            if shield.mode in POLICY_FLIES:
                flying_since[name] = now
                continue
            steady_since = now
            if now - begin > ARM_S:
                raise ArmError(f"{name}: its shield does not let the policy fly ({shield.mode}: {shield.reason})")
            if now - flying_since[name] > RESET_AFTER_S:
                flying_since[name] = now
                node.reset_shield(name)
