"""The fallback of arms: brake along the present motion, then hold; never limp, not even in an emergency stop."""

from dataclasses import dataclass, replace

import numpy as np

from deploy.shield.fallback import FallbackCommand, Mode
from deploy.shield.joints.fallback import STILL, JointFallback
from hardware.types import RobotState

QUIET_SPEED = 0.15  # of max_velocity: up to it a drive's pull is what it holds
QUIET_CHANGE = 0.25  # ... and up to this share of braking
LOAD_SHARE = 0.6  # of a drive's effort that a load may take
LOAD_S = 0.1  # s, over which pull is averaged


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
        self._load = np.zeros(len(self.spec.channels))
        self._vel: np.ndarray | None = None  # (U,) rad/s, of the step before

    def load(self, state: RobotState, sent: np.ndarray, elapsed_s: float) -> np.ndarray:
        """What the drives hold (U,) N m, as their pull shows it whenever all joints are nearly at rest."""
        limits = self._limits
        vel = state.joint_vel[limits.joint].astype(np.float64)
        before, self._vel = self._vel, vel
        if before is None or elapsed_s <= 0.0:
            return self._load
        change = np.abs(vel - before) / elapsed_s
        quiet = (np.abs(vel) < QUIET_SPEED * limits.max_velocity) & (change < QUIET_CHANGE * limits.brake)
        if np.logical_and.reduce(quiet | limits.sliding):
            rows = limits.rows
            pull = rows.stiffness * (sent - self._measured(state)) - vel * limits.lead_s * rows.stiffness
            most = np.where(limits.sliding, 0.0, LOAD_SHARE * rows.max_effort)
            weight = min(elapsed_s / LOAD_S, 1.0)
            self._load = np.clip(self._load + weight * (pull - self._load), -most, most)
        return self._load

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
