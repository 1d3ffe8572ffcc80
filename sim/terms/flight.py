"""Terms of drones among things: a load that they carry between them, pillars that they fly around."""

from collections.abc import Mapping, Sequence

import torch

from hardware.rotation import down_b, rotate, rotate_inverse, rotate_inverse_each
from sim.mirror import SCALAR, TURN, VECTOR, joined, mirrored
from sim.task import PolicyInput
from sim.terms.observations import shortened
from sim.terms.rewards import ellipsoid_distance
from sim.transition import Transition

Tensor = torch.Tensor
LOAD, LOAD_GOAL = "load", "load_goal"  # the tracked object, and the command that says where it is to be


@mirrored(VECTOR)
def load_offset(p: PolicyInput) -> Tensor:
    """Vector from the robot to the load, (..., 3) m, body: its length and direction say how the cable runs."""
    return rotate_inverse(p.state.base_quat, p.objects[LOAD].pos - p.state.base_pos)


@mirrored(VECTOR)
def load_velocity(p: PolicyInput) -> Tensor:
    """Velocity of the load, (..., 3) m/s, body of the robot."""
    return rotate_inverse(p.state.base_quat, load_velocity_w(p))


def load_velocity_w(p: PolicyInput) -> Tensor:
    """Velocity of the load, (..., 3) m/s, world."""
    load = p.objects[LOAD]
    return rotate(load.quat, load.lin_vel)


@mirrored(VECTOR)
def load_goal_offset(p: PolicyInput, limit_m: float) -> Tensor:
    """Vector from the load to its goal, (..., 3) m, body of the robot; shortened to `limit_m`."""
    return rotate_inverse(p.state.base_quat, shortened(p.command[LOAD_GOAL] - p.objects[LOAD].pos, limit_m))


def load_goal_sum(old: Tensor, p: PolicyInput, action: Tensor, dt_s: float, limit_m: float, decay_s: float) -> Tensor:
    """Leaky sum of the vector from the load to its goal, (..., 3) m s, world: says how heavy the load really is."""
    error = shortened(p.command[LOAD_GOAL] - p.objects[LOAD].pos, limit_m)
    return old * (1.0 - dt_s / decay_s) + error * dt_s


def first_bearing(old: Tensor, p: PolicyInput, action: Tensor) -> Tensor:
    """Level unit vector from the load to the robot when it was first seen, (..., 3), world: a place of one's own."""
    gap = (p.state.base_pos - p.objects[LOAD].pos) * torch.tensor([1.0, 1.0, 0.0])
    now = gap / torch.linalg.vector_norm(gap, dim=-1, keepdim=True).clamp(min=1e-3)
    known = torch.linalg.vector_norm(old, dim=-1, keepdim=True) > 0.5
    return torch.where(known, old, now)


def load_near_goal(t: Transition, scale_m: float) -> Tensor:
    """exp(-distance of the load to its goal / scale), (W, N): the same for the whole team."""
    return torch.exp(-load_distance(t) / scale_m)


def load_at_goal(t: Transition, scale_m: float) -> Tensor:
    """exp(-(distance of the load to its goal / scale)^2), (W, N): only the last centimetres count."""
    return torch.exp(-((load_distance(t) / scale_m) ** 2))


def load_speed(t: Transition) -> Tensor:
    """Speed of the load, (W, N) m/s."""
    speed = torch.linalg.vector_norm(t.objects[LOAD].lin_vel, dim=-1)
    return speed.expand(t.state.base_pos.shape[:2])


def crowding_above(t: Transition, separation_m: float, downwash_ratio: float) -> Tensor:
    """How deep a flying robot is in the ellipsoid of the worst flying neighbour, (W, N): 1 at its centre."""
    apart = torch.where(_both_fly(t), ellipsoid_distance(t.offset, separation_m, downwash_ratio), torch.inf)
    return (1.0 - apart).clamp(min=0.0).amax(-1)


def near_place(t: Transition, reach_m: float, cable_m: float, scale_m: float) -> Tensor:
    """exp(-distance of the robot to its place / scale), (W, N).

    Its place is `reach_m` beside the load's goal, at the robot's bearing, a tight cable above it.
    """
    above = torch.tensor([0.0, 0.0, (cable_m**2 - reach_m**2) ** 0.5])
    gap = t.command[LOAD_GOAL] + reach_m * t.memory["bearing"] + above - t.state.base_pos
    return torch.exp(-torch.linalg.vector_norm(gap, dim=-1) / scale_m)


def flying(t: Transition) -> Tensor:
    """Robots above the load, (W, N) bool. One whose motors died hangs on its cable, below the load."""
    return t.state.base_pos[..., 2] > t.objects[LOAD].pos[..., 2]


@mirrored(SCALAR)
def team_flying(t: Transition) -> Tensor:
    """Share of the team that is above the load, (W, N, 1): what only a critic may know."""
    share = flying(t).float().mean(-1, keepdim=True)
    return share.expand(t.state.base_pos.shape[:2]).unsqueeze(-1)


def collided_in_flight(t: Transition, distance_m: float) -> Tensor:
    """Two flying robots closer than `distance_m`, (W, N) bool; a robot that hangs on its cable may touch anything."""
    return torch.where(_both_fly(t), t.distance, torch.inf).amin(-1) < distance_m


def load_dropped(t: Transition, height_m: float, after_s: float) -> Tensor:
    """The load lower than `height_m` when it should have left the floor, `after_s` into the episode, (W, N) bool."""
    low = t.objects[LOAD].pos[..., 2] < height_m
    return (low & (t.time_s.unsqueeze(-1) > after_s)).expand(t.state.base_pos.shape[:2])


