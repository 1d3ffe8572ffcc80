"""reach-ur5e: as reach, by the bare flange of a UR5e."""

from math import pi

from sim.tasks.reach import Reach, reach_task

UR5E = Reach(
    robot="ur5e",
    low=(-0.9, -pi / 2 - 0.5, pi / 2 - 0.7, -pi / 2 - 0.6, -pi / 2 - 0.6, -0.9),
    high=(0.9, -pi / 2 + 0.7, pi / 2 + 0.7, -pi / 2 + 0.6, -pi / 2 + 0.6, 0.9),
    space=((0.30, -0.5, 0.12), (0.70, 0.5, 0.75)),
)
REACH_UR5E = reach_task("reach-ur5e", "a UR5e brings its flange to a pose and keeps it there", UR5E)
