"""The fallback of multirotors: hover, land, motors off."""

from dataclasses import replace
from math import acos, degrees

import numpy as np

from deploy.shield.drone.attitude import rotated, rotation_matrix
from deploy.shield.drone.constraints import active_names
from deploy.shield.drone.distance import check_inside, check_start
from deploy.shield.drone.flight import CARRIED_LIFT, SINKS_LIFT, dead_reckon, fly_to, motors_idle, sink_blind
from deploy.shield.drone.motion import MotionCheck, RiseCheck
from deploy.shield.drone.params import ShieldParams
from deploy.shield.drone.words import in_words
from deploy.shield.fallback import FallbackCommand, Mode, StartCfg
from deploy.shield.guards import check_jump, check_request, check_state
from deploy.shield.types import Context
from hardware.rotation import rotate
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, RobotState

NO_FENCE_M = 1e6
LEFT_M = 0.1  # outside its fence: what estimates err by, and what a gust pushes, is less
FLIPPED_RAD = 1.4  # the shield itself asks for no tilt near it: only a collision, a gust or a broken rotor does
STOP_TIME_S = 0.4  # a robot that trips holds the point it reaches by flying on for this long, braking on the way
BLIND_S = 4.0  # without a state motors stop after this time: it has sunk to the ground or is beyond help
LANDED_SPEED = 0.25  # m/s
CLIMB_SPEED = 0.5  # m/s, of a take-off
CARRIED_SPEED, CARRIED_S = 0.08, 2.5  # m/s, s: it has sunk no faster for so long: something carries it
LIFTING = 1.1  # of hover thrust, under which a robot on the ground has to rise
LIFTING_MORE = 1.25  # ... and one in the air: rotors that lost 20 % of their thrust hover with that
AIRBORNE_M = 0.25  # a robot that much above where it rests flies: there is nothing to take off from
UP_WITHIN_M = 0.3  # of the height: rotors 10 % too weak hang 0.25 m lower
CARROT_M = 0.25  # how far below the robot the landing point runs at most; rotors 10 % too strong still sink


