"""Terms for a drone that lands on a tray which an arm holds. Either robot's terms look at both.

`drone` is the drone's role where the term is the arm's, and empty where it is the drone's own. Rates are per second.
"""

import torch

from hardware.rotation import down_b, rotate, rotate_inverse, rotate_inverse_each
from hardware.types import ObjectState, RobotState
from sim.task import PolicyInput
from sim.terms.observations import shortened
from sim.terms.rewards import approach
from sim.transition import Transition

Tensor = torch.Tensor


def to_seat(p: PolicyInput, tray: str, seat_m: float, limit_m: float) -> Tensor:
    """From the drone to where it would sit on the tray, (..., 3) m, body; shortened to `limit_m`."""
    return rotate_inverse(p.state.base_quat, shortened(-above_seat(p.state, p.objects[tray], seat_m), limit_m))


def tray_vel(p: PolicyInput, tray: str) -> Tensor:
    """Velocity of the tray against the robot, (..., 3) m/s, body."""
    thing = p.objects[tray]
    return rotate_inverse(p.state.base_quat, rotate(thing.quat, thing.lin_vel)) - p.state.base_lin_vel


def tray_up(p: PolicyInput, tray: str) -> Tensor:
    """How the tray leans: the level part of gravity in its own axes, (..., 2)."""
    return down_b(p.objects[tray].quat)[..., :2]


def tray_pos(p: PolicyInput, tray: str) -> Tensor:
    """Where the tray is, (..., 3) m, base of the arm."""
    return rotate_inverse(p.state.base_quat, p.objects[tray].pos - p.state.base_pos)


def peer_above_tray(p: PolicyInput, tray: str, limit_m: float) -> Tensor:
    """From the tray to where each peer is by now, (..., P, 3) m, base of the arm; shortened to `limit_m`."""
    now = p.peers.pos + p.peers.lin_vel * p.peers.age.unsqueeze(-1)
    return rotate_inverse_each(p.state.base_quat, shortened(now - p.objects[tray].pos.unsqueeze(-2), limit_m))


def above_seat(drone: RobotState, tray: ObjectState, seat_m: float) -> Tensor:
    """(..., 3) m, world: of the drone from where it would sit, `seat_m` above the middle of the tray."""
    return drone.base_pos - tray.pos - torch.tensor([0.0, 0.0, seat_m])


def seat_near(t: Transition, tray: str, seat_m: float, scale_m: float) -> Tensor:
    """exp(-distance / scale) of the drone from its seat."""
    return torch.exp(-torch.linalg.vector_norm(above_seat(t.state, t.objects[tray], seat_m), dim=-1) / scale_m)


def seat_speed(t: Transition, tray: str, seat_m: float, limit_m_s: float, slow_m: float) -> Tensor:
    """Speed of the drone towards its seat over the limit, clipped to +-1; fades inside `slow_m`."""
    seat = -above_seat(t.state, t.objects[tray], seat_m)
    return approach(seat, _relative_vel(t.state, t.objects[tray]), limit_m_s, slow_m)


def low_approach(t: Transition, tray: str, seat_m: float, slack_m: float, slope: float, limit_m: float) -> Tensor:
    """How far, m, the drone is below the cone of `slope` around its seat, wide by `slack_m`: it would meet the rim."""
    offset = above_seat(t.state, t.objects[tray], seat_m)
    aside = (torch.linalg.vector_norm(offset[..., :2], dim=-1) - slack_m).clamp(min=0.0, max=limit_m)
    return (slope * aside - offset[..., 2]).clamp(min=0.0, max=2.0 * limit_m)


def hard_landing(t: Transition, tray: str, seat_m: float, speed_m_s: float, rate: float) -> Tensor:
    """Speed, m/s, by which the drone sinks faster than `speed_m_s` plus `rate` times its height over the seat."""
    sinking = -_relative_vel(t.state, t.objects[tray])[..., 2]
    height = above_seat(t.state, t.objects[tray], seat_m)[..., 2].clamp(min=0.0)
    return (sinking - speed_m_s - rate * height).clamp(min=0.0)


def under_drone(t: Transition, tray: str, drone: str, scale_m: float) -> Tensor:
    """exp(-(level distance / scale)^2) of the tray from below the drone."""
    aside = (t.others[drone].base_pos - t.objects[tray].pos)[..., :2]
    return torch.exp(-((aside / scale_m) ** 2).sum(-1))


def tray_speed(t: Transition, tray: str) -> Tensor:
    """Squared speed of the tray, (m/s)^2."""
    return (t.objects[tray].lin_vel ** 2).sum(-1)


def tray_lean(t: Transition, tray: str) -> Tensor:
    """Squared sine of the angle by which the tray leans."""
    return (down_b(t.objects[tray].quat)[..., :2] ** 2).sum(-1)


def tray_steady(t: Transition, tray: str, speed_m_s: float, lean_rad: float) -> Tensor:
    """Whether the tray is held still and level."""
    return (tray_speed(t, tray) < speed_m_s**2) & (tray_lean(t, tray) < lean_rad**2)


def seated(
    t: Transition, tray: str, seat_m: float, height_m: float, aside_m: float, speed_m_s: float, lean_rad: float,
    drone: str = "",
) -> Tensor:  # fmt: skip
    """Whether the drone sits on the tray: as high as it should, over it, at rest against it, and level."""
    state, thing = t.others[drone] if drone else t.state, t.objects[tray]
    offset = above_seat(state, thing, seat_m)
    slow = torch.linalg.vector_norm(_relative_vel(state, thing), dim=-1) < speed_m_s
    level = torch.linalg.vector_norm(down_b(state.base_quat)[..., :2], dim=-1) < lean_rad
    upright = down_b(state.base_quat)[..., 2] < 0.0
    return (offset[..., 2].abs() < height_m) & (offset[..., :2].abs().amax(-1) < aside_m) & slow & level & upright


def tipped(t: Transition, lean_rad: float) -> Tensor:
    """Whether a drone leans so far that it does not come back."""
    return down_b(t.state.base_quat)[..., 2] > -torch.cos(torch.tensor(lean_rad))


def _relative_vel(drone: RobotState, tray: ObjectState) -> Tensor:
    """Velocity of the drone against the tray, (..., 3) m/s, world."""
    return rotate(drone.base_quat, drone.base_lin_vel) - rotate(tray.quat, tray.lin_vel)
