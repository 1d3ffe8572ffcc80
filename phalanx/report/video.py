"""Videos and still pictures of an episode, as MuJoCo renders them."""

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from phalanx.report.render import moments, rendered

if TYPE_CHECKING:
    from phalanx.report.episode import Episode
    from sim.task import TaskCfg

SIZE = (1280, 720)  # pixels
FPS = 25
MOMENTS = 4  # on a still picture
FRAME_LIMIT = 1500
Size = tuple[int, int]
NEEDS = "a {} needs {}, which is not installed: pip install 'phalanx[video]'"


def save_picture(
    path: Path,
    episode: "Episode",
    task: "TaskCfg",
    size: Size = SIZE,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> None:
    """Write a .png with the last moment and, as ghosts, those before it, or a .gif or .mp4 of the whole episode.

    `task` is the one that the episode was played in; `on_progress` hears which part is drawn.
    ValueError where OpenGL or a program is missing.
    """
    if path.suffix == ".png":
        (image,) = rendered(episode, task, [moments(episode, MOMENTS)], size)
        _pillow(".png").fromarray(image).save(path, optimize=True)
        on_progress(1.0)
        return
    times = episode.flight.t
    steps = np.append(np.searchsorted(times, np.arange(0.0, times[-1], 1.0 / FPS)), len(times) - 1)
    pictures = [[step] for step in np.unique(steps)[:FRAME_LIMIT].tolist()]
    frames = _counted(rendered(episode, task, pictures, size), len(pictures), on_progress)
    (_encode if path.suffix == ".mp4" else _animate)(path, frames, size)


def _counted(frames: Iterable[np.ndarray], count: int, on_progress: Callable[[float], None]) -> Iterator[np.ndarray]:
    for number, frame in enumerate(frames, start=1):
        yield frame
        on_progress(number / count)


def check_tools(suffix: str) -> None:
    """ValueError, which says how to get it, where what writes files of `suffix` is not installed."""
    ffmpeg() if suffix == ".mp4" else _pillow(suffix)


def _pillow(suffix: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ValueError(NEEDS.format(suffix, "Pillow")) from None
    return Image


def _animate(path: Path, frames: Iterable[np.ndarray], size: Size) -> None:
    image = _pillow(".gif")
    few = [image.fromarray(frame).quantize(128, dither=image.Dither.NONE) for frame in frames]
    few[0].save(path, save_all=True, append_images=few[1:], duration=1000 // FPS, loop=0, optimize=False)


def _encode(path: Path, frames: Iterable[np.ndarray], size: Size) -> None:
    """H.264 by ffmpeg, of the package imageio-ffmpeg or of the system."""
    shape = "x".join(map(str, size))
    command = [ffmpeg(), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", shape, "-r", str(FPS)]
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
            raise ValueError(NEEDS.format(".mp4", "ffmpeg")) from None
        return found
    return str(get_ffmpeg_exe())