class DroneFallback:
    """Before the first request it holds the robot in the air where it is, or leaves it on the ground.

    Once tripped it hovers for `hold_s`, lands and stops its motors.
    """

    uses_peers = True
    held_at_rest = held_disarmed = False

    def __init__(self, params: ShieldParams, spec: RobotSpec):
        assert spec.flight is not None
        self.params, self.spec = params, spec
        self._carried_n = CARRIED_LIFT * spec.flight.hover_thrust_n
        self._hover_n = spec.flight.hover_thrust_n
        self.holds_s = params.hold_s
        underground = (*params.geofence_low[:2], params.ground_z_m - 10.0)
        self._motion, self._rise = MotionCheck(), RiseCheck()
        self._flew = False
        self._landing_params = replace(params, geofence_low=underground)
        self._blind_params = replace(
            params, geofence_low=(-NO_FENCE_M,) * 3, geofence_high=(NO_FENCE_M,) * 3
        )  # peers only
        self.reset()

    def reset(self) -> None:
        self._take_off_m: float | None = None  # m, world, height to climb to; NaN where it flew already
        self._rise.forget()
        self._rests: bool | None = None  # whether it waits on the ground; not known yet
        self.trip()

    def keep(self, sent: np.ndarray | None) -> None:
        """Thrust and rates are no place to go on from: a drone in the air starts over by holding still.

        Without thrust it may only be measured in the air: an estimate drifts, or a person lifts it.
        """
        self._flew = sent is not None and float(sent[0]) > 0.5 * self._hover_n

    def trip(self) -> None:
        self._anchor: np.ndarray | None = None  # (3,) m, where HOLD and LAND fly to
        self._blind_s = 0.0  # for so long there has been no state
        self._carried_s = 0.0  # for so long something has carried it

    def done(self, mode: Mode) -> bool:
        return mode in (Mode.ESTOP, Mode.OFF)

    def check_state(self, state: RobotState | None) -> str:
        return check_state(self.params, state)

    def check_jump(self, state: RobotState, last: RobotState, elapsed_s: float) -> str:
        return check_jump(self.params, state, last.base_pos, elapsed_s)

    def check_frozen(self, state: RobotState, stamp_s: float) -> str:
        if self._height_m(state) < self.params.landed_height_m:
            self._motion.forget()
            return ""
        return self._motion.check_frozen(state, stamp_s)

    def load(self, state: RobotState, sent: np.ndarray, elapsed_s: float) -> np.ndarray | None:
        return None

    def doubt(self, state: RobotState, stamp_s: float, sent: np.ndarray) -> str:
        """Also that it does not rise, until a reset: idle motors would not show it again."""
        flies = self._height_m(state) > self.params.landed_height_m
        rot = rotation_matrix(state.base_quat.tolist())
        lifts = float(sent[0]) * rot[8] > (LIFTING_MORE if flies else LIFTING) * self._hover_n
        vel = rotated(rot, state.base_lin_vel.tolist())
        return self._rise.doubt(stamp_s, lifts, vel[2], flies) or self._motion.doubt(state.base_pos, vel, stamp_s)

    def check_request(self, requested: ActuatorCommand | None, age_s: float) -> str:
        return check_request(self.params, self.spec, requested, age_s)

    def check_envelope(self, state: RobotState) -> str:
        _, x, y, _ = state.base_quat.tolist()
        tilt_rad = acos(min(max(1.0 - 2.0 * (x * x + y * y), -1.0), 1.0))
        return f"tilted by {degrees(tilt_rad):.0f} degrees" if tilt_rad > FLIPPED_RAD else ""

    def check_way(self, state: RobotState, context: Context, elapsed_s: float) -> str:
        return ""

    def check_start(self, state: RobotState, context: Context) -> str:
        return self.check_envelope(state) or check_start(self.params, replace(context, state=state))

    def check_inside(self, state: RobotState) -> str:
        return check_inside(self.params, state.base_pos, LEFT_M)

    def dead_reckon(self, state: RobotState, sent: np.ndarray, elapsed_s: float) -> RobotState:
        return dead_reckon(self.spec, state, sent, elapsed_s)

    def rest(self, state: RobotState | None) -> np.ndarray:
        return motors_idle(self.spec)

    def hold(self, state: RobotState) -> np.ndarray:
        """Command that flies to the anchor, which is set where the robot would come to rest."""
        if self._anchor is None:
            vel = rotate(state.base_quat, state.base_lin_vel)
            low, high = np.array(self.params.geofence_low), np.array(self.params.geofence_high)
            room = 2.0 * self.params.fence_buffer_m
            self._anchor = np.clip(state.base_pos + STOP_TIME_S * vel, low + room, high - room)
        return fly_to(self.params, self.spec, state, self._anchor, np.zeros(3))

    def still(self, state: RobotState) -> np.ndarray:
        return self.hold(state)

    def pace(self, request: np.ndarray, sent: np.ndarray, elapsed_s: float) -> np.ndarray:
        return request

    def bridge(self, state: RobotState, request: np.ndarray, is_new: bool, elapsed_s: float) -> np.ndarray:
        return request

    def overhear(self, request: np.ndarray) -> None:
        pass

    def wait(self, state: RobotState) -> FallbackCommand:
        """Stay in the air, or on the ground, whatever is measured later."""
        if self._rests is None:
            self._rests = self._height_m(state) < (self.params.landed_height_m if self._flew else AIRBORNE_M)
        if self._rests:
            return self._idle()
        return FallbackCommand(self.hold(state), Mode.HOLD, self.params)

    def fall_back(
        self, state: RobotState, sent: np.ndarray, since_s: float, elapsed_s: float, stop: bool
    ) -> FallbackCommand:
        """Hover for `hold_s`, then down at `land_speed`, then motors idle: on the ground, or on what carries it.

        Where its height stands still although it flies it sinks as without a state.
        """
        if self._rise.in_the_air:
            return self.go_blind(state, sent, since_s, elapsed_s, stop)
        self._blind_s = 0.0
        speed = float(np.linalg.norm(state.base_lin_vel))
        if self._height_m(state) < self.params.landed_height_m and speed < LANDED_SPEED:
            return self._idle()
        carried = speed < CARRIED_SPEED and float(sent[0]) < self._carried_n
        self._carried_s = self._carried_s + elapsed_s if carried else 0.0
        if self._carried_s > CARRIED_S:  # a table, or what an arm holds
            return self._idle()
        target = self.hold(state)
        if since_s < self.params.hold_s:
            return FallbackCommand(target, Mode.HOLD, self.params)
        assert self._anchor is not None
        down = np.array([0.0, 0.0, -self.params.land_speed])
        # Not a moving point but one that stays near: a robot held up by a peer below must not dive once it is free.
        point = np.array([self._anchor[0], self._anchor[1], state.base_pos[2] - CARROT_M])
        target = fly_to(self.params, self.spec, state, point, down)
        if speed < CARRIED_SPEED:  # it rests on something, or sinks unseen: that is no fall then
            target[0] = max(float(target[0]), SINKS_LIFT * self._hover_n)
        return FallbackCommand(target, Mode.LAND, self._landing_params)

    def go_blind(
        self, state: RobotState, sent: np.ndarray, since_s: float, elapsed_s: float, stop: bool
    ) -> FallbackCommand:
        """Position unknown: level out and sink, then motors idle."""
        self._blind_s += elapsed_s
        if self._blind_s > BLIND_S:
            return self._idle()
        self._anchor = None
        return FallbackCommand(sink_blind(self.params, self.spec, state), Mode.LAND, self._blind_params)

    def start(self, state: RobotState, elapsed_s: float, cfg: StartCfg) -> tuple[np.ndarray, bool]:
        """Take-off: straight up from where it stands, then hover. In the air it stays where it is."""
        hold = self.hold(state)
        if self._take_off_m is None:
            above_m = self._height_m(state)
            self._take_off_m = np.nan if above_m > AIRBORNE_M else float(state.base_pos[2]) - above_m + cfg.height_m
        if np.isnan(self._take_off_m):
            return hold, True
        assert self._anchor is not None
        missing_m = self._take_off_m - float(state.base_pos[2])
        point = np.array([*self._anchor[:2], state.base_pos[2] + min(missing_m, CARROT_M)])
        up = np.array([0.0, 0.0, CLIMB_SPEED if missing_m > CARROT_M else 0.0])
        there = abs(missing_m) < UP_WITHIN_M and float(np.linalg.norm(state.base_lin_vel)) < LANDED_SPEED
        return fly_to(self.params, self.spec, state, point, up), there

    def at_rest(self, state: RobotState, mode: Mode) -> bool:
        return mode in (Mode.OFF, Mode.ESTOP)

    def active_names(self, context: Context, active: np.ndarray) -> tuple[str, ...]:
        return active_names(context, active)

    def in_words(self, context: Context, active: np.ndarray, names: tuple[str, ...]) -> str:
        return in_words(context, active, names)

    def _idle(self) -> FallbackCommand:
        return FallbackCommand(motors_idle(self.spec), Mode.OFF, None)

    def _height_m(self, state: RobotState) -> float:
        """How far the robot is above where it rests."""
        return float(state.base_pos[2]) - self.params.ground_z_m - self.spec.home_height_m
