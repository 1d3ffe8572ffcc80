"""Terms of robots on two feet: what they see of their joints and of their gait, and how well they stand and walk.

The heading frame is the base's, turned upright: x where the robot faces, y to its left, z up. Feet are the frames
"left_foot" and "right_foot", left first; each is on the ground while its sole is lower than `GROUNDED_M`. Heights are
above the ground below.
"""

from math import pi

import torch

from hardware.rotation import down_b, rotate
from hardware.types import RobotState
from sim.mirror import SCALAR, VECTOR, Flip, joined, mirrored, signs
from sim.task import PolicyInput
from sim.transition import Transition

Tensor = torch.Tensor
Joints = tuple[int, ...]  # places in the robot's joint order
GROUNDED_M = 0.02
GRAVITY_M_S2 = 9.81
STANDING = 0.05  # a velocity command shorter than this means to stand
_FEET = Flip((3, 4, 5, 0, 1, 2, 7, 6), (*VECTOR.sign, *VECTOR.sign, 1.0, 1.0))


# What the policy sees: a inputs -> (..., k).


@mirrored(signs(1.0, -1.0, -1.0))
def velocity_command(p: PolicyInput) -> Tensor:
    """Commanded velocity, (..., 3) m/s, m/s, rad/s: forward, left and turning left, heading frame."""
    return p.command["velocity"]


@mirrored(signs(-1.0, -1.0))
def gait_clock(p: PolicyInput) -> Tensor:
    """Sine and cosine of the gait's phase, (..., 2); both zero while the robot is commanded to stand."""
    angle = 2.0 * pi * p.memory["gait_phase"]
    return torch.cat([angle.sin(), angle.cos()], dim=-1) * _walks(p.command["velocity"]).unsqueeze(-1)


# What it remembers: old value, inputs, action -> new value.


def gait_phase(old: Tensor, p: PolicyInput, action: Tensor, dt_s: float, period_s: float) -> Tensor:
    """Phase of the gait, (..., 1) in [0, 1): runs while the command is to move and starts over when it stands."""
    phase = old + dt_s / period_s
    return (phase - phase.floor()) * _walks(p.command["velocity"]).unsqueeze(-1)


# What only the critic sees: a transition -> (W, N, k).


@mirrored(joined([VECTOR, SCALAR]))
def base_motion(t: Transition) -> Tensor:
    """True velocity and height of the base, (W, N, 4) m/s body, m."""
    return torch.cat([t.state.base_lin_vel, t.above_ground(t.state.base_pos).unsqueeze(-1)], dim=-1)


@mirrored(signs(1.0, -1.0))
def place(t: Transition) -> Tensor:
    """Horizontal place of the base from the origin, (W, N, 2) m, heading frame: what drifting will cost."""
    return _in_heading(t.state, t.state.base_pos)[..., :2]


@mirrored(_FEET)
def feet(t: Transition) -> Tensor:
    """Each foot's place from the base and its height above the ground, (W, N, 8) m, heading frame."""
    pos = foot_pos(t)
    offset = torch.cat([_in_heading(t.state, pos[..., i, :] - t.state.base_pos) for i in (0, 1)], dim=-1)
    return torch.cat([offset, t.above_ground(pos)], dim=-1)


# How well it does: a transition -> (W, N).


def velocity_tracking(t: Transition, scale_m_s: float) -> Tensor:
    """exp(-(error / scale)^2) of the horizontal velocity, heading frame."""
    error = (_in_heading(t.state, t.lin_vel_w)[..., :2] - t.command["velocity"][..., :2]).square().sum(-1)
    return torch.exp(-error / scale_m_s**2)


def turn_tracking(t: Transition, scale_rad_s: float) -> Tensor:
    """exp(-(error / scale)^2) of the turn rate about the vertical."""
    return torch.exp(-((_turn_rate(t) - t.command["velocity"][..., 2]) ** 2) / scale_rad_s**2)


def steady_error(t: Transition, speed_m_s: float, turn_rad_s: float) -> Tensor:
    """`velocity_error` times its mean, in units of `speed_m_s` and `turn_rad_s`; 0 before there is a mean.

    Over whole gaits that is the mean's square. A pelvis that sways to and fro with every step costs nothing, one that
    turns too slowly does so at once, not when the mean has followed.
    """
    scale = torch.tensor([speed_m_s, speed_m_s, turn_rad_s])
    return (velocity_error(t) * t.means["velocity_error"].nan_to_num() / scale**2).sum(-1)


