"""A fallback that is a policy: it runs beside the one that has the robot, ready to take over within one period."""

from dataclasses import replace
from functools import lru_cache
from math import atan2, cos, exp, hypot, sin
from pathlib import Path

import numpy as np

from deploy.bundle import Bundle, BundleError, load_bundle, self_test
from deploy.contract.tensor_specs import STATE_INPUTS, TARGET
from deploy.runtime.buffers import BoundGraph, all_finite
from deploy.runtime.compatibility import check_robot
from deploy.shield.drone.attitude import rotated, rotation_matrix
from hardware.spec import RobotSpec
from hardware.types import RobotState

PHASE = "gait_phase"  # memory (1,) in [0, 1) that says where in its gait a walking policy is
VELOCITY = "velocity"  # command (3,) m/s, m/s, rad/s in the heading frame
PHASES = 12  # an error of a twelfth of the gait's length fells no more robots, one of a sixth does
SLOWEST = 0.06  # m/s: commanded less, a walking policy stands, and its gait stops
SLOWS_DOWN_S = 1.4  # from walking to standing
STANDS_S = 1.0  # after which it has come to rest
VELOCITY_S = 0.3  # time constant in which the sway of single steps is smoothed from the velocity
FORGETS_S = 0.15  # time constant in which earlier differences to the policy that has the robot stop to count
# Commands (m/s, m/s, rad/s) for setting out from a stand: ahead and back count, the others are there to differ.
SET_OUTS = np.array(
    [
        [0.6, 0, 0],
        [0.2, 0, 0],
        [0.08, 0, 0],
        [-0.3, 0, 0],
        [-0.08, 0, 0],
        [0, 0.3, 0],
        [0, -0.3, 0],
        [0, 0, 0.6],
        [0, 0, -0.6],
    ]
)
STANDS_RAD = 0.03  # to the targets of standing: a policy that is nearer stands as this one does
STARTS_RAD = 0.04  # ... and one that is farther does not any more
STARTS_REQUESTS = 5  # after which a robot that was not held is on its way
STARTS_SHARE = 0.7  # of that, within which the targets of one who sets out are
SAME_RAD = 1e-6  # nearer, targets are the same: one was rounded
NEAR_RAD = 0.08  # root mean square over the joints that differ, up to which it walks as the other policy does


