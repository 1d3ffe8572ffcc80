"""What the deployed rows allow a robot on a line to do towards a peer."""

from dataclasses import dataclass, replace
from math import tan

import numpy as np

from deploy.shield.drone.constraints import constraint_rows
from deploy.shield.drone.params import ShieldParams
from deploy.shield.types import Context, Sharing
from hardware.spec import GRAVITY
from hardware.types import Peers, RobotState

NO_FENCE_M = 1e4
NO_LATENCY_S = 1e-6


@dataclass(frozen=True)
class Robot:
    """How a robot is shielded; the defaults are what is deployed, anything else is a mutant."""

    params: ShieldParams
    above: bool = False  # the line is vertical
    alone: bool = False  # it takes the other for one that does not share
    share: float = 1.0  # of what its rows ask for that it does
    predicts: bool = True  # over latency and age

    @property
    def stretch(self) -> float:
        """Metres, m/s and m/s^2 to one of those that cells are in."""
        return self.params.downwash_ratio if self.above else 1.0

    def bound(self, gap: np.ndarray, closing: np.ndarray, age_s: float) -> np.ndarray:
        """The most that it may accelerate towards a peer (...), in units of cells, at the time this takes effect.

        There are `gap` (...) and `closing` (...) then. It saw the peer earlier by latency and age, and the peer flew
        straight on since.
        """
        gap, closing = np.broadcast_arrays(gap, closing)
        seen = gap + closing * (self.params.latency_s + age_s)
        params = self.params if self.predicts else replace(self.params, latency_s=NO_LATENCY_S)
        bound = rows_bound(params, seen, closing, age_s if self.predicts else 0.0, self.above, not self.alone)
        return self.share * bound

    def hardest(self, bound: np.ndarray) -> np.ndarray:
        """`bound` (...), but no harder braking than tilt, climb and descent within their limits give."""
        params = self.params
        vertical, level = min(params.max_climb_accel, params.max_descent_accel), GRAVITY * tan(params.max_tilt_rad)
        return np.maximum(bound, -(vertical if self.above else level) / self.stretch)


def rows_bound(
    params: ShieldParams, gap: np.ndarray, closing: np.ndarray, age_s: float, above: bool = False, shares: bool = True
) -> np.ndarray:
    """The bound (...) that the deployed row sets for a peer at `gap` (...) and `closing` (...), far from any fence.

    Of two that share and close in each has half of the speed, in all else it is the robot's own: rows may ask for more
    of one that has more than its share of it, and do of a peer that flies away, in an old message.
    """
    shape, count, axis = gap.shape, gap.size, 2 if above else 0
    stretch = params.downwash_ratio if above else 1.0
    params = replace(params, geofence_low=(-NO_FENCE_M,) * 3, geofence_high=(NO_FENCE_M,) * 3)

    def along(values: np.ndarray | float) -> np.ndarray:
        rows = np.zeros((count, 3))
        rows[:, axis] = stretch * np.ravel(values)
        return rows

    none, level, each = np.zeros((count, 0)), np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)), np.ones((count, 1))
    own = np.where((closing > 0.0) & shares, 0.5 * closing, closing)
    state = RobotState(none, none, along(0.0), level, along(own), along(0.0), age_s * each[:, 0])
    peers = Peers(along(gap)[:, None], along(own - closing)[:, None], age_s * each, each > 0.0)
    sharing = Sharing(np.full((count, 1), shares), params.separation_m * each)
    return constraint_rows(params, Context(state, peers, sharing=sharing))[1][:, 0].reshape(shape) / stretch
