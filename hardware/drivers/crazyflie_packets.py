"""Numbers of a Crazyflie's firmware in SI units, and back.

Facts are those of crazyflie-firmware at https://github.com/bitcraze/crazyflie-firmware (commit 2a18fc2).
"""

import struct
from collections.abc import Mapping
from math import degrees

import numpy as np

from hardware.rotation import rotate_inverse
from hardware.types import RobotState

FULL_SIGNAL = 65535  # of the four rotors together at full thrust: the firmware counts in 16 bits
MANUAL, IS_RATE = 11, 1  # crtp_commander_generic.c: manualType; roll and pitch are rates
SETPOINT = struct.Struct("<BfffHB")  # type, roll, pitch, yaw rate deg/s, thrust, whether they are rates

# One log packet holds 26 bytes: all of the estimate, in stabilizer.c's compressed form, and so of one moment.
STATE = tuple(
    f"stateEstimateZ.{name}" for name in ("x", "y", "z", "vx", "vy", "vz", "quat", "rateRoll", "ratePitch", "rateYaw")
)
MILLI = 1e-3  # mm, mm/s and mrad/s


def thrust_signal(thrust_n: float, idle_n: float, full_n: float, scale: float) -> int:
    """The 16-bit thrust for `thrust_n`, `full_n` being full thrust of all rotors and `scale` this airframe's factor.

    Thrust is linear in it: the firmware of the brushless Crazyflie compensates for the curve of its rotors and for the
    battery (platform_defaults_cf21bl.h). At `idle_n` and below it is 0: there the firmware resets its integrators and
    lets the rotors idle, so that a drone on the ground does not wind up (controller_pid.c).
    """
    if thrust_n <= idle_n:
        return 0
    return min(max(round(FULL_SIGNAL * scale * thrust_n / full_n), 1), FULL_SIGNAL)


def thrust_of_signal(signal: int, idle_n: float, full_n: float, scale: float) -> float:
    """The inverse of `thrust_signal`, N."""
    return max(idle_n, signal * full_n / (scale * FULL_SIGNAL))


def setpoint_packet(signal: int, rates: np.ndarray) -> bytes:
    """The payload of a generic set-point with body `rates` (3,) rad/s, x forward, y left, z up.

    The firmware's pitch rate is positive nose up: it is compared with minus the gyroscope's y (controller_pid.c).
    """
    roll, pitch, yaw = (degrees(rate) for rate in rates.tolist())
    return SETPOINT.pack(MANUAL, roll, -pitch, yaw, signal, IS_RATE)


def state_of(values: Mapping[str, int], quat_xyzw: np.ndarray, age_s: float) -> RobotState:
    """The estimate in a log packet with the variables `STATE`; `quat_xyzw` (4,) is what its `quat` holds.

    Velocity is that of the world in the log and of the body here.
    """
    x, y, z, vx, vy, vz, _, roll, pitch, yaw = (values[name] for name in STATE)
    quat = np.asarray(quat_xyzw, np.float32)[[3, 0, 1, 2]]
    nothing = np.zeros(0, np.float32)
    return RobotState(
        joint_pos=nothing,
        joint_vel=nothing,
        base_pos=np.array([x, y, z], np.float32) * np.float32(MILLI),
        base_quat=quat,
        base_lin_vel=rotate_inverse(quat, np.array([vx, vy, vz], np.float32) * np.float32(MILLI)),
        base_ang_vel=np.array([roll, -pitch, yaw], np.float32) * np.float32(MILLI),
        age=np.float32(age_s),
    )
