"""The film of a mission: what its simulated robots recorded, in the task's own scene."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from phalanx.report.filming import film_and_charts
from phalanx.report.flight import Flight, load_flight
from ros_nodes.plans.mission import SWAP, Mission, load_mission
from sim.tasks import load_task


def load_mission_flight(path: Path, mission: Mission | None = None) -> Flight:
    """The flight in the .npz that `mission` left behind, by default the one in plan.json beside it, with its film."""
    flight = load_flight(path)
    mission = mission or load_mission(path.parent / "plan.json")
    task = load_task(mission.task or SWAP)  # whose scene is that of a mission without a task of its own
    with np.load(path) as data:
        qpos = data["qpos"]
    given = {
        group: {name: mission.command_at(name, flight.t, mission.rows(group)) for name in cfg.commands}
        for group, cfg in task.groups.items()
    }
    moments = [
        {group: {name: values[step] for name, values in commands.items()} for group, commands in given.items()}
        for step in range(len(flight.t))
    ]
    size = len(mission.team) if len(task.groups) == 1 else None
    film, charts = film_and_charts(task, size, qpos, flight.t, flight.names, moments)
    return replace(flight, film=film, charts=charts)
