"""Downwash: the air that a multirotor blows down, and what it costs those that fly below.

The air below a quadrotor is a turbulent jet. Bauersfeld, Muller, Ziegler, Coletti and Scaramuzza, "Robotics meets fluid
dynamics: a characterization of the induced airflow below a quadrotor as a turbulent jet", IEEE RA-L 2025,
arXiv 2403.13321, equations 1 to 9, fitted to six quadrotors in hover; s m down the rotors' axis, r m from it, T thrust
N, A m^2 area of all discs, l m between opposite motors:

    U_H = sqrt(T / (2 rho A))                    velocity that the rotors induce
    U_C = 10.11 U_H / (s / l + 5.817)            on the axis
    R = 0.07668 (s + 5.817 l)                    radius at which it has halved
    U = U_C / (1 + (sqrt(2) - 1) (r / R)^2)^2

A rotor in a stream along its axis loses a share of its thrust in proportion to the speed (Jain, Fortmuller, Byun,
Makiharju and Mueller, "Modeling of aerodynamic disturbances for proximity flight of multirotors", ICRA 2019). The
share is LOSS U / U_H, U_H that of the lower one in hover, as rotors of like shape have it in blade element theory.
LOSS is the measurement of Shi, Honig, Yue and Chung, "Neural-Swarm", ICRA 2020 (arXiv 2003.02992): a Crazyflie 2.0 of
34 g that hovers 0.3 m below another one is pushed down with 8 to 9 g. The same rule gives 8 g at 0.5 m, where their
figure shows about 4 g: farther down it errs to the strong side.

Not modelled: the jet stands at once and moves with its rotors, while real air stays behind a drone that flies fast;
nearer than 2.5 l, where the four jets have not merged, the jet is as strong as there; gusts; suction on those above.
"""

from collections.abc import Sequence

import torch

from hardware.rotation import rotate
from sim.envs.robots import RobotGroup

Tensor = torch.Tensor
AIR_KG_M3 = 1.225
DECAY, SPREAD, ORIGIN = 10.11, 0.07668, 5.817
NEAR = 2.5  # times l, from where on it is one jet
LOSS = 1.0 / 3.0


def add_downwash(groups: Sequence[RobotGroup], force: Tensor | None) -> Tensor | None:
    """`force` (W, nv) with what the multirotors among `groups` do to each other, for one control step.

    On a robot's base N along its own -z and, where its rotors lose unequally, N m about its x and y.
    """
    flying = [group for group in groups if group.robot.flight is not None and group.robot.flight.rotors_xy_m]
    if not flying:
        return force
    if force is None:
        physics = flying[0].physics
        force = torch.zeros(physics.num_worlds, physics.scene.model.nv, dtype=torch.float64)
    states = [group.truth() for group in flying]
    for group, state in zip(flying, states, strict=True):
        flight = group.robot.flight
        assert flight is not None
        rotors = torch.tensor([(x, y, 0.0) for x, y in flight.rotors_xy_m])
        quat = state.base_quat.unsqueeze(-2)
        axis, points = _down(quat), state.base_pos.unsqueeze(-2) + rotate(quat, rotors)  # (W, N, R, 3)
        stream = torch.zeros_like(points)
        for above, other in zip(flying, states, strict=True):
            stream = stream + air_velocity(above, other.base_pos, other.base_quat, points)
        inflow = (stream * axis).sum(-1).clamp(min=0.0)
        share = (LOSS / _induced_velocity(group, torch.tensor(flight.hover_thrust_n)) * inflow).clamp(max=1.0)
        lost = group.thrust().unsqueeze(-1) * share / len(rotors)  # N, (W, N, R)
        push = axis.squeeze(-2) * lost.sum(-1, keepdim=True)
        turn = [-(lost * rotors[:, 1]).sum(-1), (lost * rotors[:, 0]).sum(-1), torch.zeros_like(lost[..., 0])]
        columns = torch.as_tensor(group.group.base_qvel).flatten()
        wrench = torch.cat([push, torch.stack(turn, dim=-1)], dim=-1)
        force[:, columns] = force[:, columns] + wrench.flatten(1).double()
    return force


def air_velocity(above: RobotGroup, pos: Tensor, quat: Tensor, points: Tensor) -> Tensor:
    """Velocity (W, N, R, 3) m/s, world, of the air at `points` (W, N, R, 3) m that the robots `above` blow there.

    They are at `pos` (W, M, 3) m with `quat` (W, M, 4). At and above their discs there is none.
    """
    flight = above.robot.flight
    assert flight is not None
    span = 2.0 * max(x * x + y * y for x, y in flight.rotors_xy_m) ** 0.5
    axis = _down(quat)[:, None, None]  # (W, 1, 1, M, 3)
    offset = points.unsqueeze(-2) - pos[:, None, None]
    along = (offset * axis).sum(-1)
    across = (offset - along.unsqueeze(-1) * axis).square().sum(-1)
    reach = along.clamp(min=NEAR * span) + ORIGIN * span
    profile = (1.0 + (2.0**0.5 - 1.0) * across / (SPREAD * reach) ** 2) ** -2
    speed = _induced_velocity(above, above.thrust())[:, None, None] * DECAY * span / reach * profile
    below = along > 0.5 * flight.propeller_radius_m  # its own rotors are at 0
    return torch.where(below.unsqueeze(-1), speed.unsqueeze(-1) * axis, 0.0).sum(-2)


def _induced_velocity(group: RobotGroup, thrust: Tensor) -> Tensor:
    flight = group.robot.flight
    assert flight is not None
    area = len(flight.rotors_xy_m) * torch.pi * flight.propeller_radius_m**2
    return (thrust.clamp(min=0.0) / (2.0 * AIR_KG_M3 * area)).sqrt()


def _down(quat: Tensor) -> Tensor:
    """The body's -z axis (..., 3) in the world."""
    return rotate(quat, quat.new_tensor([0.0, 0.0, -1.0]).expand(*quat.shape[:-1], 3))
