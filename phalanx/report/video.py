"""Videos and still pictures of an episode: rendered where MuJoCo finds OpenGL, painted from its shapes elsewhere."""

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from phalanx.report.episode import Episode
from phalanx.report.picture import moments
from phalanx.report.rendered import NoRenderer, rendered
from sim.task import MixedTaskCfg, TaskCfg

SIZE = (640, 480)
FPS = 25
STRIP = 4  # pictures on a still one
FRAME_LIMIT = 1500
Made = tuple[TaskCfg | MixedTaskCfg, int | None]  # task and team size that an episode's scene is made of


def save_video(path: Path, episode: Episode, scene: Made) -> str:
    """Write a .gif or .mp4; returns how it was drawn. ValueError when a library or program for it is missing."""
    times = episode.flight.t
    steps = np.append(np.searchsorted(times, np.arange(0.0, times[-1], 1.0 / FPS)), len(times) - 1)
    frames, how = frames_of(episode, scene, np.unique(steps)[:FRAME_LIMIT].tolist())
    if path.suffix == ".mp4":
        _encode(path, frames)
    else:
        _animate(path, frames)
    return how


def save_still(path: Path, episode: Episode, scene: Made) -> str:
    """Write a .png: the beginning, moments between and the end, in reading order; returns how it was drawn."""
    frames, how = frames_of(episode, scene, moments(episode.flight, STRIP))
    images = list(frames)
    from PIL import Image

    sheet = Image.new("RGB", (2 * SIZE[0], SIZE[1] * ((len(images) + 1) // 2)), "white")
    for k, image in enumerate(images):
        sheet.paste(image, (SIZE[0] * (k % 2), SIZE[1] * (k // 2)))
    sheet.save(path)
    return how


def frames_of(episode: Episode, scene: Made, steps: list[int]) -> tuple[Iterator[Any], str]:
    """Images (PIL) of `steps`, one at a time, and how they are made: by MuJoCo, or painted where it cannot draw."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise ValueError("pictures need Pillow, which is not installed: pip install 'phalanx[video]'") from None
    images = rendered(episode, *scene, steps, SIZE)
    try:
        return chain([next(images)], images), "rendered by MuJoCo"
    except NoRenderer as error:
        from phalanx.report.painter import painted

        return painted(episode.flight, steps, SIZE), f"painted from shapes, for want of OpenGL ({error})"


def _animate(path: Path, frames: Iterable[Any]) -> None:
    from PIL import Image

    few = [frame.quantize(192, dither=Image.Dither.NONE) for frame in frames]
    few[0].save(path, save_all=True, append_images=few[1:], duration=1000 // FPS, loop=0, optimize=False)


def _encode(path: Path, frames: Iterable[Any]) -> None:
    """H.264 by ffmpeg, of the package imageio-ffmpeg or of the system."""
    size = "x".join(map(str, SIZE))
    command = [ffmpeg(), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(FPS)]
    command += ["-i", "-", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "23", "-movflags", "+faststart", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stderr is not None
        try:
            for frame in frames:
                process.stdin.write(frame.tobytes())
            process.stdin.close()
        except BrokenPipeError:
            pass  # it has said why
        said = process.stderr.read().decode().strip()
    if process.returncode:
        raise ValueError(f"ffmpeg could not write {path}: {said}")


def ffmpeg() -> str:
    """The program that writes .mp4; ValueError says how to get it."""
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError:
        found = shutil.which("ffmpeg")
        if found is None:
            raise ValueError("an .mp4 needs ffmpeg, which is not installed: pip install 'phalanx[video]'") from None
        return found
    return str(get_ffmpeg_exe())
