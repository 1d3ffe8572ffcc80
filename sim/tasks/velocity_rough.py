"""velocity-rough: as velocity, on ground that is not flat and that the robot does not see."""

from dataclasses import replace

from sim import randomisation
from sim.task import RandomTerm, SceneCfg
from sim.tasks.velocity import VELOCITY
from sim.terrain import uneven_ground

VELOCITY_ROUGH = replace(
    VELOCITY,
    name="velocity-rough",
    summary="a Unitree G1 walks at the velocity that it is told, over bumps and steps that it does not see",
    scene=SceneCfg(props=uneven_ground),
    randomisation={
        **VELOCITY.randomisation,
        "terrain": RandomTerm(randomisation.terrain, {"roughness_m": (0.0, 0.05)}),
    },
)
