"""velocity-rough: as velocity, on ground that is not flat and that the robot does not see.

The quick way to learn it begins with a robot that walks: `phalanx train velocity-rough --start-from runs/velocity`.
"""

from sim import randomisation
from sim.scenes.terrain import uneven_ground
from sim.task import Curriculum, SceneCfg
from sim.tasks.velocity import VELOCITY
from sim.terms import EventTerm

VELOCITY_ROUGH = VELOCITY.changed(
    name="velocity-rough",
    summary="a Unitree G1 walks at the commanded velocity, over bumps and steps that it does not see",
    curriculum=Curriculum(up=0.2, down=0.05),
    scene=SceneCfg(props=uneven_ground),
    randomisation={
        **VELOCITY.group.randomisation,
        "terrain": EventTerm(randomisation.terrain, {"roughness_m": (0.0, 0.05)}),
    },
    min_success=0.7,
    train_steps=8_000_000,
)
