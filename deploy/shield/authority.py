"""Who has a robot: one state machine around its shield. Nothing moves before a person has armed it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf, isfinite

from deploy.shield.fallback import Mode, StartCfg
from deploy.shield.guards import TOO_OLD
from deploy.shield.states import ASKS_THE_POLICY, AT_REST, FLOWN, IN_FLIGHT, Change, State
from deploy.shield.supervisor import Shield, ShieldReport
from deploy.shield.types import Context
from hardware.types import ActuatorCommand

START_WITHIN_S = 15.0  # take-off, home or stand-up; then it is given up

SPEAKS_WITHIN_S = 0.5  # a policy that was asked for requests has said by then what it waits for
GIVEN_UP_S = 10.0  # without a state of a robot on its feet whose program is to end: no one can see it down any more
IDLE_S = 1.0  # for so long a drone that has come down is sent idle commands: one message may be lost
ASKED = "on request"  # why a robot lands that is not in trouble
ASKED_TO_END = f"{ASKED}: its program ends"  # as after Ctrl-C
HELD, PUT_DOWN = "held on request", "disarmed on request"
ACKNOWLEDGED = "acknowledged on request"  # a stop or a fault
LANDED, STANDING = "at rest", "standing"  # after a landing that a person asked for: one in trouble ends in FAULT


class Authority:
    """One robot's state, its shield, and what people may ask for. All calls come from one thread."""

    def __init__(
        self,
        shield: Shield,
        start: StartCfg | None = None,
        on_change: Callable[[Change], None] | None = None,
        lateness: Callable[[], str] = lambda: "",
    ):
        """`lateness`: that this computer was late, where it was: then what is too old may be no device's doing."""
        self.shield, self._start = shield, start or StartCfg()
        self._on_change, self._lateness = on_change or (lambda change: None), lateness
        self.state, self.reason = State.DISARMED, ""
        self.policy_waits = ""  # why the policy requests nothing, where it says so, or is not obeyed
        self.device_waits = ""  # why the device does not act on commands yet, where a driver says so
        self._unready = "no state yet"  # why it cannot be armed
        self._left = ""
        self._idle_until_s = 0.0
        self._was_armed = False  # since then an arm is held also while it is disarmed
        self._trouble = ""  # why it lands, where no person asked for it
        self._blind_s = 0.0  # for which its state has been unknown in a landing
        self._unseen_s = 0.0  # ... and in any state
        self._starting_since_s = 0.0
        self._waited_s = -inf  # when it was last there, and its policy waited for an operator
        self._last_s = -inf
        self._mode = Mode.OFF
        self._is_limp = False  # a robot on its feet that its device has damped: commands do not hold it up
        self._asks: dict[str, Callable[[float], str]] = {
            "disarm": self._disarm,
            "start": self._begin,
            "land": self._land,
            "end": partial(self._land, reason=ASKED_TO_END),
            "hold": self._hold,
            "reset": self._reset,
        }

    def estop(self, reason: str = "emergency stop") -> None:
        """Stop at once, in any state, until a reset."""
        self.shield.estop()
        self._become(State.STOPPED, reason)

    def arm(self, missing: Sequence[str] = ()) -> str:
        """Take the robot, for the shield; why not, or an empty string. `missing`: what a check found before."""
        if self.state is not State.DISARMED:
            return "" if self.state is State.ARMED else self._refuse("arm")
        if troubles := dict.fromkeys([*missing, *filter(None, [self._unready])]):
            return "; ".join(troubles) + self._advice(*troubles)
        self.shield.release()
        self._was_armed = True
        self._become(State.ARMED, "armed on request")
        return ""

    def come_down(self, now_s: float, trouble: str) -> None:
        """A lasting trouble, which a person has to acknowledge: the robot lands from any state in which it may fly.

        What becomes known while it lands already, on request or for another reason, is in the fault's reason.
        """
        if self.state is State.LANDING and trouble.partition(":")[0] not in self._trouble:
            self._trouble = self.reason = "; ".join(filter(None, [self._trouble, trouble]))
        if self.state in FLOWN:
            self._trouble = trouble
            self.shield.land(now_s, trouble)
            self._become(State.LANDING, trouble)

    def ask(self, what: str, now_s: float) -> str:
        """A person asks to `disarm`, `start`, `land`, `hold` or `reset`; why it is refused, or an empty string.

        `end` lands as `land` does, for its program.
        """
        if what in ("hold", "reset") and self.state is State.LANDING and (blind := self.shield.blind()):
            return f"{what}: {blind}"  # it could not be held: the landing would only begin again, later
        return self._asks[what](now_s)

    def left(self) -> str:
        """Where a robot in flight was measured outside its fence; an empty string else, and where it was so before."""
        before, self._left = self._left, "" if self.state not in IN_FLIGHT else self.shield.left()
        return "" if before else self._left

    def step(
        self, now_s: float, context: Context, requested: ActuatorCommand | None, requested_age_s: float
    ) -> tuple[ActuatorCommand | None, ShieldReport]:
        """The command to send at `now_s`, None for nothing; inputs as of `Shield.step`."""
        elapsed_s = min(max(now_s - self._last_s, 0.0), 0.1) if isfinite(self._last_s) else 0.0
        self._last_s = now_s
        if self.state is State.DISARMED and not self._holds_disarmed:
            report = self.shield.observe(now_s, context)
            self._unready = report.reason
            idles = self._flies and now_s < self._idle_until_s
            return ActuatorCommand(self.shield.rest()) if idles else None, report
        if self.state is State.STARTING:
            requested, requested_age_s = self._step_start(now_s, elapsed_s, context, requested, requested_age_s)
        elif self.state is not State.POLICY:
            requested = None
        command, report = self.shield.step(now_s, context, requested, requested_age_s)
        if self.state in (State.LANDING, State.FAULT) and self._falls_disarmed and self.device_waits:
            self._is_limp = True
        if self._is_limp and report.mode is Mode.HOLD:
            report = replace(report, mode=Mode.DAMP)
        self._mode = report.mode
        self._unseen_s = self._unseen_s + elapsed_s if self.shield.blind() else 0.0
        if self.state is State.DISARMED:
            self._unready = self.shield.unready()
        if waits := self.state is State.POLICY and "request" in report.reason and self.policy_waits:
            report = replace(report, reason=f"{report.reason}: {waits}")
        if report.latched and self.state in FLOWN:
            late = self._lateness() if TOO_OLD in report.reason and not waits else ""
            self._trouble = "; ".join(filter(None, [report.reason, late]))
            self._become(State.LANDING, self._trouble)
        elif self.state is State.LANDING:
            self._watch_landing(now_s, elapsed_s)
            if self.shield.at_rest(report.mode):
                self._end_landing()
        if report.latched is not (lasts := self.state in (State.LANDING, State.STOPPED, State.FAULT)):
            report = replace(report, latched=lasts)
        if self.state is State.STARTING and report.mode in (Mode.NOMINAL, Mode.FILTERED):
            report = replace(report, mode=Mode.HOLD, reason=self.reason)  # not yet the policy
        elif self.state is State.STARTING:
            self.reason = self.device_waits or report.reason
        unknown = report.mode is Mode.OFF and bool(self.shield.spec.joints)  # it was never measured
        return None if unknown or not self._sends else command, report

    @property
    def _holds_disarmed(self) -> bool:
        return self._was_armed and self.shield.fallback.held_disarmed

    @property
    def _falls_disarmed(self) -> bool:
        """Whether it stands on its feet when at rest: who disarms it lets it fall."""
        return self.shield.fallback.held_at_rest and not self.shield.fallback.held_disarmed

    @property
    def rests(self) -> bool:
        """Whether nothing is left to bring down: not while a robot in FAULT is kept on its feet."""
        return self.state in AT_REST and not self._stands_in_fault

    @property
    def is_given_up(self) -> bool:
        """Whether a robot on its feet has been silent for so long that a program which is to end need not wait on."""
        return self._falls_disarmed and self._unseen_s > GIVEN_UP_S

    @property
    def _stands_in_fault(self) -> bool:
        return self.state is State.FAULT and self._falls_disarmed and self._mode is Mode.HOLD

    @property
    def _flies(self) -> bool:
        return self.shield.spec.flight is not None

    @property
    def _sends(self) -> bool:
        if self.state is State.FAULT:
            return self.shield.fallback.held_at_rest or self._last_s < self._idle_until_s
        return self._was_armed or self.state is not State.STOPPED

    def _step_start(
        self, now_s: float, elapsed_s: float, context: Context, requested: ActuatorCommand | None, age_s: float
    ) -> tuple[ActuatorCommand | None, float]:
        """The request of a start, until the robot is there and the policy's own is good: then that."""
        started = None if self.device_waits else self.shield.start(elapsed_s, self._start)
        overdue = now_s - max(self._starting_since_s, self._waited_s) > START_WITHIN_S
        if started is None or context.state is None:
            if overdue:
                self.come_down(now_s, f"not started within {START_WITHIN_S:g} s: {self.device_waits or 'no state'}")
            return None, age_s
        target, there = started
        silent = self.shield.fallback.check_request(requested, age_s)
        silent = silent and (self.policy_waits or f"waiting for the policy: {silent}")
        if there and not silent:
            self.shield.hand_over()
            self._become(State.POLICY, "started")
            return requested, age_s
        held_on = there and self.policy_waits and self.shield.fallback.held_disarmed  # an arm may wait for its operator
        self._waited_s = now_s if held_on else self._waited_s
        if overdue and not held_on:
            self.come_down(now_s, f"not started within {START_WITHIN_S:g} s: {silent if there else 'not there'}")
            return None, age_s
        if not there:
            self.reason = "on the way"
        elif now_s - self._starting_since_s > SPEAKS_WITHIN_S:  # before that it may not have said what it waits for
            self.reason = silent
        return ActuatorCommand(target), float(context.state.age)

    def _watch_landing(self, now_s: float, elapsed_s: float) -> None:
        """A state that stays unknown is a trouble also in a landing that a person asked for."""
        blind = self.shield.blind()
        self._blind_s = self._blind_s + elapsed_s if blind else 0.0
        if self._blind_s > self.shield.params.latch_s and not self._trouble:
            self.come_down(now_s, f"blind: {blind}")

    def _end_landing(self) -> None:
        trouble, self._trouble = self._trouble, ""
        if trouble:
            self._become(State.FAULT, trouble)
        elif self._falls_disarmed:
            self.shield.release()
            self._become(State.ARMED, STANDING)
        else:
            self._disarm_now(LANDED)

    def _disarm(self, now_s: float) -> str:
        if self.state is State.DISARMED:
            return ""
        is_up = self._flies and self._mode is not Mode.OFF and self.state not in AT_REST
        if (self.state is not State.ARMED and not self._stands_in_fault) or is_up:
            return self._refuse("disarm", "in the air: land it, or stop it by estop" if is_up else "")
        self._disarm_now(PUT_DOWN)
        return ""

    def _disarm_now(self, reason: str, forgets: bool = True) -> None:
        self.shield.release()
        if forgets and not self._holds_disarmed:
            self.shield.fallback.keep(None)
        self._unready = self.shield.unready()  # it may be armed again before the next step
        self._become(State.DISARMED, reason)

    def _begin(self, now_s: float) -> str:
        if self.state in ASKS_THE_POLICY:
            return ""
        if self.state is not State.ARMED:
            return self._refuse("start")
        if blind := self.shield.blind():
            return f"start: {blind}{self._advice(blind)}"
        self.shield.release()
        self._starting_since_s = now_s
        self._become(State.STARTING, "started on request")
        return ""

    def _land(self, now_s: float, reason: str = ASKED) -> str:
        if self.state in FLOWN:
            self.shield.land(now_s, "landing asked for")
            self._become(State.LANDING, reason)
        return ""

    def _hold(self, now_s: float) -> str:
        if self.state is State.ARMED:
            return ""
        if self.state not in ASKS_THE_POLICY and (self.state is not State.LANDING or self._trouble):
            return self._refuse("hold", self._trouble)
        self.shield.release()
        self._become(State.ARMED, HELD)
        return ""

    def _reset(self, now_s: float) -> str:
        """Acknowledge a stop or a fault; arming is a second act. A robot that is landing is held instead."""
        if self.state is State.LANDING:
            self._trouble = ""
            self.shield.release()
            self._become(State.ARMED, "landing ended on request")
        elif self.state in (State.STOPPED, State.FAULT):
            stands = self._stands_in_fault
            self._disarm_now(ACKNOWLEDGED, forgets=not stands)
            if stands:
                self._become(State.ARMED, f"{ACKNOWLEDGED}; it stands")
        return ""

    def _become(self, state: State, reason: str) -> None:
        before, self.state, self.reason = self.state, state, reason
        self._idle_until_s = self._last_s + IDLE_S
        self._is_limp = self._is_limp and state in (State.LANDING, State.FAULT, State.STOPPED)
        if before is not state:
            self._blind_s = 0.0
            self._on_change(Change(before, state, reason))

    def _advice(self, *troubles: str) -> str:
        """Where one of them is an age: that this computer was late, or what to do."""
        if not any(TOO_OLD in trouble for trouble in troubles):
            return ""
        return f"; {self._lateness() or 'ask again; where it comes again: phalanx doctor TEAM.yaml, not deployed'}"

    def _refuse(self, what: str, why: str = "") -> str:
        said = f" ({why or self.reason})" if why or self.reason else ""
        way_out = "; reset acknowledges it" if self.state in (State.STOPPED, State.FAULT) else ""
        way_out += "; arm it first" * (what == "start" and self.state is State.DISARMED)
        return f"{what}: the robot is {self.state.name}{said}{way_out}"
