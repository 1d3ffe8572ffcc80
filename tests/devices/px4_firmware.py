"""PX4 and the body that it flies: an X500 in MuJoCo at 400 Hz, with its rate loop, allocation, modes and failsafes.

From https://github.com/PX4/PX4-Autopilot (v1.15): mc_rate_control, control_allocator, commander (failsafe.cpp and
commander_params.c), land_detector. Here the world is NED and the body FRD, as PX4 counts. Modes that fly by themselves
(LAND, LOITER, POSCTL without sticks) are stand-ins.
"""

from dataclasses import dataclass, field
from math import cos, pi, sqrt

import mujoco
import numpy as np

from hardware import load_robot
from sim.scenes.scene import Members, compose_scene

DT_S = 0.0025  # IMU_GYRO_RATEMAX 400 Hz
# mc_rate_control_params.c: MC_ROLLRATE_P, MC_PITCHRATE_P, MC_YAWRATE_P; then I, D and the limits of I.
KP, KI, KD = np.array([0.15, 0.15, 0.2]), np.array([0.2, 0.2, 0.1]), np.array([0.003, 0.003, 0.0])
INTEGRAL_LIMIT = np.full(3, 0.3)
GYRO_CUTOFF_HZ, DERIVATIVE_CUTOFF_HZ = 40.0, 20.0  # IMU_GYRO_CUTOFF, IMU_DGYRO_CUTOFF
# PX4-gazebo-models, models/x500/model.sdf, and PX4's airframe 4001_gz_x500.
MOTOR_N_S2, IDLE_RAD_S, FULL_RAD_S, MOMENT_M = 8.54858e-6, 150.0, 1000.0, 0.016
RISING_S, FALLING_S = 0.0125, 0.025
ARM_M = 0.174
ROTORS = np.array([[1, 1], [-1, -1], [1, -1], [-1, 1]]) * ARM_M  # CA_ROTORi_PX, _PY: front right, back left, ...
SPIN = np.array([1.0, 1.0, -1.0, -1.0])  # CA_ROTORi_KM: the first two turn counter-clockwise, and so push right
SWAP = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])  # ENU to NED and back
FLIP = np.diag([1.0, -1.0, -1.0])  # FLU to FRD and back
GRAVITY = 9.81
HOVER = (sqrt(2.064307692 * GRAVITY / (4 * MOTOR_N_S2)) - IDLE_RAD_S) / (FULL_RAD_S - IDLE_RAD_S)
PARAMETERS = {
    "COM_OF_LOSS_T": 1.0,
    "COM_OBL_RC_ACT": 4,
    "COM_DISARM_LAND": 2.0,
    "COM_DISARM_PRFLT": 10.0,
    "MPC_THR_HOVER": HOVER,
    "THR_MDL_FAC": 0.0,
    "MPC_LAND_SPEED": 0.7,
    "SYS_AUTOSTART": 4001,
}
AFTER_LOSS = {0: "POSCTL", 3: "AUTO.RTL", 4: "AUTO.LAND", 5: "AUTO.LOITER"}  # COM_OBL_RC_ACT
CRITICAL_CHARGE = 0.07  # BAT_CRIT_THR


class LowPass:
    """Butterworth's of second order, LowPassFilter2p.hpp."""

    def __init__(self, cutoff_hz: float):
        ohm = np.tan(pi * cutoff_hz * DT_S)
        c = 1.0 + 2.0 * cos(pi / 4.0) * ohm + ohm**2
        self._b, self._a1, self._a2 = (
            ohm**2 / c,
            2.0 * (ohm**2 - 1.0) / c,
            (1.0 - 2.0 * cos(pi / 4.0) * ohm + ohm**2) / c,
        )
        self._one = self._two = np.zeros(3)

    def apply(self, sample: np.ndarray) -> np.ndarray:
        new = sample - self._a1 * self._one - self._a2 * self._two
        out = self._b * (new + 2.0 * self._one + self._two)
        self._one, self._two = new, self._one
        return out


