"""Cylinders for MJX, which cannot collide them with boxes: they become prisms, as convex meshes."""

import copy
from typing import Any

import mujoco
import numpy as np
from mujoco.mjx import Model
from mujoco.mjx._src.collision_driver import geom_pairs, has_collision_fn  # no public place says what can collide
from mujoco.mjx._src.types import ConvexMesh, GeomType

SIDES = 16
RADIUS = 2.0 / (1.0 + np.cos(np.pi / SIDES))  # of the corners, so that they stand out as far as the faces lie inside
CYLINDER, CAPSULE, MESH = (mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_MESH)


def unsupported_pairs(model: mujoco.MjModel) -> list[tuple[int, int]]:
    """Pairs of geoms that may touch and that MJX has no function for."""
    types = model.geom_type
    return [(int(a), int(b)) for a, b, _ in geom_pairs(model) if not has_collision_fn(types[a], types[b])]


def prism_geoms(model: mujoco.MjModel) -> list[int]:
    """Cylinders that have to become prisms."""
    return sorted({geom for pair in unsupported_pairs(model) for geom in pair if model.geom_type[geom] == CYLINDER})


def as_meshes(model: mujoco.MjModel, geoms: list[int]) -> mujoco.MjModel:
    """A copy of `model` whose `geoms` say that they are meshes: what may touch, for MJX to judge."""
    changed = copy.copy(model)
    changed.geom_type[geoms] = MESH
    return changed


def with_prisms(put: Any, model: mujoco.MjModel, geoms: list[int]) -> Model:
    """`put(model)` for MJX, in which the cylinders `geoms` are prisms."""
    if not geoms:
        return put(model)
    changed = copy.copy(model)
    changed.geom_type[geoms] = CAPSULE  # it can touch anything, so that MJX takes the model; nothing is made of it
    found = put(changed)
    types, data = model.geom_type.copy(), model.geom_dataid.copy()
    types[geoms] = GeomType.MESH
    shapes = list(found._impl.mesh_convex)
    for geom in geoms:
        data[geom] = len(shapes)
        shapes.append(prism(*model.geom_size[geom, :2]))
    return found.replace(geom_type=types, geom_dataid=data, _impl=found._impl.replace(mesh_convex=tuple(shapes)))


def prism(radius: float, half: float) -> ConvexMesh:
    """A prism for a cylinder of `radius` and half length `half`, m, about z; its radius is right to 1 %."""
    angle = 2 * np.pi * np.arange(SIDES) / SIDES
    ring = radius * RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    vert = np.concatenate([np.c_[ring, np.full(SIDES, -half)], np.c_[ring, np.full(SIDES, half)]])
    low, after = np.arange(SIDES), (np.arange(SIDES) + 1) % SIDES
    high = low + SIDES
    sides = np.stack([low, after, after + SIDES, high], axis=1)  # counter-clockwise, seen from outside
    ends = np.stack([low[::-1], high])
    face = np.concatenate([np.pad(sides, ((0, 0), (0, SIDES - 4)), "edge"), ends])
    middle = angle + np.pi / SIDES
    normal = np.concatenate([np.c_[np.cos(middle), np.sin(middle), np.zeros(SIDES)], [[0, 0, -1], [0, 0, 1]]])
    edge = np.concatenate([np.c_[low, after], np.c_[high, after + SIDES], np.c_[low, high]])
    before = (np.arange(SIDES) - 1) % SIDES
    beside = np.concatenate(
        [np.c_[low, np.full(SIDES, SIDES)], np.c_[low, np.full(SIDES, SIDES + 1)], np.c_[before, low]]
    )
    arrays = (vert, vert[face], normal, edge, normal[beside])
    return ConvexMesh(*(np.asarray(a, np.int32 if a is edge else np.float32) for a in arrays))
