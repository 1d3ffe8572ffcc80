"""The fallback of arms: brake along the present motion, then hold; never limp, not even in an emergency stop."""

from dataclasses import dataclass, replace

import numpy as np

from deploy.shield.arrays import columns, every
from deploy.shield.drone.attitude import rotation_matrix
from deploy.shield.fallback import FallbackCommand, Mode
from deploy.shield.joints.arm_obstacles import arm_body
from deploy.shield.joints.fallback import STILL, JointFallback
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.obstacles import check_clear, gaps
from deploy.shield.types import Context
from hardware.lever import load_lever
from hardware.spec import GRAVITY, RobotSpec
from hardware.types import RobotState

QUIET_SPEED = 0.15  # of max_velocity: up to it a drive's pull is what it holds
QUIET_CHANGE = 0.25  # ... and up to this share of braking
LOAD_SHARE = 0.9  # of a drive's effort that a load may take
REST_SHARE = 0.6  # ... that what is no mass in the hand may take
LOAD_S = 0.1  # s, over which pull is averaged
FORGET_S = 0.3  # s of motion, in which what is no mass in the hand is forgotten: elsewhere it is another one
LEAST_LEVER = (0.2 * GRAVITY) ** 2  # (N m/kg)^2, below which the arm hangs and says little about a mass
SETTLED_S = 0.05  # s of rest, from which on a mass is weighed
WEIGHED_S = 0.3  # s of rest, after which a mass is known
SURELY = 1.2  # of the stated payload: gains that are 10 % off weigh it 18 % off
FRICTION_KG = 0.2  # ... and friction so much
NEAR_OBSTACLE = "links: obstacle"


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

    def __init__(self, params: JointShieldParams, spec: RobotSpec):
        self._tool = load_lever(spec, "tool") if "tool" in spec.frames else None
        super().__init__(params, spec)

    def reset(self) -> None:
        super().reset()
        self._braking: Braking | None = None
        self._kg = 0.0  # in the hand, as far as known
        self._shown = np.zeros(2)  # (N m)^2/kg, (N m/kg)^2: what the mass follows from
        self._rest_s = 0.0  # for which the arm has been nearly at rest
        self._rest = np.zeros(len(self.spec.channels))  # N m, of the load that is no mass in the hand
        self._vel: np.ndarray | None = None  # (U,) rad/s, of the step before

    def load(self, state: RobotState, sent: np.ndarray, elapsed_s: float) -> np.ndarray:
        """What the drives hold (U,) N m: a mass in the hand, and what else their pull shows while the joints rest.

        The mass is known from any pose in which the arm was nearly at rest, and is carried to others by kinematics.
        """
        limits = self._limits
        vel = state.joint_vel[limits.joint].astype(np.float64)
        before, self._vel = self._vel, vel
        per_kg = None
        if before is not None and elapsed_s > 0.0:
            speed, change = np.abs(vel), np.abs(vel - before) / elapsed_s
            quiet = (speed < QUIET_SPEED * limits.max_velocity) & (change < QUIET_CHANGE * limits.brake)
            weight = min(elapsed_s / LOAD_S, 1.0)
            if every(quiet | limits.sliding):
                rows, per_kg = limits.rows, self._per_kg(state)
                pull = rows.stiffness * (sent - self._measured(state)) - vel * limits.lead_s * rows.stiffness
                pull = np.where(limits.sliding, 0.0, pull)
                still = (speed < STILL * limits.max_velocity) | limits.sliding
                self._rest_s = self._rest_s + elapsed_s if every(still) else 0.0
                shown = np.array([pull @ per_kg, per_kg @ per_kg])  # poses with long levers say most
                if self._rest_s > SETTLED_S:  # else what speeds it up would be weighed too
                    self._shown += weight * (shown - self._shown)
                if self._shown[1] > LEAST_LEVER:
                    kg = max(float(self._shown[0] / self._shown[1]), 0.0)
                    # What slows the arm down may look like less mass; that is believed after a longer rest.
                    self._kg = kg if self._rest_s >= WEIGHED_S else max(kg, self._kg)
                most = REST_SHARE * rows.max_effort
                self._rest = np.clip(self._rest + weight * (pull - self._kg * per_kg - self._rest), -most, most)
            else:
                self._rest_s = 0.0
                self._rest = self._rest * max(1.0 - elapsed_s / FORGET_S, 0.0)
        held, most = self._rest, LOAD_SHARE * limits.rows.max_effort
        if self._kg:
            held = held + self._kg * (self._per_kg(state) if per_kg is None else per_kg)
        return np.minimum(np.maximum(held, -most), most)

    def _per_kg(self, state: RobotState) -> np.ndarray:
        """What the drives hold (U,) N m for each kg at the tool."""
        if self._tool is None:
            return np.zeros(len(self.spec.channels))
        up = rotation_matrix(columns(state.base_quat))[6:]  # the world's z axis in the base
        lever = self._tool.rise(state.joint_pos, np.array(up))
        return GRAVITY * lever[self._limits.joint]

    def doubt(self, state: RobotState, stamp_s: float, sent: np.ndarray) -> str:
        """What the arm is not made to carry: its braking distances do not count on it."""
        most = self.spec.payload_kg
        if not most or self._rest_s < WEIGHED_S or self._kg <= SURELY * most + FRICTION_KG:
            return ""
        return f"{self._kg:.1f} kg in the hand, more than {most:g}"

    def check_start(self, state: RobotState, context: Context) -> str:
        """Fingers may touch; the other links may be near, and go away, but not inside of anything."""
        body = arm_body(self.spec, state, fingers=False)
        return check_clear(context, body, 0.0) if body else ""

    def active_names(self, context: Context, active: np.ndarray) -> tuple[str, ...]:
        """Of obstacles that have names it says which one is nearest."""
        names = super().active_names(context, active)
        if NEAR_OBSTACLE not in names or not context.obstacle_names:
            return names
        assert context.obstacles is not None and context.state is not None
        body = arm_body(self.spec, context.state)
        assert body is not None  # its links are what is near
        nearest = int(gaps(context.obstacles, body).argmin())
        said = f"{NEAR_OBSTACLE} (nearest: {context.name_of_obstacle(nearest)})"
        return tuple(said if name == NEAR_OBSTACLE else name for name in names)

    def in_words(self, context: Context, active: np.ndarray, names: tuple[str, ...]) -> str:
        nearest = f"{NEAR_OBSTACLE} (nearest: "
        plain = (f"links: {n.removeprefix(nearest)[:-1]}" if n.startswith(nearest) else n for n in names)
        return super().in_words(context, active, tuple(plain))

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
