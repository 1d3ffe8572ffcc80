"""Shield: guards, ramp, filter, watchdog and latched fallback around one robot's commands, in a process of its own."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

import numpy as np

from deploy.shield.filter import filter_command
from deploy.shield.flight import fly_to, motors_idle, sink_level
from deploy.shield.guards import check_jump, check_peers, check_request, check_state
from deploy.shield.params import ShieldParams
from deploy.shield.rows import row_names
from hardware.rotation import rotate
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Peers, RobotState

Fields = TypeVar("Fields", RobotState, Peers)

STOP_TIME_S = 0.4  # a robot that trips holds the point it reaches by flying on for this long, braking on the way
BLIND_S = 4.0  # without a state motors stop after this time: it has sunk to the ground or is beyond help
LANDED_SPEED = 0.25  # m/s
JUMP_MEMORY_S = 0.5  # s, for which a last position says where the next one may be
NOBODY = Peers(np.zeros((1, 3)), np.zeros((1, 3)), np.zeros(1), np.zeros(1, dtype=bool))


class Mode(Enum):
    """Who flies, and whether it is all right."""

    NOMINAL = 0  # the policy, unchanged
    FILTERED = 1  # the policy, held back by a constraint
    HOLD = 2  # the shield: hover in place
    LAND = 3  # the shield: down
    OFF = 4  # landed, motors idle
    ESTOP = 5  # stopped by a person, motors idle wherever it is


@dataclass(frozen=True, slots=True)
class ShieldReport:
    """What happened in one step."""

    mode: Mode
    reason: str  # why not NOMINAL; empty when it is
    margin: float  # least scaled distance to a peer over the guaranteed one, minus 1
    active: tuple[str, ...]  # constraints that held the command back
    intervention: float  # m/s^2, distance from the requested acceleration to the one sent


class Shield:
    """One robot's shield. Before its first request it holds the robot in place; once tripped, only `reset` frees it."""

    def __init__(self, params: ShieldParams, spec: RobotSpec):
        if spec.flight is None:
            raise ValueError(f"robot {spec.name!r} has no flight model: this shield is for multirotors")
        self.params, self.spec = params, spec
        floor = (*params.geofence_low[:2], params.ground_z_m - 10.0)
        self._landing_params = replace(params, geofence_low=floor)
        self.reset()

    def reset(self) -> None:
        """Forget the past and a latched fallback: a person has decided that the robot may fly."""
        self._mode = Mode.HOLD
        self._reason = "waiting for the policy"
        self._tripped_s: float | None = None
        self._ramp_from_s: float | None = None
        self._last_s: float | None = None
        self._anchor: np.ndarray | None = None  # (3,) m, where HOLD and LAND fly to
        self._good: RobotState | None = None  # the last state that passed the guard ...
        self._good_s = 0.0  # ... and when it came
        self._state: RobotState | None = None  # the same, aged to now
        self._heard = self._peers = NOBODY
        self._heard_s = 0.0
        self._request: np.ndarray | None = None
        self._request_s = 0.0

    def estop(self) -> None:
        """Stop now: motors idle at once, wherever the robot is; latched."""
        self._mode, self._reason = Mode.ESTOP, "emergency stop"

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
        if self._mode in (Mode.ESTOP, Mode.OFF):
            return self._idle()
        wrong_time = self._check_clock(now_s)
        wrong_state = self._take_state(now_s, state)
        wrong_peers = self._take_peers(now_s, peers)
        wrong_request = self._take_request(now_s, requested, requested_age_s)
        deadline_s = self.params.act_periods * self.params.control_dt_s
        if self._state is None or now_s - self._good_s > deadline_s:
            return self._blind(now_s, wrong_state or "no state")
        for reason in (wrong_time, wrong_peers, wrong_request if now_s - self._request_s > deadline_s else ""):
            if reason and self._request is not None:
                self._trip(now_s, reason)
        if self._tripped_s is not None:
            return self._fall_back(now_s)
        if self._request is None:
            return self._send(self._hold_target(), Mode.HOLD, self.params)
        return self._send(self._ramped(now_s), Mode.NOMINAL, self.params)

    def _check_clock(self, now_s: float) -> str:
        last_s, self._last_s = self._last_s, now_s
        if last_s is None or 0.0 <= now_s - last_s <= self.params.clock_jump_s:
            return ""
        self._good_s = self._heard_s = self._request_s = now_s  # ages on the new clock start here
        return f"clock jumped by {now_s - last_s:.3f} s"

    def _take_state(self, now_s: float, state: RobotState | None) -> str:
        """Keep a good state; after a bad one the last good one grows old, as long as the deadline allows."""
        reason = check_state(self.params, state)
        if state is not None and not reason and self._good is not None and now_s - self._good_s < JUMP_MEMORY_S:
            reason = check_jump(self.params, state, _moved(self._good, now_s - self._good_s))
        if state is not None and not reason:
            self._good, self._good_s = _copy(state), now_s
            self._state = self._good
        elif self._good is not None:
            self._state = replace(self._good, age=self._good.age + (now_s - self._good_s))
        return reason

    def _take_peers(self, now_s: float, peers: Peers) -> str:
        """Keep what peers say; when it cannot be, what they said last grows old."""
        reason = check_peers(peers)
        if not reason:
            self._heard, self._heard_s = _copy(peers), now_s
            self._peers = self._heard
        else:
            self._peers = replace(self._heard, age=self._heard.age + (now_s - self._heard_s))
        return reason

    def _take_request(self, now_s: float, requested: ActuatorCommand | None, age_s: float) -> str:
        reason = check_request(self.params, requested, age_s, len(self.spec.channels))
        if reason or requested is None:
            return reason or "no request"
        if self._request is None:
            self._ramp_from_s = now_s
        self._request, self._request_s = np.asarray(requested.target, dtype=np.float32), now_s - max(age_s, 0.0)
        return ""

    def _ramped(self, now_s: float) -> np.ndarray:
        """The request, faded in from holding still over `ramp_s`."""
        assert self._request is not None and self._ramp_from_s is not None
        share = (now_s - self._ramp_from_s) / self.params.ramp_s
        if share >= 1.0:
            return self._request
        return (share * self._request + (1.0 - share) * self._hold_target()).astype(np.float32)

    def _trip(self, now_s: float, reason: str) -> None:
        if self._tripped_s is None:
            self._tripped_s, self._mode, self._reason = now_s, Mode.HOLD, reason
            self._anchor = None

    def _fall_back(self, now_s: float) -> tuple[ActuatorCommand, ShieldReport]:
        """Hover for `hold_s`, then down at `land_speed`, then motors idle."""
        assert self._tripped_s is not None and self._state is not None
        target = self._hold_target()
        sinking_s = now_s - self._tripped_s - self.params.hold_s
        if sinking_s < 0.0:
            return self._send(target, Mode.HOLD, self.params)
        height_m = float(self._state.base_pos[2]) - self.params.ground_z_m
        if height_m < self.params.landed_height_m and np.linalg.norm(self._state.base_lin_vel) < LANDED_SPEED:
            self._mode = Mode.OFF
            return self._idle()
        assert self._anchor is not None
        down = np.array([0.0, 0.0, -self.params.land_speed])
        target = fly_to(self.params, self.spec, self._state, self._anchor + down * sinking_s, down)
        return self._send(target, Mode.LAND, self._landing_params)

    def _hold_target(self) -> np.ndarray:
        """Command that flies to the anchor, which is set where the robot would come to rest."""
        assert self._state is not None
        if self._anchor is None:
            vel = rotate(self._state.base_quat, self._state.base_lin_vel)
            low, high = np.array(self.params.geofence_low), np.array(self.params.geofence_high)
            self._anchor = np.clip(self._state.base_pos + STOP_TIME_S * vel, low + 0.1, high - 0.1).astype(np.float64)
        return fly_to(self.params, self.spec, self._state, self._anchor, np.zeros(3))

    def _blind(self, now_s: float, reason: str) -> tuple[ActuatorCommand, ShieldReport]:
        """Nobody knows where the robot is: sink level, then stop; latched if it was flying."""
        if self._request is None and self._state is None:
            self._reason = reason
            return ActuatorCommand(motors_idle(self.spec)), ShieldReport(Mode.HOLD, reason, np.inf, (), 0.0)
        self._trip(now_s, reason)
        assert self._tripped_s is not None
        if now_s - self._tripped_s > BLIND_S:
            self._mode = Mode.OFF
            return self._idle()
        return ActuatorCommand(sink_level(self.spec)), ShieldReport(Mode.LAND, self._reason, np.inf, (), 0.0)

    def _idle(self) -> tuple[ActuatorCommand, ShieldReport]:
        return ActuatorCommand(motors_idle(self.spec)), ShieldReport(self._mode, self._reason, np.inf, (), 0.0)

    def _send(self, target: np.ndarray, mode: Mode, params: ShieldParams) -> tuple[ActuatorCommand, ShieldReport]:
        """Through the filter, as everything that leaves while there is a state."""
        assert self._state is not None
        sent, info = filter_command(params, self.spec, self._state, self._peers, target)
        changed = not np.array_equal(sent, target)
        if mode is Mode.NOMINAL and changed:
            mode = Mode.FILTERED
        self._mode = mode
        names = row_names(self._peers.pos.shape[-2])
        active = tuple(names[index] for index in np.flatnonzero(info.active)) if changed else ()
        reason = self._reason if mode in (Mode.HOLD, Mode.LAND) else ", ".join(active)
        intervention = float(info.intervention) if changed else 0.0
        return ActuatorCommand(sent), ShieldReport(mode, reason, float(info.margin), active, intervention)


def _copy(fields: Fields) -> Fields:
    """A copy of a state or of peers: callers reuse their arrays."""
    return type(fields)(*(np.array(getattr(fields, name)) for name in fields.__slots__))


def _moved(state: RobotState, seconds: float) -> np.ndarray:
    """Position (3,) after flying on with the same velocity."""
    return state.base_pos + seconds * rotate(state.base_quat, state.base_lin_vel)
