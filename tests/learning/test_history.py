"""Frame history: what was seen in the periods before, in training, in a checkpoint and in the file."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from parity import measure_parity
from point_team import PointPair, Points, PointTeam
from small_run import train_cfg
from test_resume import same

from deploy.bundle import load_bundle
from policies.checkpoint import CheckpointError, load_checkpoint
from policies.export.export import export_policy
from policies.training.train import train
from policies.training.trainer import Trainer
from sim.envs.observation import Observation
from sim.tree import on_tensors

SMALL = dict(hidden=16, peer_embed=8, threads=1)


class Blinking(Points):
    """A number that the action has to be, which is shown in every second period; the last one of an episode is none."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs, 0, 20, {"point": (1, 1)})
        self.pos["goal"], self.vel["goal"] = torch.zeros(num_envs, 1, 1), torch.zeros(num_envs, 1, 1)

    @property
    def obs(self) -> dict[str, Observation]:
        shown = (self.clock % 2 == 0).float()[:, None, None]
        return {"point": Observation.alone(torch.cat([self.pos["goal"] * shown, shown], dim=-1))}

    def _judge(self, actions) -> tuple[dict, dict, torch.Tensor]:
        miss = (actions["point"] - self.pos["goal"]).abs()
        return {"point": {"miss": -miss.mean(-1)}}, {"point": {"no": miss.mean(-1) > 9}}, (miss < 0.4).all(-1).all(-1)


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "steps"), [("ppo", 100_000), ("td3", 20_000)])
def test_it_learns_what_a_single_look_does_not_show(tmp_path: Path, algo: str, steps: int):
    quick = dict(warm_up=640, batch=128, updates=4, gamma=0.5, tau=0.05) if algo == "td3" else dict(gamma=0.5)
    found = {}
    for history in (1, 2):
        out = tmp_path / str(history)
        cfg = train_cfg(task="p", out=out, algo=algo, total_steps=steps, history=history, **SMALL | quick)
        rates = [p["success_rate"] for p in train(cfg, env=Blinking(64)).return_curve if "success_rate" in p]
        found[history] = sum(rates[-5:]) / 5
    assert found[1] < 0.55 and found[2] > 0.8, found


def test_what_is_learned_from_is_what_was_seen_in_the_periods_before(tmp_path: Path):
    """Row by row of a rollout, across the ends of episodes, and what they ended with."""
    trainer = Trainer(train_cfg(task="p", out=tmp_path, history=3, num_steps=30, **SMALL), env=PointTeam(8))
    rollout = trainer.algorithm.rollouts["point"]
    for _ in range(2):
        before = on_tensors(torch.clone, trainer.collector.seen()["point"]).policy
        trainer.collector.collect(trainer.algorithm)
        seen, ended, last = rollout.obs.policy, rollout.ended, iter(rollout.finals().policy)
        assert torch.equal(seen[0], before) and ended.any()
        for t in range(1, 30):
            now, one, two = seen[t].chunk(3, dim=-1)
            for world in range(8):
                first = bool(ended[t - 1, world].any())
                assert torch.equal(one[world], (now if first else seen[t - 1].chunk(3, dim=-1)[0])[world])
                assert torch.equal(two[world], (now if first else seen[t - 1].chunk(3, dim=-1)[1])[world])
        for t, world in ended.any(-1).nonzero().tolist():
            assert torch.equal(next(last)[:, 4:], seen[t, world, :, :8]), "the last look has the past of its episode"
    trainer.close()


def test_it_begins_as_if_there_were_no_past(tmp_path: Path):
    """Periods are nearly alike: with weights for all of them at once it takes several times the samples."""
    trainer = Trainer(train_cfg(task="p", out=tmp_path, history=3, num_steps=4, **SMALL), env=PointTeam(8))
    trainer.collector.collect(trainer.algorithm)
    seen = trainer.collector.seen()["point"]
    other = replace(seen, policy=torch.cat([seen.policy[..., :4], -seen.policy[..., 4:]], dim=-1))
    for net in (trainer.policy.mean, trainer.algorithm.critics["point"]):
        one, two = (net(trainer.policy.normaliser(obs)) for obs in (seen, other))
        assert torch.equal(one, two) and one.abs().max() > 0
    trainer.iterate(0.0)
    one, two = (trainer.policy.mean(trainer.policy.normaliser(obs)) for obs in (seen, other))
    assert not torch.equal(one, two), "what it learns from the past counts"
    trainer.close()


@pytest.mark.parametrize(("algo", "more"), [("ppo", {}), ("impala", {}), ("hasac", {}), ("ppo", {"chunk": 3})])
def test_a_mixed_team_with_a_past_resumes_to_the_last_bit(tmp_path: Path, algo: str, more: dict):
    def go(folder: str, iterations: int, resume: bool = False):
        quick = dict(warm_up=48, batch=48, updates=1) if algo == "hasac" else dict(epochs=1)
        cfg = train_cfg(
            task="p", out=tmp_path / folder, algo=algo, total_steps=iterations * 7 * 3 * 8, resume=resume, history=4,
            num_steps=7, checkpoint_every=2, **SMALL | quick | more,
        )  # fmt: skip
        return load_checkpoint(train(cfg, env=PointPair(8)).path)

    whole, _ = go("whole", 4), go("halves", 3)
    halves = go("halves", 4, resume=True)
    for name in ("policies", "algorithm", "env", "collector"):
        assert same(whole[name], halves[name]), name
    assert whole["collector"]["memory"]["cart"]["past"].shape == (8, 2, 3 * 3)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"symmetric": True, "chunk": 2}])
def test_the_file_hands_the_past_on_as_memory_and_does_what_training_did(tmp_path: Path, more: dict):
    small = dict(num_envs=4, num_steps=12, init_std=1.0, total_steps=4 * 12 * 3, **SMALL)
    train(train_cfg(task="hover", out=tmp_path, history=3, **small, **more))
    bundle = load_bundle(export_policy(tmp_path, tmp_path / "policy.onnx"))
    sizes = {memory.input: len(memory.initial) for memory in bundle.contract.memory}
    (seen,) = (tensor.shape[1] for tensor in bundle.contract.outputs if tensor.name == "obs")
    assert sizes["past"] == 2 * seen and sizes["past_known"] == 1
    said = {tensor.name: tensor.meaning for tensor in bundle.contract.inputs}
    assert said["past"].startswith("what was seen in the control periods before")
    assert measure_parity(bundle, tmp_path, 2)["max_abs"] < 1e-5

    again = train_cfg(task="hover", out=tmp_path / "again", start_from=tmp_path / "policy.onnx", history=3, **small)
    if not more:
        Trainer(again).close()
    for begin in (tmp_path, tmp_path / "policy.onnx"):
        with pytest.raises(CheckpointError, match=r"periods of history \(3 there, 2 here"):
            Trainer(train_cfg(task="hover", out=tmp_path / "other", start_from=begin, history=2, **small, **more))
