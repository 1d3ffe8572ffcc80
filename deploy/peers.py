"""Which peers a policy is shown: the nearest ones within range, nearest first."""

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from deploy.graph_inputs import InputError

# For a handful of rows `take` and `dot` cost a quarter of fancy indexing and `sum(axis)`.
_SUM_XYZ = np.ones(3, np.float32)


def nearest_peers(base_pos: NDArray, peers_pos: NDArray, valid: NDArray, range_m: float, count: int) -> NDArray:
    """Indices, nearest first and at most `count`, of the `valid` (P,) peers within `range_m` of `base_pos` (3,) m.

    `peers_pos` (P, 3) m, any P. Equal distances keep the order in which the peers came. Raises InputError when a valid
    peer's position is not finite: a team mate that is somewhere must not vanish because its message was broken.
    """
    heard = valid.nonzero()[0]
    if not heard.size:
        return heard
    offset = peers_pos.take(heard, axis=0) - base_pos
    squared = (offset * offset).dot(_SUM_XYZ)
    order = squared.argsort(kind="stable")
    # Sorting puts NaN last, so the last one speaks for all; it is NaN as well when it is our own position that is bad.
    if not isfinite(squared[order[-1]]) and not np.isfinite(peers_pos[heard]).all():
        raise InputError("peers.pos: not finite for a valid peer")
    in_range = squared.take(order) <= range_m * range_m
    return heard.take(order[in_range][:count])
