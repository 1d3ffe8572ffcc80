"""The film of a mission: what its simulated robots recorded, in the task's own scene."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from phalanx.report.filming import film_and_charts
from phalanx.report.flight import Flight, load_flight
from ros_nodes.mission.mission import Mission
from sim.tasks import load_task


def load_mission_flight(path: Path, mission: Mission) -> Flight:
    """The flight in the .npz that `mission` left behind, with a film where a task defines a scene."""
    flight = load_flight(path)
    if not mission.task:
        return flight
    task = load_task(mission.task)
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
