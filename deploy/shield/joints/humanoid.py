"""The fallback of robots on legs: stand in the home pose while upright, else damp; never without torque at once."""

from dataclasses import replace

import numpy as np

from deploy.shield.fallback import FallbackCommand, Mode
from deploy.shield.joints.fallback import JointFallback
from deploy.shield.joints.guards import check_motion, check_upright
from hardware.types import RobotState


class HumanoidFallback(JointFallback):
    """It stands by moving its targets from the last ones to the home pose within `stand_s`.

    It damps by targets that follow the measured joints: what they pulled with at first fades within `damp_s`, and what
    remains of kp (q* - q) - kd dq is the second half, which resists every motion. Once it damps it goes on until reset.
    """

    always_home = True
    _before: RobotState | None = None  # the measurement before the last one, where it is known
    _guessed_s = 0.0  # for which the state has been dead-reckoned

    def reset(self) -> None:
        super().reset()
        self.trip()

    def trip(self) -> None:
        self._from: np.ndarray | None = None  # (U,) rad, targets at the trip
        self._pull: np.ndarray | None = None  # (U,) rad, targets ahead of the joints when damping began
        self._time_s = 0.0  # since then

    def dead_reckon(self, state: RobotState, sent: np.ndarray, elapsed_s: float) -> RobotState:
        """The joints stay where they were seen: legs that carry a robot stay behind their targets for good."""
        self._guessed_s += elapsed_s
        return replace(state, joint_vel=np.zeros_like(state.joint_vel))

    def check_jump(self, state: RobotState, last: RobotState, elapsed_s: float) -> str:
        over_s = elapsed_s + self._guessed_s
        reason = super().check_jump(state, last, elapsed_s) or check_motion(self.spec, state, last, over_s)
        known = self._guessed_s <= self.params.act_periods * self.params.control_dt_s
        if not (reason and known):  # one that contradicts a long guess is taken all the same
            self._before, self._guessed_s = last if known else None, 0.0
        return reason

    def check_envelope(self, state: RobotState) -> str:
        """One measurement is no fall: the one before has to say so too, unless it is long ago."""
        reason = check_upright(self.params, self.spec, state)
        return reason if self._before is None or check_upright(self.params, self.spec, self._before) else ""

    def fall_back(
        self, state: RobotState, sent: np.ndarray, since_s: float, elapsed_s: float, stop: bool
    ) -> FallbackCommand:
        if self._pull is None and (stop or self.check_envelope(state)):
            self._pull, self._time_s = sent - self._measured(state), 0.0
        elif self._from is not None or self._pull is not None:
            self._time_s += elapsed_s
        if self._pull is not None:
            fading = max(1.0 - self._time_s / self.params.damp_s, 0.0)
            return FallbackCommand(self._clip(self._measured(state) + fading * self._pull), Mode.DAMP, self.params)
        if self._from is None:
            self._from, self._time_s = np.array(sent), 0.0
        share = min(self._time_s / self.params.stand_s, 1.0)
        return FallbackCommand(self._clip((1.0 - share) * self._from + share * self._home), Mode.HOLD, self.params)

    def go_blind(
        self, state: RobotState, sent: np.ndarray, since_s: float, elapsed_s: float, stop: bool
    ) -> FallbackCommand:
        """Standing, the last targets stay, and the drives hold them. Damping goes on, also one that begins only now.

        Its targets fade to where the joints were last seen.
        """
        if stop or self._pull is not None:
            return self.fall_back(state, sent, since_s, elapsed_s, stop)
        self._from = None
        return FallbackCommand(np.array(sent), Mode.HOLD, self.params)

    def at_rest(self, state: RobotState, mode: Mode) -> bool:
        moves = mode is not Mode.DAMP and self._time_s < self.params.stand_s
        return not moves and super().at_rest(state, mode)
