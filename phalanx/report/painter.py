"""Pictures of an episode without any OpenGL: its shapes painted far to near by Pillow."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from phalanx.report import Flight
from phalanx.report.framing import BODY_M, framing, reach
from phalanx.report.picture import COLOURS, mixed
from phalanx.report.sketch import Outline, make_view, outlines

PAPER, LINES, SHADE = "#eef0f2", "#d6dade", "#1a1f28"
AZIMUTH, ELEVATION = -1.05, 0.42  # rad, where the eye stands
SHARP = 2  # painted so many times larger and then reduced, for smooth edges
GRID_M = 0.5


def painted(flight: Flight, steps: list[int], size: tuple[int, int]) -> Iterator[Any]:
    """An image (PIL) of each of `steps`, `size` = (width, height) pixels."""
    from PIL import Image, ImageDraw

    assert flight.film is not None
    view = make_view(AZIMUTH, ELEVATION)
    centres, span = framing(flight.seen(), flight.t)
    width, height = SHARP * size[0], SHARP * size[1]
    wide, high = np.abs(view.flat(reach(flight.seen(), centres))).max(0) + BODY_M
    px = 0.46 * min(width / wide, height / high)
    for step in steps:
        image = Image.new("RGB", (width, height), PAPER)
        brush = ImageDraw.Draw(image, "RGBA")
        middle = view.flat(centres[step])

        def at(points: np.ndarray, middle: np.ndarray = middle) -> list[tuple[float, float]]:
            shifted = px * (points - middle)
            return [(width / 2 + x, height / 2 - y) for x, y in shifted]

        for ends in _floor(centres[step], span):
            brush.line(at(view.flat(ends)), LINES, SHARP)
        for marker in flight.film.markers:
            colour = "#c98a1b" if marker.owner < 0 else COLOURS[marker.owner % len(COLOURS)]
            foot = marker.pos[step] * [1, 1, 0]
            (x, y), ground = at(view.flat(np.stack([marker.pos[step], foot])))
            brush.line([(x, y), ground], colour + "60", SHARP)
            r = 9 * SHARP
            brush.ellipse((x - r, y - r, x + r, y + r), outline=colour, width=2 * SHARP)
        for outline in outlines(flight.film, step, view):
            _draw(brush, outline, at(outline.points))
        yield image.resize(size, Image.Resampling.LANCZOS)


def _draw(brush: Any, outline: Outline, corners: list[tuple[float, float]]) -> None:
    tint = COLOURS[outline.owner % len(COLOURS)] if outline.owner >= 0 else "#9aa3b2"
    if not outline.closed or len(corners) < 3:
        brush.line(corners, "#5d6470", SHARP)
        return
    alpha = f"{round(255 * outline.alpha):02x}"
    brush.polygon(corners, mixed(outline.colour, tint, 0.45) + alpha, mixed(tint, SHADE, 0.4) + alpha)


def _floor(centre: np.ndarray, span: float) -> list[np.ndarray]:
    """Lines (2, 3) m of a grid around `centre`."""
    reach = GRID_M * np.ceil(0.8 * span / GRID_M)
    x, y = GRID_M * np.round(centre[:2] / GRID_M)
    offsets = np.arange(-reach, reach + 1e-9, GRID_M)
    along_x = [np.array([[x - reach, y + k, 0.0], [x + reach, y + k, 0.0]]) for k in offsets]
    along_y = [np.array([[x + k, y - reach, 0.0], [x + k, y + reach, 0.0]]) for k in offsets]
    return along_x + along_y
