"""Observations of a group of robots, in parts."""

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Observation:
    """What robots see, (..., N) of them; joined only inside a network."""

    policy: Tensor  # (..., N, D) of the robot itself
    neighbours: Tensor  # (..., N, P, F) of its neighbours, zero where absent
    valid: Tensor  # (..., N, P) 0 or 1
    privileged: Tensor  # (..., N, C) for critics only
