"""Whether what is measured can be the motion of one robot: an estimator can freeze, or lose one of its sensors."""

from collections.abc import Sequence
from math import dist, inf

import numpy as np

from hardware.types import RobotState

FROZEN_S = 0.1  # a robot in the air is never measured twice at the same place, speed and attitude to the last bit
FROZEN_TIMES = 3  # one measurement may get another time once, where a sender's clock was set
WINDOW_S = 0.5  # over which positions and velocities are compared
APART_M = 0.4  # between the ways that positions and velocities tell; velocities 0.1 s late stay below it
GAP_S = 0.2  # without a measurement, after which it starts over
SAME_S = 1e-4  # a measurement that is looked at twice
RISES_WITHIN_S = 0.7  # of thrust: rotors that lost 20 % of it lift a robot off the ground within 0.6 s
STILL_M_S = 0.1  # up or down: slower, a height stands still


class MotionCheck:
    """Compares each measurement of a robot in the air with those before it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over with the next measurement."""
        self._doubt, self._seen, self._times = "", b"", 0
        self._stamp_s = self._changed_s = self._followed_s = self._since_s = -inf
        self._vel: Sequence[float] = (0.0, 0.0, 0.0)  # m/s, world
        self._there: Sequence[float] = self._vel  # m, world, where the velocities since the window began lead to

    def check_frozen(self, state: RobotState, stamp_s: float) -> str:
        """Why `state`, which was measured at `stamp_s`, is the one of before, or an empty string."""
        seen = b"".join(x.tobytes() for x in (state.base_pos, state.base_quat, state.base_lin_vel, state.base_ang_vel))
        if seen != self._seen or stamp_s - self._stamp_s > GAP_S:
            self._seen, self._changed_s, self._times = seen, stamp_s, 0
        self._times += stamp_s - self._stamp_s > SAME_S
        self._stamp_s = stamp_s
        same_s = stamp_s - self._changed_s
        return (
            f"estimate has not changed for {1e3 * same_s:.0f} ms"
            if same_s > FROZEN_S and self._times > FROZEN_TIMES
            else ""
        )

    def doubt(self, base_pos: np.ndarray, vel: Sequence[float], stamp_s: float) -> str:
        """Why `base_pos` (3,) m or `vel` (3,) m/s, world, is wrong, one cannot say which, or an empty string.

        It holds until a window without.
        """
        elapsed_s = stamp_s - self._followed_s
        if abs(elapsed_s) < SAME_S:
            return self._doubt
        pos = base_pos.tolist()  # for a few numbers plain Python takes a third of NumPy's time
        if not 0.0 < elapsed_s < GAP_S:
            self._begin(pos, stamp_s)
        else:
            steps = zip(self._there, vel, self._vel, strict=True)
            self._there = [at + 0.5 * elapsed_s * (now + before) for at, now, before in steps]
            apart_m = dist(pos, self._there)
            if apart_m > APART_M:
                self._doubt = f"position and velocity differ by {apart_m:.2f} m of way"
                self._begin(pos, stamp_s)
            elif stamp_s - self._since_s > WINDOW_S:
                self._doubt = ""
                self._begin(pos, stamp_s)
        self._vel, self._followed_s = vel, stamp_s
        return self._doubt

    def _begin(self, pos: Sequence[float], stamp_s: float) -> None:
        self._there, self._since_s = pos, stamp_s


class RiseCheck:
    """Whether a robot is measured to rise when it is sent more thrust than its weight.

    If it is not it stands without propellers, is held or too heavy, or rises unseen: its height does not follow.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over."""
        self._doubt, self._lifted_s, self._stamp_s = "", 0.0, -inf
        self.in_the_air = False  # whether it was there when that was found

    def doubt(self, stamp_s: float, lifts: bool, up_m_s: float, in_the_air: bool) -> str:
        """Why a height that was measured at `stamp_s` to change by `up_m_s` is in doubt, or an empty string.

        `lifts`: what was sent until then is more than the weight.
        """
        elapsed_s, self._stamp_s = stamp_s - self._stamp_s, stamp_s
        stands = lifts and abs(up_m_s) < STILL_M_S
        self._lifted_s = self._lifted_s + min(max(elapsed_s, 0.0), GAP_S) if stands else 0.0
        if self._lifted_s > RISES_WITHIN_S and not self._doubt:
            self._doubt = f"not measured to rise within {RISES_WITHIN_S:g} s of thrust: too heavy, or a wrong height"
            self.in_the_air = in_the_air
        return self._doubt
