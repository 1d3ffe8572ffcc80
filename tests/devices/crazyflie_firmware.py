"""A Crazyflie's firmware and body: rate loop, supervisor, estimator and battery, in MuJoCo at 500 Hz.

From crazyflie-firmware (commit 2a18fc2): controller_pid.c, attitude_pid_controller.c, power_distribution_quadrotor.c,
supervisor.c. In the firmware's units: degrees, pitch positive nose up, thrust from 0 to 65535.
"""

from dataclasses import dataclass, field
from math import copysign, degrees, exp, radians, sqrt

import mujoco
import numpy as np

from hardware import load_robot
from sim.scenes.scene import Members, compose_scene

DT_S = 0.002
FULL = 65535.0
FULL_ROTOR_N = 0.2  # platform_defaults_cf21bl.h: THRUST_MAX
IDLE = 7000.0  # CONFIG_MOTORS_DEFAULT_IDLE_THRUST
LEVEL_AFTER_S, OFF_AFTER_S = 0.5, 2.0  # COMMANDER_WDT_TIMEOUT_STABILIZE, _SHUTDOWN
FLYING_S = 2.0  # IS_FLYING_HYSTERESIS_THRESHOLD
LANDED_S = 3.0  # LANDING_TIMEOUT_MS
UPSIDE_DOWN_S = 0.1
RATE_GAINS = ((200.0, 400.0, 2.5, 33.3), (200.0, 400.0, 2.5, 33.3), (120.0, 16.7, 0.0, 166.7))  # P, I, D, limit of I
ATTITUDE_P = 6.0
FULL_CHARGE_V = 4.2
LANDING_GAIN = 4.0  # 1/s, of the emulated landing's loop: a stand-in for the firmware's trajectory and position loop
# position_controller_pid.c, x and y: m/s per m, at most; degrees per m/s, at most
POSITION_P, FASTEST_M_S, SPEED_P, STEEPEST_DEG = 2.0, 1.0, 25.0, 20.0

BITS = {"can_be_armed": 0, "armed": 1, "can_fly": 3, "flying": 4, "tumbled": 5, "locked": 6, "crashed": 7}


@dataclass
class Setpoint:
    """What the commander holds; rates deg/s and thrust as they came. A stop is thrust 0."""

    roll: float = 0.0
    pitch: float = 0.0
    yaw: float = 0.0
    thrust: float = 0.0
    is_rate: bool = True
    at_s: float = -10.0