def load_gap(t: Transition) -> Tensor:
    """Distance of the load from its goal, (W, N, 1) m: the error along a path."""
    return load_distance(t).unsqueeze(-1)


def load_carried(t: Transition, distance_m: float, mean_m: float) -> Tensor:
    """The load within `distance_m` of its goal, and within `mean_m` of it on the mean of its way, (W, N) bool."""
    return (load_distance(t) < distance_m) & (t.means["load_gap"][..., 0] < mean_m)


@mirrored(joined([VECTOR, VECTOR, VECTOR, TURN]))
def true_motion(t: Transition) -> Tensor:
    """Goal m, velocity m/s, direction of gravity and rates rad/s as they are, (..., 12), body: for critics."""
    state = t.state
    goal = rotate_inverse(state.base_quat, t.command["goal_pos"] - state.base_pos)
    return torch.cat([goal, state.base_lin_vel, down_b(state.base_quat), state.base_ang_vel], dim=-1)


def goal_gap(t: Transition) -> Tensor:
    """Distance of each robot from its goal, (W, N, 1) m: the error along a path."""
    return torch.linalg.vector_norm(t.command["goal_pos"] - t.state.base_pos, dim=-1, keepdim=True)


def followed(t: Transition, distance_m: float, mean_m: float) -> Tensor:
    """Within `distance_m` of the goal, and within `mean_m` of it on the mean of its way, (W, N) bool."""
    return (goal_gap(t)[..., 0] < distance_m) & (t.means["goal_gap"][..., 0] < mean_m)


def beyond_walls(t: Transition, low_m: tuple[float, ...], high_m: tuple[float, ...]) -> Tensor:
    """Beyond the walls or the ceiling of its space, (W, N) bool. A robot with dead motors may lie on the floor."""
    pos = t.state.base_pos
    beyond = (pos[..., :2] < torch.tensor(low_m[:2])) | (pos[..., :2] > torch.tensor(high_m[:2]))
    return beyond.any(-1) | (pos[..., 2] > high_m[2])


def load_distance(t: Transition) -> Tensor:
    """Distance of the load to its goal, (W, N) m."""
    return torch.linalg.vector_norm(t.command[LOAD_GOAL] - t.objects[LOAD].pos, dim=-1)


def along_curve(plan: Mapping[str, Tensor], time_s: Tensor, duration_s: float) -> Tensor:
    """Point (W, N, 3) m on the Bezier curve `from`, `via`, `to` after `time_s` (W, 1, 1): gently off and on."""
    s = (time_s / duration_s).clamp(0.0, 1.0)
    s = s * s * (3.0 - 2.0 * s)
    return (1 - s) ** 2 * plan["from"] + 2 * s * (1 - s) * plan["via"] + s**2 * plan["to"]


def _both_fly(t: Transition) -> Tensor:
    fly = flying(t)
    return fly.unsqueeze(-1) & fly.unsqueeze(-2)


@mirrored(lambda group, term: joined([VECTOR] * term.params["nearest"]))
def pillar_nearness(p: PolicyInput, names: Sequence[str], limit_m: float, nearest: int) -> Tensor:
    """Level vectors towards the axes of the `nearest` pillars, nearest first, (..., 3 x nearest), body.

    Each is as long as its pillar is near: 1 at the axis, 0 from `limit_m` on. What is far away is no news, and to keep
    clear of what is near is to fly against the vector.
    """
    axes = torch.stack([p.objects[name].pos for name in names], dim=-2)
    gap = (axes - p.state.base_pos.unsqueeze(-2)) * torch.tensor([1.0, 1.0, 0.0])
    distance = torch.linalg.vector_norm(gap, dim=-1, keepdim=True)
    nearness = gap / distance.clamp(min=1e-3) * (1.0 - distance / limit_m).clamp(min=0.0)
    order = distance.squeeze(-1).topk(nearest, dim=-1, largest=False).indices
    near = nearness.gather(-2, order.unsqueeze(-1).expand(*order.shape, 3))
    return rotate_inverse_each(p.state.base_quat, near).flatten(-2)


def near_pillar(t: Transition, names: Sequence[str], clear_m: float) -> Tensor:
    """How deep the robot is in the layer of `clear_m` around the axis of the nearest pillar, (W, N): 1 at the axis."""
    return (1.0 - pillar_distance(t, names) / clear_m).clamp(min=0.0)


def closing_on_pillar(t: Transition, names: Sequence[str], clear_m: float, brake_m_s2: float) -> Tensor:
    """Speed, m/s, by which the robot nears a pillar faster than it could still stop `clear_m` from its axis, (W, N)."""
    axes = torch.stack([t.objects[name].pos for name in names], dim=-2)[..., :2]
    gap = axes - t.state.base_pos[..., :2].unsqueeze(-2)
    distance = torch.linalg.vector_norm(gap, dim=-1)
    closing = (gap * t.lin_vel_w[..., :2].unsqueeze(-2)).sum(-1) / distance.clamp(min=1e-6)
    allowed = torch.sqrt(2.0 * brake_m_s2 * (distance - clear_m).clamp(min=0.0))
    return (closing - allowed).clamp(min=0.0).amax(-1)


def hit_pillar(t: Transition, names: Sequence[str], distance_m: float) -> Tensor:
    """Closer to a pillar's axis than `distance_m`, the radii of pillar and robot, (W, N) bool."""
    return pillar_distance(t, names) < distance_m


def pillar_distance(t: Transition, names: Sequence[str]) -> Tensor:
    """Level distance to the axis of the nearest pillar, (W, N) m."""
    axes = torch.stack([t.objects[name].pos for name in names], dim=-2)[..., :2]
    return torch.linalg.vector_norm(axes - t.state.base_pos[..., :2].unsqueeze(-2), dim=-1).amin(-1)
