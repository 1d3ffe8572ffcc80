"""How a robot on legs goes down: towards a protective pose while it falls, then damped, and softly once it lies."""

from dataclasses import replace

import numpy as np

from deploy.shield.joints.limits import Limits
from deploy.shield.joints.params import JointShieldParams
from hardware.spec import RobotSpec

BRACE_S = 0.8  # from when a fall is foreseen; a G1 that is pushed over meets the ground after 0.6 to 0.9 s
BRACE_FADES_S = 0.3  # of that, at its end
BRACE_RAD = 0.8  # farther ahead of a joint no target is
DOWN_S = 2.0  # after damping began a robot lies: sinking limbs that meet the ends of ranges are braked as they need
SOFT_END = 0.1  # of a joint's range at either end, out of which a robot that damps is drawn
SOFT_EFFORT = 0.2  # of its drive, at most


class Fall:
    """It damps by targets that follow the measured joints: what they pulled with at first fades within `damp_s`, and
    what remains of kp (q* - q) - kd dq is the second half, which resists every motion, but near the ends of ranges.

    A robot with a `brace` that is still up when it begins to fall first goes towards that pose, for `BRACE_S`.
    """

    def __init__(self, params: JointShieldParams, spec: RobotSpec, limits: Limits) -> None:
        self._params, self._lying = params, replace(params, brake_window=1.0)
        joints = [spec.joints[index] for index in spec.joint_of_channel]
        self._brace = np.array([spec.brace.get(joint.name, joint.home) for joint in joints])
        self._has_brace = bool(spec.brace)
        low, high = np.array(params.position_low), np.array(params.position_high)
        soft = SOFT_END * (high - low)
        self._soft = low + soft, high - soft
        self._most_rad = SOFT_EFFORT * limits.rows.max_effort / limits.rows.stiffness
        self.reset()

    def reset(self) -> None:
        """It falls no more."""
        self._pull: np.ndarray | None = None  # (U,) rad, targets ahead of the joints when it began
        self._braces, self._time_s = False, 0.0

    @property
    def is_under_way(self) -> bool:
        return self._pull is not None

    def begin(self, ahead: np.ndarray, is_up: bool) -> None:
        """The last targets were `ahead` (U,) rad of the joints."""
        self._pull, self._braces, self._time_s = ahead, self._has_brace and is_up, 0.0

    def targets(self, measured: np.ndarray, elapsed_s: float, stop: bool) -> tuple[np.ndarray, JointShieldParams]:
        """Targets (U,) rad for joints `measured` (U,), and what the filter is to brake them by.

        `elapsed_s` is the time since the last ones; with `stop` it goes towards no pose.
        """
        assert self._pull is not None
        self._time_s += elapsed_s
        gives_way = self._gives_way(measured)
        if self._braces and not stop:
            share = min(max((BRACE_S - self._time_s) / BRACE_FADES_S, 0.0), 1.0)
            return gives_way + share * np.clip(self._brace - measured, -BRACE_RAD, BRACE_RAD), self._params
        fading = max(1.0 - self._time_s / self._params.damp_s, 0.0)
        return gives_way + fading * self._pull, self._lying if self._time_s > DOWN_S else self._params

    def _gives_way(self, measured: np.ndarray) -> np.ndarray:
        """Targets (U,) rad of drives that resist motion alone, but for the ends of ranges.

        A limb that sinks into the end of a range is thrown back by the filter, which brakes it there with the whole
        effort, and sinks again: a G1 on the ground kicked without end, at up to 8.6 rad/s.
        """
        return measured + np.clip(np.clip(measured, *self._soft) - measured, -self._most_rad, self._most_rad)
