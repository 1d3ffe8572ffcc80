"""Numbers of PX4's MAVLink messages in our units and frames, and back.

PX4 counts north, east, down (NED) in the world and forward, right, down (FRD) in the body; quaternions are wxyz, body
to world: https://mavlink.io/en/messages/common.html. Here the world is east, north, up, the body forward, left, up.
"""

import struct
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from hardware.rotation import rotate_inverse
from hardware.types import RobotState

OFFBOARD = "OFFBOARD"
MAIN_MODES = {1: "MANUAL", 2: "ALTCTL", 3: "POSCTL", 4: "AUTO", 5: "ACRO", 6: OFFBOARD, 7: "STABILIZED"}
AUTO_MODES = {2: "TAKEOFF", 3: "LOITER", 4: "MISSION", 5: "RTL", 6: "LAND", 8: "FOLLOW", 9: "PRECLAND"}
AUTO, LAND = 4, 6  # px4_custom_mode.h: main mode and sub mode
LOCAL_NED, BODY_FRD, LOCAL_FRD = 1, 12, 20  # MAV_FRAME
INT32 = 6  # MAV_PARAM_TYPE
RATES_AND_THRUST = 128  # type mask of SET_ATTITUDE_TARGET: its attitude is ignored
VARIANCES = (0, 6, 11)  # x, y and z in the upper triangle of ODOMETRY's pose covariance


@dataclass(frozen=True)
class ThrustCurve:
    """What PX4 calls thrust, 0 to 1, for collective thrust N of an airframe that hovers at `hover`.

    With `model_factor` (THR_MDL_FAC) above 0 PX4 makes thrust linear itself. At 0 it is the signal of the rotors: a
    square root, exact at hover. https://docs.px4.io/main/en/config_mc/pid_tuning_guide_multicopter.html#thrust-curve
    """

    hover: float  # MPC_THR_HOVER
    model_factor: float
    hover_n: float
    idle_n: float  # at which and below which 0 is sent: PX4's integrators rest while it is on the ground

    def signal(self, thrust_n: float) -> float:
        """PX4's thrust, 0 to 1."""
        if thrust_n <= self.idle_n * (1.0 + 1e-6):  # commands are of 32 bits
            return 0.0
        share = thrust_n / self.hover_n
        return min(self.hover * (share if self.model_factor > 0.0 else sqrt(share)), 1.0)

    def thrust_n(self, signal: float) -> float:
        """The inverse of `signal`, N."""
        share = signal / self.hover
        return max(self.idle_n, self.hover_n * (share if self.model_factor > 0.0 else share**2))


def rates_frd(rates: np.ndarray) -> tuple[float, float, float]:
    """Body rates (3,) rad/s of forward, left, up as PX4's: nose up and turning right are positive."""
    roll, pitch, yaw = rates.tolist()
    return roll, -pitch, -yaw


def enu(ned: tuple[float, float, float]) -> np.ndarray:
    """A vector (3,) of north, east, down as one of east, north, up."""
    north, east, down = ned
    return np.array([east, north, -down], np.float32)


def flu(frd: tuple[float, float, float]) -> np.ndarray:
    """A vector (3,) of forward, right, down as one of forward, left, up."""
    forward, right, down = frd
    return np.array([forward, -right, -down], np.float32)


def quat_enu(ned_wxyz: tuple[float, float, float, float]) -> np.ndarray:
    """Attitude (4,) wxyz of the forward, left, up body in east, north, up; PX4's is that of the FRD body in NED.

    It is the product of three: (0, 1, 1, 0) / sqrt(2), which turns NED into ENU, PX4's, and (0, 1, 0, 0).
    """
    w, x, y, z = ned_wxyz
    return np.array([w + z, x + y, x - y, w - z], np.float32) * np.float32(sqrt(0.5))


def state_of(odometry: Any, age_s: float) -> RobotState:
    """The estimate in an ODOMETRY message; ValueError for frames that PX4's estimator does not use."""
    if odometry.frame_id not in (LOCAL_NED, LOCAL_FRD) or odometry.child_frame_id not in (LOCAL_NED, BODY_FRD):
        frames = f"{odometry.frame_id} and {odometry.child_frame_id}"
        raise ValueError(f"ODOMETRY in MAV_FRAMEs {frames}: expected {LOCAL_NED}, and {LOCAL_NED} or {BODY_FRD}")
    quat = quat_enu(tuple(odometry.q))
    velocity = odometry.vx, odometry.vy, odometry.vz
    in_body = odometry.child_frame_id == BODY_FRD
    nothing = np.zeros(0, np.float32)
    return RobotState(
        joint_pos=nothing,
        joint_vel=nothing,
        base_pos=enu((odometry.x, odometry.y, odometry.z)),
        base_quat=quat,
        base_lin_vel=flu(velocity) if in_body else rotate_inverse(quat, enu(velocity)),
        base_ang_vel=flu((odometry.rollspeed, odometry.pitchspeed, odometry.yawspeed)),
        age=np.float32(age_s),
    )


def known_to_m(odometry: Any) -> float:
    """Standard deviation of the position along its worst axis, m; NaN where PX4 does not say."""
    variances = np.array([odometry.pose_covariance[i] for i in VARIANCES])
    return float(np.sqrt(variances.max())) if (variances >= 0.0).all() else float("nan")


def mode_name(custom_mode: int) -> str:
    """PX4's name of the mode in a HEARTBEAT's `custom_mode`, such as OFFBOARD or AUTO.LAND."""
    main, sub = custom_mode >> 16 & 0xFF, custom_mode >> 24
    name = MAIN_MODES.get(main, str(main))
    return f"{name}.{AUTO_MODES.get(sub, sub)}" if main == AUTO else name


def parameter_of(value: Any) -> float:
    """The number in a PARAM_VALUE; PX4 puts the bytes of an integer where the message has a float."""
    if value.param_type == INT32:
        return float(struct.unpack("<i", struct.pack("<f", value.param_value))[0])
    return float(value.param_value)
