"""Pictures of an episode by MuJoCo's own renderer, off screen."""

import os
from collections.abc import Iterator
from ctypes.util import find_library
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from phalanx.report.framing import BODY_M, camera_axes, framing

if TYPE_CHECKING:
    import mujoco

    from phalanx.report.episode import Episode
    from sim.task import TaskCfg

COLOURS = ("#4f8cff", "#f2a33a", "#2fbf8f", "#ea5f9a", "#9b7bff", "#2bb8c9", "#f0684f", "#93b83a")  # as in svg.js
SHARED = "#ffd08a"  # a goal of several robots; as in film.js
AZIMUTH, ELEVATION = 120.0, -22.0  # degrees, where the camera looks to
HALF_VIEW = 0.9 * np.tan(np.radians(22.5))  # half the height of the picture over the distance; MuJoCo sees 45 degrees
MARKER = 0.022  # radius of a marker, of the picture's size
TINT = 0.45  # share of a robot's own colour in its model's
TRAIL = 0.003  # radius of a trail, of the picture's size
TRAIL_S = 1.5  # of what flies, in a video
TRAIL_POINTS = 80
GHOST = 0.28  # opacity of earlier moments in one picture
NO_OPENGL = "pictures and videos need OpenGL off screen ({}): apt install libegl1 or libosmesa6; .html needs none"


def choose_opengl() -> None:
    """Set MUJOCO_GL to what this machine has unless it is set; ValueError without any. Call before importing MuJoCo."""
    for library, name in (("EGL", "egl"), ("OSMesa", "osmesa")):
        if "MUJOCO_GL" not in os.environ and find_library(library):
            os.environ["MUJOCO_GL"] = name
    if os.environ.setdefault("MUJOCO_GL", "disable") == "disable":
        raise ValueError(NO_OPENGL.format("neither EGL nor OSMesa is installed"))


