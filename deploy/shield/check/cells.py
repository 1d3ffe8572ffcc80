"""Cells of gap and barrier, and the greatest set of them that no allowed motion leaves."""

from dataclasses import dataclass

import numpy as np

from deploy.shield.check.robot import Robot
from deploy.shield.drone.ahead import braking_curve

GAP_M, NOISE_M_S = 0.022, 0.128  # three sigma of two robots at 5 mm and 0.03 m/s each
UNSEEN_M_S = 0.05
Wrong = tuple[float, float]  # m, m/s: by how much gap and closing speed are better in a robot's eyes than they are
BOUNDS: Wrong = (GAP_M, NOISE_M_S + UNSEEN_M_S)
OUTWARD = 1e-9  # more than rounding in float64 costs
LOWEST, HIGHEST = -1.2, 0.6  # m/s of h; higher states come down through the highest cells


@dataclass(frozen=True)
class Cells:
    """Cells by their lower corners `gap` (G, 1) m and `h` (1, H) m/s; the braking curve at both ends of each gap."""

    gap: np.ndarray
    h: np.ndarray
    gap_m: float  # size
    h_m_s: float
    allowed: np.ndarray  # (G, 1) m/s, at the lower end
    allowed_end: np.ndarray  # at the upper end
    slope: np.ndarray  # 1/s
    slope_end: np.ndarray
    flown: np.ndarray  # (G, H) bool, cells where robots close in at no more than twice `max_speed`

    @classmethod
    def of(
        cls, robot: Robot, age_s: float, size: tuple[float, float], far_m: float = np.inf, closing: float = np.inf
    ) -> "Cells":
        """All gaps from `separation_m` to `far_m`, or to where twice `max_speed` may be flown; cells of `size` m, m/s.

        Robots close in at no more than twice `max_speed`, or `closing` m/s where that is less.
        """
        params, (gap_m, h_m_s) = robot.params, size
        reach = params.separation_m + params.buffer_m + 0.5 * params.peer_accel * age_s**2
        brake = params.brake_accel * (1.0 if robot.alone else 2.0)
        fastest = min(2.0 * params.max_speed, closing) / robot.stretch
        far_m = min(far_m, reach + fastest**2 / (2.0 * brake) + 0.5)
        gap = params.separation_m + gap_m * np.arange(int((far_m - params.separation_m) / gap_m))[:, None]
        h = h_m_s * np.arange(round(LOWEST / h_m_s), round(HIGHEST / h_m_s))[None]
        low, end = (braking_curve(np, each - reach, brake, params.approach_gain) for each in (gap, gap + gap_m))
        return cls(gap, h, gap_m, h_m_s, low[0], end[0], low[1], end[1], low[0] - h - h_m_s < fastest)

    @property
    def begins(self) -> np.ndarray:
        """Cells (H,) of which robots may start: h >= 0."""
        return self.h[0] > -0.5 * self.h_m_s

    def caps(self, robot: Robot, age_s: float, wrong: Wrong) -> np.ndarray:
        """The most that `robot` may do towards the other on the lower face of each cell (G, H), seen at its best."""
        gap = self.gap + self.gap_m + wrong[0] / robot.stretch
        closing = self.allowed - self.h - wrong[1] / robot.stretch
        return robot.hardest(robot.bound(gap, closing, age_s) + OUTWARD)

    def steepest(self) -> np.ndarray:
        """How fast the braking curve falls at most (G, H) m/s^2 on the lower face of each cell."""
        closing = self.allowed_end - self.h + OUTWARD
        return np.where(closing > 0.0, self.slope, self.slope_end) * closing


def safe_cells(cells: Cells, *towards: np.ndarray) -> np.ndarray:
    """For each cell the round in which it was found to be unsafe (G, H), 0 for safe ones.

    `towards` are the most that each of the two does towards the other (G, H).
    """
    faces = flow(cells, sum(towards, np.zeros(1)))
    lost, turn = np.zeros(faces[0].shape, dtype=int), 0
    while True:
        turn += 1
        leaks = (lost == 0) & cells.flown & leaving(faces, lost > 0, axis=0)
        if not leaks.any():
            return lost
        lost[leaks] = turn


def flow(cells: Cells, towards: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether motion may lead to the cell of smaller h, of smaller gap, of larger gap: each (G, H)."""
    nearer = np.broadcast_to(cells.allowed - cells.h > -OUTWARD, towards.shape)
    farther = np.broadcast_to(cells.allowed_end - cells.h - cells.h_m_s < OUTWARD, towards.shape)
    return towards + cells.steepest() > 0.0, nearer, farther


def leaving(faces: tuple[np.ndarray, np.ndarray, np.ndarray], lost: np.ndarray, axis: int) -> np.ndarray:
    """Cells from which motion may lead to `lost` ones, along the gap `axis` and the h axis behind it.

    Beyond the smallest gap and the smallest h all is lost, beyond the largest ones nothing is.
    """
    sinks, nearer, farther = faces

    def beside(along: int, step: int) -> np.ndarray:
        moved = np.roll(lost, step, axis=along)
        edge = [slice(None)] * lost.ndim
        edge[along] = slice(0, 1) if step > 0 else slice(-1, None)
        moved[tuple(edge)] = step > 0
        return moved

    return (
        (sinks & beside(axis + 1, 1)) | beside(axis + 1, -1) | (nearer & beside(axis, 1)) | (farther & beside(axis, -1))
    )
