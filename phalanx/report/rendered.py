"""Pictures of an episode by MuJoCo, where it finds a way to draw without a screen."""

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import mujoco
import numpy as np

from phalanx.report.episode import Episode
from phalanx.report.filming import owners, visual_scene
from phalanx.report.framing import BODY_M, framing, reach
from phalanx.report.picture import COLOURS
from phalanx.report.shapes import bones_of
from phalanx.report.sketch import make_view
from sim.task import MixedTaskCfg, TaskCfg

AZIMUTH, ELEVATION = 120.0, -22.0  # degrees, where the camera looks to
HALF_VIEW = 0.9 * np.tan(np.radians(22.5))  # half the height of the picture over the distance; MuJoCo sees 45 degrees
MARKER = 0.022  # radius of a marker, of the picture's size
TRAIL_S = 1.5  # of what flies
TRAIL_POINTS = 24


class NoRenderer(RuntimeError):
    """This machine offers no off-screen OpenGL."""


def rendered(
    episode: Episode, task: TaskCfg | MixedTaskCfg, num_agents: int | None, steps: list[int], size: tuple[int, int]
) -> Iterator[Any]:
    """An image (PIL) of each of `steps`, `size` = (width, height) pixels; NoRenderer before the first, or none."""
    from PIL import Image

    if os.environ.get("MUJOCO_GL") == "disable":
        raise NoRenderer("neither EGL nor OSMesa is installed")
    flight = episode.flight
    scene = visual_scene(task, num_agents, dressed=True, ground=episode.ground)
    scene.model.vis.global_.offwidth, scene.model.vis.global_.offheight = size
    data = mujoco.MjData(scene.model)
    try:
        renderer = mujoco.Renderer(scene.model, size[1], size[0])
    except Exception as error:  # EGL, OSMesa and GLFW have each their own
        raise NoRenderer(f"no off-screen OpenGL: {error}") from error
    centres, span = framing(flight.seen(), flight.t)
    camera = mujoco.MjvCamera()
    camera.azimuth, camera.elevation = AZIMUTH, ELEVATION
    camera.distance = _distance(reach(flight.seen(), centres), size[0] / size[1])
    bones = bones_of(scene.model, owners(scene.model))
    flies = episode.flies and len(flight.t) > 1
    try:
        for step in steps:
            data.qpos[:] = episode.qpos[step]
            mujoco.mj_forward(scene.model, data)
            camera.lookat[:] = centres[step]
            renderer.update_scene(data, camera)
            for marker in flight.film.markers if flight.film else ():
                colour = "#f0a020" if marker.owner < 0 else COLOURS[marker.owner % len(COLOURS)]
                _ball(renderer.scene, marker.pos[step], MARKER * span, colour)
            for bone in bones:
                a, b = (data.xpos[bone.body] + data.xmat[bone.body].reshape(3, 3) @ point for point in bone.points)
                _rod(renderer.scene, a, b, bone.radius, bone.colour)
            if flies:
                first = int(np.searchsorted(flight.t, flight.t[step] - TRAIL_S))
                for k in range(len(flight.names)):
                    _trail(renderer.scene, flight.pos[first : step + 1, k], COLOURS[k % len(COLOURS)])
            yield Image.fromarray(renderer.render())
    finally:
        renderer.close()


def _distance(offsets: np.ndarray, aspect: float) -> float:
    """How far from the centre the camera has to be, m, for all `offsets` (K, 3) m from there to be in the picture."""
    view = make_view(np.radians(AZIMUTH + 180.0), np.radians(-ELEVATION))
    right, up = (np.abs(view.flat(offsets)) + BODY_M).T
    return float(np.max(offsets @ view.near + np.maximum(right / aspect, up) / HALF_VIEW))


def _ball(scene: mujoco.MjvScene, pos: np.ndarray, radius: float, colour: str) -> None:
    geom = _next(scene)
    if geom is not None:
        kind = mujoco.mjtGeom.mjGEOM_SPHERE
        mujoco.mjv_initGeom(geom, kind, np.full(3, radius), pos, np.eye(3).flatten(), _rgba(colour, 0.45))


def _rod(scene: mujoco.MjvScene, a: np.ndarray, b: np.ndarray, radius: float, colour: str) -> None:
    geom = _next(scene)
    if geom is not None:
        kind = mujoco.mjtGeom.mjGEOM_CAPSULE
        mujoco.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.eye(3).flatten(), _rgba(colour, 1.0))
        mujoco.mjv_connector(geom, kind, radius, a, b)


def _trail(scene: mujoco.MjvScene, path: np.ndarray, colour: str) -> None:
    path = path[:: max(1, len(path) // TRAIL_POINTS)]
    for a, b in pairwise(path):
        geom = _next(scene)
        if geom is None:
            return
        kind = mujoco.mjtGeom.mjGEOM_LINE
        mujoco.mjv_initGeom(geom, kind, np.zeros(3), np.zeros(3), np.eye(3).flatten(), _rgba(colour, 1.0))
        mujoco.mjv_connector(geom, kind, 2.5, a, b)


def _next(scene: mujoco.MjvScene) -> mujoco.MjvGeom | None:
    if scene.ngeom >= scene.maxgeom:
        return None
    scene.ngeom += 1
    return scene.geoms[scene.ngeom - 1]


def _rgba(colour: str, alpha: float) -> np.ndarray:
    return np.array([*(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)), alpha], dtype=np.float32)
