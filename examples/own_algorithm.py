"""An algorithm of one's own, from an existing one: PPO whose advantages count by their rank.

So one rare, huge reward moves the policy no more than any other best sample (ranks as utilities: Wierstra et al. 2014,
"Natural evolution strategies", its section on fitness shaping).

cd examples && phalanx train hover --algo own_algorithm:RankPPO --rank.power 2 --out runs/rank
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from hardware.ranges import check_fields
from policies.algorithms.ppo import PPO, PPOCfg
from policies.algorithms.rollout import Rollout


@dataclass(frozen=True)
class RankPPOCfg(PPOCfg):
    """Hyperparameters: those of PPO, which tasks set for it, and one more."""

    NAME: ClassVar[str] = "rank"  # what its options begin with

    power: float = 1.0  # of a rank from -1 to 1: above 1 the best and the worst count for more

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields("rank.", self, power=(0.1, 10))


class RankPPO(PPO):
    """See `Algorithm`; all but the advantages is PPO's."""

    Cfg = RankPPOCfg

    def targets(self, name: str, rollout: Rollout, *seen: Any) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """As of PPO, with the rank of each advantage in its rollout, -1 to 1, to a power, in its place."""
        log_prob, advantages, returns, factor = super().targets(name, rollout, *seen)
        order = advantages.flatten().argsort().argsort()
        rank = 2.0 * order.to(advantages) / max(1, len(order) - 1) - 1.0
        shaped = rank.sign() * rank.abs() ** self.groups[name].cfg.power
        return log_prob, shaped.view_as(advantages), returns, factor
