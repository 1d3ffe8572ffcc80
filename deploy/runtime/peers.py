"""Which peers a policy is shown: the nearest ones within range, nearest first."""

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from deploy.runtime.graph_inputs import InputError

# For a handful of rows `take` and `dot` cost a quarter of fancy indexing and `sum(axis)`.
_SUM_XYZ = np.ones(3, np.float32)


def nearest_peers(base_pos: NDArray, peers_pos: NDArray, valid: NDArray, range_m: float, count: int) -> NDArray:
    """Indices, nearest first and at most `count`, of the `valid` (P,) peers within `range_m` of `base_pos` (3,) m.

    `peers_pos` (P, 3) m, any P. Equal distances keep the order in which the peers came. Raises InputError when a valid
    peer's position is not finite: a team mate that is somewhere must not vanish because its message was broken.
    """
    received = valid.nonzero()[0]
    if not received.size:
        return received
    everyone = received.size == valid.size
    offset = (peers_pos if everyone else peers_pos.take(received, axis=0)) - base_pos
    squared = (offset * offset).dot(_SUM_XYZ)
    order = squared.argsort(kind="stable")
    # Sorting puts NaN last, so the last one stands for all; it is NaN too when our own position is.
    farthest = squared[order[-1]]
    if not farthest <= range_m * range_m:
        if not isfinite(farthest) and not np.isfinite(peers_pos[received]).all():
            raise InputError("peers.pos: not finite for a valid peer")
        order = order[squared.take(order) <= range_m * range_m]
    nearest = order[:count]
    return nearest if everyone else received.take(nearest)
