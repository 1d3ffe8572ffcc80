"""Charts of an episode that depend on the class of robot and on its commands."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from hardware import load_robot
from phalanx.report.flight import Chart, Line
from phalanx.report.places import Commanded, positions_in
from sim.scenes.scene import Scene, robot_prefix
from sim.task import TaskCfg

SMOOTH_S = 0.3  # over which a walking speed is the mean: a step takes longer than that


class Poses(NamedTuple):
    """T moments of a MuJoCo model, in the world."""

    pos: np.ndarray  # (T, nbody, 3) m
    quat: np.ndarray  # (T, nbody, 4) wxyz
    sites: np.ndarray  # (T, nsite, 3) m


def poses_of(model: mujoco.MjModel, qpos: np.ndarray) -> Poses:
    """Where the bodies and sites of `model` are at coordinates `qpos` (T, nq)."""
    data, moments = mujoco.MjData(model), []
    for row in qpos:
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        moments.append((data.xpos.copy(), data.xquat.copy(), data.site_xpos.copy()))
    return Poses(*map(np.array, zip(*moments, strict=True)))


def charts_of(
    task: TaskCfg, scene: Scene, poses: Poses, t: np.ndarray, names: Sequence[str], commanded: Sequence[Commanded]
) -> tuple[Chart, ...]:
    """Distance to a goal, height of a carried object, walking speed: those that `task` is about.

    `poses` of `scene` and the `commanded` values are at the times `t` (T,) s; `names` are those of the robots.
    """
    things = {thing.name: poses.pos[:, thing.body] for thing in scene.objects}
    moved = next(iter(things), None)
    distance: list[Line] = []
    height = [Line(name, path[:, 2], -1) for name, path in things.items()]
    speed: list[Line] = []
    first = 0
    for (own, cfg), group in zip(task.groups.items(), scene.groups, strict=True):
        spec, values = load_robot(cfg.robot), {name: _series(commanded, own, name) for name in cfg.commands}
        owners = range(first, first + group.num_robots)
        for owner in owners:
            row = owner - first
            base = poses.pos[:, group.base_body[row]]
            place, name, whose = base, names[owner], owner
            if moved:  # one thing, moved by all
                place, name, whose = things[moved], moved, -1
            elif "tool" in spec.frames:
                site = scene.model.site(robot_prefix(owner) + spec.frames["tool"]).id
                place, name = poses.sites[:, site], f"{name}, tool"
            for goal in positions_in(cfg) if not moved or owner == first else ():
                distance.append(Line(name, np.linalg.norm(place - values[goal][:, row], axis=-1), whose))
            if spec.kind == "humanoid" and "velocity" in values:
                turn = poses.quat[:, group.base_body[row]]
                speed.append(Line(names[owner], _forward_speed(base, turn, t), owner))
                speed.append(Line(f"{names[owner]}, command", values["velocity"][:, row, 0], owner, dashed=True))
        if moved and "height" in values:
            height.append(Line("command", values["height"][:, 0, 0], -1, dashed=True))
        first += group.num_robots
    found = (
        Chart(
            "Distance to goal",
            "Of the tool of an arm, of the base of other robots, of the object where one is moved.",
            "distance, m",
            tuple(distance),
        ),
        Chart("Height of what is carried", "Above the floor.", "height, m", () if distance else tuple(height)),
        Chart("Walking speed", f"Forward, mean over {SMOOTH_S:g} s.", "speed, m/s", tuple(speed)),
    )
    return tuple(chart for chart in found if chart.lines)


def _series(commanded: Sequence[Commanded], group: str, name: str) -> np.ndarray:
    """(T, N, size) values of a command."""
    return np.array([moment[group][name] for moment in commanded])


def _forward_speed(pos: np.ndarray, quat: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(T,) m/s along the robot's heading, from base positions (T, 3) m and quaternions (T, 4) wxyz."""
    w, x, y, z = quat.T
    yaw = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    if len(t) < 2:
        return np.zeros(len(t))
    velocity = np.gradient(pos[:, :2], t, axis=0)
    forward = velocity[:, 0] * np.cos(yaw) + velocity[:, 1] * np.sin(yaw)
    width = max(1, round(SMOOTH_S / float(np.median(np.diff(t)))))
    weights = np.convolve(np.ones(len(t)), np.ones(width), "same")
    return np.convolve(forward, np.ones(width), "same") / weights
