"""How far above each other drones stay behind the shield, in each other's wake: `python -m benchmarks.downwash`.

Crazyflies with the noise and delays of swarm-swap and rotors of 90 to 110 %, flown by a controller that knows nothing
of the others. Printed as JSON, each situation with the wake off and on; distances are true ones, 50 times a second.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from deploy.shield import safe_margin
from deploy.shield.drone.params import make_flight_params
from policies.threads import single_threaded_torch
from sim import randomisation
from sim.baselines.geometric import fly_to_goal
from sim.envs.team_env import TeamEnv
from sim.task import Draw, Start
from sim.tasks.parts.crazyflie import ROBOT
from sim.tasks.swarm_swap import SWARM_SWAP
from sim.terms import EventTerm

SEED = 3_000_017
SECONDS = 6.0
Places = Callable[[Draw], tuple[torch.Tensor, torch.Tensor]]  # -> positions and goals (K, N, 3) m


def crossing(draw: Draw) -> tuple[torch.Tensor, torch.Tensor]:
    """Two swap sides, one 0.6 to 1.8 m above the other."""
    gap = draw.uniform(0.6, 1.8)
    x, height = torch.tensor([1.2, -1.2]).expand(draw.worlds, 2), 1.5 + torch.stack([-gap, gap], dim=-1) / 2
    side = draw.uniform(-0.05, 0.05, 2)
    return torch.stack([x, side, height], dim=-1), torch.stack([-x, side, height], dim=-1)


def hovering(heights: tuple[float, ...], goals: tuple[float, ...]) -> Places:
    """Above each other, each on its way to its goal's height."""

    def places(draw: Draw) -> tuple[torch.Tensor, torch.Tensor]:
        side = draw.uniform(-0.02, 0.02, len(heights), 2)
        rows = [torch.tensor(z).expand(draw.worlds, -1).unsqueeze(-1) for z in (heights, goals)]
        return torch.cat([side, rows[0]], dim=-1), torch.cat([side, rows[1]], dim=-1)

    return places


SITUATIONS: dict[str, tuple[int, Places]] = {
    "two cross above each other": (2, crossing),
    "one flies down at one that hovers": (2, hovering((1.3, 2.6), (1.3, 1.3))),
    "the same, 0.3 m above the floor": (2, hovering((0.3, 1.7), (0.3, 0.3))),
    "two fly down at one that hovers": (3, hovering((0.5, 1.6, 2.7), (0.5, 0.5, 0.5))),
    "from above and below at one that hovers": (3, hovering((0.3, 1.5, 2.7), (1.5, 1.5, 1.5))),
}


@single_threaded_torch()
def measure(robots: int, places: Places, downwash: bool, worlds: int, ratio: float) -> dict[str, Any]:
    """One situation: the share of the time that pairs are above each other, and what was least; in m."""

    def starts(draw: Draw) -> dict[str, Start]:
        pos, goal = places(draw)
        level = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(*pos.shape[:-1], 4)
        return {ROBOT.name: Start(pos=pos, quat=level, command={"goal_pos": goal})}

    rotors = EventTerm(randomisation.thrust, {"scale": (0.9, 1.1)})
    task = SWARM_SWAP.changed(
        starts=starts,
        terminations={},
        episode_s=SECONDS + 1.0,
        shield={"downwash_ratio": ratio},
        randomisation={**SWARM_SWAP.group.randomisation, "thrust": rotors},
        scene=replace(SWARM_SWAP.scene, downwash=downwash),
    )
    env = TeamEnv(task, worlds, SEED, robots, shield=True)
    params, pairs = make_flight_params(ROBOT), torch.ones(robots, robots, dtype=torch.bool).triu(1)
    held = torch.minimum(env.group.now.state.base_pos[..., 2], env.group.command["goal_pos"][..., 2])
    track = []
    for _ in range(round(SECONDS / env.control_dt)):
        target = fly_to_goal(env.group.policy_input, ROBOT.name)
        env.step({ROBOT.name: torch.zeros(worlds, robots, 4)}, {ROBOT.name: target})
        track.append(env.group.now.state.base_pos)
    pos = torch.stack(track)
    gap = (pos.unsqueeze(-2) - pos.unsqueeze(-3))[:, :, pairs]
    margin = torch.stack([safe_margin(params, pos[..., i, :], pos) for i in range(robots)], dim=2)[:, :, pairs]
    above = gap[..., 2].abs()[gap[..., :2].norm(dim=-1) < params.separation_m]
    return {
        "above_each_other": len(above) / margin.numel(),
        "least_vertical_m": float(above.min()) if len(above) else None,
        "least_margin": float(margin.min()),
        "violations": int((margin < 0.0).sum()),
        "height_lost_m": float((held - pos[..., 2]).max()),
        "lowest_m": float(pos[..., 2].min()),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--ratio", type=float, default=make_flight_params(ROBOT).downwash_ratio, help="downwash_ratio")
    asked = parser.parse_args()
    rows = {
        f"{name}, wake {'on' if on else 'off'}": measure(robots, places, on, asked.worlds, asked.ratio)
        for name, (robots, places) in SITUATIONS.items()
        for on in (False, True)
    }
    print(json.dumps({"downwash_ratio": asked.ratio, "worlds": asked.worlds, "situations": rows}, indent=2))
