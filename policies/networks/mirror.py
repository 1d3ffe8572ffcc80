"""Networks that know no left and right: what they say of a mirrored robot is the mirror of what they say of the robot.

A network is asked twice, of what is seen and of its mirror, and the mean of both answers counts, the second turned
back. So it holds exactly, whatever the weights: in every algorithm, and in the exported file, whose network is computed
twice. One of the ways that Abdolhosseini et al. 2019 compare, doi:10.1145/3359566.3360070.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Flips = Mapping[str, tuple[Sequence[int], Sequence[float]]]  # see `sim.mirror.of_group`


class Mirrored(nn.Module):
    """Numbers (..., n) in the mirror: at place i stands `sign[i]` times what was at `index[i]`."""

    index: Tensor
    sign: Tensor

    def __init__(self, index: Sequence[int], sign: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor(index, dtype=torch.long), persistent=False)
        self.register_buffer("sign", torch.tensor(sign), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x[..., self.index] * self.sign

    def spread(self, x: Tensor) -> Tensor:
        """The same of what has no sign, such as standard deviations (..., n)."""
        return x[..., self.index]


def _of_several(flip: tuple[Sequence[int], Sequence[float]], count: int) -> Mirrored:
    """The mirror of `count` times the same numbers, one behind the other."""
    index, sign = flip
    shifts = range(0, count * len(index), max(1, len(index)))
    return Mirrored([shift + i for shift in shifts for i in index], [*sign] * count)


class Mirror(nn.Module):
    """How features and actions of the robots of a group mirror.

    Own features may be of several control periods, its `history`, and an action a `chunk` of several.
    """

    def __init__(self, flips: Flips, chunk: int = 1, history: int = 1) -> None:
        super().__init__()
        self.policy = _of_several(flips["policy"], history)
        self.neighbours = Mirrored(*flips["neighbours"])
        self.privileged = Mirrored(*flips["privileged"])
        self.action = _of_several(flips["action"], chunk)

    def seen(self, features: Any) -> Any:
        """`Features` in the mirror, but for what only critics see, which a policy that flies is not shown."""
        return features._replace(own=self.policy(features.own), peers=self.neighbours(features.peers))

    def features(self, features: Any) -> Any:
        """`Features` in the mirror."""
        return self.seen(features)._replace(privileged=self.privileged(features.privileged))
