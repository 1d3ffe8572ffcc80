"""Scenes of one kind of robot."""

from collections.abc import Sequence

import numpy as np

from hardware.spec import RobotSpec
from sim.scenes.scene import Members, PropsFunc, Scene, compose_scene


def build_scene(
    robot: RobotSpec,
    num_robots: int,
    timestep_s: float | None = None,
    visuals: bool = False,
    bases: np.ndarray | None = None,
    props: PropsFunc | None = None,
    objects: Sequence[str] = (),
) -> Scene:
    """A scene of `num_robots` copies of `robot`; see `compose_scene`."""
    return compose_scene([Members(robot, num_robots, bases)], timestep_s, visuals, props, objects)
