"""The shield's own pilot: flies to a point and holds it, by position, velocity and attitude feedback."""

import numpy as np

from deploy.shield.attitude import lift_of, missing_turn, rotation_matrix
from deploy.shield.filter import clamp
from deploy.shield.params import ShieldParams
from hardware.spec import RobotSpec
from hardware.types import RobotState

POS_GAIN = 4.0  # 1/s^2: 2 rad/s ...
VEL_GAIN = 3.6  # 1/s: ... at a damping ratio of 0.9
TURN_GAIN = 6.0  # 1/s, slower than both poles of the rate loop by a factor of four
BLIND_LIFT = 0.92  # of hover thrust: sinks slowly, whatever the battery


def fly_to(
    params: ShieldParams, spec: RobotSpec, state: RobotState, pos_w: np.ndarray, vel_w: np.ndarray
) -> np.ndarray:
    """Command (4,) = thrust N, body rates rad/s, towards `pos_w` (3,) m moving with `vel_w` (3,) m/s, heading kept."""
    rot = rotation_matrix(np, np.asarray(state.base_quat, dtype=np.float64))
    accel = POS_GAIN * (pos_w - state.base_pos) + VEL_GAIN * (vel_w - rot @ state.base_lin_vel)
    limit = np.array([params.brake_accel * 1.5] * 2 + [params.max_climb_accel])
    accel = np.clip(accel, -limit, limit)
    turn, lift = missing_turn(np, rot, lift_of(np, accel))
    target = np.concatenate([[spec.mass_kg * lift], TURN_GAIN * turn])
    return clamp(spec, target.astype(np.float32))


def sink_level(spec: RobotSpec) -> np.ndarray:
    """Command (4,) for a robot that no longer knows where it is: no rotation, a little less thrust than weight."""
    assert spec.flight is not None
    return clamp(spec, np.array([BLIND_LIFT * spec.flight.hover_thrust_n, 0.0, 0.0, 0.0], dtype=np.float32))


def motors_idle(spec: RobotSpec) -> np.ndarray:
    """Command (4,) with every channel at rest: the least thrust, no rotation."""
    return np.array([spec.command_low[0], 0.0, 0.0, 0.0], dtype=np.float32)