def rendered(episode: "Episode", task: "TaskCfg", pictures: list[list[int]], size: tuple[int, int]) -> Iterator[Any]:
    """Images (H, W, 3) uint8 of `size` = (width, height) pixels, one for each list of steps in `pictures`.

    The last step of a list is drawn in full, those before it as ghosts. ValueError where OpenGL cannot be used.
    """
    import mujoco

    from phalanx.report.filming import owners, visual_scene
    from phalanx.report.shapes import bones_of

    flight = episode.flight
    scene = visual_scene(task, episode.num_agents, dressed=True, ground=episode.ground)
    model = scene.model
    model.vis.global_.offwidth, model.vis.global_.offheight = size
    _tint(model, owners(model))
    data = mujoco.MjData(model)
    try:
        renderer = mujoco.Renderer(model, size[1], size[0])
    except Exception as error:  # EGL, OSMesa and GLFW have each their own
        raise ValueError(NO_OPENGL.format(error)) from error
    seen = flight.seen()
    centres, span = framing(seen, flight.t)
    camera = mujoco.MjvCamera()
    camera.azimuth, camera.elevation = AZIMUTH, ELEVATION
    camera.distance = _distance((seen - centres[:, None]).reshape(-1, 3), size[0] / size[1])
    bones = bones_of(model, owners(model))

    def draw(step: int) -> None:
        for bone in bones:
            a, b = (data.xpos[bone.body] + data.xmat[bone.body].reshape(3, 3) @ point for point in bone.points)
            _rod(renderer.scene, a, b, bone.radius, bone.colour)
        for marker in flight.film.markers if flight.film else ():
            _ball(renderer.scene, marker.pos[step], MARKER * span, _colour(marker.owner, SHARED))

    try:
        for *ghosts, step in pictures:
            data.qpos[:] = episode.qpos[step]
            mujoco.mj_forward(model, data)
            camera.lookat[:] = centres[step]
            if ghosts:
                low, high = (f(seen[[*ghosts, step]], axis=(0, 1)) for f in (np.min, np.max))
                camera.lookat[:] = (low + high) / 2
                camera.distance = _distance((seen[[*ghosts, step]] - camera.lookat).reshape(-1, 3), size[0] / size[1])
            renderer.update_scene(data, camera)
            draw(step)
            for ghost in ghosts:
                data.qpos[:] = episode.qpos[ghost]
                mujoco.mj_forward(model, data)
                first = renderer.scene.ngeom
                nothing = mujoco.MjvPerturb()
                mujoco.mjv_addGeoms(
                    model, data, mujoco.MjvOption(), nothing, mujoco.mjtCatBit.mjCAT_DYNAMIC.value, renderer.scene
                )
                draw(ghost)
                for geom in renderer.scene.geoms[first : renderer.scene.ngeom]:
                    geom.rgba[3] *= GHOST
            if episode.flies and len(flight.t) > 1:
                first = 0 if ghosts else int(np.searchsorted(flight.t, flight.t[step] - TRAIL_S))
                for k in range(len(flight.names)):
                    path = flight.pos[first : step + 1, k]
                    for a, b in pairwise(path[:: max(1, len(path) // TRAIL_POINTS)]):
                        _rod(renderer.scene, a, b, TRAIL * span, _colour(k, SHARED))
            yield renderer.render()
    finally:
        renderer.close()


def moments(episode: "Episode", count: int) -> list[int]:
    """`count` steps of an episode up to its last, equally far apart on the way of the body that travels farthest."""
    assert episode.flight.film is not None
    path = episode.flight.film.moving()
    way = np.concatenate([[0.0], np.linalg.norm(np.diff(path, axis=0), axis=-1).max(1).cumsum()])
    steps = np.searchsorted(way, np.linspace(0.0, way[-1], count))
    return np.unique(np.append(steps[:-1], [0, len(path) - 1]).astype(int)).tolist()


def _tint(model: "mujoco.MjModel", owner: np.ndarray) -> None:
    """Give each robot of a team its colour, the same as in the page."""
    if owner.max() < 1:
        return
    for geom in range(model.ngeom):
        robot = owner[model.geom_bodyid[geom]]
        if robot >= 0:
            own = _rgba(_colour(robot, SHARED), 1.0)[:3]
            model.geom_rgba[geom, :3] = (1.0 - TINT) * model.geom_rgba[geom, :3] + TINT * own


def _distance(offsets: np.ndarray, aspect: float) -> float:
    """How far from the centre the camera has to be, m, for all `offsets` (K, 3) m from there to be in the picture."""
    right_axis, up_axis, near_axis = camera_axes(np.radians(AZIMUTH + 180.0), np.radians(-ELEVATION))
    right, up = np.abs(offsets @ right_axis) + BODY_M, np.abs(offsets @ up_axis) + BODY_M
    return float(np.max(offsets @ near_axis + np.maximum(right / aspect, up) / HALF_VIEW))


def _ball(scene: "mujoco.MjvScene", pos: np.ndarray, radius: float, colour: str) -> None:
    import mujoco

    if (geom := _next(scene)) is not None:
        kind = mujoco.mjtGeom.mjGEOM_SPHERE
        mujoco.mjv_initGeom(geom, kind, np.full(3, radius), pos, np.eye(3).flatten(), _rgba(colour, 0.45))


def _rod(scene: "mujoco.MjvScene", a: np.ndarray, b: np.ndarray, radius: float, colour: str) -> None:
    import mujoco

    if (geom := _next(scene)) is not None:
        kind = mujoco.mjtGeom.mjGEOM_CAPSULE
        mujoco.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.eye(3).flatten(), _rgba(colour, 1.0))
        mujoco.mjv_connector(geom, kind, radius, a, b)


def _next(scene: "mujoco.MjvScene") -> "mujoco.MjvGeom | None":
    if scene.ngeom >= scene.maxgeom:
        return None
    scene.ngeom += 1
    return scene.geoms[scene.ngeom - 1]


def _colour(owner: int, shared: str) -> str:
    return shared if owner < 0 else COLOURS[owner % len(COLOURS)]


def _rgba(colour: str, alpha: float) -> np.ndarray:
    return np.array([*(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)), alpha], dtype=np.float32)
