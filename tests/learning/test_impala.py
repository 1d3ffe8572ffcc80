"""V-trace: what it equals on policy, beside its definition off policy, and that it learns where actors lag behind."""

import threading
from pathlib import Path

import pytest
import torch
from point_team import PointTeam
from small_run import train_cfg
from test_resume import same

from policies.algorithms.gae import gae
from policies.algorithms.vtrace import vtrace
from policies.checkpoint import load_checkpoint
from policies.training.train import train
from policies.training.trainer import Trainer

T, B, GAMMA = 7, 40, 0.9
QUICK = dict(num_steps=10, hidden=32, peer_embed=16)


def anything() -> tuple[torch.Tensor, ...]:
    """Rewards, values, what follows, ratios, terminated and ended of episodes that end here and there."""
    generator = torch.Generator().manual_seed(0)
    rewards, values, following, logs = torch.randn(4, T, B, generator=generator, dtype=torch.float64)
    terminated = torch.rand(T, B, generator=generator) < 0.1
    ended = terminated | (torch.rand(T, B, generator=generator) < 0.1)
    following = torch.where(ended, following, torch.cat([values[1:], following[-1:]]))
    return rewards, values, following, logs.exp(), terminated, ended


def test_it_is_what_its_definition_says():
    """v_s = V_s + sum over t >= s of gamma^(t-s) (product over s <= i < t of c_i) delta_t; one step at a time."""
    rewards, values, following, ratio, terminated, ended = anything()
    rho, c = ratio.clamp(max=1.5), 0.9 * ratio.clamp(max=1.0)
    advantages, targets = vtrace(rewards, values, following, rho, c, terminated, ended, GAMMA)

    def target(s: int, b: int) -> float:
        total, weight = float(values[s, b]), 1.0
        for t in range(s, T):
            future = 0.0 if terminated[t, b] else GAMMA * float(following[t, b])
            total += weight * float(rho[t, b]) * (float(rewards[t, b]) + future - float(values[t, b]))
            if ended[t, b]:
                break
            weight *= GAMMA * float(c[t, b])
        return total

    for b in range(B):
        for s in range(T):
            assert float(targets[s, b]) == pytest.approx(target(s, b), abs=1e-12)
            later = float(following[s, b]) if ended[s, b] or s == T - 1 else target(s + 1, b)
            gain = float(rewards[s, b]) + (0.0 if terminated[s, b] else GAMMA * later) - float(values[s, b])
            assert float(advantages[s, b]) == pytest.approx(gain, abs=1e-12)


def test_on_policy_it_is_the_return_over_all_steps():
    rewards, values, following, _, terminated, ended = anything()
    ones = torch.ones_like(rewards)
    advantages, targets = vtrace(rewards, values, following, ones, ones, terminated, ended, GAMMA)
    expected, returns = gae(rewards, values, following, terminated, ended, GAMMA, 1.0)
    assert torch.allclose(advantages, expected) and torch.allclose(targets, returns)


@pytest.mark.parametrize("lag", [0, 2])
def test_what_is_learned_from_is_as_many_updates_old(tmp_path: Path, monkeypatch, lag: int):
    trainer = Trainer(train_cfg(task="p", out=tmp_path, algo="impala", lag=lag, **QUICK), PointTeam(8))
    weights, learned, once = [], [], trainer.algorithm.targets

    def watched(name, rollout, *rest):
        now, *found = once(name, rollout, *rest)
        learned.append(float((now - rollout.log_prob).abs().max()))
        if lag:
            weight = (now - rollout.log_prob).exp().clamp(max=1.0)
            torch.testing.assert_close(found[-1], weight)  # of the objective
        return now, *found

    monkeypatch.setattr(trainer.algorithm, "targets", watched)
    for _ in range(6):
        trainer.iterate(0.0)
        weights.append(trainer.policy.head.weight.detach().clone())
    trainer.close()
    assert len(learned) == 6 - lag
    assert all(torch.equal(weights[i], weights[0]) for i in range(lag)), "nothing to learn from yet"
    assert learned[0] < 1e-5 and all((change > 1e-3) == (lag > 0) for change in learned[1:])


@pytest.mark.parametrize("algo", ["ppo", "impala"])
def test_who_learns_while_rollouts_are_collected_learns_the_same_as_who_takes_turns(tmp_path: Path, algo: str):
    trainers = []
    for turns in (False, True):
        cfg = train_cfg(task="p", out=tmp_path, algo=algo, lag=1, limits={"effort": 0.01}, **QUICK)
        trainer = Trainer(cfg, PointTeam(8))
        threads = set()
        if turns:
            trainer.collector.begin(trainer.algorithm.policies)
            trainer.overlap.close()
            trainer.overlap = None
        improve = trainer.algorithm.improve

        def watched(*args, improve=improve, threads=threads):
            threads.add(threading.current_thread().name)
            return improve(*args)

        trainer.algorithm.improve = watched
        for _ in range(5):
            trainer.iterate(0.0)
        assert threads == ({"MainThread"} if turns else {"overlap_0"})
        trainer.close()
        trainers.append(trainer.state_dict())
    for name in ("policies", "algorithm", "env", "collector", "generators"):
        assert same(trainers[0][name], trainers[1][name]), name


def test_what_learning_beside_a_rollout_raises_ends_the_training(tmp_path: Path, monkeypatch):
    trainer = Trainer(train_cfg(task="p", out=tmp_path, algo="impala", **QUICK), PointTeam(8))

    def improve(*_):
        raise ValueError("no more")

    monkeypatch.setattr(trainer.algorithm, "improve", improve)
    trainer.iterate(0.0)
    with pytest.raises(ValueError, match="no more"):
        trainer.iterate(0.0)
    trainer.close()


def test_a_run_with_rollouts_that_wait_resumes_to_the_last_bit(tmp_path: Path):
    def go(folder: str, iterations: int, resume: bool = False) -> dict:
        steps = iterations * 10 * 2 * 8
        cfg = train_cfg(
            task="p", out=tmp_path / folder, algo="impala", lag=2, total_steps=steps, resume=resume, **QUICK
        )
        return load_checkpoint(train(cfg, env=PointTeam(8)).path)

    go("halves", 5)
    whole, halves = go("whole", 9), go("halves", 9, resume=True)
    for name in ("policies", "algorithm", "env", "collector", "generators"):
        assert same(whole[name], halves[name]), name
    assert len(whole["algorithm"]["waiting"]) == 2


@pytest.mark.slow
def test_where_actors_lag_it_learns_and_without_correction_does_worse(tmp_path: Path):
    def last_return(corrected: bool, seed: int) -> float:
        fixed = dict(schedule="constant", learning_rate=3e-3, **{**QUICK, "num_steps": 5})
        cfg = train_cfg(
            task="p", out=tmp_path, algo="impala", lag=10, corrected=corrected, seed=seed, threads=1, **fixed
        )
        trainer = Trainer(cfg, PointTeam(64, num_agents=1, seed=seed))
        for _ in range(100):
            trainer.iterate(0.0)
        trainer.close()
        returns = [point["mean_return"] for point in trainer.curve if "mean_return" in point]
        assert returns[9] < -10, "it has not learned yet"
        return returns[-1]

    corrected, not_corrected = (sum(last_return(how, seed) for seed in (0, 1)) / 2 for how in (True, False))
    assert corrected > -5 and not_corrected < corrected - 3
