"""The shield's own flight controller: flies to a point and holds it, by position, velocity and attitude feedback."""

from dataclasses import replace
from math import exp

import numpy as np

from deploy.shield.arrays import columns
from deploy.shield.drone.attitude import (
    Columns,
    acceleration_of,
    lift_of,
    missing_turn,
    rotated,
    rotated_back,
    rotation_matrix,
    thrust_axis,
)
from deploy.shield.drone.filter import clamp
from deploy.shield.drone.params import ShieldParams
from hardware.rotation import multiply
from hardware.spec import RobotSpec
from hardware.types import RobotState

POS_GAIN = 4.0  # 1/s^2: 2 rad/s ...
VEL_GAIN = 3.6  # 1/s: ... at a damping ratio of 0.9
TURN_GAIN = 6.0  # 1/s, slower than both poles of the rate loop by a factor of four
# Shares of hover thrust:
BLIND_LIFT = 0.88  # without a state: it sinks, also with rotors 10 % stronger than the nominal ones
CARRIED_LIFT = BLIND_LIFT  # under less it sinks, so that what does not sink is carried
SINKS_LIFT = CARRIED_LIFT - 0.02  # in a landing that goes no farther: clearly less, so that it counts as carried


def fly_to(
    params: ShieldParams, spec: RobotSpec, state: RobotState, pos_w: np.ndarray, vel_w: np.ndarray
) -> np.ndarray:
    """Command (4,) = thrust N, body rates rad/s, towards `pos_w` (3,) m moving with `vel_w` (3,) m/s, heading kept."""
    rot = rotation_matrix(columns(state.base_quat))
    vel = rotated(rot, columns(state.base_lin_vel))
    accel = POS_GAIN * (pos_w - state.base_pos) + VEL_GAIN * (vel_w - vel)
    return _command(spec, rot, _limited(params, accel))


def sink_blind(params: ShieldParams, spec: RobotSpec, state: RobotState) -> np.ndarray:
    """Command (4,) for a robot whose `state` is dead-reckoned: brake, level out, a little less thrust than weight."""
    rot = rotation_matrix(columns(state.base_quat))
    vel_x, vel_y, _ = rotated(rot, columns(state.base_lin_vel))
    command = _command(spec, rot, _limited(params, -VEL_GAIN * np.array([vel_x, vel_y, 0.0])))
    assert spec.flight is not None
    command[0] = BLIND_LIFT * spec.flight.hover_thrust_n
    return command


def motors_idle(spec: RobotSpec) -> np.ndarray:
    """Command (4,) with every channel at rest: the least thrust, no rotation."""
    return np.array([spec.command_low[0], 0.0, 0.0, 0.0], dtype=np.float32)


def dead_reckon(spec: RobotSpec, state: RobotState, command: np.ndarray, dt_s: float) -> RobotState:
    """`state` after flying `command` (4,) for `dt_s`, as far as the flight model tells: dead reckoning, same age."""
    assert spec.flight is not None
    rot = rotation_matrix(columns(state.base_quat))
    accel = np.array(acceleration_of(spec.mass_kg, float(command[0]), thrust_axis(rot)))
    vel = rotated(rot, columns(state.base_lin_vel)) + dt_s * accel
    # Two equal poles, seen as one of twice the time constant.
    share = 1.0 - exp(-dt_s / (2.0 * spec.flight.rate_time_constant_s))
    rate = state.base_ang_vel + share * (command[1:] - state.base_ang_vel)
    quat = multiply(state.base_quat, np.concatenate([[1.0], 0.5 * dt_s * rate]))
    quat = quat / np.linalg.norm(quat)
    vel_b = np.array(rotated_back(rotation_matrix(columns(quat)), columns(vel)))
    pos = state.base_pos + dt_s * vel
    return replace(state, base_pos=pos, base_quat=quat, base_lin_vel=vel_b, base_ang_vel=rate)


def _limited(params: ShieldParams, accel: np.ndarray) -> np.ndarray:
    limit = np.array([1.5 * params.brake_accel] * 2 + [params.max_climb_accel])
    return np.minimum(np.maximum(accel, -limit), limit)


def _command(spec: RobotSpec, rot: Columns, accel: np.ndarray) -> np.ndarray:
    turn, lift = missing_turn(rotated_back(rot, lift_of(columns(accel))))
    return clamp(np, spec, np.array([spec.mass_kg * lift, *(TURN_GAIN * angle for angle in turn)], dtype=np.float32))
