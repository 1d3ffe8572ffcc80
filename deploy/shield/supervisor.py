"""Shield: guards, ramp, filter, watchdog and latched fallback around one robot's commands.

What differs between classes of robots is in their fallbacks: `drone.fallback`, `joints.arm`, `joints.humanoid`.
"""

from dataclasses import dataclass, replace
from math import isfinite
from operator import le

import numpy as np

from deploy.shield.drone.params import ShieldParams
from deploy.shield.fallback import FallbackCommand, Mode, StartCfg
from deploy.shield.fallbacks import make_fallback
from deploy.shield.filter import filter_command
from deploy.shield.joints.pace import TARGET_SPEED
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.known import Known
from deploy.shield.types import Context
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, RobotState

FORGIVEN = 0.05  # s of earlier holds that wear off in each second under the policy


@dataclass(frozen=True, slots=True)
class ShieldReport:
    """What happened in one step. The unit of margin and intervention is that of `FilterInfo`."""

    mode: Mode
    reason: str  # why not NOMINAL; in NOMINAL, an input that is late but not yet too late, or empty
    margin: float  # least scaled distance to a peer, or to a joint's limit
    active: tuple[str, ...]  # constraints that held the command back
    intervention: float  # distance from the requested command to the one sent
    latched: bool = False  # whether only a reset gives the robot back to the policy
    filtered: bool = False  # whether the filter had the last word, so that the robot does its half of keeping distances


