"""Which peers a policy is shown: the nearest ones within range, nearest first."""

import numpy as np
from numpy.typing import NDArray


def nearest_peers(base_pos: NDArray, peers_pos: NDArray, valid: NDArray, range_m: float, count: int) -> NDArray:
    """Indices, nearest first and at most `count`, of the `valid` (P,) peers within `range_m` of `base_pos` (3,) m.

    `peers_pos` (P, 3) m, any P. Equal distances keep the order in which the peers came. Raises ValueError when a valid
    peer's position is not finite: a team mate that is somewhere must not vanish because its message was broken.
    """
    heard = valid.nonzero()[0]
    if not heard.size:
        return heard
    offset = peers_pos[heard] - base_pos
    squared = (offset * offset).sum(axis=1)
    if not np.isfinite(squared).all():
        raise ValueError("peers.pos: not finite for a valid peer")
    order = squared.argsort(kind="stable")[:count]
    return heard[order[squared[order] <= range_m * range_m]]