@dataclass
class Firmware:
    """One Crazyflie, stepped by who calls `step` 500 times a second."""

    start: tuple[float, float, float] = (0.0, 0.0, 0.02)
    rotor_lag_s: float = 0.06
    charge: float = 0.9
    refuses_arming: bool = False
    sigma_m: float = 0.003  # of the estimated position, as its Kalman filter says
    preflight_s: float = 30.0
    thrust_gain: float = 1.0  # of this airframe, which no driver knows
    setpoint: Setpoint = field(default_factory=Setpoint)
    parameters: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spec = load_robot("crazyflie")
        scene = compose_scene([Members(spec, 1, np.array([[*self.start, 0.0]]))], DT_S)
        motors = scene.groups[0].ctrl_index[0]  # give nothing but the drag that is in their bias
        scene.model.actuator_gainprm[motors, 0] = 0.0
        scene.model.actuator_biasprm[motors[1:], 2] = 0.0
        self._model, self._data = scene.model, mujoco.MjData(scene.model)
        self._body = scene.groups[0].bodies[0][0]
        x, y = np.array(spec.flight.rotors_xy_m).T
        self._arms = x, y, np.sign(x * y) * spec.flight.rate_loop.torque_ratio_m
        self._data.qpos[:3] = self.start
        self._mass_kg = spec.mass_kg
        self.now_s, self.rotors_n = 0.0, np.zeros(4)
        self.is_armed = self.is_locked = self.is_crashed = False
        self._armed_at_s = self._tumbled_for_s = 0.0
        self.stopped_after_s = 0.0  # since the last set-point, when its motors were stopped in flight
        self._thrust_at_s = -10.0
        self._landed_at_s: float | None = None
        self._integral, self._last_rate = [0.0] * 3, [0.0] * 3
        self._lands_at = np.zeros(2)  # m, x and y
        self._sinks_m_s = 0.0  # while the high-level commander lands it
        mujoco.mj_forward(self._model, self._data)

    def reset(self) -> "Firmware":
        """One that has just been put to its start, with the clock of this one."""
        firmware = Firmware(self.start)
        firmware.now_s = self.now_s
        return firmware

    def set(self, setpoint: Setpoint) -> None:
        """What a client sends has priority: the high-level commander forgets what it did."""
        self.setpoint, self._sinks_m_s = setpoint, 0.0

    def land(self, height_m: float, duration_s: float) -> None:
        """The high-level commander's landing, from where it is to `height_m`."""
        self._lands_at = self._data.qpos[:2].copy()
        self._sinks_m_s = max((self._data.qpos[2] - height_m) / duration_s, 0.1)

    def arm(self, on: bool) -> bool:
        """A request to arm or disarm; whether it was obeyed."""
        if on and (self.refuses_arming or not self._can_be_armed):
            return self.is_armed
        if on and not self.is_armed:
            self._armed_at_s, self._landed_at_s = self.now_s, None
        self.is_armed = on
        return True

    @property
    def info(self) -> int:
        """supervisor.info."""
        states = {
            "can_be_armed": self._can_be_armed and not self.is_armed and not self.refuses_arming,
            "armed": self.is_armed,
            "can_fly": self.is_armed,
            "flying": self.is_flying,
            "tumbled": self._is_tumbled,
            "locked": self.is_locked,
            "crashed": self.is_crashed,
        }
        return sum(1 << BITS[name] for name, holds in states.items() if holds)

    @property
    def is_flying(self) -> bool:
        return self.now_s - self._thrust_at_s < FLYING_S

    def step(self) -> None:
        """One period of the stabilizer."""
        self.now_s += DT_S
        self._supervise()
        thrust, rates = self._wanted()
        signals = self._signals(thrust, rates) if self.is_armed else np.zeros(4)
        if self.is_armed and signals.max() > IDLE + 1:
            self._thrust_at_s = self.now_s
        aim = self.thrust_gain * FULL_ROTOR_N * signals / FULL
        self.rotors_n += (1.0 - exp(-DT_S / self.rotor_lag_s)) * (aim - self.rotors_n)
        x, y, spin = self._arms
        torque = np.array([y @ self.rotors_n, -x @ self.rotors_n, spin @ self.rotors_n])
        turn = self._data.xmat[self._body].reshape(3, 3)
        self._data.xfrc_applied[self._body, :3] = turn[:, 2] * self.rotors_n.sum()
        self._data.xfrc_applied[self._body, 3:] = turn @ torque
        mujoco.mj_step(self._model, self._data)

    def log(self) -> dict[str, float]:
        """The variables that can be logged, compressed as stabilizer.c does."""
        position, velocity = self._data.qpos[:3] * 1e3, self._data.qvel[:3] * 1e3
        roll, pitch, yaw = (radians(rate) * 1e3 for rate in self._gyro())
        w, x, y, z = self._data.qpos[3:7]
        variance = self.sigma_m**2
        numbers = dict(zip(("x", "y", "z", "vx", "vy", "vz"), [*position, *velocity], strict=True))
        numbers |= {"rateRoll": roll, "ratePitch": pitch, "rateYaw": yaw}
        return {f"stateEstimateZ.{name}": wrapped(value) for name, value in numbers.items()} | {
            "stateEstimateZ.quat": compressed((x, y, z, w)),
            "supervisor.info": self.info,
            "pm.vbat": 3.0 + (FULL_CHARGE_V - 3.0) * self.charge,
            "pm.batteryLevel": int(100 * self.charge),
            "kalman.varX": variance,
            "kalman.varY": variance,
            "kalman.varZ": variance,
        }

    @property
    def position(self) -> np.ndarray:
        """(3,) m, as it really is."""
        return self._data.qpos[:3].copy()

    @property
    def tilt(self) -> float:
        """Rad."""
        return float(np.arccos(np.clip(self._data.xmat[self._body][8], -1.0, 1.0)))

    @property
    def _can_be_armed(self) -> bool:
        return not (self.is_locked or self.is_crashed or self._is_tumbled)

    @property
    def _is_tumbled(self) -> bool:
        return self._tumbled_for_s > UPSIDE_DOWN_S

    def _supervise(self) -> None:
        silent_s = self.now_s - self.setpoint.at_s
        is_upside_down = self._data.xmat[self._body][8] < -0.2
        self._tumbled_for_s = self._tumbled_for_s + DT_S if is_upside_down else 0.0
        if self.is_armed and self.is_flying:
            if self._is_tumbled or silent_s > OFF_AFTER_S:
                self.is_armed, self.is_crashed = False, self._is_tumbled
                self.is_locked = not self._is_tumbled  # supervisorStateExceptFreeFall
                self.stopped_after_s = silent_s
            self._landed_at_s = self.now_s
        elif self.is_armed:
            idle_since_s, limit_s = self._armed_at_s, self.preflight_s
            if self._landed_at_s is not None:
                idle_since_s, limit_s = self._landed_at_s, LANDED_S
            self.is_armed = self.now_s - idle_since_s < limit_s

    def _wanted(self) -> tuple[float, list[float]]:
        """Thrust, and rates deg/s of roll, pitch and yaw."""
        point = self.setpoint
        if self._sinks_m_s:
            self.setpoint.at_s = self.now_s
            if self._data.qpos[2] < 0.025:
                self._sinks_m_s, self.setpoint = 0.0, Setpoint(at_s=self.now_s)
            lift = 9.81 - LANDING_GAIN * (self._data.qvel[2] + self._sinks_m_s)
            point = Setpoint(
                *self._level_to(self._lands_at),
                0.0,
                FULL * self._mass_kg * lift / (4 * FULL_ROTOR_N),
                False,
                self.now_s,
            )
        if self.now_s - point.at_s > OFF_AFTER_S:
            return 0.0, [0.0] * 3
        if point.is_rate and self.now_s - point.at_s <= LEVEL_AFTER_S:
            return point.thrust, [point.roll, point.pitch, point.yaw]
        m = self._data.xmat[self._body]
        roll, pitch = degrees(np.arctan2(m[7], m[8])), degrees(np.arcsin(m[6]))
        aims = (0.0, 0.0) if point.is_rate else (point.roll, point.pitch)
        return point.thrust, [ATTITUDE_P * (aims[0] - roll), ATTITUDE_P * (aims[1] - pitch), 0.0]

    def _level_to(self, place: np.ndarray) -> tuple[float, float]:
        """Roll and pitch, degrees, by which the position controller brings it to rest at `place` (2,) m."""
        fast = np.clip(POSITION_P * (place - self._data.qpos[:2]), -FASTEST_M_S, FASTEST_M_S)
        m = self._data.xmat[self._body]
        forward = np.array([m[0], m[3]]) / np.hypot(m[0], m[3])
        x, y = SPEED_P * (fast - self._data.qvel[:2])
        ahead, left = forward @ (x, y), forward @ (y, -x)
        return tuple(float(np.clip(-angle, -STEEPEST_DEG, STEEPEST_DEG)) for angle in (left, ahead))

    def _signals(self, thrust: float, wanted: list[float]) -> np.ndarray:
        """Signals (4,) of the rotors."""
        if thrust == 0.0:
            self._integral, self._last_rate = [0.0] * 3, list(self._gyro())
            return np.full(4, IDLE)
        out = []
        for axis, ((p, i, d, limit), rate) in enumerate(zip(RATE_GAINS, self._gyro(), strict=True)):
            error = wanted[axis] - rate
            total = self._integral[axis] + error * DT_S
            self._integral[axis] = min(abs(total), limit) * copysign(1.0, total)
            slope = (self._last_rate[axis] - rate) / DT_S
            self._last_rate[axis] = rate
            out.append(min(max(p * error + i * self._integral[axis] + d * slope, -32767.0), 32767.0))
        x, y, spin = (np.sign(arm) for arm in self._arms)
        signals = thrust + 0.5 * out[0] * y + 0.5 * out[1] * x + out[2] * spin  # pitch is nose up here
        return np.clip(signals - max(0.0, signals.max() - FULL), IDLE, FULL)

    def _gyro(self) -> tuple[float, float, float]:
        """Rates of roll, pitch and yaw, deg/s: pitch is minus the gyroscope's y."""
        x, y, z = np.degrees(self._data.qvel[3:6]).tolist()
        return x, -y, z


def wrapped(value: float) -> int:
    """As C puts it into 16 bits."""
    return (int(value) + (1 << 15)) % (1 << 16) - (1 << 15)


def compressed(quat_xyzw: tuple[float, ...]) -> int:
    """Its three smaller components in ten bits each, and which is the largest; quatcompress.h."""
    largest = max(range(4), key=lambda index: abs(quat_xyzw[index]))
    found = largest
    for index, value in enumerate(quat_xyzw):
        if index != largest:
            is_negative = (value < 0) != (quat_xyzw[largest] < 0)
            found = found << 10 | is_negative << 9 | int(511 * abs(value) * sqrt(2.0) + 0.5)
    return found
