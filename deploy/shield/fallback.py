"""What the supervisor needs to know of a class of robots: how to check its state, and what to do without a policy."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np

from deploy.shield.drone.params import ShieldParams
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.types import Context
from hardware.types import ActuatorCommand, RobotState


class Mode(Enum):
    """Who moves the robot, and whether it is all right."""

    NOMINAL = 0  # the policy, unchanged
    FILTERED = 1  # the policy, held back by a constraint
    HOLD = 2  # the shield: hover, brake and hold, or stand
    LAND = 3  # the shield: a drone, down
    OFF = 4  # a drone on the ground, motors idle; a robot with joints that were never measured: send nothing
    ESTOP = 5  # stopped by a person: a drone's motors idle, an arm brakes and holds, a humanoid damps
    DAMP = 6  # the shield: a humanoid that falls or lies, resisting motion only


@dataclass(frozen=True, slots=True)
class FallbackCommand:
    """What a fallback wants to be sent."""

    target: np.ndarray  # (U,)
    mode: Mode
    params: ShieldParams | JointShieldParams | None  # of the filter on the way out; None where nothing may change it


@dataclass(frozen=True, slots=True)
class StartCfg:
    """Where a policy begins."""

    height_m: float = 1.0  # above the ground, to which a drone on the ground takes off
    home: bool = False  # whether an arm moves to its home pose first


class Fallback(Protocol):
    """One robot's fallback. It keeps what it aims at between steps, and never raises."""

    uses_peers: bool  # whether the filter looks at peers, so that silent or babbling ones end the policy's turn
    holds_s: float  # s after a trip in which it waits for the policy, before it comes to rest
    held_at_rest: bool  # whether a robot at rest is commanded on for as long as it is not disarmed
    held_disarmed: bool  # ... and also then: an arm is never limp

    def reset(self) -> None:
        """Forget where the robot was held."""

    def keep(self, sent: np.ndarray | None) -> None:
        """What the robot was sent last (U,) before a reset, to go on from; None when nothing is to be kept."""

    def trip(self) -> None:
        """The policy has lost the robot: the next answers start from where it is then."""

    def done(self, mode: Mode) -> bool:
        """Whether a latched `mode` is an end where neither state nor filter matters any more."""

    def check_state(self, state: RobotState | None) -> str:
        """Why the measured state cannot be used, or an empty string."""

    def check_jump(self, state: RobotState, last: RobotState, elapsed_s: float) -> str:
        """Why `state` cannot follow `last` after `elapsed_s`, or an empty string."""

    def check_frozen(self, state: RobotState, stamp_s: float) -> str:
        """Why `state`, measured at `stamp_s`, is only the one of before, or an empty string."""

    def load(self, state: RobotState, sent: np.ndarray, elapsed_s: float) -> np.ndarray | None:
        """What the drives hold besides the robot itself (U,) N m, after `elapsed_s` under the command `sent` (U,)."""

    def doubt(self, state: RobotState, stamp_s: float, sent: np.ndarray) -> str:
        """Why `state`, which is used, contradicts those before it, or what was `sent` last (U,), or an empty string."""

    def check_request(self, requested: ActuatorCommand | None, age_s: float) -> str:
        """Why the request cannot be used, or an empty string."""

    def check_envelope(self, state: RobotState) -> str:
        """Why the policy may not go on from this good state, or an empty string."""

    def check_way(self, state: RobotState, context: Context, elapsed_s: float) -> str:
        """Why the policy may not go on where it goes, where no filter looks after that, or an empty string."""

    def check_start(self, state: RobotState, context: Context) -> str:
        """Why a robot at rest may not be armed where it is, or an empty string."""

    def check_inside(self, state: RobotState) -> str:
        """That the robot has left what its shield keeps it in, by more than a measurement errs; or an empty string."""

    def dead_reckon(self, state: RobotState, sent: np.ndarray, elapsed_s: float) -> RobotState:
        """`state` after `elapsed_s` under the command `sent` (U,)."""

    def rest(self, state: RobotState | None) -> np.ndarray:
        """Command (U,) that stands for no command; of robots with joints the pose of `state`."""

    def hold(self, state: RobotState) -> np.ndarray:
        """Command (U,) that keeps the robot where it was when this was first asked."""

    def still(self, state: RobotState) -> np.ndarray:
        """Command (U,) that holds the robot still in `state`, from which the policy's first requests are faded in."""

    def pace(self, request: np.ndarray, sent: np.ndarray, elapsed_s: float) -> np.ndarray:
        """`request` (U,) as near as the `elapsed_s` since the command `sent` (U,) may lead from it."""

    def bridge(self, state: RobotState, request: np.ndarray, is_new: bool, elapsed_s: float) -> np.ndarray:
        """What to do for the policy's last `request` (U,): itself, or where it is not new something better."""

    def overhear(self, request: np.ndarray) -> None:
        """A new request (U,), as it came, whether or not it is obeyed."""

    def wait(self, state: RobotState) -> FallbackCommand:
        """The command before the first request."""

    def fall_back(
        self, state: RobotState, sent: np.ndarray, since_s: float, elapsed_s: float, stop: bool
    ) -> FallbackCommand:
        """`since_s` after the trip and `elapsed_s` after the last call; `stop` for an emergency stop."""

    def go_blind(
        self, state: RobotState, sent: np.ndarray, since_s: float, elapsed_s: float, stop: bool
    ) -> FallbackCommand:
        """`fall_back` where `state` is only dead-reckoned."""

    def start(self, state: RobotState, elapsed_s: float, cfg: StartCfg) -> tuple[np.ndarray, bool]:
        """Command (U,) on the way to where a policy begins, and whether the robot is there."""

    def at_rest(self, state: RobotState, mode: Mode) -> bool:
        """Whether a robot that came to rest in `mode` is there: on the ground, braked, standing or lying."""

    def active_names(self, context: Context, active: np.ndarray) -> tuple[str, ...]:
        """Names of the rows that `active` (M,) bool marks, as `FilterInfo.active` does, and of no others."""

    def in_words(self, context: Context, active: np.ndarray, names: tuple[str, ...]) -> str:
        """What the rows that `active` (M,) bool marks, called `names`, kept the robot from, for people."""
