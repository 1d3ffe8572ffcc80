"""IMPALA (Espeholt et al. 2018, arXiv:1802.01561): learning from what an older policy did, corrected by V-trace.

Actors run ahead of the learner by a fixed number of updates, so a run is the same each time, whether the two take turns
or work at once. Here it is the lag of `ppo`, with a plain policy gradient.
"""

from dataclasses import dataclass
from typing import ClassVar

from policies.algorithms.ppo import PPO, PPOCfg


@dataclass(frozen=True)
class IMPALACfg(PPOCfg):
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["impala"]`."""

    NAME: ClassVar[str] = "impala"

    epochs: int = 1
    clip: float | None = None
    normalise_advantage: bool = False  # off policy their mean is not 0
    gae_lambda: float = 1.0  # of the traces
    lag: int = 1


class IMPALA(PPO):
    """See `Algorithm`."""

    Cfg = IMPALACfg
