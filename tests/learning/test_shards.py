"""A training over shards: the same to the last bit however they are spread over processes, and one with all of them."""

import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from command import assert_one_line_error, here
from patience import patience
from point_team import PointPair, PointTeam
from small_run import train_cfg
from test_ppo import experience
from test_resume import same

from policies.algorithms import ppo_update
from policies.algorithms.algorithm import weights
from policies.algorithms.ppo import PPOCfg
from policies.algorithms.ppo_update import Samples
from policies.checkpoint import load_checkpoint
from policies.networks.critic import Critic
from policies.networks.normaliser import ObsDims, RunningMoments
from policies.networks.policy import GaussianPolicy
from policies.shards import ALONE, ShardError, Shards, over_shards
from policies.threads import Workers, single_threaded_torch
from policies.training.progress import read_progress
from policies.training.train import train_shard
from policies.training.trainer import Trainer
from sim.tree import on_tensors

TINY = shlex.split(
    "hover --num-envs 16 --ppo.num-steps 10 --ppo.minibatch 80 --ppo.epochs 2 --network.hidden 16 --threads 1 "
    "--task.episode-s 0.4 --checkpoint-every 2 --no-onnx --shards 4"
)
STEPS = 160  # of an iteration
TIMED = ("wall_s", "steps_per_s")


