"""Everything that moved in an episode as convex shapes and their poses: enough to draw it without any simulator."""

from dataclasses import dataclass, field, replace

import numpy as np

WORLD = 0  # index of the body that never moves
SLAB = 3.0  # a thing of the world that is so many times as wide as high lies below all others


@dataclass(frozen=True, slots=True)
class Shape:
    """The convex hull of points, swollen by a radius: one point is a sphere, two a capsule, eight a box."""

    body: int  # in whose frame `points` are
    points: np.ndarray  # (K, 3) m
    radius: float  # m
    colour: str  # #rrggbb
    alpha: float = 1.0
    owner: int = -1  # which robot it is part of, -1 for a thing
    name: str = ""
    behind: float = 0.0  # m, drawn as if it were so much farther away

    def is_slab(self) -> bool:
        """Whether it is a part of the world on which other things stand, such as a table or a ramp."""
        size = np.ptp(self.points, axis=0) + 2.0 * self.radius
        return self.body == WORLD and float(size[:2].min()) > SLAB * float(size[2])

    def corners(self) -> np.ndarray:
        """(8 or fewer, 3) m: points between which it lies, but for its radius."""
        if len(self.points) <= 8:
            return self.points
        low, high = self.points.min(0), self.points.max(0)
        return np.array([[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])])


@dataclass(frozen=True, slots=True)
class Cable:
    """A line through points of bodies."""

    bodies: tuple[int, ...]
    points: np.ndarray  # (K, 3) m, each in the frame of its body


@dataclass(frozen=True, slots=True)
class Marker:
    """A commanded position."""

    name: str  # of the command
    owner: int  # which robot has this command, -1 for all of them
    pos: np.ndarray  # (T, 3) m, world


@dataclass(frozen=True, slots=True)
class Film:
    """T moments of B bodies, of which the first is the world."""

    pos: np.ndarray  # (T, B, 3) m, world
    quat: np.ndarray  # (T, B, 4) wxyz, body -> world
    shapes: tuple[Shape, ...]
    cables: tuple[Cable, ...] = ()
    markers: tuple[Marker, ...] = field(default=())

    def at(self, keep: np.ndarray) -> "Film":
        """The moments with the indices `keep`."""
        markers = tuple(replace(marker, pos=marker.pos[keep]) for marker in self.markers)
        return replace(self, pos=self.pos[keep], quat=self.quat[keep], markers=markers)

    def placed(self, step: int, body: int, points: np.ndarray) -> np.ndarray:
        """Points (K, 3) of the frame of `body`, in the world at moment `step`."""
        return _placed(self.pos[step, body], self.quat[step, body], points)

    def moving(self) -> np.ndarray:
        """(T, M, 3) m, world: where the bodies that are no part of the world are, and the markers."""
        return np.concatenate([self.pos[:, 1:], *(marker.pos[:, None] for marker in self.markers)], axis=1)

    def seen(self) -> np.ndarray:
        """(T, M, 3) m, world: corners of everything but the world's own things, and the markers."""
        parts = [
            _placed(self.pos[:, s.body, None], self.quat[:, s.body, None], s.corners())
            for s in self.shapes
            if s.body != WORLD or s.owner >= 0
        ]
        return np.concatenate([self.moving(), *parts], axis=1)


def _placed(pos: np.ndarray, quat: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points (K, 3) of a frame at `pos` (..., 3) m, turned by `quat` (..., 4) wxyz."""
    w, axis = quat[..., :1], quat[..., 1:]
    turn = 2.0 * np.cross(axis, points)
    return pos + points + w * turn + np.cross(axis, turn)
