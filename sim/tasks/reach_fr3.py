"""reach-fr3: as reach, by a Franka Research 3."""

from dataclasses import replace

from sim.tasks.reach import PANDA, reach_task

REACH_FR3 = reach_task(
    "reach-fr3", "a Franka Research 3 brings its tool to a pose and keeps it there", replace(PANDA, robot="fr3")
)
