"""Shield: guards, ramp, filter, watchdog and latched fallback around one robot's commands, in a process of its own."""

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from deploy.shield.filter import filter_command
from deploy.shield.flight import fly_to, motors_idle, reckon, sink_blind
from deploy.shield.guards import check_age, check_jump, check_order, check_peers, check_request, check_state
from deploy.shield.params import ShieldParams
from deploy.shield.rows import row_names
from hardware.rotation import rotate
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Peers, RobotState

STOP_TIME_S = 0.4  # a robot that trips holds the point it reaches by flying on for this long, braking on the way
BLIND_S = 4.0  # without a state motors stop after this time: it has sunk to the ground or is beyond help
LANDED_SPEED = 0.25  # m/s
CARROT_M = 0.25  # how far below the robot the landing point runs at most; rotors 10 % too strong still sink


class Mode(Enum):
    """Who flies, and whether it is all right."""

    NOMINAL = 0  # the policy, unchanged
    FILTERED = 1  # the policy, held back by a constraint
    HOLD = 2  # the shield: hover in place
    LAND = 3  # the shield: down
    OFF = 4  # on the ground, motors idle
    ESTOP = 5  # stopped by a person, motors idle wherever it is


@dataclass(frozen=True, slots=True)
class ShieldReport:
    """What happened in one step."""

    mode: Mode
    reason: str  # why not NOMINAL; in NOMINAL, an input that is late but not yet too late, or empty
    margin: float  # least scaled distance to a peer over the guaranteed one, minus 1
    active: tuple[str, ...]  # constraints that held the command back
    intervention: float  # m/s^2, distance from the requested acceleration to the one sent


