"""Other robots' bodies as the shields of drones and arms are given them, see `Context.obstacles`.

Arms get nothing of each other here: sixty spheres against fourteen capsules at eight poses of every arm would take most
of a step, and in no task do two come within half a metre. On robots they get it.
"""

from collections.abc import Mapping

import torch

from deploy.shield.joints.arm_obstacles import arm_obstacles
from deploy.shield.obstacles import ball
from deploy.shield.params import clearance_m
from deploy.shield.types import Obstacles
from sim.envs.agents import AgentGroup


def bodies_near(groups: Mapping[str, AgentGroup], name: str) -> Obstacles | None:
    """Obstacles (W, N, B, ...) for the N robots of a group, as measured; None where there are none, or no shield.

    For drones they are the links of all arms of the team, for arms a ball around each drone that does not land on them.
    """
    if groups[name].shield is None:
        return None
    found = []
    for other, robots in groups.items():
        if (bodies := _bodies(groups[name], robots, name, other)) is not None:
            bodies.radius = bodies.radius + bodies.speed * robots.measured[0].age[..., None]
            found.append(bodies)
    if not found:
        return None
    fields = {}
    for field in Obstacles.__slots__:
        parts = [getattr(bodies, field).flatten(1, 2) for bodies in found]  # of all robots of a group: (W, M, B, ...)
        joined = torch.cat(parts, dim=1).unsqueeze(1)
        fields[field] = joined.expand(-1, groups[name].num_agents, *joined.shape[2:])
    return Obstacles(**fields)


def _bodies(own: AgentGroup, robots: AgentGroup, name: str, other: str) -> Obstacles | None:
    state = robots.measured[0]
    if own.robot.flight is not None and robots.robot.fixed_base:
        return arm_obstacles(robots.robot, state, other == own.cfg.lands_on)
    if own.robot.fixed_base and robots.robot.flight is not None and name != robots.cfg.lands_on:
        return ball(state.base_pos, state.base_lin_vel, clearance_m(robots.robot))
    return None
