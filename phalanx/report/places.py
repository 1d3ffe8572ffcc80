"""What a recorded episode is labelled with: robots' names, goals, and the distance that counts as a collision."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from phalanx.report import Marker
from sim.task import GroupCfg, TaskCfg
from sim.terms import terminations

Commanded = Mapping[str, Mapping[str, np.ndarray]]  # group -> command -> (N, size), at one moment
SHORT = {"crazyflie": "cf"}  # as robots are called in a team


def robot_labels(robots: Sequence[str]) -> tuple[str, ...]:
    """What robots are called: cf1, cf2, ...; one of its kind by the kind's name."""
    count, seen, labels = Counter(robots), Counter[str](), []
    for robot in robots:
        seen[robot] += 1
        short = SHORT.get(robot, robot)
        dash = "-" if short[-1].isdigit() else ""
        labels.append(robot if count[robot] == 1 else f"{short}{dash}{seen[robot]}")
    return tuple(labels)


def collision_distance(task: TaskCfg) -> float:
    """Distance between centres, m, below which robots of `task` collide; 0 where it says nothing of that."""
    terms = [term for group in task.groups.values() if group.num_agents > 1 for term in group.terminations.values()]
    return next((float(t.params["distance_m"]) for t in terms if t.func is terminations.collided), 0.0)


def positions_in(group: GroupCfg) -> list[str]:
    """The commands of `group` that name a place."""
    return [name for name, c in group.commands.items() if len(c.low) == 3 and c.unit == "m" and c.frame == "world"]


def markers_of(task: TaskCfg, commanded: Sequence[Commanded]) -> tuple[Marker, ...]:
    """A marker for each commanded position, one for all robots of a group where all have the same at every moment."""
    markers: list[Marker] = []
    first = 0
    for group, cfg in task.groups.items():
        count = 0
        for name in positions_in(cfg):
            path = np.array([row[group][name] for row in commanded])  # (T, N, 3)
            count = path.shape[1]
            if count > 1 and np.allclose(path, path[:, :1]):
                markers.append(Marker(name, -1, path[:, 0]))
            else:
                markers.extend(Marker(name, first + k, path[:, k]) for k in range(count))
        first += count or cfg.num_agents
    return tuple(markers)
