"""Set-points between those of a policy: a device is asked more often than a policy decides."""

from collections.abc import Sequence
from typing import Any

import numpy as np

SLACK_RAD = 0.1  # by which a joint may be measured beyond its range, or farther on than it can have gone
STEADY_S = 0.25  # without a jump of what is measured, before an arm may be armed: its first set-point is there


def measured_jump(joints: Sequence[str], before: Any, now: Any, max_velocity: Any, elapsed_s: float) -> str:
    """Which joint cannot have gone from `before` to `now` (J,), rad, within `elapsed_s`; or an empty string."""
    way = np.abs(np.subtract(now, before))
    beyond = way - np.multiply(max_velocity, elapsed_s) - SLACK_RAD
    which = int(beyond.argmax())
    if not beyond[which] > 0.0:
        return ""
    return f"{joints[which]} was measured to jump by {way[which]:.2f} rad: look at it, and arm it again"


def out_of_range(joints: Sequence[str], q: Any, low: Any, high: Any) -> str:
    """Which of the joints is measured at `q` (J,), rad, where it cannot be: its set-point would begin there; or ""."""
    for name, rad, lowest, highest in zip(joints, q, low, high, strict=True):
        if not lowest - SLACK_RAD <= rad <= highest + SLACK_RAD:  # as for what is no number
            return f"{name} is measured at {rad:.4g} rad, outside {lowest:.4g} .. {highest:.4g}"
    return ""


def next_setpoint(
    q: Any, velocity: Any, target: Any, rate: Any, max_velocity: Any, acceleration: float, cycle_s: float
) -> Any:
    """Where the set-point `q` (J,), rad, and its velocity, rad/s, are one cycle later on the way to `target`.

    It closes in at `rate`, 1/s, of what is left, never faster or with more acceleration, rad/s^2, than allowed: far
    away at the speed from which it can still brake.
    """
    left = target - q
    gentle = 0.8 * acceleration  # cycles are not points in time: with all of it, it would go a little too far
    near = gentle / rate**2
    braking = np.sqrt(np.maximum(0.0, 2.0 * gentle * (np.abs(left) - 0.5 * near)))
    wanted = np.where(np.abs(left) < near, rate * left, np.sign(left) * braking)
    step = acceleration * cycle_s
    velocity = velocity + np.clip(np.clip(wanted, -max_velocity, max_velocity) - velocity, -step, step)
    return q + cycle_s * velocity, velocity
