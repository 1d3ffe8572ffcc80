"""The fallback of robots on legs: come to a stand while upright, else damp; never without torque at once."""

from dataclasses import replace

import numpy as np

from deploy.shield.fallback import FallbackCommand, Mode, StartCfg
from deploy.shield.joints.fall import Fall
from deploy.shield.joints.fallback import JointFallback
from deploy.shield.joints.guards import check_motion, check_upright
from deploy.shield.joints.limits import joint_limits
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.joints.standby import Standby
from deploy.shield.joints.way import Way
from deploy.shield.types import Context
from hardware.spec import RobotSpec
from hardware.types import RobotState

STANDS_M_S = 0.3  # of the base: faster, it does not stand
LEGS = ("hip", "knee", "ankle")  # in the names of the joints that balance a robot
FAR_RAD = 0.35  # from home, with a leg that far off no policy can stand: the robot hangs
HANGING_RAD_S = 0.5  # they go there, all joints with them
TAKES_UP = 0.2  # of the time to a stand, for legs at home: sooner, a G1 that hangs kicks; later, an H1 sinks and falls


class HumanoidFallback(JointFallback):
    """A robot with a fallback policy stands by it from when it is armed: no pose holds up one whose drives are as soft
    as those of a G1. One whose legs are far from home then hangs: it goes there slowly first. It walks on by it from
    the first request that is missing, if it walks like the policy that it had; once it falls back, or is held, it slows
    down and stands by it. All its targets pass the filter.

    Without one it stands by moving its targets from the last ones to the home pose within `stand_s`.

    It goes down as `Fall` says; once it does, it goes on until reset.
    """

    always_home = True
    _before: RobotState | None = None  # the measurement before the last one, where it is known
    _guessed_s = 0.0  # for which the state has been dead-reckoned
    _joint_vel: np.ndarray | None = None  # (J,) rad/s, measured last before that
    _beside: np.ndarray | None = None  # (U,) rad, targets of the fallback policy beside what was sent last
    _apart: np.ndarray | float = 0.0  # (U,) rad, from those to the last request
    _starts = False  # whether what comes as a request is no policy's, but on the way to where a policy begins

    def __init__(self, params: JointShieldParams, spec: RobotSpec):
        self._standby = Standby.load(spec) if spec.fallback_policy else None
        self._has_robot = False  # the fallback policy
        self._is_new = True  # to both policies since it is commanded
        self._goes_home = self._came_home = False  # its legs, slowly, before a policy has them
        names = [spec.joints[index].name for index in spec.joint_of_channel]
        self._legs = np.array([any(part in name for part in LEGS) for name in names])
        self._way = Way(params, spec.home_height_m)
        self._fall = Fall(params, joint_limits(params, spec))
        super().__init__(params, spec)

    def reset(self) -> None:
        super().reset()
        self._way.reset()
        self._starts = False
        if self._standby:
            self._standby.sets_out = 0
        self.trip()

    def keep(self, sent: np.ndarray | None) -> None:
        super().keep(sent)
        if sent is None:  # it was not commanded for a while
            self._is_new, self._has_robot, self._goes_home, self._came_home = True, False, False, False
            self._beside = None
            if self._standby:
                self._standby.reset()

    def trip(self) -> None:
        self._from: np.ndarray | None = None  # (U,) rad, targets at the trip
        self._fall.reset()
        if not self._has_robot:
            self._offset: np.ndarray | float = 0.0  # (U,) rad, from the fallback policy to the targets at the trip
            self._time_s = 0.0  # since then

    def dead_reckon(self, state: RobotState, sent: np.ndarray, elapsed_s: float) -> RobotState:
        """The joints stay where they were seen: legs that carry a robot stay behind their targets for good."""
        if self._guessed_s == 0.0:
            self._joint_vel = state.joint_vel
        self._guessed_s += elapsed_s
        return replace(state, joint_vel=np.zeros_like(state.joint_vel))

    def check_jump(self, state: RobotState, last: RobotState, elapsed_s: float) -> str:
        over_s = elapsed_s + self._guessed_s
        moved = last if self._guessed_s == 0.0 else replace(last, joint_vel=self._joint_vel)
        reason = super().check_jump(state, last, elapsed_s) or check_motion(self.spec, state, moved, over_s)
        known = self._guessed_s <= self.params.act_s
        if not (reason and known):  # one that contradicts a long guess is taken all the same
            self._before, self._guessed_s = last if known else None, 0.0
        return reason

    def check_envelope(self, state: RobotState) -> str:
        """One measurement is no fall: the one before has to say so too, unless it is long ago."""
        reason = check_upright(self.params, self.spec, state)
        return reason if self._before is None or check_upright(self.params, self.spec, self._before) else ""

    def check_way(self, state: RobotState, context: Context, elapsed_s: float) -> str:
        """Without a policy of its own it could not stop by itself, and goes where it is led."""
        return self._way.check(state, context, elapsed_s, self._standby.sets_out) if self._standby else ""

    def check_start(self, state: RobotState, context: Context) -> str:
        """It would damp at once where it lies or falls, and cannot stand where it goes."""
        if lies := check_upright(self.params, self.spec, state):
            return lies
        if (speed := float(np.linalg.norm(state.base_lin_vel))) > STANDS_M_S:
            return f"base moves at {speed:.2f} m/s, more than {STANDS_M_S:g}"
        return self._way.check_start(state, context) if self._standby else ""

    def fall_back(
        self, state: RobotState, sent: np.ndarray, since_s: float, elapsed_s: float, stop: bool
    ) -> FallbackCommand:
        is_upright = not self.check_envelope(state)
        if not self._fall.is_under_way and (stop or not is_upright):
            self._fall.begin(sent - self._measured(state))
            elapsed_s = 0.0
        if self._fall.is_under_way:
            self._has_robot = False
            damping, params = self._fall.targets(self._measured(state), elapsed_s, is_upright)
            return FallbackCommand(self._clip(damping), Mode.DAMP, params)
        if self._from is not None:
            self._time_s += elapsed_s
        target = self._stand(state, sent, elapsed_s)
        if target is not None:
            return FallbackCommand(self._clip(target), Mode.HOLD, self.params)
        if self._from is None:
            self._from, self._time_s = np.array(sent), 0.0
        share = min(self._time_s / self.params.stand_s, 1.0)
        return FallbackCommand(self._clip((1.0 - share) * self._from + share * self._home), Mode.HOLD, self.params)

    def overhear(self, request: np.ndarray) -> None:
        """That of a start is no policy's."""
        if self._standby and self._has_robot and not self._starts:
            self._standby.reconsider(request)

    def bridge(self, state: RobotState, request: np.ndarray, is_new: bool, elapsed_s: float) -> np.ndarray:
        if self._starts:
            self._starts = False
            target = self._stand(state, self._kept, elapsed_s)
            return request if target is None else self._clip(target)
        self._is_new = self._has_robot = False
        if self._standby is None:
            return request
        self._standby.observe(state, elapsed_s)
        if is_new:
            self._standby.compare(request)
        self._beside = target = self._standby.target
        if target is None or is_new or not self._standby.is_near:
            self._apart = 0.0 if target is None else request - target
            return request
        return self._clip(target + self._apart)

    def still(self, state: RobotState) -> np.ndarray:
        """Where no pose holds a robot up, what its fallback policy would do to stand."""
        standing = self._standby.standing if self._standby else None
        return super().still(state) if standing is None else self._clip(standing)

    def wait(self, state: RobotState) -> FallbackCommand:
        """It is kept on its feet by the fallback policy."""
        if self._hangs(state):
            return FallbackCommand(self._homeward(state, self.params.control_dt_s), Mode.HOLD, self.params)
        target = self._stand(state, self._kept, self.params.control_dt_s)
        return super().wait(state) if target is None else FallbackCommand(self._clip(target), Mode.HOLD, self.params)

    def start(self, state: RobotState, elapsed_s: float, cfg: StartCfg) -> tuple[np.ndarray, bool]:
        """It begins where the fallback policy stands, which `bridge` asks for what to do."""
        self._starts = True
        if self._standby is None:
            return super().start(state, elapsed_s, cfg)
        if self._hangs(state):
            return self._homeward(state, elapsed_s), False
        return self.hold(state), self._has_robot and self._standby.stands

    def _hangs(self, state: RobotState) -> bool:
        """Whether its legs are still far from home, where no policy has had it since it was armed.

        The fallback policy, which never saw such a pose, kicked with legs in the air at up to 13 rad/s.
        """
        if self._standby is None or not self._is_new:
            return False
        if self._goes_home:
            self._goes_home = not np.array_equal(self.hold(state), self._home)
        else:
            self._goes_home = self._off_home_rad(state) > FAR_RAD
        return self._goes_home

    def _off_home_rad(self, state: RobotState) -> float:
        """Of the leg's joint that is farthest from home."""
        return float(np.abs(self._measured(state) - self._home)[self._legs].max())

    def _takes_up_s(self, state: RobotState) -> float:
        """Within which limp drives come to the targets of a stand: legs near home may carry the robot already."""
        return self.params.stand_s * min(max(self._off_home_rad(state) / FAR_RAD, TAKES_UP), 1.0)

    def _homeward(self, state: RobotState, elapsed_s: float) -> np.ndarray:
        pose, step = self.hold(state), HANGING_RAD_S * elapsed_s
        self._pose = self._kept = np.clip(self._home, pose - step, pose + step).astype(np.float32)
        self._came_home = True
        return self._pose  # from which the fallback policy goes on

    def _stand(self, state: RobotState, sent: np.ndarray | None, elapsed_s: float) -> np.ndarray | None:
        """Targets (U,) of the fallback policy on its way to a stand; None where there is none, or it has not run.

        What was `sent` last differed from its own targets beside those, if it has run then, or differs from these: that
        fades within `stand_s`, sooner where drives were limp before. It is nothing if it walks as the other policy did.
        """
        if self._standby is None or self._from is not None or self._hangs(state):
            return None
        begins, beside = not self._has_robot, self._beside
        if begins:
            self._standby.take_over()
        self._standby.observe(state, elapsed_s)
        if (target := self._standby.target) is None:
            return None
        if begins:
            set_out = self._standby.sets_out  # by the request that is taken back: its lean would go on
            was_limp = self._is_new and not self._came_home
            self._offset = 0.0 if sent is None or set_out else sent - (target if beside is None else beside)
            self._fades_s = self._takes_up_s(state) if was_limp else self.params.stand_s
            self._is_new, self._has_robot, self._time_s = False, True, 0.0
        else:
            self._time_s += elapsed_s
        return target + max(1.0 - self._time_s / self._fades_s, 0.0) * self._offset

    def go_blind(
        self, state: RobotState, sent: np.ndarray, since_s: float, elapsed_s: float, stop: bool
    ) -> FallbackCommand:
        """Standing, the last targets stay, and the drives hold them. Damping goes on, also one that begins only now.

        Its targets fade to where the joints were last seen.
        """
        if stop or self._fall.is_under_way:
            return self.fall_back(state, sent, since_s, elapsed_s, stop)
        self._from = self._beside = None
        return FallbackCommand(np.array(sent), Mode.HOLD, self.params)

    def at_rest(self, state: RobotState, mode: Mode) -> bool:
        if self._has_robot and self._standby and mode is not Mode.DAMP:
            return self._standby.stands and super().at_rest(state, mode)
        moves = mode is not Mode.DAMP and self._time_s < self.params.stand_s
        return not moves and super().at_rest(state, mode)