def alive(t: Transition) -> Tensor:
    """1 in every step."""
    return torch.ones_like(t.state.age)


def lean(t: Transition) -> Tensor:
    """Squared sine of the base's tilt."""
    return down_b(t.state.base_quat)[..., :2].square().sum(-1)


def stillness(t: Transition, scale_m_s: float) -> Tensor:
    """exp(-(speed / scale)^2) of the base's horizontal velocity."""
    return torch.exp(-t.lin_vel_w[..., :2].square().sum(-1) / scale_m_s**2)


def height_error(t: Transition, height_m: float) -> Tensor:
    """Squared error of the base's height, m^2."""
    return (t.above_ground(t.state.base_pos) - height_m) ** 2


def rocking(t: Transition) -> Tensor:
    """Squared rates of roll and pitch, (rad/s)^2."""
    return t.state.base_ang_vel[..., :2].square().sum(-1)


def bouncing(t: Transition) -> Tensor:
    """Squared vertical velocity, (m/s)^2."""
    return t.lin_vel_w[..., 2] ** 2


def pose(t: Transition, joints: Joints, home: tuple[float, ...], scale_rad: float) -> Tensor:
    """exp(-(distance / scale)^2) of `joints` from `home`, distance taken as a root mean square."""
    error = t.state.joint_pos[..., list(joints)] - t.state.joint_pos.new_tensor(home)
    return torch.exp(-error.square().mean(-1) / scale_rad**2)


def joint_error(t: Transition, joints: Joints, home: tuple[float, ...]) -> Tensor:
    """Sum of squared distances of `joints` from `home`, rad^2."""
    return (t.state.joint_pos[..., list(joints)] - t.state.joint_pos.new_tensor(home)).square().sum(-1)


def joint_acceleration(t: Transition) -> Tensor:
    """Sum of squared changes of joint velocity in a control step, (rad/s)^2."""
    return (t.state.joint_vel - t.last_state.joint_vel).square().sum(-1)


def balance(t: Transition, scale_m: float) -> Tensor:
    """exp(-(distance / scale)^2) from the capture point to the middle of the feet, on the floor.

    The capture point is where a robot that moves as it does now has to step to come to rest (Pratt et al. 2006).
    """
    height = t.above_ground(t.state.base_pos).unsqueeze(-1).clamp(min=0.1)
    capture = t.state.base_pos[..., :2] + t.lin_vel_w[..., :2] * torch.sqrt(height / GRAVITY_M_S2)
    gap = capture - foot_pos(t)[..., :2].mean(-2)
    return torch.exp(-gap.square().sum(-1) / scale_m**2)


def stance_matches(t: Transition, swing_share: float) -> Tensor:
    """Share of the feet, 0 to 1, that are on the ground when the gait wants them there and off it when not."""
    swings = swing_progress(t, swing_share) >= 0.0
    return ((t.above_ground(foot_pos(t)) < GROUNDED_M) != swings).float().mean(-1)


def clearance_error(t: Transition, swing_share: float, height_m: float) -> Tensor:
    """Squared error of the swinging foot's height from a half sine of `height_m`, over its square; about 0 to 1."""
    progress = swing_progress(t, swing_share)
    swings = progress >= 0.0
    wanted = height_m * torch.sin(pi * progress.clamp(min=0.0))
    return (swings * (t.above_ground(foot_pos(t)) - wanted).square()).sum(-1) / height_m**2


