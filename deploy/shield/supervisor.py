"""Shield: guards, ramp, filter, watchdog and latched fallback around one robot's commands.

What differs between classes of robots is in their fallbacks: `drone.fallback`, `joints.arm`, `joints.humanoid`.
"""

from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from deploy.shield.drone.params import ShieldParams
from deploy.shield.fallback import FallbackCommand, Mode, StartCfg
from deploy.shield.fallbacks import make_fallback
from deploy.shield.filter import filter_command
from deploy.shield.guards import (
    ORDER_TOL_S,
    check_age,
    check_obstacles,
    check_order,
    check_peers,
    check_silent,
    seconds,
    usable_sharing,
)
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.types import NO_PEERS, Context
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Peers, RobotState

FORGIVEN = 0.1  # s of earlier holds that wear off in each second under the policy


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
    back to the policy, once holds add up to `latch_s`; at once after a jump of the clock or of the measured position,
    a fall, a landing, and an emergency stop.
    """

    def __init__(self, params: ShieldParams | JointShieldParams, spec: RobotSpec):
        self.params, self.spec = params, spec
        self.fallback = make_fallback(params, spec)
        self._low = np.array(spec.command_low, dtype=np.float32)
        self._high = np.array(spec.command_high, dtype=np.float32)
        self._sent: np.ndarray = self.fallback.rest(None)
        self._mode = Mode.OFF
        self._state: RobotState | None = None  # the last good one, dead-reckoned where newer ones are missing
        self._last_s: float | None = None
        self._kept_s: float | None = None
        self.reset()

    def reset(self) -> None:
        """Leave a latched fallback and forget the past: a person has decided that the robot may move.

        A robot with joints that was being driven goes on from its last targets: it drops no load, and its legs do not
        give way.
        """
        if self._state is not None and self._mode is not Mode.OFF:
            self.fallback.keep(self._sent)
            self._kept_s = self._last_s  # when those targets were sent
        self._mode = Mode.OFF
        self._reason = ""
        self._tripped_s: float | None = None
        self._latched = self._stopped = False
        self._held_s = 0.0  # time without the policy, as far as it has not worn off
        self._good_requests = 0  # new ones in a row since the trip
        self._load: np.ndarray | None = None  # what the drives hold
        self._around = Context(None, NO_PEERS)  # with the last good people and obstacles
        self._around_s = -np.inf
        self._was_upright = False  # since the reset
        self._ramp_from_s: float | None = None
        self._last_s = None
        self._state = None
        self._state_s = -np.inf  # when the last good one was measured
        self._peers: Peers | None = None
        self._peers_s = -np.inf
        self._request: np.ndarray | None = None
        self._request_s = -np.inf  # when what the last good request rests on was measured
        self.fallback.reset()
        self._sent = self.fallback.rest(None)

    def estop(self) -> None:
        """Stop now, latched: a drone's motors idle wherever it is, an arm brakes and holds, a humanoid damps."""
        self._mode, self._reason, self._tripped_s = Mode.ESTOP, "emergency stop", -np.inf
        self._latched = self._stopped = True
        self.fallback.trip()

    def land(self, now_s: float, reason: str) -> None:
        """Come to rest now, latched, because a person asks: a drone lands, an arm brakes, a humanoid stands."""
        self._mode, self._reason, self._tripped_s = Mode.HOLD, reason, now_s - self.fallback.holds_s
        self._latched = True
        self.fallback.trip()

    def release(self) -> None:
        """Hold the robot where it is, and wait for new requests; ends every trip. The state stays known."""
        self.fallback.keep(self._sent)
        self.fallback.reset()
        self._reason, self._tripped_s = "", None
        self._latched = self._stopped = False
        self._held_s, self._good_requests = 0.0, 0
        self._ramp_from_s, self._request, self._request_s = None, None, -np.inf

    def observe(self, now_s: float, context: Context) -> ShieldReport:
        """Follow the robot's state without commanding it; the report is that of a robot that is off."""
        elapsed_s = 0.0 if self._last_s is None else min(max(now_s - self._last_s, 0.0), 0.1)
        self._mode = Mode.OFF  # where it went while it was stopped is no jump of an estimate in flight
        self._check_clock(now_s)
        reason = self._take_state(now_s, elapsed_s, context.state)
        if blind := check_age(self.params, "state", now_s - self._state_s):
            self._state = None  # it is not commanded: nothing could be predicted
            self._state_s = -np.inf
        self._take_peers(now_s, elapsed_s, context.peers)
        wrong = self._take_around(now_s, elapsed_s, context)
        self.fallback.keep(None)
        unsafe = "" if self._state is None else self.fallback.check_start(self._state, self._around)
        return self._rest(Mode.OFF, reason or blind or wrong or unsafe)[1]

    def rest(self) -> np.ndarray:
        """Command (U,) that stands for no command."""
        return self.fallback.rest(self._state)

    def start(self, elapsed_s: float, cfg: StartCfg) -> tuple[np.ndarray, bool] | None:
        """Command (U,) on the way to where a policy begins, and whether the robot is there; None without a state."""
        if self._state is None:
            return None
        return self.fallback.start(self._state, elapsed_s, cfg)

    def at_rest(self, mode: Mode) -> bool:
        """Whether the robot has come to rest in the fallback `mode`."""
        return self._state is None or self.fallback.at_rest(self._state, mode)

    def step(
        self,
        now_s: float,
        context: Context,
        requested: ActuatorCommand | None,
        requested_age_s: float,
    ) -> tuple[ActuatorCommand, ShieldReport]:
        """The command to send at `now_s` (any monotone clock).

        `context.state.age` and `requested_age_s` are ages of the measurements behind them. Nothing raises: bad input
        is a reason, and the answer is always a command inside the channels' limits. In `Mode.OFF` a robot with joints
        has never been measured: what comes back then is its home pose, which must not be sent.
        """
        if self._tripped_s is not None and self.fallback.done(self._mode):
            return self._rest(self._mode)
        now_s, requested_age_s = self._time(now_s), seconds(requested_age_s)
        elapsed_s = 0.0 if self._last_s is None else min(max(now_s - self._last_s, 0.0), 0.1)
        wrong_clock = self._check_clock(now_s)
        wrong_around = self._take_around(now_s, elapsed_s, context)
        wrong_state = self._take_state(now_s, elapsed_s, context.state)
        wrong_peers = self._take_peers(now_s, elapsed_s, context.peers)
        last_request_s, waiting = self._request_s, self._request is None
        wrong_request = self._take_request(now_s, requested, requested_age_s)
        silent = ""
        if isinstance(self.params, ShieldParams) and self._peers is not None:  # others do not look at peers
            silent = check_silent(self.params, self._peers, context.name_of)
        blind = check_age(self.params, "state", now_s - self._state_s)
        if self._state is None or (blind and self._mode is Mode.OFF):
            return self._rest(Mode.OFF, wrong_state or blind)  # on the ground, or never measured: nothing to land
        if blind:
            self._trip(now_s, wrong_state or blind)
        if self._request is not None:
            self._trip(now_s, wrong_clock, latched=True)
            if self.fallback.uses_peers:
                self._trip(now_s, wrong_peers if check_age(self.params, "peers", now_s - self._peers_s) else "")
            self._trip(now_s, wrong_around if check_age(self.params, "surroundings", now_s - self._around_s) else "")
            self._trip(now_s, silent)
            self._trip(now_s, wrong_request if check_age(self.params, "request", now_s - self._request_s) else "")
        if not wrong_state:
            self._load = self.fallback.load(self._state, self._sent, elapsed_s)
        doubt = "" if wrong_state else self.fallback.doubt(self._state, self._state_s)
        self._trip(now_s, doubt)
        fallen = self.fallback.check_envelope(self._state)
        self._was_upright = self._was_upright or not fallen
        if self._request is not None or self._was_upright:  # else it may lie
            self._trip(now_s, fallen, latched=True)
        good = not (wrong_state or wrong_peers or wrong_around or silent or doubt or (wrong_request and not waiting))
        self._count_hold(elapsed_s, good, good and (waiting or self._request_s > last_request_s + ORDER_TOL_S))
        if self._tripped_s is not None:
            react = self.fallback.go_blind if blind else self.fallback.fall_back
            since_s = now_s - self._tripped_s
            answer = react(self._state, self._sent, since_s, elapsed_s, self._stopped)
            command, report = self._send(answer, self._reason)
            return command, replace(report, filtered=report.filtered and not blind)  # where it is blind is a guess
        if self._request is None:
            return self._send(self.fallback.wait(self._state), f"waiting for the policy: {wrong_request}")
        asked = self._ramped(now_s, self._state)
        is_new = self._request_s > last_request_s + ORDER_TOL_S
        bridged = self.fallback.bridge(self._state, asked, is_new, elapsed_s)
        target = self.fallback.pace(bridged, self._sent, elapsed_s)
        if target is asked:
            return self._send(FallbackCommand(asked, Mode.NOMINAL, self.params), self._late(now_s))
        why = "target speed" if bridged is asked else "late request"
        command, report = self._send(FallbackCommand(target, Mode.FILTERED, self.params), why)
        held_back = float(np.abs(command.target - asked).max())
        return command, replace(report, active=(*report.active, why), intervention=held_back)

    def _time(self, now_s: float) -> float:
        """`now_s`; without a clock the robot's own periods are counted, or nothing would ever be late."""
        now_s = seconds(now_s)
        return now_s if isfinite(now_s) else (self._last_s or 0.0) + self.params.control_dt_s

    def _check_clock(self, now_s: float) -> str:
        last_s, self._last_s = self._last_s, now_s
        if last_s is None or 0.0 <= now_s - last_s <= self.params.clock_jump_s:
            return ""
        self._state_s = self._request_s = self._peers_s = self._around_s = now_s  # ages on the new clock start here
        return f"clock jumped by {now_s - last_s:.3f} s"

    def _take_state(self, now_s: float, elapsed_s: float, state: RobotState | None) -> str:
        """Keep a good state; instead of a bad one dead-reckon the last good one."""
        reason = self.fallback.check_state(state)
        if not reason and state is not None and self._state is not None:
            stamp_s = now_s - float(state.age)
            reason = check_order(stamp_s, self._state_s)
            frozen = self._mode is not Mode.OFF and self.fallback.check_frozen(state, stamp_s)
            reason = reason or frozen or self.fallback.check_jump(state, self._state, elapsed_s)
            if reason and not frozen and check_age(self.params, "state", now_s - self._state_s):
                if self._mode is not Mode.OFF:
                    self._trip(now_s, reason, latched=True)
                reason = ""  # where all measurements disagree with the prediction for so long, the prediction is wrong
        if reason or state is None:
            if self._state is not None:  # to now: what still had an age would be led by it once more in the filter
                ahead_s = elapsed_s + float(self._state.age)
                now = self.fallback.dead_reckon(self._state, self._sent, ahead_s)
                self._state = replace(now, age=np.zeros_like(now.age))
            return reason
        first = self._state is None
        # Callers reuse their arrays.
        self._state = RobotState(*(np.array(getattr(state, name)) for name in RobotState.__slots__))
        self._state_s = now_s - float(state.age)
        if first:
            if self._kept_s is None or not 0.0 <= now_s - self._kept_s <= self.params.clock_jump_s:
                self.fallback.keep(None)  # it was not commanded for a while: old targets do not count any more
            self._sent = self.fallback.rest(self._state)
        return ""

    def _take_peers(self, now_s: float, elapsed_s: float, peers: Peers) -> str:
        if not self.fallback.uses_peers:
            self._peers = NO_PEERS
            return ""
        reason = check_peers(peers)
        if not reason:
            self._peers, self._peers_s = Peers(*(np.array(getattr(peers, name)) for name in Peers.__slots__)), now_s
        elif self._peers is not None:
            self._peers = replace(self._peers, age=self._peers.age + elapsed_s)
        else:
            self._peers = NO_PEERS
        return reason

    def _take_around(self, now_s: float, elapsed_s: float, context: Context) -> str:
        """Keep people and obstacles; instead of bad ones the last good ones, who may have walked since."""
        reason = "" if context.people is NO_PEERS else check_peers(context.people, "people")
        if not (reason := reason or check_obstacles(context.obstacles)):
            self._around, self._around_s = context, self._around_s if context.lost else now_s
            return context.lost
        last = self._around
        people = replace(last.people, age=last.people.age + elapsed_s)
        self._around = replace(context, people=people, obstacles=last.obstacles)
        return reason

    def _take_request(self, now_s: float, requested: ActuatorCommand | None, age_s: float) -> str:
        reason = self.fallback.check_request(requested, age_s)
        if reason or requested is None:
            return reason
        if self._request is None:
            self._ramp_from_s = now_s
        self._request, self._request_s = np.array(requested.target, dtype=np.float32), now_s - age_s
        return ""

    def _late(self, now_s: float) -> str:
        limit_s = self.params.warn_periods * self.params.control_dt_s
        ages = {"request": now_s - self._request_s, "state": now_s - self._state_s}
        return ", ".join(f"{what} {1e3 * age_s:.0f} ms old" for what, age_s in ages.items() if age_s > limit_s)

    def _ramped(self, now_s: float, state: RobotState) -> np.ndarray:
        """The request, faded in from holding still over `ramp_s`."""
        assert self._request is not None and self._ramp_from_s is not None
        share = (now_s - self._ramp_from_s) / self.params.ramp_s
        if share >= 1.0:
            return self._request
        return (share * self._request + (1.0 - share) * self.fallback.hold(state)).astype(np.float32)

    def _trip(self, now_s: float, reason: str, latched: bool = False) -> None:
        """Take the robot from the policy; a `latched` reason outlives a passing one."""
        if not reason or self._latched:
            return
        if self._tripped_s is None:
            self._tripped_s, self._mode, self._good_requests = now_s, Mode.HOLD, 0
            self.fallback.trip()
        elif not latched:
            return
        self._reason, self._latched = reason, latched

    def _count_hold(self, elapsed_s: float, good: bool, new: bool) -> None:
        """End a hold after enough `good` inputs with `new` requests; latch it when holds have lasted too long."""
        if self._tripped_s is None:
            self._held_s = max(0.0, self._held_s - FORGIVEN * elapsed_s)
            return
        self._held_s += elapsed_s
        self._good_requests = self._good_requests + new if good else 0
        self._latched |= self._held_s > self.params.latch_s
        if not self._latched and self._good_requests >= self.params.recover_periods:
            self._tripped_s, self._reason = None, ""

    def _rest(self, mode: Mode, reason: str = "") -> tuple[ActuatorCommand, ShieldReport]:
        self._sent = self.fallback.rest(self._state)
        latched = self._latched or self._tripped_s is not None  # a drone that has come down stays down
        return ActuatorCommand(self._sent), ShieldReport(mode, reason or self._reason, np.inf, (), 0.0, latched)

    def _send(self, answer: FallbackCommand, reason: str) -> tuple[ActuatorCommand, ShieldReport]:
        """Through the filter, unless the fallback command must not be changed."""
        assert self._state is not None and self._peers is not None
        mode = Mode.ESTOP if self._stopped else answer.mode
        if answer.params is None:
            self._mode, self._sent = mode, self._inside(answer.target)
            return ActuatorCommand(self._sent), ShieldReport(mode, reason, np.inf, (), 0.0, self._latched)
        sharing = usable_sharing(self._around.sharing, self._peers.valid.shape)
        context = replace(self._around, state=self._state, peers=self._peers, sharing=sharing, load=self._load)
        sent, info = filter_command(answer.params, self.spec, context, answer.target)
        if not np.isfinite(sent).all():  # never the last command for ever
            blind = self.fallback.go_blind(self._state, self._sent, 0.0, self.params.control_dt_s, self._stopped)
            return self._send(replace(blind, params=None), "the filter has no answer")
        sent = self._inside(sent)
        active: tuple[str, ...] = ()
        if info.intervention > 0.0:
            names = self.fallback.row_names(context)
            active = tuple(names[index] for index in np.flatnonzero(info.active))
            if mode is Mode.NOMINAL:
                mode, reason = Mode.FILTERED, ", ".join(active) or "no command meets every constraint"
        self._mode, self._sent = mode, sent
        report = ShieldReport(mode, reason, float(info.margin), active, float(info.intervention), self._latched, True)
        return ActuatorCommand(sent), report

    def _inside(self, target: np.ndarray) -> np.ndarray:
        """`target` (U,) inside the channels' limits; an entry that is no number is what was sent before."""
        known = np.where(np.isfinite(target), target, self._sent)
        return np.minimum(np.maximum(known, self._low), self._high).astype(np.float32)
