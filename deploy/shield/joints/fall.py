"""How a robot on legs goes down: its drives damp, and do so softly once it lies."""

from dataclasses import replace

import numpy as np

from deploy.shield.joints.limits import Limits
from deploy.shield.joints.params import JointShieldParams

DOWN_S = 2.0  # after damping began a robot lies: sinking limbs that meet the ends of ranges are braked as they need
SOFT_END = 0.1  # of a joint's range at either end, out of which a robot that damps is drawn
SOFT_EFFORT = 0.2  # of its drive, at most


class Fall:
    """It damps by targets that follow the measured joints: of kp (q* - q) - kd dq the second half is left, which
    resists every motion. Near the ends of ranges targets draw a joint back.

    What drives pulled with before fades within `damp_s` while the robot is upright, so that it sinks. In a fall it ends
    at once: to go on with it hits the ground harder (docs/shield.md, "How well a fall is foreseen").
    """

    def __init__(self, params: JointShieldParams, limits: Limits) -> None:
        self._params, self._lying = params, replace(params, brake_window=1.0)
        low, high = np.array(params.position_low), np.array(params.position_high)
        soft = SOFT_END * (high - low)
        self._soft = low + soft, high - soft
        self._most_rad = SOFT_EFFORT * limits.rows.max_effort / limits.rows.stiffness
        self.reset()

    def reset(self) -> None:
        """It goes down no more."""
        self._pull: np.ndarray | float | None = None  # (U,) rad, targets ahead of the joints when it began
        self._time_s = 0.0  # since then

    @property
    def is_under_way(self) -> bool:
        return self._pull is not None

    def begin(self, ahead: np.ndarray) -> None:
        """The last targets were `ahead` (U,) rad of the joints."""
        self._pull, self._time_s = ahead, 0.0

    def targets(self, measured: np.ndarray, elapsed_s: float, is_upright: bool) -> tuple[np.ndarray, JointShieldParams]:
        """Targets (U,) rad for joints `measured` (U,), and what the filter is to brake them by.

        `elapsed_s` is the time since the last ones.
        """
        assert self._pull is not None
        self._time_s += elapsed_s
        if not is_upright:
            self._pull = 0.0
        # The filter brakes a limb that sinks into the end of a range with the whole effort there, which throws it back:
        # a G1 on the ground kicked without end, at up to 8.6 rad/s.
        inside = np.clip(np.clip(measured, *self._soft) - measured, -self._most_rad, self._most_rad)
        fading = max(1.0 - self._time_s / self._params.damp_s, 0.0) * self._pull
        return measured + inside + fading, self._lying if self._time_s > DOWN_S else self._params
