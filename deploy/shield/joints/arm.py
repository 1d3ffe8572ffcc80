"""The fallback of arms: brake along the present motion, then hold; never limp, not even in an emergency stop."""

from dataclasses import dataclass, replace

import numpy as np

from deploy.shield.fallback import FallbackCommand, Mode
from deploy.shield.joints.fallback import STILL, JointFallback
from hardware.types import RobotState


@dataclass(slots=True)
class Braking:
    """A straight way in joint space that ends after `stop_s`: start + vel (t - t^2 / 2 stop_s)."""

    start: np.ndarray  # (U,) rad
    vel: np.ndarray  # (U,) rad/s, zero for joints that stand
    stop_s: float
    time_s: float = 0.0


class ArmFallback(JointFallback):
    """All joints come to rest together, as fast as the one that needs the longest can brake: the arm keeps its path."""

    held_disarmed = True

    def reset(self) -> None:
        super().reset()
        self._braking: Braking | None = None

    def trip(self) -> None:
        self._braking = None

    def fall_back(
        self, state: RobotState, sent: np.ndarray, since_s: float, elapsed_s: float, stop: bool
    ) -> FallbackCommand:
        """The target that a joint on the braking way has at this time."""
        if self._braking is None:
            self._braking = self._brake_from(state, sent)
        else:
            self._braking.time_s += elapsed_s
        way = self._braking
        time_s = min(way.time_s, way.stop_s)
        left = 1.0 - time_s / way.stop_s
        # The drive damps against standing still: a moving joint's target runs ahead by its speed times damping over
        # stiffness.
        target = way.start + way.vel * (0.5 * time_s * (1.0 + left) + left * self._limits.lead_s)
        return FallbackCommand(self._clip(target), Mode.HOLD, self.params)

    def go_blind(
        self, state: RobotState, sent: np.ndarray, since_s: float, elapsed_s: float, stop: bool
    ) -> FallbackCommand:
        """The same way, but not through the filter: its answers to a predicted state would lead the next prediction."""
        return replace(self.fall_back(state, sent, since_s, elapsed_s, stop), params=None)

    def _brake_from(self, state: RobotState, sent: np.ndarray) -> Braking:
        vel = state.joint_vel[self._limits.joint].astype(np.float64)
        # A finger's target is its grip, and noise alone can look like motion: it is never moved to where the finger is.
        # One that stands keeps its target, for it may carry or grasp something.
        moves = (np.abs(vel) > STILL * self._limits.max_velocity) & ~self._limits.sliding
        # For one more period the joints go on as they are: no drive can take up full braking at once.
        ahead_s = float(state.age) + self.params.control_dt_s
        start = np.where(moves, self._measured(state) + vel * ahead_s, sent)
        vel = np.where(moves, vel, 0.0)
        stop_s = float((np.abs(vel) / self._limits.brake).max())
        return Braking(start, vel, max(stop_s, self.params.control_dt_s))