def gait_pose(
    t: Transition,
    joints: Joints,
    home: tuple[float, ...],
    lift: tuple[float, ...],
    swing_share: float,
    scale_rad: float,
) -> Tensor:
    """exp(-(distance / scale)^2) of the legs' `joints`, left ones first, from stepping in place.

    That is `home` plus, in a swing, a half sine of `lift`; distance is a root mean square.
    """
    raised = torch.sin(pi * swing_progress(t, swing_share).clamp(min=0.0))
    share = raised.repeat_interleave(len(joints) // 2, dim=-1)
    wanted = t.state.joint_pos.new_tensor(home) + share * t.state.joint_pos.new_tensor(lift)
    error = t.state.joint_pos[..., list(joints)] - wanted
    return torch.exp(-error.square().mean(-1) / scale_rad**2)


def foot_slip(t: Transition) -> Tensor:
    """Squared horizontal velocity of the feet on the ground, summed, (m/s)^2."""
    last_pos = torch.stack([t.last_frame("left_foot")[0], t.last_frame("right_foot")[0]], dim=-2)
    velocity = (foot_pos(t) - last_pos)[..., :2] / t.dt_s
    return ((t.above_ground(foot_pos(t)) < GROUNDED_M) * velocity.square().sum(-1).clamp(max=4.0)).sum(-1)


def feet_apart(t: Transition, least_m: float) -> Tensor:
    """How much closer than `least_m` the feet come sideways, m."""
    left, right = (_in_heading(t.state, foot_pos(t)[..., i, :])[..., 1] for i in (0, 1))
    return (least_m - (left - right)).clamp(min=0.0)


# How it ends: a transition -> (W, N) bool.


def fallen(t: Transition, height_m: float, tilt_rad: float) -> Tensor:
    """The base lower than `height_m` or tilted by more than `tilt_rad`."""
    upright = -down_b(t.state.base_quat)[..., 2]
    return (t.above_ground(t.state.base_pos) < height_m) | (upright < torch.cos(torch.tensor(tilt_rad)))


def standing(t: Transition, height_m: float, tilt_rad: float, distance_m: float) -> Tensor:
    """Not lower than `height_m`, tilted by no more than `tilt_rad`, and within `distance_m` of the origin."""
    away = torch.linalg.vector_norm(t.state.base_pos[..., :2], dim=-1)
    return ~fallen(t, height_m, tilt_rad) & (away < distance_m)


def velocity_error(t: Transition) -> Tensor:
    """By how much it is faster than commanded forward, to the left (m/s) and turning left (rad/s): (W, N, 3)."""
    planar = _in_heading(t.state, t.lin_vel_w)[..., :2]
    return torch.cat([planar, _turn_rate(t).unsqueeze(-1)], dim=-1) - t.command["velocity"]


def tracks(t: Transition, speed_m_s: float, turn_rad_s: float) -> Tensor:
    """The mean of `velocity_error` is less than `speed_m_s` in any direction and `turn_rad_s`: (W, N) bool."""
    error = t.means["velocity_error"]
    return (torch.linalg.vector_norm(error[..., :2], dim=-1) < speed_m_s) & (error[..., 2].abs() < turn_rad_s)


def foot_pos(t: Transition) -> Tensor:
    """Where the soles are, (W, N, 2, 3) m, world."""
    return torch.stack([t.frame("left_foot")[0], t.frame("right_foot")[0]], dim=-2)


def swing_progress(t: Transition, swing_share: float) -> Tensor:
    """How far each foot is through its swing, (W, N, 2): 0 to 1, and -1 in stance or while commanded to stand.

    The left foot swings from phase 0, the right one half a period later, each for `swing_share` of the period.
    """
    phase = t.memory["gait_phase"] + torch.tensor([0.0, 0.5])
    progress = (phase - phase.floor()) / swing_share
    swings = (progress < 1.0) & _walks(t.command["velocity"]).unsqueeze(-1)
    return torch.where(swings, progress, -1.0)


def _walks(velocity: Tensor) -> Tensor:
    """(...) bool: commanded to move."""
    return torch.linalg.vector_norm(velocity, dim=-1) > STANDING


def _in_heading(state: RobotState, vec_w: Tensor) -> Tensor:
    """World vectors (W, N, 3) in the heading frame."""
    w, x, y, z = state.base_quat.unbind(-1)
    yaw = torch.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    cos, sin = yaw.cos(), yaw.sin()
    return torch.stack(
        [cos * vec_w[..., 0] + sin * vec_w[..., 1], cos * vec_w[..., 1] - sin * vec_w[..., 0], vec_w[..., 2]], dim=-1
    )


def _turn_rate(t: Transition) -> Tensor:
    """Rate of turn about the vertical, (W, N) rad/s."""
    return rotate(t.state.base_quat, t.state.base_ang_vel)[..., 2]
