"""What one drone costs alone and in ever larger teams, all robots of a team in one scene."""

import dataclasses
from collections.abc import Mapping
from math import ceil, pi, sqrt
from typing import Any

import torch

from benchmarks.sim import SPAN_S, figures
from benchmarks.subject import Subject
from benchmarks.turns import Progress, median_wall
from policies.threads import single_threaded_torch
from sim.task import Draw, Start, TaskCfg
from sim.tasks import load_task
from sim.terms import Term

SPACING_M = 0.8  # of the grid that robots start on: contacts stay few
WIDE = {"low_m": (-20.0, -20.0, 0.1), "high_m": (20.0, 20.0, 20.0)}


@single_threaded_torch()
def bench_scale(
    teams: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64), robots: int = 8192, repeats: int = 5, *, on_progress: Progress
) -> dict[str, Any]:
    """Microseconds a robot and control step, in larger and larger teams.

    `of_smallest` is the cost over that in the smallest team. Teams are measured in turns.

    Args:
        teams: Drones in a scene; each size is measured.
        robots: Robots in all worlds together.
        repeats: Measurements, in turns; the median counts.
    """
    subjects = [Subject(grid_task(), max(1, robots // team), team) for team in teams]
    for _ in range(repeats):
        for subject in subjects:
            subject.take_turn(SPAN_S)
        on_progress(repeats)
    rows = []
    for subject in subjects:
        row = {"team": subject.num_robots, **figures(subject)}
        for layer, field in (("raw", "raw_turns"), ("physics", "physics_turns"), ("env", "turns")):
            costs, base = getattr(subject, field), getattr(subjects[0], field)
            count = subject.num_envs * subject.num_robots
            share = subjects[0].num_envs * subjects[0].num_robots / count
            row[layer] = {
                "us_per_robot_step": 1e6 * median_wall(costs) / count,
                "cpu_us_per_robot_step": 1e6 * _median_cpu(costs) / count,
                "of_smallest": share * median_wall(costs) / median_wall(base),
                "cpu_of_smallest": share * _median_cpu(costs) / _median_cpu(base),
            }
        rows.append(row)
    return {"rows": rows}


def _median_cpu(costs: list) -> float:
    return sorted(cost.cpu_s for cost in costs)[len(costs) // 2]


def grid_task() -> TaskCfg:
    """swarm-swap with room for any team: robots start on a grid and want to be a metre higher."""
    task = load_task("swarm-swap")

    def widened(terms: Mapping[str, Term]) -> dict[str, Any]:
        """The same terms in a wide space."""
        params = {name: {p: WIDE.get(p, v) for p, v in term.params.items()} for name, term in terms.items()}
        return {name: dataclasses.replace(term, params=params[name]) for name, term in terms.items()}

    group = task.group
    return task.changed(
        name="grid", starts=_on_a_grid, rewards=widened(group.rewards), terminations=widened(group.terminations)
    )


def _on_a_grid(draw: Draw) -> dict[str, Start]:
    """Robots `SPACING_M` apart on a square grid, at heights between 2 and 3 m, with any heading."""
    robots, uniform = draw.robots, draw.uniform
    side = ceil(sqrt(robots))
    index = torch.arange(robots)
    place = SPACING_M * (torch.stack([index % side, index // side], dim=-1) - (side - 1) / 2)
    pos = torch.cat([place.expand(draw.worlds, -1, -1), uniform(2.0, 3.0, robots, 1)], dim=-1)
    yaw = uniform(-pi, pi, robots)
    none = torch.zeros_like(yaw)
    start = Start(
        pos=pos,
        quat=torch.stack([(yaw / 2).cos(), none, none, (yaw / 2).sin()], dim=-1),
        lin_vel=uniform(-0.2, 0.2, robots, 3),
        command={"goal_pos": pos + torch.tensor([0.0, 0.0, 1.0])},
    )
    return {"crazyflie": start}
