"""The obstacles of a team file as bodies of the simulated world."""

import mujoco
import numpy as np

from deploy.shield.types import Obstacles

GREY = [0.6, 0.6, 0.65, 1.0]


def add_solids(scene: mujoco.MjSpec, things: Obstacles) -> None:
    """Spheres, capsules and boxes; a rounded box gets its rounding added to its size, with sharp edges."""
    for pos, quat, half, radius in zip(things.pos, things.quat, things.half, things.radius, strict=True):
        long = np.flatnonzero(half)
        geom = scene.worldbody.add_geom(pos=pos, quat=quat, rgba=GREY)
        if not len(long):
            geom.type, geom.size[0] = mujoco.mjtGeom.mjGEOM_SPHERE, radius
        elif len(long) == 1 and radius:
            geom.type, geom.size[:2] = mujoco.mjtGeom.mjGEOM_CAPSULE, [radius, half[long[0]]]
            turn, along = np.empty(4), np.empty(4)
            mujoco.mju_quatZ2Vec(along, np.eye(3)[long[0]])  # a capsule lies along its z
            mujoco.mju_mulQuat(turn, quat, along)
            geom.quat = turn
        else:
            geom.type, geom.size = mujoco.mjtGeom.mjGEOM_BOX, np.maximum(half + radius, 1e-3)
