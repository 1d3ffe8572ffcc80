"""The benchmark beside stable-baselines3: what Gymnasium shows reaches our algorithms, and what is done stays done."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("imageio")  # which Gymnasium's MuJoCo environments ask for
pytest.importorskip("stable_baselines3")
from benchmarks.papers.beside_sb3 import main
from benchmarks.papers.gym_team import GymTeam
from benchmarks.papers.trainings import evaluate
from policies.networks.policy import GaussianPolicy
from policies.networks.trunk import NetworkCfg


def test_the_last_observation_of_an_episode_is_kept_and_a_fall_is_no_time_limit():
    torch.manual_seed(0)
    env, generator = GymTeam("InvertedPendulum-v5", 4, seed=0), torch.Generator().manual_seed(0)
    policy = GaussianPolicy(**env.groups(NetworkCfg(hidden=8), None)["robot"].policy, init_std=1.0)
    fell = 0
    for _ in range(60):
        step = env.step({"robot": policy}, generator)["robot"]
        ended = step.terminated[:, 0]
        fell += int(ended.sum())
        assert not step.truncated.any() and step.reward.shape == (4, 1)
        assert (step.final_obs.policy[ended, 0, 1].abs() > 0.2).all(), "where it fell, rad, not where it began again"
        assert (env.obs()["robot"].policy[ended, 0, 1].abs() < 0.02).all()
        assert torch.equal(step.final_obs.policy[~ended], env.obs()["robot"].policy[~ended])
    assert fell > 3


def test_the_return_of_a_policy_that_does_nothing_is_that_of_its_fall():
    """It earns 1 in every step that it stands, of the same starts each time."""
    nothing = [evaluate("InvertedPendulum-v5", lambda seen: np.zeros((len(seen), 1))) for _ in range(2)]
    assert nothing[0] == nothing[1] and 10 < nothing[0] < 200


def test_what_is_done_is_not_done_again(tmp_path: Path, capsys):
    small = dict(tasks=("InvertedPendulum-v5",), algos=("td3",), steps=40, looks=2, folder=tmp_path)
    main(seeds=(0,), **small)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    main(seeds=(0, 1), **small)
    assert len(kept) == 2 and all(path.stat().st_mtime_ns == time for path, time in kept.items())
    assert len(list(tmp_path.iterdir())) == 4
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [row["who"] for row in rows] == ["ours", "theirs"] * 2 and [row["seeds"] for row in rows] == [1, 1, 2, 2]
    assert rows[2]["low"] <= rows[2]["return"] <= rows[2]["high"]
    (ours,) = [json.loads(path.read_text()) for path in kept if "-ours-" in path.name]
    assert [steps for steps, _ in ours["curve"]] == [20, 40]


def test_their_sac_is_trained_once_beside_two_of_ours(tmp_path: Path, capsys):
    small = dict(tasks=("InvertedPendulum-v5",), seeds=(0,), steps=40, looks=1, folder=tmp_path)
    main(algos=("sac",), **small)
    (theirs,) = tmp_path.glob("*-theirs-*")
    written = theirs.stat().st_mtime_ns
    capsys.readouterr()
    main(algos=("dsact", "sac"), **small)
    assert [*tmp_path.glob("*-theirs-*")] == [theirs] and theirs.stat().st_mtime_ns == written
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert [(row["algo"], row["who"], row["seeds"]) for row in rows] == [
        ("dsact", "ours", 1),
        ("sac", "theirs", 1),
        ("sac", "ours", 1),
    ]


def test_ppo_of_both_takes_the_steps_that_are_asked_for(tmp_path: Path, capsys):
    small = dict(tasks=("InvertedPendulum-v5",), algos=("ppo",), seeds=(0,), steps=2048, looks=1, folder=tmp_path)
    main(**small)
    main(**small, minibatch=256, epochs=5, init_std=0.6, activation="tanh")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    as_it_is, asked = rows[:2], rows[2:]
    assert not any("minibatch" in row or "activation" in row for row in as_it_is)
    assert [(row["who"], row["minibatch"], row["epochs"], row["init_std"]) for row in asked] == [
        ("ours", 256, 5, 0.6),
        ("theirs", 256, 5, 0.6),
    ]
    assert asked[0]["activation"] == "tanh" and "activation" not in asked[1]
    assert all(row["return"] != other["return"] for row, other in zip(as_it_is, asked, strict=True))
