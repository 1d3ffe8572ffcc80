"""Set-points between those of a policy: a device is asked more often than a policy decides."""

from typing import Any

import numpy as np


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
