"""Arms' links as the shields of drones beside them are given them, see `Context.obstacles`.

Arms get nothing of each other here: sixty spheres against fourteen capsules at eight poses of every arm would take most
of a step, and in no task do two come within half a metre. On robots they get it.
"""

from collections.abc import Mapping

import torch

from deploy.shield.joints.arm_obstacles import arm_obstacles
from deploy.shield.types import Obstacles
from sim.envs.agents import AgentGroup


def links_near(groups: Mapping[str, AgentGroup], name: str) -> Obstacles | None:
    """Links (W, N, B, ...) of all arms of the team, as measured, for the N drones of a group; None for other groups."""
    group, found = groups[name], []
    if group.shield is None or group.robot.flight is None:
        return None
    for other, arms in groups.items():
        state = arms.measured[0]
        if arms.robot.fixed_base and (links := arm_obstacles(arms.robot, state, other == group.cfg.lands_on)):
            links.radius = links.radius + links.speed * state.age[..., None]
            found.append(links)
    if not found:
        return None
    fields = {}
    for field in Obstacles.__slots__:
        parts = [getattr(links, field).flatten(1, 2) for links in found]  # of every arm of a group: (W, M, B, ...)
        joined = torch.cat(parts, dim=1).unsqueeze(1)
        fields[field] = joined.expand(-1, group.num_agents, *joined.shape[2:])
    return Obstacles(**fields)
