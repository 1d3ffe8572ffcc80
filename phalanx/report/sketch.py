"""Shapes of a film as flat outlines, seen by a camera at infinity, the farthest first."""

from dataclasses import dataclass

import numpy as np

from phalanx.report.film import WORLD, Film, Shape

ROUND = 16  # corners of a circle
SLAB = 3.0  # a thing of the world that is so many times as wide as high lies below all others: a table, a ramp


@dataclass(frozen=True, slots=True)
class View:
    """Axes of the picture in the world, each (3,): to the right, up, and towards the eye."""

    right: np.ndarray
    up: np.ndarray
    near: np.ndarray

    def flat(self, points: np.ndarray) -> np.ndarray:
        """Points (..., 3) m as seen: (..., 2) m, right and up."""
        return np.stack([points @ self.right, points @ self.up], axis=-1)


@dataclass(frozen=True, slots=True)
class Outline:
    """A polygon (K, 2) m, or with `closed` False a line."""

    points: np.ndarray
    colour: str
    alpha: float
    owner: int
    closed: bool = True


def make_view(azimuth: float, elevation: float) -> View:
    """A camera that stands at `azimuth` rad (0: along +x, looking back) and `elevation` rad above the horizon."""
    ca, sa, ce, se = np.cos(azimuth), np.sin(azimuth), np.cos(elevation), np.sin(elevation)
    return View(np.array([-sa, ca, 0.0]), np.array([-se * ca, -se * sa, ce]), np.array([ce * ca, ce * sa, se]))


def outlines(film: Film, step: int, view: View, world: bool | None = None) -> list[Outline]:
    """Everything at moment `step`, far to near; with `world` only what can never move, or only what can."""
    found = []
    for shape in film.shapes:
        if world not in (None, shape.body == WORLD):
            continue
        points = film.placed(step, shape.body, shape.points)
        depth = (not is_slab(shape), float((points @ view.near).mean()) - shape.behind)
        outline = Outline(swollen(view.flat(points), shape.radius), shape.colour, shape.alpha, shape.owner)
        found.append((depth, outline))
    for cable in film.cables if not world else ():
        ends = np.stack(
            [film.placed(step, body, point[None])[0] for body, point in zip(cable.bodies, cable.points, strict=True)]
        )
        found.append(
            ((True, float((ends @ view.near).mean())), Outline(view.flat(ends), "#7d8590", 1.0, -1, closed=False))
        )
    found.sort(key=lambda pair: pair[0])
    return [outline for _, outline in found]


def swollen(points: np.ndarray, radius: float) -> np.ndarray:
    """Corners (K, 2) of the hull of `points` (P, 2) swollen by `radius`."""
    if radius > 0.0:
        angle = np.arange(ROUND) * (2 * np.pi / ROUND)
        ring = radius * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        points = (points[:, None] + ring).reshape(-1, 2)
    return hull(points)


def hull(points: np.ndarray) -> np.ndarray:
    """Corners of the convex hull of `points` (P, 2), anticlockwise; Andrew's monotone chain."""
    ordered = sorted(set(map(tuple, points.tolist())))
    if len(ordered) < 3:
        return np.array(ordered)
    chains = []
    for line in (ordered, ordered[::-1]):
        chain: list[tuple[float, float]] = []
        for x, y in line:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], (x, y)) <= 0.0:
                chain.pop()
            chain.append((x, y))
        chains.append(chain[:-1])
    return np.array(chains[0] + chains[1])


def _turn(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    """Above zero when a, b, c turn left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def is_slab(shape: Shape) -> bool:
    """Whether it is a part of the world on which other things stand."""
    if shape.body != WORLD:
        return False
    size = np.ptp(shape.points, axis=0) + 2.0 * shape.radius
    return float(size[:2].min()) > SLAB * float(size[2])
