"""What a recording holds, before it is brought onto one clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sim.identification.rhythm import Rhythm


@dataclass(frozen=True)
class Streams:
    """Measurements and commands by their own times, which increase."""

    time_s: np.ndarray  # (T,)
    rows: np.ndarray  # (T, R) with the base's velocities in the body
    command_s: np.ndarray  # (K,) when each was sent
    command: np.ndarray  # (K, U)
    unsure_s: np.ndarray  # (K,) by how much sooner it may have been sent
    rhythms: Mapping[str, Rhythm]
    heard_late_s: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (K,) after it was sent, where that is known
    notes: tuple[str, ...] = ()  # what else a reader of the recording should know
    name: str = ""  # of the robot