class Shield:
    """One robot's shield.

    Before the first good request it holds the robot where it is. A request or a state that fails its check is not used;
    the last good one is, until it is `act_periods` control periods old: then the robot falls back as its class does.
    `recover_periods` new good requests in a row end such a hold. It is latched, so that only `reset` gives the robot
    back to the policy, once the time in holds without good inputs adds up to `latch_s`; at once after a jump of the
    clock or of the measured position, a fall, a landing, and an emergency stop.
    """

    def __init__(self, params: ShieldParams | JointShieldParams, spec: RobotSpec):
        self.params, self.spec = params, spec
        self.fallback = make_fallback(params, spec)
        self._low = np.array(spec.command_low, dtype=np.float32)
        self._high = np.array(spec.command_high, dtype=np.float32)
        self._lows, self._highs = self._low.tolist(), self._high.tolist()
        self._sent: np.ndarray = self.fallback.rest(None)
        self._mode = Mode.OFF
        self._known = Known(params, self.fallback)
        self._kept_s = -np.inf
        self.reset()

    def reset(self) -> None:
        """Leave a latched fallback and forget the past: a person has decided that the robot may move.

        A robot with joints that was being driven goes on from its last targets: it drops no load, and its legs do not
        give way.
        """
        if self._known.state is not None and self._mode is not Mode.OFF:
            self.fallback.keep(self._sent)
            self._kept_s = self._known.now_s  # when those targets were sent
        self._mode = Mode.OFF
        self._reason = ""
        self._tripped_s: float | None = None
        self._latched = self._stopped = False
        self._held_s = 0.0  # time in holds without good inputs, as far as it has not worn off
        self._good_requests = 0  # new ones in a row since the trip
        self._load: np.ndarray | None = None  # what the drives hold
        self._was_upright = False  # since the reset
        self._starting = False
        self._known.forget()
        self.fallback.reset()
        self._sent = self.fallback.rest(None)

    def estop(self) -> None:
        """Stop now, latched: a drone's motors idle wherever it is, an arm brakes and holds, a humanoid damps."""
        self._mode, self._reason, self._tripped_s = Mode.ESTOP, "emergency stop", -np.inf
        self._latched = self._stopped = True
        self.fallback.trip()

    def land(self, now_s: float, reason: str) -> None:
        """Come to rest now, latched, because a person asks: a drone lands, an arm brakes, a humanoid stands."""
        if not (self._mode is Mode.OFF and self.fallback.done(Mode.OFF)):  # else it is down, also where it is blind
            self._mode = Mode.HOLD
        self._reason, self._tripped_s, self._latched = reason, now_s - self.fallback.holds_s, True
        self.fallback.trip()

    def release(self) -> None:
        """Hold the robot where it is, and wait for new requests; ends every trip. The state stays known."""
        self.fallback.keep(self._sent)
        self.fallback.reset()
        self._reason, self._tripped_s = "", None
        self._latched = self._stopped = False
        self._held_s, self._good_requests = 0.0, 0
        self._starting = False
        self._known.forget_request()

    def hand_over(self) -> None:
        """Give the robot to its policy at the end of a start: as `release`, but earlier holds count on."""
        held_s = self._held_s
        self.release()
        self._held_s = held_s

    def observe(self, now_s: float, context: Context) -> ShieldReport:
        """Follow the robot's state without commanding it; the report is that of a robot that is off."""
        known = self._known
        self._mode = Mode.OFF  # where it went while it was stopped is no jump of an estimate in flight
        known.take_time(now_s)
        reason = self._take_state(context.state)
        if blind := self.blind():
            known.forget_state()  # it is not commanded: nothing could be predicted
        known.take_peers(context.peers)
        wrong = known.take_around(context)
        self.fallback.keep(None)
        return self._rest(Mode.OFF, reason or blind or wrong or self.unready())[1]

    def unready(self) -> str:
        """Why the robot may not be armed as it was measured last, or an empty string."""
        state = self._known.state
        return self.blind() or ("" if state is None else self.fallback.check_start(state, self._known.around))

    def rest(self) -> np.ndarray:
        """Command (U,) that stands for no command."""
        return self.fallback.rest(self._known.state)

    def start(self, elapsed_s: float, cfg: StartCfg) -> tuple[np.ndarray, bool] | None:
        """Command (U,) on the way to where a policy begins, and whether the robot is there; None without a state.

        A short trouble on the way is held, on the ground too, and the way goes on after it.
        """
        state = self._known.state
        if state is None:
            return None
        self._starting = True
        return (
            self.fallback.start(state, elapsed_s, cfg)
            if self._tripped_s is None
            else (self.fallback.hold(state), False)
        )

    def blind(self) -> str:
        """Why the robot's state cannot be acted on, or an empty string."""
        return self._known.too_old("state")

    def left(self) -> str:
        """Where the robot was measured that has left what it is kept in, or an empty string."""
        state = self._known.state
        return "" if state is None or self.blind() else self.fallback.check_inside(state)

    def at_rest(self, mode: Mode) -> bool:
        """Whether the robot has come to rest in the fallback `mode`."""
        state = self._known.state
        return state is None or self.fallback.at_rest(state, mode)

    def step(
        self, now_s: float, context: Context, requested: ActuatorCommand | None, requested_age_s: float
    ) -> tuple[ActuatorCommand, ShieldReport]:
        """The command to send at `now_s` (any monotone clock).

        `context.state.age` and `requested_age_s` are ages of the measurements behind them. Nothing raises: bad input
        is a reason, and the answer is always a command inside the channels' limits. In `Mode.OFF` a robot with joints
        has never been measured: what comes back then is its home pose, which must not be sent.
        """
        known = self._known
        wrong_clock = known.take_time(now_s)
        if self._ends and self.fallback.done(self._mode):
            return self._rest(self._mode)
        wrong_around = known.take_around(context)
        wrong_state = self._take_state(context.state)
        wrong_peers = known.take_peers(context.peers)
        waiting = known.request is None
        wrong_request = known.take_request(requested, requested_age_s)
        silent, blind, elapsed_s = known.silent(), known.too_old("state"), known.elapsed_s
        if known.state is None or (blind and self._mode is Mode.OFF):
            self._count_hold(elapsed_s, good=False, new=False)
            return self._rest(Mode.OFF, wrong_state or blind)  # on the ground, or never measured: nothing to land
        if blind:
            self._trip(wrong_state or blind)
        if known.request is not None:
            self._trip(wrong_clock, latched=True)
            if self.fallback.uses_peers:
                self._trip(wrong_peers if known.too_old("peers") else "")
            self._trip(wrong_around if known.too_old("surroundings") else "")
            self._trip(silent)
            self._trip(wrong_request if known.too_old("request") else "")
        if not wrong_state:
            self._load = self.fallback.load(known.state, self._sent, elapsed_s)
        doubt = "" if wrong_state else self.fallback.doubt(known.state, known.measured_s["state"], self._sent)
        self._trip(doubt)
        in_the_way = self.fallback.check_way(known.state, known.around, elapsed_s)
        self._trip(in_the_way)
        fallen = self.fallback.check_envelope(known.state)
        self._was_upright = self._was_upright or not fallen
        if known.request is not None or self._was_upright:  # else it may lie
            self._trip(fallen, latched=True)
        wrong = wrong_state or wrong_peers or wrong_around or (wrong_request and not waiting)
        good = not (wrong or silent or doubt or in_the_way)
        self._count_hold(elapsed_s, good, good and (waiting or known.is_new))
        if known.request is not None and known.is_new:
            self.fallback.overhear(known.request)
        if self._tripped_s is not None:
            react = self.fallback.go_blind if blind else self.fallback.fall_back
            answer = react(known.state, self._sent, known.now_s - self._tripped_s, elapsed_s, self._stopped)
            command, report = self._send(answer, self._reason)
            return command, replace(report, filtered=report.filtered and not blind)  # where it is blind is a guess
        if known.request is None:
            return self._send(self.fallback.wait(known.state), f"waiting for the policy: {wrong_request}")
        bridged = self.fallback.bridge(known.state, known.request, known.is_new, elapsed_s)
        ramped = self._ramped(bridged, known.state)
        target = self.fallback.pace(ramped, self._sent, elapsed_s)
        on_time = bridged is known.request
        if on_time and target is ramped:
            return self._send(FallbackCommand(target, Mode.NOMINAL, self.params), known.late())
        why = TARGET_SPEED if on_time else "late request"
        command, report = self._send(FallbackCommand(target, Mode.FILTERED, self.params), why)
        held_back = float(np.abs(command.target - self._ramped(known.request, known.state)).max())
        return command, replace(report, active=(*report.active, why), intervention=held_back)

    def _take_state(self, state: RobotState | None) -> str:
        """Into what is known; why it is not good, or an empty string."""
        known, first = self._known, self._known.state is None
        reason, contradiction = known.take_state(state, self._sent, self._mode is Mode.OFF)
        if self._mode is not Mode.OFF:
            self._trip(contradiction, latched=True)
        if first and known.state is not None:
            if not 0.0 <= known.now_s - self._kept_s <= self.params.clock_jump_s:
                self.fallback.keep(None)  # it was not commanded for a while: old targets do not count any more
            self._sent = self.fallback.rest(known.state)
        return reason

    def _ramped(self, request: np.ndarray, state: RobotState) -> np.ndarray:
        """The request, faded in over `ramp_s` from what holds the robot still."""
        share = self._known.since_first_request_s / self.params.ramp_s
        if share >= 1.0:
            return request
        return (share * request + (1.0 - share) * self.fallback.still(state)).astype(np.float32)

    def _trip(self, reason: str, latched: bool = False) -> None:
        """Take the robot from the policy; a `latched` reason outlives a passing one."""
        if not reason or self._latched:
            return
        if self._tripped_s is None:
            self._tripped_s, self._mode, self._good_requests = self._known.now_s, Mode.HOLD, 0
            self.fallback.trip()
        elif not latched:
            return
        self._reason, self._latched = reason, latched

    def _count_hold(self, elapsed_s: float, good: bool, new: bool) -> None:
        """End a hold after enough `good` inputs with `new` requests; latch it when they were missing for too long.

        Periods with good inputs, which a hold waits for before it ends, do not count: nothing is unknown in them.
        """
        if self._tripped_s is None:
            self._held_s = max(0.0, self._held_s - FORGIVEN * elapsed_s)
            return
        self._held_s += 0.0 if good else elapsed_s
        self._good_requests = self._good_requests + new if good else 0
        self._latched |= self._held_s > self.params.latch_s
        if not self._latched and self._good_requests >= self.params.recover_periods:
            self._tripped_s, self._reason = None, ""

    @property
    def _ends(self) -> bool:
        """Whether a drone that has come down stays down: not one that has only begun to take off."""
        return self._latched or (self._tripped_s is not None and not self._starting)

    def _rest(self, mode: Mode, reason: str = "") -> tuple[ActuatorCommand, ShieldReport]:
        self._sent = self.fallback.rest(self._known.state)
        return ActuatorCommand(self._sent), ShieldReport(mode, reason or self._reason, np.inf, (), 0.0, self._ends)

    def _send(self, answer: FallbackCommand, reason: str) -> tuple[ActuatorCommand, ShieldReport]:
        """Through the filter, unless the fallback command must not be changed."""
        mode = Mode.ESTOP if self._stopped else answer.mode
        if answer.params is None:
            self._mode, self._sent = mode, self._inside(answer.target)
            return ActuatorCommand(self._sent), ShieldReport(mode, reason, np.inf, (), 0.0, self._latched)
        context = self._known.context(self._load, self._sent)
        assert context.state is not None
        sent, info = filter_command(answer.params, self.spec, context, answer.target)
        values = sent.tolist()
        if not isfinite(sum(values)):  # never the last command for ever; of numbers the sum is one
            blind = self.fallback.go_blind(context.state, self._sent, 0.0, self.params.control_dt_s, self._stopped)
            return self._send(replace(blind, params=None), "the filter has no answer")
        if not (sent.dtype == np.float32 and all(map(le, self._lows, values)) and all(map(le, values, self._highs))):
            sent = np.minimum(np.maximum(sent, self._low), self._high).astype(np.float32, copy=False)
        active: tuple[str, ...] = ()
        if info.intervention > 0.0:
            active = self.fallback.active_names(context, info.active)
            if mode in (Mode.NOMINAL, Mode.FILTERED):
                said = self.fallback.in_words(context, info.active, active) or "no command meets every constraint"
                reason = f"{said}; {reason}" if mode is Mode.FILTERED else said
                mode = Mode.FILTERED
        self._mode, self._sent = mode, sent
        report = ShieldReport(mode, reason, float(info.margin), active, float(info.intervention), self._latched, True)
        return ActuatorCommand(sent), report

    def _inside(self, target: np.ndarray) -> np.ndarray:
        """`target` (U,) inside the channels' limits; an entry that is no number is what was sent before."""
        known = np.where(np.isfinite(target), target, self._sent)
        return np.minimum(np.maximum(known, self._low), self._high).astype(np.float32)
