"""The geometry of a MuJoCo model as shapes of a film: bodies that cannot move become part of the world."""

from itertools import pairwise

import mujoco
import numpy as np

from phalanx.report.film import WORLD, Shape

GEOM = mujoco.mjtGeom
Area = tuple[np.ndarray, np.ndarray]
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
RIM = np.stack([np.cos(np.arange(12) * np.pi / 6), np.sin(np.arange(12) * np.pi / 6)], axis=-1)
PATCHES = 16  # of what is shown of a height field, along either side
EVERYWHERE = (np.full(2, -np.inf), np.full(2, np.inf))
BONE, BONE_M, LEAST_BONE_M, BEHIND_M = "#3a404a", 0.012, 0.03, 0.3
DIRECTIONS = 40  # in which a mesh keeps its outermost corner


def shapes_of(model: mujoco.MjModel, owner: np.ndarray, area: Area = EVERYWHERE) -> tuple[Shape, ...]:
    """All visible geoms but the floor; `owner` (nbody,) says whose a body is. Bodies are numbered as in the model.

    Of a height field only `area` is shown, least and greatest x, y, (2,) m each: the smaller it is, the finer.
    """
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    shapes = []
    for geom in range(model.ngeom):
        rgba = model.geom_rgba[geom] if model.geom_matid[geom] < 0 else model.mat_rgba[model.geom_matid[geom]]
        if rgba[3] <= 0.0 or model.geom_type[geom] == GEOM.mjGEOM_PLANE:
            continue
        body = int(model.geom_bodyid[geom])
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, model.geom_quat[geom])
        pos, turn = model.geom_pos[geom], matrix.reshape(3, 3)
        if model.body_weldid[body] == WORLD:
            body, pos, turn = WORLD, data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3)
        colour = "#" + "".join(f"{round(255 * value):02x}" for value in np.clip(rgba[:3], 0.0, 1.0))
        for points, radius in _hulls(model, geom, area):
            placed = pos + points @ turn.T
            whose = int(owner[model.geom_bodyid[geom]])
            shapes.append(Shape(body, placed, radius, colour, float(rgba[3]), whose, model.geom(geom).name))
    return tuple(shapes)


def bones_of(model: mujoco.MjModel, owner: np.ndarray) -> tuple[Shape, ...]:
    """A thin rod from each link of a robot to the next: a model's shapes need not touch one another."""
    bones = []
    for body in range(1, model.nbody):
        parent, end = int(model.body_parentid[body]), model.body_pos[body]
        if parent and model.body_weldid[parent] and owner[body] >= 0 and np.linalg.norm(end) > LEAST_BONE_M:
            bones.append(
                Shape(parent, np.stack([np.zeros(3), end]), BONE_M, BONE, 1.0, int(owner[body]), behind=BEHIND_M)
            )
    return tuple(bones)


def _hulls(model: mujoco.MjModel, geom: int, area: Area) -> list[tuple[np.ndarray, float]]:
    """Points (K, 3) m in the geom's frame, and the radius by which their hull is swollen; more than one for a field."""
    kind, size = model.geom_type[geom], model.geom_size[geom]
    match kind:
        case GEOM.mjGEOM_SPHERE:
            return [(np.zeros((1, 3)), float(size[0]))]
        case GEOM.mjGEOM_CAPSULE:
            return [(np.array([[0.0, 0.0, -size[1]], [0.0, 0.0, size[1]]]), float(size[0]))]
        case GEOM.mjGEOM_CYLINDER:
            rings = [np.column_stack([size[0] * RIM, np.full(len(RIM), z)]) for z in (-size[1], size[1])]
            return [(np.concatenate(rings), 0.0)]
        case GEOM.mjGEOM_BOX:
            return [(CORNERS * size, 0.0)]
        case GEOM.mjGEOM_ELLIPSOID:
            return [(_directions() * size, 0.0)]
        case GEOM.mjGEOM_MESH:
            first = model.mesh_vertadr[model.geom_dataid[geom]]
            corners = model.mesh_vert[first : first + model.mesh_vertnum[model.geom_dataid[geom]]].astype(float)
            return [(corners[np.unique((corners @ _directions().T).argmax(axis=0))], 0.0)]
        case GEOM.mjGEOM_HFIELD:
            return _patches(model, int(model.geom_dataid[geom]), area)
    return []


def _patches(model: mujoco.MjModel, field: int, area: Area) -> list[tuple[np.ndarray, float]]:
    """What lies of a height field in `area` as flat pieces."""
    rows, columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
    first = model.hfield_adr[field]
    height = model.hfield_data[first : first + rows * columns].reshape(rows, columns) * model.hfield_size[field, 2]
    half_x, half_y = model.hfield_size[field, :2]
    along_x, along_y = np.linspace(-half_x, half_x, columns), np.linspace(-half_y, half_y, rows)
    x, y = (_some(places, low, high) for places, low, high in zip((along_x, along_y), *area, strict=True))

    def corner(i: int, j: int) -> list[float]:
        return [along_x[j], along_y[i], float(height[i, j])]

    return [
        (np.array([corner(a, c), corner(a, d), corner(b, d), corner(b, c)]), 0.0)
        for a, b in pairwise(y)
        for c, d in pairwise(x)
    ]


def _some(places: np.ndarray, low: float, high: float) -> np.ndarray:
    """Indices of about `PATCHES` of the ascending `places` from `low` to `high`."""
    inside = np.flatnonzero((places >= low) & (places <= high))
    return np.unique(np.linspace(inside[0], inside[-1], PATCHES + 1).round().astype(int)) if len(inside) else inside


def _directions() -> np.ndarray:
    """(DIRECTIONS, 3) unit vectors, evenly spread: a Fibonacci lattice."""
    k = np.arange(DIRECTIONS) + 0.5
    z, angle = 1.0 - 2.0 * k / DIRECTIONS, k * np.pi * (1.0 + np.sqrt(5.0))
    level = np.sqrt(1.0 - z**2)
    return np.stack([level * np.cos(angle), level * np.sin(angle), z], axis=-1)