class Shield:
    """One robot's shield.

    Before the first good request it holds the robot in the air where it is, or leaves it on the ground. Once tripped it
    hovers for `hold_s`, lands and stops its motors, and only `reset` gives the robot back to the policy. A request or a
    state that fails its check is not used; the last good one is, until it is `act_periods` control periods old, which
    trips. So does a clock that jumps.
    """

    def __init__(self, params: ShieldParams, spec: RobotSpec):
        if spec.flight is None:
            raise ValueError(f"robot {spec.name!r} has no flight model: this shield is for multirotors")
        self.params, self.spec = params, spec
        underground = (*params.geofence_low[:2], params.ground_z_m - 10.0)
        self._landing_params = replace(params, geofence_low=underground)
        self.reset()

    def reset(self) -> None:
        """Forget the past and a latched fallback: a person has decided that the robot may fly."""
        self._mode = Mode.OFF
        self._reason = ""
        self._tripped_s: float | None = None
        self._ramp_from_s: float | None = None
        self._last_s: float | None = None
        self._anchor: np.ndarray | None = None  # (3,) m, where HOLD and LAND fly to
        self._state: RobotState | None = None  # the last good one, reckoned on where newer ones are missing
        self._state_s = -np.inf  # when the last good one was measured
        self._peers: Peers | None = None
        self._peers_s = -np.inf
        self._request: np.ndarray | None = None
        self._request_s = -np.inf  # when what the last good request rests on was measured
        self._sent = motors_idle(self.spec)

    def estop(self) -> None:
        """Stop now: motors idle at once, wherever the robot is; latched."""
        self._mode, self._reason, self._tripped_s = Mode.ESTOP, "emergency stop", -np.inf

    def step(
        self,
        now_s: float,
        state: RobotState | None,
        peers: Peers,
        requested: ActuatorCommand | None,
        requested_age_s: float,
    ) -> tuple[ActuatorCommand, ShieldReport]:
        """The command to send at `now_s` (any monotone clock).

        `state.age` and `requested_age_s` are ages of the measurements behind them. Nothing raises: bad input is a
        reason, and the answer is always a command inside the channels' limits.
        """
        if self._tripped_s is not None and self._mode in (Mode.ESTOP, Mode.OFF):
            return self._idle()
        elapsed_s = 0.0 if self._last_s is None else min(max(now_s - self._last_s, 0.0), 0.1)
        wrong_clock = self._check_clock(now_s)
        wrong_state = self._take_state(now_s, elapsed_s, state)
        wrong_peers = self._take_peers(now_s, elapsed_s, peers)
        wrong_request = self._take_request(now_s, requested, requested_age_s)
        blind = check_age(self.params, "state", now_s - self._state_s)
        if self._state is None or (blind and self._mode is Mode.OFF):
            return self._idle(wrong_state or blind)  # on the ground, or never seen: nothing to bring down
        if blind:
            self._trip(now_s, wrong_state or blind)
        if self._request is not None:
            self._trip(now_s, wrong_clock)
            self._trip(now_s, wrong_peers if check_age(self.params, "peers", now_s - self._peers_s) else "")
            self._trip(now_s, wrong_request if check_age(self.params, "request", now_s - self._request_s) else "")
        if self._tripped_s is not None:
            return self._sink(now_s) if blind else self._fall_back(now_s)
        if self._request is None:
            return self._wait(wrong_request)
        return self._send(self._ramped(now_s), Mode.NOMINAL, self.params, self._late(now_s))

    def _check_clock(self, now_s: float) -> str:
        last_s, self._last_s = self._last_s, now_s
        if last_s is None or 0.0 <= now_s - last_s <= self.params.clock_jump_s:
            return ""
        self._state_s = self._request_s = self._peers_s = now_s  # ages on the new clock start here
        return f"clock jumped by {now_s - last_s:.3f} s"

    def _take_state(self, now_s: float, elapsed_s: float, state: RobotState | None) -> str:
        """Keep a good state; instead of a bad one reckon the last good one on."""
        reason = check_state(self.params, state)
        if not reason and state is not None and self._state is not None:
            reason = check_order(now_s - float(state.age), self._state_s)
            reason = reason or check_jump(self.params, state, self._state.base_pos, elapsed_s)
            if reason and check_age(self.params, "state", now_s - self._state_s):
                if self._mode is not Mode.OFF:
                    self._trip(now_s, reason)
                reason = ""  # where all measurements agree for so long, the memory is wrong
        if reason or state is None:
            if self._state is not None:
                self._state = reckon(self.spec, self._state, self._sent, elapsed_s)
            return reason
        # Callers reuse their arrays.
        self._state = RobotState(*(np.array(getattr(state, name)) for name in RobotState.__slots__))
        self._state_s = now_s - float(state.age)
        return ""

    def _take_peers(self, now_s: float, elapsed_s: float, peers: Peers) -> str:
        reason = check_peers(peers)
        if not reason:
            self._peers, self._peers_s = peers, now_s
        elif self._peers is not None:
            self._peers = replace(self._peers, age=self._peers.age + elapsed_s)
        else:
            self._peers = Peers(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0, dtype=bool))
        return reason

    def _take_request(self, now_s: float, requested: ActuatorCommand | None, age_s: float) -> str:
        reason = check_request(self.params, self.spec, requested, age_s)
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

    def _ramped(self, now_s: float) -> np.ndarray:
        """The request, faded in from holding still over `ramp_s`."""
        assert self._request is not None and self._ramp_from_s is not None
        share = (now_s - self._ramp_from_s) / self.params.ramp_s
        if share >= 1.0:
            return self._request
        return (share * self._request + (1.0 - share) * self._hold_target()).astype(np.float32)

    def _trip(self, now_s: float, reason: str) -> None:
        if reason and self._tripped_s is None:
            self._tripped_s, self._mode, self._reason, self._anchor = now_s, Mode.HOLD, reason, None

    def _wait(self, wrong_request: str) -> tuple[ActuatorCommand, ShieldReport]:
        """Nobody has asked for anything yet: stay in the air, or on the ground."""
        assert self._state is not None
        reason = f"waiting for the policy: {wrong_request}"
        if self._height_m() < self.params.landed_height_m:
            self._mode = Mode.OFF
            return self._idle(reason)
        return self._send(self._hold_target(), Mode.HOLD, self.params, reason)

    def _fall_back(self, now_s: float) -> tuple[ActuatorCommand, ShieldReport]:
        """Hover for `hold_s`, then down at `land_speed`, then motors idle."""
        assert self._tripped_s is not None and self._state is not None
        speed = float(np.linalg.norm(self._state.base_lin_vel))
        if self._height_m() < self.params.landed_height_m and speed < LANDED_SPEED:
            self._mode = Mode.OFF
            return self._idle()
        target = self._hold_target()
        sinking_s = now_s - self._tripped_s - self.params.hold_s
        if sinking_s < 0.0:
            return self._send(target, Mode.HOLD, self.params, self._reason)
        assert self._anchor is not None
        down = np.array([0.0, 0.0, -self.params.land_speed])
        # Not a moving point but one that stays near: a robot held up by a peer below must not dive once it is free.
        point = np.array([self._anchor[0], self._anchor[1], self._state.base_pos[2] - CARROT_M])
        return self._send(
            fly_to(self.params, self.spec, self._state, point, down), Mode.LAND, self._landing_params, self._reason
        )

    def _sink(self, now_s: float) -> tuple[ActuatorCommand, ShieldReport]:
        """Nobody knows where the robot is: level out and sink, then motors idle."""
        assert self._tripped_s is not None and self._state is not None
        if now_s - self._tripped_s > BLIND_S:
            self._mode = Mode.OFF
            return self._idle()
        self._mode, self._anchor = Mode.LAND, None
        self._sent = sink_blind(self.params, self.spec, self._state)
        return ActuatorCommand(self._sent), ShieldReport(Mode.LAND, self._reason, np.inf, (), 0.0)

    def _height_m(self) -> float:
        assert self._state is not None
        return float(self._state.base_pos[2]) - self.params.ground_z_m

    def _hold_target(self) -> np.ndarray:
        """Command that flies to the anchor, which is set where the robot would come to rest."""
        assert self._state is not None
        if self._anchor is None:
            vel = rotate(self._state.base_quat, self._state.base_lin_vel)
            low, high = np.array(self.params.geofence_low), np.array(self.params.geofence_high)
            room = 2.0 * self.params.fence_buffer_m
            self._anchor = np.clip(self._state.base_pos + STOP_TIME_S * vel, low + room, high - room)
        return fly_to(self.params, self.spec, self._state, self._anchor, np.zeros(3))

    def _idle(self, reason: str = "") -> tuple[ActuatorCommand, ShieldReport]:
        self._sent = motors_idle(self.spec)
        return ActuatorCommand(self._sent), ShieldReport(self._mode, reason or self._reason, np.inf, (), 0.0)

    def _send(
        self, target: np.ndarray, mode: Mode, params: ShieldParams, reason: str
    ) -> tuple[ActuatorCommand, ShieldReport]:
        """Through the filter, as everything that leaves while there is a state."""
        assert self._state is not None and self._peers is not None
        sent, info = filter_command(params, self.spec, self._state, self._peers, target)
        active: tuple[str, ...] = ()
        if info.intervention > 0.0:
            names = row_names(self._peers.pos.shape[-2])
            active = tuple(names[index] for index in np.flatnonzero(info.active))
            if mode is Mode.NOMINAL:
                mode, reason = Mode.FILTERED, ", ".join(active) or "no command meets every constraint"
        self._mode, self._sent = mode, sent
        return ActuatorCommand(sent), ShieldReport(mode, reason, float(info.margin), active, float(info.intervention))