@dataclass
class Firmware:
    """One vehicle, stepped by who calls `step` 400 times a second. Strings are what it has to say."""

    start: tuple[float, float, float] = (0.0, 0.0, 0.2289)  # m, ENU
    charge: float = 0.9
    refuses_arming: str = ""
    sigma_m: float = 0.02
    parameters: dict[str, float] = field(default_factory=lambda: dict(PARAMETERS))

    def __post_init__(self) -> None:
        spec = load_robot("x500")
        scene = compose_scene([Members(spec, 1, np.array([[*self.start, 0.0]]))], DT_S)
        motors = scene.groups[0].ctrl_index[0]  # give nothing but the drag that is in their bias
        scene.model.actuator_gainprm[motors, 0] = 0.0
        scene.model.actuator_biasprm[motors[1:], 2] = 0.0
        self._model, self._data = scene.model, mujoco.MjData(scene.model)
        self._body, self._mass_kg = scene.groups[0].bodies[0][0], spec.mass_kg
        self._data.qpos[:3] = self.start
        mujoco.mj_forward(self._model, self._data)
        self.says: list[tuple[int, str]] = []  # severity and text, until somebody takes them
        self.boot()

    def boot(self) -> None:
        """Where it is, disarmed, with its clock at 0."""
        self.mode = "AUTO.LOITER"
        self.now_s, self.is_armed, self.in_failsafe = 0.0, False, False
        self.rates, self.thrust, self.setpoint_s = np.zeros(3), 0.0, -10.0
        self._rotors_n = np.zeros(4)
        self._gyro, self._bend = LowPass(GYRO_CUTOFF_HZ), LowPass(DERIVATIVE_CUTOFF_HZ)
        self._last, self._sum, self._unmet = np.zeros(3), np.zeros(3), np.zeros(3)
        self._armed_s = self._landed_s = 0.0
        self._has_flown, self._low_s, self._hold = False, 0.0, self.position
        self.failed_after_s = 0.0

    def reset(self) -> "Firmware":
        """One that has just been put to its start, with the clock of this one."""
        firmware = Firmware(self.start)
        firmware.now_s = self.now_s
        return firmware

    def set(self, rates: np.ndarray, thrust: float) -> None:
        """SET_ATTITUDE_TARGET: proof of life in any mode, obeyed in OFFBOARD only."""
        self.setpoint_s = self.now_s
        if self.mode == "OFFBOARD":
            self.rates, self.thrust = rates, min(max(thrust, 0.0), 1.0)

    def ask_mode(self, mode: str) -> bool:
        """Whether a person's or a program's wish for a mode is granted; rates and thrust stay until new ones come."""
        if mode == "OFFBOARD" and self._is_silent:
            self.says.append((3, "Switching to Offboard is currently not available"))
            return False
        self.mode, self.in_failsafe, self._hold = mode, False, self.position
        return True

    def ask_arm(self, on: bool, by_force: bool) -> bool:
        if not on:
            if not (self.is_landed or by_force):
                self.says.append((3, "Disarming denied: not landed"))
                return False
            self.is_armed = False
            return True
        lacks = self.refuses_arming or ("No offboard signal" if self.mode == "OFFBOARD" and self._is_silent else "")
        if lacks and not by_force:
            self.says.append((3, f"Arming denied: {lacks}"))
            return False
        if not self.is_armed:
            self.is_armed, self._armed_s, self._has_flown = True, self.now_s, False
        return True

    @property
    def is_landed(self) -> bool:
        return self.now_s - self._low_s > 0.3 or not self.is_armed

    @property
    def position(self) -> np.ndarray:
        """(3,) m, ENU, as it really is."""
        return self._data.qpos[:3].copy()

    @property
    def up(self) -> float:
        """Of the body's upward axis along the world's."""
        return float(self._turn[2, 2])

    @property
    def estimate(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Position m and velocity m/s in NED, attitude wxyz FRD to NED, and rates rad/s in FRD."""
        matrix, quat = SWAP @ self._turn @ FLIP, np.zeros(4)
        mujoco.mju_mat2Quat(quat, matrix.flatten())
        return SWAP @ self._data.qpos[:3], SWAP @ self._data.qvel[:3], quat, FLIP @ self._data.qvel[3:6]

    def step(self) -> None:
        """One sample of the gyroscope."""
        self.now_s += DT_S
        self._supervise()
        signals = self._signals()
        speed = IDLE_RAD_S + (FULL_RAD_S - IDLE_RAD_S) * signals if self.is_armed else np.zeros(4)
        change = MOTOR_N_S2 * speed**2 - self._rotors_n
        self._rotors_n = self._rotors_n + change * (1.0 - np.exp(-DT_S / np.where(change > 0, RISING_S, FALLING_S)))
        x, y = ROTORS.T
        torque = np.array([-y @ self._rotors_n, x @ self._rotors_n, MOMENT_M * SPIN @ self._rotors_n])  # FRD
        self._data.xfrc_applied[self._body, :3] = self._turn[:, 2] * self._rotors_n.sum()
        self._data.xfrc_applied[self._body, 3:] = self._turn @ FLIP @ torque
        mujoco.mj_step(self._model, self._data)

    @property
    def _turn(self) -> np.ndarray:
        return self._data.xmat[self._body].reshape(3, 3)

    @property
    def _is_silent(self) -> bool:
        return self.now_s - self.setpoint_s > self.parameters["COM_OF_LOSS_T"]

    def _supervise(self) -> None:
        is_low = self._data.qpos[2] < 0.26 and abs(self._data.qvel[2]) < 0.3 and self.thrust < 0.35 * HOVER
        self._low_s = self._low_s if is_low else self.now_s
        if not self.is_armed:
            return
        if not self.is_landed:
            self._has_flown, self._landed_s = True, self.now_s
        idle_s = self.now_s - (self._landed_s if self._has_flown else self._armed_s)
        limit_s = self.parameters["COM_DISARM_LAND" if self._has_flown else "COM_DISARM_PRFLT"]
        if 0.0 < limit_s < idle_s and self.is_landed:
            self.is_armed = False
            self.says.append((6, "Disarmed by landing" if self._has_flown else "Disarmed by auto preflight disarming"))
        elif self.mode == "OFFBOARD" and self._is_silent:
            self._fail(AFTER_LOSS[int(self.parameters["COM_OBL_RC_ACT"])], "Failsafe: no offboard signal")
        elif self.charge < CRITICAL_CHARGE and self.mode != "AUTO.LAND":
            self._fail("AUTO.LAND", "Failsafe: critical battery level")

    def _fail(self, mode: str, text: str) -> None:
        self.failed_after_s = self.now_s - self.setpoint_s  # since the last set-point
        self.ask_mode(mode)
        self.in_failsafe = True
        self.says.append((2, text))

    def _fly_itself(self) -> None:
        """Modes of its own: over the point where they began, LAND downwards; on the ground motors idle."""
        if self.is_landed:
            self.rates, self.thrust = np.zeros(3), 0.0
            return
        velocity = self._data.qvel[:3]
        accel = np.clip(1.5 * (self._hold - self._data.qpos[:3]) - 2.5 * velocity, -3.0, 3.0)
        if self.mode == "AUTO.LAND":
            accel[2] = np.clip(3.0 * (-self.parameters["MPC_LAND_SPEED"] - velocity[2]), -3.0, 3.0)
            if self._data.qpos[2] < 0.25:
                accel[2] = -8.0
        lift = accel + np.array([0.0, 0.0, GRAVITY])
        missing = self._turn.T @ np.cross(self._turn[:, 2], lift / np.linalg.norm(lift))
        self.rates = FLIP @ (5.0 * missing * [1.0, 1.0, 0.0])
        share = sqrt(max(self._mass_kg * float(lift @ self._turn[:, 2]), 0.0) / (4 * MOTOR_N_S2))
        self.thrust = min(max((share - IDLE_RAD_S) / (FULL_RAD_S - IDLE_RAD_S), 0.0), 1.0)

    def _signals(self) -> np.ndarray:
        """Signals (4,) of the rotors, 0 to 1."""
        if self.mode != "OFFBOARD":
            self._fly_itself()
        measured = self._gyro.apply(FLIP @ self._data.qvel[3:6])
        bend = self._bend.apply((measured - self._last) / DT_S)
        self._last = measured
        error = self.rates - measured
        out = KP * error + self._sum - KD * bend
        if not self.is_armed:
            self._sum = np.zeros(3)
        elif not self.is_landed:
            grows = np.where(np.sign(error) == np.sign(self._unmet), 0.0, error)
            factor = np.maximum(0.0, 1.0 - (error / 6.98) ** 2)  # of a turn of 400 deg/s, rate_control.cpp
            self._sum = np.clip(self._sum + factor * KI * grows * DT_S, -INTEGRAL_LIMIT, INTEGRAL_LIMIT)
        x, y = np.sign(ROTORS).T
        tilt = (-y * out[0] + x * out[1]) * sqrt(0.5)
        signals = self.thrust + tilt - max(0.0, (self.thrust + tilt).max() - 1.0)
        scale = min(1.0, max(signals.mean(), 0.0) / max(1e-6, -tilt.min()))
        signals = signals.mean() + tilt * scale
        room = np.where(SPIN * out[2] > 0, 1.15 - signals, signals)
        yaw = min(1.0, float((room / max(abs(out[2]), 1e-6)).min()))
        self._unmet = out * [1.0 - scale, 1.0 - scale, 1.0 - max(yaw, 0.0)]
        signals = signals + SPIN * out[2] * max(yaw, 0.0)
        return np.clip(signals - max(0.0, signals.max() - 1.0), 0.0, 1.0)
