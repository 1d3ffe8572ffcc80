"""A rendered video of an episode, where MuJoCo finds a way to draw without a screen."""

import os
from pathlib import Path

import numpy as np

from phalanx.play.episode import Episode

SIZE = (480, 640)
FPS = 25


class NoRenderer(RuntimeError):
    """This machine offers no off-screen OpenGL, or Pillow is not installed."""


def save_video(path: Path, episode: Episode, robot: str) -> None:
    """Write an animated GIF; NoRenderer when this machine cannot draw."""
    if os.environ.get("MUJOCO_GL") == "disable":
        raise NoRenderer("neither EGL nor OSMesa is installed")
    try:
        import mujoco
        from PIL import Image
    except ImportError as error:
        raise NoRenderer(str(error)) from error
    from hardware import load_robot
    from sim.scene import build_scene

    scene = build_scene(load_robot(robot), len(episode.flight.names), visuals=True)
    data = mujoco.MjData(scene.model)
    try:
        renderer = mujoco.Renderer(scene.model, *SIZE)
    except (RuntimeError, AttributeError, mujoco.FatalError) as error:
        raise NoRenderer(f"no off-screen OpenGL: {error}") from error
    camera = mujoco.MjvCamera()
    camera.lookat[:] = [*episode.flight.goal[:, :2].mean(0), 0.9]
    camera.distance, camera.elevation, camera.azimuth = 4.2, -28.0, 60.0
    frames = []
    times = episode.flight.t
    for step in np.unique(np.searchsorted(times, np.arange(0.0, times[-1], 1.0 / FPS))):
        for k, first in enumerate(scene.group.base_qpos[:, 0]):
            data.qpos[first : first + 3] = episode.flight.pos[step, k]
            data.qpos[first + 3 : first + 7] = episode.attitude[step, k]
        mujoco.mj_forward(scene.model, data)
        renderer.update_scene(data, camera)
        frames.append(Image.fromarray(renderer.render()))
    renderer.close()
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=1000 // FPS, loop=0)