def torchrun(*args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    return subprocess.Popen(
        [*command, "-m", "phalanx", "train", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def rows_of(run: Path) -> list[dict[str, float]]:
    """What a run logged, but for times."""
    rows = read_progress(run)
    return [{name: v for name, v in row.items() if name not in TIMED and "time/" not in name} for row in rows]


@pytest.mark.slow
def test_two_processes_that_are_interrupted_and_gone_on_with_in_one_equal_one(tmp_path: Path):
    two, one = tmp_path / "two", tmp_path / "one"
    many = torchrun(*TINY, "--steps", str(1000 * STEPS), "--out", str(two))
    assert many.stderr is not None
    said = []
    for line in many.stderr:
        said.append(line)
        if line.startswith("train hover"):
            many.send_signal(signal.SIGINT)
            break
    said += many.communicate(timeout=patience(60))[1].splitlines()
    assert many.returncode != 0
    assert sum("to go on: phalanx train --resume" in line for line in said) == 1, "".join(said)  # of one process
    begun = load_checkpoint(two)["progress"]["iteration"]
    steps = ("--steps", str((begun + 2) * STEPS))
    assert begun > 0 and here("train", "--resume", str(two), *steps, "--no-onnx").returncode == 0
    assert here("train", *TINY, *steps, "--out", str(one)).returncode == 0
    assert rows_of(one) == rows_of(two) and len(rows_of(one)) == begun + 2
    ends = [load_checkpoint(run) for run in (one, two)]
    for content in ends:
        content["others"] = [{**part, "rng": None} for part in content["shards"]]  # global: a process has one
    for name in ("policies", "algorithm", "env", "collector", "generators", "progress", "others"):
        assert same(ends[0][name], ends[1][name]), name
    refused = here("train", "--resume", str(two), "--shards", "2", "--steps", "99999")
    assert_one_line_error(refused, "cannot resume with shards = 2: the checkpoint was made with 4")


def test_an_update_over_two_shards_is_that_of_all_their_samples():
    layout, cfg = ObsDims(4, 2), PPOCfg(minibatch=10**6, schedule="adaptive", max_grad_norm=0.1)
    torch.manual_seed(0)
    whole = experience(GaussianPolicy(layout, 3).double(), 40, seed=1)
    acted = torch.rand(40, 2) < 0.8

    def part(shards: Shards) -> Samples:
        rows = torch.arange(40).chunk(shards.count)[shards.index]
        return replace(whole.rows(rows), weight=weights(acted[rows], shards).double())

    def learned(shards: Shards) -> list[torch.Tensor]:
        with shards.together(in_turn=True):
            torch.manual_seed(1)
            policy, critic = GaussianPolicy(layout, 3).double(), Critic(layout).double()
        optimiser, workers = ppo_update.make_optimiser(policy, critic, cfg), Workers(1, shards)
        numbers = ppo_update.update(
            policy, critic, optimiser, part(shards), cfg, torch.Generator().manual_seed(0), workers
        )
        workers.close()
        said = torch.tensor([numbers[name] for name in ("kl", "lr", "explained_variance", "loss/value")])
        return [said, *policy.state_dict().values(), *critic.state_dict().values()]

    alone = learned(ALONE)
    ends = over_shards(lambda shards: [shards.gather(value) for value in learned(shards)], 2)
    for expected, (one, other) in zip(alone, ends, strict=True):
        assert torch.equal(one, other) and torch.allclose(one.double(), expected.double(), rtol=1e-5, atol=1e-7)


def test_statistics_are_those_of_all_shards_and_of_one_that_has_nothing_to_say():
    rows, weight = torch.randn(30, 3, generator=torch.Generator().manual_seed(0)), torch.ones(30)
    weight[:10] = 0.0

    def moments(shards: Shards) -> RunningMoments:
        own, some = (tensor.chunk(shards.count)[shards.index] for tensor in (rows, weight))
        moments = RunningMoments(3)
        moments.update(own, some, shards)
        return moments

    found = over_shards(moments, 3)
    assert found.count == 20
    assert torch.allclose(found.mean, rows[10:].mean(0), atol=1e-6)
    assert torch.allclose(found.var, rows[10:].var(0, correction=0), atol=1e-6)


@pytest.mark.parametrize("algo", ["ppo", "happo", "impala"])
def test_what_learns_stays_equal_in_all_shards_though_they_see_other_worlds(tmp_path: Path, algo: str):
    how = dict(num_steps=4, hidden=8, peer_embed=4, epochs=2, minibatch=24, normalise_per="robot")
    cfg = train_cfg(task="pair", out=tmp_path, algo=algo, **how)

    def run(shards: Shards) -> list[dict]:
        with shards.together(in_turn=True):
            trainer = Trainer(cfg, PointPair(4), shards)
        for _ in range(4):
            trainer.iterate(0.0)
        trainer.close()
        learned = {name: policy.state_dict() for name, policy in trainer.algorithm.policies.items()}
        parts = {"learned": learned, "optimisers": trainer.algorithm.state_dict()["optimisers"], "seen": trainer.curve}
        assert trainer.agent_steps == 4 * 4 * 3 * 8
        return shards.gather(parts | {"worlds": trainer.collector.obs})

    one, other = over_shards(run, 2)
    assert all(same(one[name], other[name]) for name in ("learned", "optimisers", "seen"))
    assert not same(one["worlds"], other["worlds"])


REPLAY = dict(num_steps=2, hidden=8, peer_embed=4, batch=24, updates=3, warm_up=60, replay=3000, delay=1)


@pytest.mark.slow
def test_shards_that_learn_from_replays_resume_to_the_last_bit(tmp_path: Path):
    def go(folder: str, iterations: int, resume: bool = False) -> dict:
        steps = iterations * 2 * 4 * 3 * 2
        cfg = train_cfg(
            task="pair", out=tmp_path / folder, algo="dsact", total_steps=steps, checkpoint_every=2, resume=resume,
            threads=1, **REPLAY,
        )  # fmt: skip
        over_shards(lambda shards: train_shard(cfg, env=PointPair(4), shards=shards), 2)
        return load_checkpoint(tmp_path / folder)

    whole, _ = go("whole", 9), go("halves", 5)
    halves = go("halves", 9, resume=True)
    assert whole["progress"]["agent_steps"] == 9 * 48
    for part in ("policies", "algorithm", "generators"):
        assert same(whole[part], halves[part]), part
    (one,), (other,) = whole["shards"], halves["shards"]
    assert same(one["replay"], other["replay"]) and not same(one["replay"], whole["algorithm"]["replay"])


@pytest.mark.slow
@pytest.mark.parametrize("stopped_after", [1, 3], ids=["before anything is learned", "later"])
def test_shards_whose_rollouts_wait_resume_to_the_last_bit(tmp_path: Path, stopped_after: int):
    def go(folder: str, iterations: int, resume: bool = False) -> dict:
        steps = iterations * 7 * 4 * 3 * 2
        cfg = train_cfg(
            task="pair", out=tmp_path / folder, total_steps=steps, resume=resume, threads=1, lag=1, num_steps=7,
            minibatch=56, hidden=8, peer_embed=4, limits={"distance": 0.5},
        )  # fmt: skip
        over_shards(lambda shards: train_shard(cfg, env=PointPair(4), shards=shards), 2)
        return load_checkpoint(tmp_path / folder)

    whole, _ = go("whole", 6), go("halves", stopped_after)
    halves = go("halves", 6, resume=True)
    for part in ("policies", "algorithm", "generators", "collector"):
        assert same(whole[part], halves[part]), part
    (one,), (other,) = whole["shards"], halves["shards"]
    of_a_shard = ("waiting", "costs", "collector", "env", "generators")  # but for global generators, of the process
    for part in of_a_shard:
        assert same(one[part], other[part]), part
    assert not same(one["waiting"], whole["algorithm"]["waiting"])


@pytest.mark.parametrize("algo", ["sac", "dsact", "hasac", "td3", "vdn"])
def test_a_gradient_step_from_replays_of_two_shards_is_the_same_in_both(tmp_path: Path, algo: str):
    cfg = train_cfg(task="pair", out=tmp_path, algo=algo, threads=1, **REPLAY)

    def run(shards: Shards) -> list[dict]:
        with shards.together(in_turn=True):
            trainer = Trainer(cfg, PointPair(4), shards)
        for _ in range(5):
            said = trainer.iterate(0.0)
        trainer.close()
        state = trainer.algorithm.state_dict()
        policies = {name: policy.state_dict() for name, policy in trainer.algorithm.policies.items()}
        assert state["steps"] == 4 * 3  # warm-up is over when all shards together have seen as much
        return shards.gather({"learners": state["learners"], "policies": policies, "said": said["cart/loss/value"]})

    one, other = over_shards(run, 2)
    assert same(one, other)


def test_a_gradient_step_over_two_shards_is_that_of_all_their_rows(tmp_path: Path):
    cfg = train_cfg(
        task="pair", out=tmp_path, algo="td3", threads=1, **REPLAY | {"target_noise": 0.0, "warm_up": 10**6}
    )
    with single_threaded_torch():
        full = Trainer(cfg, PointPair(4))
        for _ in range(5):
            full.iterate(0.0)
    index = torch.randperm(40, generator=torch.Generator().manual_seed(0))[:24]
    rows = {name: full.algorithm.replay.rows(name, index, 0.9) for name in full.algorithm.policies}
    for part in rows.values():
        part["acted"] = torch.rand(part["acted"].shape, generator=torch.Generator().manual_seed(1)) < 0.7

    def learned(shards: Shards) -> list[torch.Tensor]:
        with shards.together(in_turn=True):
            trainer = Trainer(cfg, PointPair(4), shards)
        mine = on_tensors(lambda tensor: tensor.chunk(shards.count)[shards.index], rows)
        for name, policy in trainer.algorithm.policies.items():
            policy.load_state_dict(full.algorithm.policies[name].state_dict())
        for _ in range(2):
            trainer.algorithm.learn(mine)
        trainer.close()
        return [value for network in trainer.algorithm.networks().values() for value in network.state_dict().values()]

    for expected, found in zip(learned(ALONE), over_shards(learned, 2), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_two_processes_that_learn_from_replays_are_one(tmp_path: Path):
    tiny = shlex.split(
        "hover --algo sac --num-envs 4 --sac.num-steps 4 --sac.batch 16 --sac.updates 2 --sac.warm-up 32 "
        "--network.hidden 8 --sac.replay 200 --threads 1 --task.episode-s 0.4 --checkpoint-every 2 --no-onnx --no-film"
    )
    two, one = tmp_path / "two", tmp_path / "one"
    many = torchrun(*tiny, "--steps", "112", "--out", str(two))
    assert many.wait(timeout=patience(120)) == 0, many.communicate()[1]
    assert here("train", *tiny, "--shards", "2", "--steps", "64", "--out", str(one)).returncode == 0
    assert here("train", "--resume", str(one), "--steps", "112", "--no-onnx").returncode == 0
    assert rows_of(one) == rows_of(two) and len(rows_of(one)) == 7
    ends = [load_checkpoint(run) for run in (one, two)]
    for content in ends:
        content["others"] = [{**part, "rng": None} for part in content["shards"]]  # global: a process has one
    for name in ("policies", "algorithm", "env", "collector", "generators", "others"):
        assert same(ends[0][name], ends[1][name]), name


@pytest.mark.parametrize("where", ["one", "first"])
def test_what_is_not_finite_in_one_shard_ends_all(tmp_path: Path, where: str):
    cfg = train_cfg(task="point", out=tmp_path / "run", num_steps=4, hidden=8, peer_embed=4, total_steps=10**6)
    ends: dict[int, str] = {}

    def run(shards: Shards) -> None:
        env = PointTeam(4)
        if shards.index == (0 if where == "first" else 1):
            env.vel["point"][2, 1, 0] = torch.nan
            env.reset = lambda *_: env.obs
        try:
            train_shard(cfg, env=env, shards=shards)
        except ValueError as error:
            ends[shards.index] = str(error)

    over_shards(run, 2)
    bad = 0 if where == "first" else 1
    assert ends[bad].startswith("reward") or ends[bad].startswith("action"), ends
    assert ends[1 - bad] == f"shard {bad} of 2: {ends[bad]}"


def test_a_shard_that_ends_with_a_fault_of_the_program_leaves_no_other_waiting():
    def run(shards: Shards) -> None:
        if shards.index:
            raise TypeError("a fault")
        shards.gather(1)

    with pytest.raises(ShardError, match="another shard has ended: a fault"):
        over_shards(run, 2)


def test_what_a_person_gave_wrong_is_said_as_by_one_shard_alone():
    def run(shards: Shards) -> None:
        if shards.index:
            raise ValueError("gamma = 2: 0 to 1")
        shards.gather(1)

    with pytest.raises(ShardError, match=r"^gamma = 2: 0 to 1$"):
        over_shards(run, 2)


def test_what_cannot_be_split_is_refused_in_one_line(tmp_path: Path):
    out = ("--out", str(tmp_path / "run"), "--no-onnx")
    odd = here("train", "hover", "--shards", "3", "--num-envs", "16", *out)
    assert_one_line_error(odd, "num_envs = 16: wanted a multiple of the 3 shards")
    assert not (tmp_path / "run").exists()
