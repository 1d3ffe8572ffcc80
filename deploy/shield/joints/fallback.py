"""What the fallbacks of all robots with joints have in common."""

from dataclasses import replace

import numpy as np

from deploy.shield.fallback import FallbackCommand, Mode, StartCfg
from deploy.shield.joints.filter import joint_row_names
from deploy.shield.joints.guards import check_joint_jump, check_joint_request, check_joint_state
from deploy.shield.joints.limits import joint_limits
from deploy.shield.joints.pace import paced
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.types import Context
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, RobotState

HOMING_SPEED = 0.1  # of max_velocity
OF_LINKS = "links: "  # begins the names of what links are kept off, which people call
CALLED = {"self": "itself", "floor": "the floor", "obstacle": "an obstacle", "person": "a person"}
STILL = 0.05  # of max_velocity: a joint slower than this stands


class JointFallback:
    """Before the first request it holds the pose in which the joints were first measured."""

    uses_peers = False
    holds_s = 0.0
    held_at_rest = True
    held_disarmed = False
    always_home = False  # whether a policy begins from the home pose, asked for or not

    def __init__(self, params: JointShieldParams, spec: RobotSpec):
        self.params, self.spec = params, spec
        self._limits = joint_limits(params, spec)
        self._names = joint_row_names(spec)
        self._home = self._clip(np.array(spec.home_target))
        self._kept: np.ndarray | None = None  # (U,) rad, targets from before a reset: grip and what carries a load
        self.reset()

    def reset(self) -> None:
        self._pose: np.ndarray | None = None  # (U,) rad, held before the policy's turn

    def keep(self, sent: np.ndarray | None) -> None:
        self._kept = sent

    def done(self, mode: Mode) -> bool:
        return False

    def check_state(self, state: RobotState | None) -> str:
        return check_joint_state(self.params, self.spec, self._limits, state)

    def check_jump(self, state: RobotState, last: RobotState, elapsed_s: float) -> str:
        return check_joint_jump(self.params, self.spec, self._limits, state, last, elapsed_s)

    def check_frozen(self, state: RobotState, stamp_s: float) -> str:
        return ""

    def load(self, state: RobotState, sent: np.ndarray, elapsed_s: float) -> np.ndarray | None:
        return None

    def doubt(self, state: RobotState, stamp_s: float, sent: np.ndarray) -> str:
        return ""

    def check_request(self, requested: ActuatorCommand | None, age_s: float) -> str:
        return check_joint_request(self.params, self.spec, self._limits, requested, age_s)

    def check_envelope(self, state: RobotState) -> str:
        return ""

    def check_way(self, state: RobotState, context: Context, elapsed_s: float) -> str:
        return ""

    def check_start(self, state: RobotState, context: Context) -> str:
        return ""

    def check_inside(self, state: RobotState) -> str:
        return ""

    def dead_reckon(self, state: RobotState, sent: np.ndarray, elapsed_s: float) -> RobotState:
        """The joints approach their targets as fast as damping and speed limit let them; the base stays."""
        limits = self._limits
        joint_pos, joint_vel = state.joint_pos.astype(np.float64), state.joint_vel.astype(np.float64)
        way = sent - joint_pos[limits.joint]
        vel = np.clip(way / np.maximum(limits.lead_s, elapsed_s + 1e-3), -limits.max_velocity, limits.max_velocity)
        joint_vel[limits.joint] = vel
        joint_pos[limits.joint] += elapsed_s * vel
        return replace(state, joint_pos=joint_pos, joint_vel=joint_vel)

    def rest(self, state: RobotState | None) -> np.ndarray:
        return self._home.copy() if state is None else self._start(state)

    def hold(self, state: RobotState) -> np.ndarray:
        if self._pose is None:
            self._pose = self._start(state)
        return self._pose

    def still(self, state: RobotState) -> np.ndarray:
        return self.hold(state)

    def pace(self, request: np.ndarray, sent: np.ndarray, elapsed_s: float) -> np.ndarray:
        """The request itself, or no farther from the last target than targets may move."""
        slow = paced(self.params, self.spec, request, sent, elapsed_s)
        return request if np.logical_and.reduce(slow == request) else slow

    def bridge(self, state: RobotState, request: np.ndarray, is_new: bool, elapsed_s: float) -> np.ndarray:
        return request

    def overhear(self, request: np.ndarray) -> None:
        pass

    def wait(self, state: RobotState) -> FallbackCommand:
        return FallbackCommand(self.hold(state), Mode.HOLD, self.params)

    def start(self, state: RobotState, elapsed_s: float, cfg: StartCfg) -> tuple[np.ndarray, bool]:
        """Straight to the home pose in joint space, slowly; without `cfg.home` the pose stays."""
        pose = self.hold(state)
        if not (cfg.home or self.always_home):
            return pose, True
        step = elapsed_s * HOMING_SPEED * self._limits.max_velocity
        self._pose = np.clip(self._home, pose - step, pose + step).astype(np.float32)
        return self._pose, bool((self._pose == self._home).all())

    def at_rest(self, state: RobotState, mode: Mode) -> bool:
        speed = np.abs(state.joint_vel[self._limits.joint])
        return bool((speed < STILL * self._limits.max_velocity).all())

    def active_names(self, context: Context, active: np.ndarray) -> tuple[str, ...]:
        return tuple(self._names[row] for row in active.nonzero()[0].tolist())

    def in_words(self, context: Context, active: np.ndarray, names: tuple[str, ...]) -> str:
        off = [name.removeprefix(OF_LINKS) for name in names if name.startswith(OF_LINKS)]
        held = [name for name in names if not name.startswith(OF_LINKS)]  # a joint, and what it was held by
        kept = f"kept off {' and '.join(CALLED.get(what, what) for what in off)}" if off else ""
        return "; ".join(filter(None, [kept, ", ".join(held)]))

    def _start(self, state: RobotState) -> np.ndarray:
        """The pose (U,) rad to start from: the joints' own, or the targets kept, with the effort that they call for.

        A turning joint that is farther from its target than a servo can pull has been moved since: it stays there.
        """
        measured = self._measured(state)
        if self._kept is None:
            return self._clip(measured)
        lead = np.array(self.params.max_effort) / self._limits.rows.stiffness
        near = self._limits.sliding | (np.abs(self._kept - measured) <= lead)
        return self._clip(np.where(near, self._kept, measured))

    def _measured(self, state: RobotState) -> np.ndarray:
        """Positions (U,) rad of the joints, in channel order."""
        return state.joint_pos[self._limits.joint]

    def _clip(self, target: np.ndarray) -> np.ndarray:
        low, high = np.array(self.params.position_low), np.array(self.params.position_high)
        return np.clip(target, low, high).astype(np.float32)