class Standby:
    """A policy for walking at a commanded velocity, run in several phases of its gait at once, and standing.

    While another policy has the robot, the row whose targets are nearest to that one's is the one that takes over: it
    goes on in the same phase, slows down and stands. A policy without phase or command is run in one row. It runs at
    its own rate, also beside one that is faster.
    """

    def __init__(self, bundle: Bundle):
        contract, dt_s = bundle.contract, bundle.contract.control_dt_s
        names = {memory.input for memory in contract.memory}
        self.walks = PHASE in names and bool(contract.commands)
        rows = 1
        if self.walks:
            rows = PHASES + 1 + len(SET_OUTS)  # behind the phases one stands, and those set out from it
        self._graph = BoundGraph(bundle.session, contract.inputs, contract.outputs, 1, rows)
        inputs, outputs = self._graph.inputs, self._graph.outputs
        self._state = [(name, inputs[name]) for name in STATE_INPUTS if name in inputs]
        self._memory = [(inputs[m.input], outputs[m.output], np.array(m.initial, np.float32)) for m in contract.memory]
        self._phase = inputs.get(PHASE)
        self._command = inputs.get(VELOCITY)
        self._low, self._high = next(((c.low, c.high) for c in contract.commands), ((0.0,) * 3, (0.0,) * 3))
        self._targets, self._dt_s = outputs[TARGET], dt_s
        self._learns, self._follows = (1.0 - exp(-dt_s / each) for each in (FORGETS_S, VELOCITY_S))
        self.reset()

    @classmethod
    def load(cls, spec: RobotSpec) -> "Standby":
        """The fallback policy of a robot that has one; BundleError for a file that is damaged or not for it.

        The robot may be controlled faster than the policy runs, and not slower.
        """
        assert spec.fallback_policy is not None
        bundle = _read(spec.fallback_policy)
        slowest = replace(spec, control_hz=min(spec.control_hz, 1.0 / bundle.contract.control_dt_s))
        check_robot(bundle.contract, slowest, str(spec.fallback_policy))
        return cls(bundle)

    def reset(self) -> None:
        """Forget the past."""
        for buffer, _, initial in self._memory:
            buffer[...] = initial
        self._velocity = [0.0, 0.0, 0.0]  # m/s, m/s, rad/s, in the heading frame
        self._since_s = 0.0
        self._difference = np.zeros(len(self._targets))  # rad^2, to the targets of the policy that has the robot
        self._ran = self._compared = False
        self._stood = True  # a robot that nothing is known of stands
        self.sets_out = 0  # 1 ahead, -1 back: who stood as this policy does, and begins to walk
        self._starts = 0  # requests for which that is so
        self._best = 0
        self._slows_s: float | None = None  # s left until it stands; None while another policy has the robot
        self._follow(PHASES if self.walks else 0)

    @property
    def target(self) -> np.ndarray | None:
        """Targets (U,) rad of the best row; None before it has run."""
        return self._targets[self._best].copy() if self._ran else None

    @property
    def standing(self) -> np.ndarray | None:
        """Targets (U,) rad of the row that stands beside the others; None before it has run."""
        return self._targets[PHASES if self.walks else 0].copy() if self._ran else None

    @property
    def is_near(self) -> bool:
        """Whether it walks, or stands, as the policy that has the robot."""
        return self._ran and bool(self._difference[self._best] < NEAR_RAD**2)

    def observe(self, state: RobotState, elapsed_s: float) -> None:
        """Run all rows for the state, once in a period of this policy however often it is called."""
        self._since_s += elapsed_s
        if self._since_s < 0.5 * self._dt_s:
            return
        self._since_s = min(self._since_s - self._dt_s, 0.5 * self._dt_s)
        self._measure(state)
        for name, buffer in self._state:
            buffer[...] = getattr(state, name)
        if self._command is not None:
            self._put_commands(self._command)
        self._graph.run()
        if not all_finite(self._graph.flat_output):
            self._ran = False
            return
        for buffer, output, _ in self._memory:
            buffer[...] = output
            if self.walks:
                buffer[PHASES + 1 :] = output[PHASES if self._slows_s is None else self._best]
        self._ran, self._compared = True, False

    def compare(self, target: np.ndarray) -> None:
        """Look which row is nearest to the `target` (U,) rad of the policy that has the robot, once for each run."""
        if not self._ran or self._compared:
            return
        self._compared = True
        if self._slows_s is not None:  # it gives the robot back
            self._stood = self.stands
            self._follow(self._best)
        apart = self._targets - target
        differ = _differ(apart)
        self._difference += self._learns * (np.vecdot(apart, apart) / differ - self._difference)
        if self.walks:
            self._look_for_start(np.sqrt(np.vecdot(apart[PHASES:], apart[PHASES:]) / differ))
        self._best = int(self._difference[: PHASES + 1].argmin())

    def _look_for_start(self, apart_rad: np.ndarray) -> None:
        """Whether one who stood sets out, from how far its targets are from those of standing and of each start."""
        stands, starts = float(apart_rad[0]), apart_rad[1:]
        stood, self._stood = self._stood, stands < (STARTS_RAD if self._stood else STANDS_RAD)
        self._starts -= 1
        if self._stood or not self._starts:
            self.sets_out = 0
        elif stood and stands > STARTS_RAD and starts.min() < STARTS_SHARE * stands:
            self.sets_out, self._starts = _way_of(starts), STARTS_REQUESTS

    def reconsider(self, target: np.ndarray) -> None:
        """What the policy asks for, by its `target` (U,) rad, while this one has the robot: to stand, or to set out."""
        if not (self.walks and self._ran):
            return
        apart = self._targets - target
        rad = np.sqrt(np.vecdot(apart, apart) / _differ(apart))
        if rad[self._best] < STANDS_RAD:
            self.sets_out = 0
        elif rad[PHASES + 1 :].min() < min(STARTS_SHARE * float(rad[self._best]), NEAR_RAD):
            self.sets_out = _way_of(rad[PHASES + 1 :])

    def take_over(self) -> None:
        """From now on `target` is what the robot is to do: it slows down and stands."""
        walking = self.walks and self._best < PHASES
        for buffer, _, _ in self._memory:
            buffer[...] = buffer[self._best].copy()
        self._slows_s = SLOWS_DOWN_S if walking else 0.0

    @property
    def stands(self) -> bool:
        """Whether it has had the robot for long enough to stand still."""
        return self._slows_s is not None and self._slows_s <= -STANDS_S

    def _follow(self, best: int) -> None:
        """Run beside another policy: the phases apart from each other by as much as possible."""
        self._best, self._slows_s = best, None
        self._difference[...] = NEAR_RAD**2
        if self.walks and self._phase is not None:
            first = self._phase[best, 0] if best < PHASES else 0.0
            self._phase[:PHASES, 0] = (first + (np.arange(PHASES) - best) / PHASES) % 1.0

    def _measure(self, state: RobotState) -> None:
        """The velocity in the heading frame, smoothed, unless it is slowing down."""
        if self._slows_s is not None:
            self._slows_s -= self._dt_s
            return
        rot = rotation_matrix(state.base_quat.tolist())
        yaw = atan2(rot[3], rot[0])
        east, north, _ = rotated(rot, state.base_lin_vel.tolist())
        turn = rotated(rot, state.base_ang_vel.tolist())[2]
        now = cos(yaw) * east + sin(yaw) * north, cos(yaw) * north - sin(yaw) * east, turn
        self._velocity = [old + self._follows * (new - old) for old, new in zip(self._velocity, now, strict=True)]

    def _put_commands(self, commands: np.ndarray) -> None:
        """Into `commands` (rows, 3): the velocity in all phases, in the last row none."""
        share = 1.0 if self._slows_s is None else max(self._slows_s / SLOWS_DOWN_S, 0.0)
        bounds = zip(self._velocity, self._low, self._high, strict=True)
        velocity = [min(max(share * value, low), high) for value, low, high in bounds]
        if hypot(*velocity) < SLOWEST:
            velocity = [SLOWEST if self._slows_s is None else 0.0, 0.0, 0.0]
        commands[...] = velocity
        if self.walks:
            commands[PHASES + 1 :] = SET_OUTS
            if self._slows_s is None:
                commands[PHASES] = 0.0


def _differ(apart: np.ndarray) -> int:
    """In how many joints targets `apart` (rows, U) rad of a row differ; at least 1."""
    return max(1, int(np.count_nonzero(np.abs(apart).max(0) > SAME_RAD)))


def _way_of(starts: np.ndarray) -> int:
    """1 ahead, -1 back, 0 elsewhere: how the nearest of the `starts` (S,) rad sets out."""
    return int(np.sign(SET_OUTS[int(starts.argmin()), 0]))


@lru_cache(maxsize=8)
def _read(path: Path) -> Bundle:
    """A file that its fingerprint, its contract and its probes vouch for, read once however many shields there are."""
    bundle = load_bundle(path)
    self_test(bundle, str(path))
    contract = bundle.contract
    if (
        contract.objects
        or contract.team.max_peers
        or any(command.name != VELOCITY or command.shape != ("batch", 3) for command in contract.commands)
    ):
        raise BundleError(f"{path}: a fallback policy has no objects, no peers and no command but {VELOCITY!r}")
    return bundle
