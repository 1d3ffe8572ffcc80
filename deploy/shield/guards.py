"""Checks of what reaches the shield. Each returns why the input cannot be used, or an empty string."""

import numpy as np

from deploy.shield.params import ShieldParams
from hardware.types import ActuatorCommand, Peers, RobotState

QUAT_NORM_TOL = 0.05  # attitude filters stay far inside; a zeroed or mixed-up message does not


def check_state(params: ShieldParams, state: RobotState | None) -> str:
    """Shape, finiteness, unit quaternion and age of a robot's own state."""
    if state is None:
        return "no state"
    for value, size in ((state.base_pos, 3), (state.base_quat, 4), (state.base_lin_vel, 3), (state.base_ang_vel, 3)):
        if np.shape(value) != (size,):
            return f"state has shape {np.shape(value)} where ({size},) is due"
    flat = np.concatenate([state.base_pos, state.base_quat, state.base_lin_vel, state.base_ang_vel])
    if not np.isfinite(flat).all():
        return "state not finite"
    if abs(float(flat[3:7] @ flat[3:7]) - 1.0) > 2 * QUAT_NORM_TOL:
        return "quaternion not of unit length"
    age_s = float(state.age)
    if not -params.control_dt_s <= age_s <= params.act_periods * params.control_dt_s:
        return f"state {1e3 * age_s:.0f} ms old"
    return ""


def check_jump(params: ShieldParams, state: RobotState, expected_pos: np.ndarray) -> str:
    """Distance of the measured position to `expected_pos` (3,) m, world."""
    jump_m = float(np.linalg.norm(state.base_pos - expected_pos))
    return f"position jumped by {jump_m:.2f} m" if jump_m > params.max_jump_m else ""


def check_peers(peers: Peers) -> str:
    """Finiteness of what the valid slots say."""
    said = np.concatenate([peers.pos, peers.lin_vel, peers.age[..., None]], axis=-1)
    return "" if np.isfinite(said[peers.valid]).all() else "peers not finite"


def check_request(params: ShieldParams, requested: ActuatorCommand | None, age_s: float, channels: int) -> str:
    """Presence, shape, finiteness and age of what the policy asks for."""
    if requested is None:
        return "no request"
    if np.shape(requested.target) != (channels,):
        return f"request has shape {np.shape(requested.target)} where ({channels},) is due"
    if not np.isfinite(requested.target).all():
        return "request not finite"
    if not -params.control_dt_s <= age_s <= params.act_periods * params.control_dt_s:
        return f"request {1e3 * age_s:.0f} ms old"
    return ""
