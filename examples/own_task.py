"""A task of one's own, from an existing one: a faster swap with a reward term written here.

cd examples && phalanx train own_task:NARROW_SWAP --out runs/narrow
python examples/own_task.py runs/narrow
"""

import sys
from pathlib import Path

import torch

from policies.training.train import CollectionCfg, TrainCfg, TrainResult, train
from sim.tasks import load_task
from sim.terms import RewardTerm
from sim.transition import Transition


def upright(now: Transition) -> torch.Tensor:
    """Cosine of the tilt, (W, N): 1 when level."""
    quat = now.state.base_quat
    return 1.0 - 2.0 * (quat[..., 1] ** 2 + quat[..., 2] ** 2)


SWAP = load_task("swarm-swap")
NARROW_SWAP = SWAP.changed(
    name="narrow-swap", episode_s=6.0, rewards={**SWAP.group.rewards, "upright": RewardTerm(upright, weight=0.1)}
)


def main(out: Path, steps: int = 200_000, num_envs: int = 64) -> TrainResult:
    cfg = TrainCfg(task=NARROW_SWAP, out=out, collection=CollectionCfg(num_envs), total_steps=steps)
    return train(cfg, lambda n: print(f"{n['agent_steps']:>8.0f} steps  return {n.get('mean_return', 0):6.1f}"))


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python examples/own_task.py FOLDER  (a new one, for the run)")
    print(main(Path(sys.argv[1])).message)
