"""What a shield knows: the last good state, peers, surroundings and request, and when each of them was measured."""

import time
from dataclasses import fields, replace
from math import inf, isfinite
from operator import attrgetter

import numpy as np

from deploy.shield.drone.params import ShieldParams
from deploy.shield.fallback import Fallback
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
from hardware.types import ActuatorCommand, Peers, RobotState

INPUTS = ("state", "peers", "surroundings", "request")
_OF_STATE, _OF_PEERS = attrgetter(*RobotState.__slots__), attrgetter(*Peers.__slots__)
_AROUND = [f.name for f in fields(Context) if f.name not in ("state", "peers", "sharing", "load", "sent")]  # as given
_OF_AROUND = attrgetter(*_AROUND)
MOST_ELAPSED_S = 0.1  # s, that counts as one step, whatever the clock did
STOOD_STILL = 0.5  # of a jump forward: where so much of it has really passed, it was no clock's


class Known:
    """Inputs that passed their checks. Each `take_...` returns why one did not, or an empty string.

    Instead of a bad state the last good one is dead-reckoned; instead of bad peers and surroundings the last good ones
    age; instead of a bad request the last good one stands.
    """

    def __init__(self, params: ShieldParams | JointShieldParams, fallback: Fallback):
        self._params, self._fallback = params, fallback
        self.forget()

    def forget(self) -> None:
        """Nothing is known any more."""
        self.now_s = -inf  # of the last step
        self._came_s = -inf  # the same by this computer's monotonic clock, which no one sets
        self.elapsed_s = 0.0  # since the step before
        self.measured_s = dict.fromkeys(INPUTS, -inf)  # when the last good ones were, or what a request rests on
        self.around = Context(None, NO_PEERS)  # people, obstacles and what comes with them; its peers are not checked
        self._peers: Peers | None = None
        self.forget_state()
        self.forget_request()

    def forget_state(self) -> None:
        """It is not known where the robot is."""
        self.state: RobotState | None = None
        self.measured_s["state"] = self._stamp_s = -inf  # the latter: after which the next one has to be measured

    def forget_request(self) -> None:
        """Nothing was requested yet."""
        self.request: np.ndarray | None = None  # (U,)
        self.measured_s["request"] = -inf
        self._first_request_s = inf
        self.is_new = False  # whether it rests on a newer measurement than the one before

    def take_time(self, now_s: float) -> str:
        """Begin a step; without a clock the robot's own periods are counted, or nothing would ever be late."""
        last_s, now_s = self.now_s, seconds(now_s)
        really_s, self._came_s = time.monotonic() - self._came_s, time.monotonic()
        known = isfinite(last_s)
        self.now_s = now_s = now_s if isfinite(now_s) else (last_s if known else 0.0) + self._params.control_dt_s
        if not known:
            return ""
        self.elapsed_s = min(max(now_s - last_s, 0.0), MOST_ELAPSED_S)
        if 0.0 <= now_s - last_s <= self._params.clock_jump_s:
            return ""
        self.measured_s = dict.fromkeys(INPUTS, now_s)  # ages on the new clock start here
        self._stamp_s = -inf
        jumped_s = now_s - last_s
        stood_still = 0.0 < jumped_s * STOOD_STILL <= really_s
        return f"the shield stood still for {jumped_s:.3f} s" if stood_still else f"clock jumped by {jumped_s:.3f} s"

    def take_state(self, state: RobotState | None, sent: np.ndarray, is_off: bool) -> tuple[str, str]:
        """Also why the state was wrong, though it is taken: measurements that disagree for so long are right.

        `sent` (U,): the last command, by which a state is predicted; `is_off`: the robot was not commanded, and may
        have been carried.
        """
        fallback, contradiction = self._fallback, ""
        reason = fallback.check_state(state)
        if not reason and state is not None and self.state is not None:
            stamp_s = self.now_s - float(state.age)
            reason = check_order(stamp_s, self._stamp_s)
            frozen = not is_off and fallback.check_frozen(state, stamp_s)
            reason = reason or frozen or fallback.check_jump(state, self.state, self.elapsed_s)
            if reason and not frozen and self.too_old("state"):
                reason, contradiction = "", reason
        if not reason and state is not None:
            # Callers reuse their arrays.
            self.state = RobotState(*map(np.array, _OF_STATE(state)))
            self.measured_s["state"] = self._stamp_s = self.now_s - float(state.age)
        elif self.state is not None:  # to now: what still had an age would be led by it once more in the filter
            now = fallback.dead_reckon(self.state, sent, self.elapsed_s + float(self.state.age))
            self.state = replace(now, age=np.zeros_like(now.age))
        return reason, contradiction

    def take_peers(self, peers: Peers) -> str:
        """Of no use to robots whose filter does not look at them."""
        if not self._fallback.uses_peers:
            self._peers = NO_PEERS
            return ""
        reason = check_peers(peers)
        if not reason:
            self._peers = Peers(*map(np.array, _OF_PEERS(peers)))
            self.measured_s["peers"] = self.now_s
        elif self._peers is not None:
            self._peers = replace(self._peers, age=self._peers.age + self.elapsed_s)
        else:
            self._peers = NO_PEERS
        return reason

    def take_around(self, context: Context) -> str:
        """People and obstacles; where they are bad those that were there may have walked since."""
        reason = "" if context.people is NO_PEERS else check_peers(context.people, "people")
        if not (reason := reason or check_obstacles(context.obstacles)):
            self.around = context
            if not context.lost:
                self.measured_s["surroundings"] = self.now_s
            return context.lost
        last = self.around
        people = replace(last.people, age=last.people.age + self.elapsed_s)
        self.around = replace(context, people=people, obstacles=last.obstacles, obstacle_names=last.obstacle_names)
        return reason

    def take_request(self, requested: ActuatorCommand | None, age_s: float) -> str:
        """A command that rests on measurements of age `age_s`."""
        age_s = seconds(age_s)
        reason = self._fallback.check_request(requested, age_s)
        if reason or requested is None:
            self.is_new = False
            return reason
        if self.request is None:
            self._first_request_s = self.now_s
        stamp_s = self.now_s - age_s
        self.is_new = stamp_s > self.measured_s["request"] + ORDER_TOL_S
        self.request, self.measured_s["request"] = np.array(requested.target, dtype=np.float32), stamp_s
        return ""

    def too_old(self, what: str) -> str:
        """Why "state", "request", "peers" or "surroundings" cannot be acted on any more, or an empty string."""
        return check_age(self._params, what, self._age_s(what))

    def late(self) -> str:
        """Which input is late, but not yet too late."""
        limit_s = self._params.warn_periods * self._params.control_dt_s
        ages = {what: self._age_s(what) for what in ("request", "state")}
        if max(ages.values()) <= limit_s:
            return ""
        return ", ".join(f"{what} {1e3 * age_s:.0f} ms old" for what, age_s in ages.items() if age_s > limit_s)

    def silent(self) -> str:
        """Which peers have been silent for too long, where that matters."""
        if not isinstance(self._params, ShieldParams) or self._peers is None:
            return ""
        return check_silent(self._params, self._peers, self.around.name_of)

    def context(self, load: np.ndarray | None, sent: np.ndarray) -> Context:
        """All of it, for the filter; `load` (U,) is what the drives hold, `sent` (U,) the command before."""
        assert self.state is not None and self._peers is not None
        sharing = usable_sharing(self.around.sharing, self._peers.valid.shape)
        around = dict(zip(_AROUND, _OF_AROUND(self.around), strict=True))  # `replace` takes three times as long
        return Context(self.state, self._peers, sharing=sharing, load=load, sent=sent, **around)

    @property
    def since_first_request_s(self) -> float:
        """Since the first request."""
        return self.now_s - self._first_request_s

    def _age_s(self, what: str) -> float:
        return self.now_s - self.measured_s[what]
