"""A short task without delays or randomisation, for policies that know none: a drone hovers by its model's own loop."""

from dataclasses import replace

from sim.task import TaskCfg
from sim.tasks.hover import HOVER

TASK: TaskCfg = replace(
    HOVER.changed(randomisation={}, rate_loop=False), name="calm_hover:TASK", episode_s=3.0, success_hold_s=0.5,
    min_success=0.7,
)  # fmt: skip
