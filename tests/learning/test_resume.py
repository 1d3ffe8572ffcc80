"""A run that is killed and resumed is the run that was never killed, to the last bit."""

import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from one_group import make_env
from places import TESTS
from point_team import PointTeam
from small_run import train_cfg

from phalanx.demo.stages import DemoCfg, _train
from policies.checkpoint import FILE, CheckpointError, load_checkpoint, save_checkpoint
from policies.training.progress import read_progress
from policies.training.train import LOCK, TrainResult, train
from policies.training.trainer import Trainer
from sim.tasks import load_task

PPO = dict(num_steps=7, minibatch=112, hidden=16, peer_embed=8)  # checkpoints fall into the middle of episodes
SWARM_PPO = dict(num_steps=8, epochs=1, minibatch=64, hidden=16, peer_embed=8)
CHILD = """
import sys, time
sys.path[:0] = {path!r}
from test_resume import run
def tell(numbers):
    print(int(numbers["iteration"]), flush=True)
    time.sleep(600 * (numbers["iteration"] >= 11))  # it is killed now
run({out!r}, on_progress=tell)
"""


def run(out, resume: bool = False, **kwargs) -> TrainResult:
    steps = 16 * 2 * 7 * 16  # 16 iterations
    cfg = train_cfg(task="point", out=Path(out), total_steps=steps, checkpoint_every=4, resume=resume, **PPO)
    return train(cfg, env=PointTeam(16), **kwargs)


def same(left, right) -> bool:
    """Equal to the last bit, whatever is nested in it; what is no number, as of no episode that ended, in both."""
    if isinstance(left, torch.Tensor):
        alike = left.shape == right.shape and left.dtype == right.dtype
        return alike and bool(((left == right) | (left.isnan() & right.isnan())).all())
    if is_dataclass(left) and not isinstance(left, type):
        return all(same(getattr(left, field.name), getattr(right, field.name)) for field in fields(left))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@pytest.mark.slow
def test_killed_and_resumed_is_bitwise_the_same(tmp_path: Path):
    whole = run(tmp_path / "whole")
    script = CHILD.format(path=[str(TESTS), *sys.path], out=str(tmp_path / "killed"))
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) == 11:  # three iterations after the last checkpoint
            child.send_signal(signal.SIGKILL)
            break
    assert child.wait() == -signal.SIGKILL
    before = load_checkpoint(tmp_path / "killed")
    assert before["progress"]["iteration"] == 8
    resumed = run(tmp_path / "killed", resume=True)
    assert resumed.return_curve == whole.return_curve
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "whole")  # a row an iteration, none twice
    one, other = load_checkpoint(whole.path), load_checkpoint(resumed.path)
    for name in ("policies", "algorithm", "env", "collector", "generators", "progress"):
        assert same(one[name], other[name]), name


def numbers(folder: Path) -> list[dict[str, float]]:
    """progress.csv without what the clock says."""
    rows = read_progress(folder)
    return [{k: v for k, v in row.items() if k not in ("wall_s", "steps_per_s") and "time/" not in k} for row in rows]


@pytest.mark.slow
def test_a_full_disk_is_said_in_a_line_and_the_run_goes_on_when_there_is_room(tmp_path: Path):
    whole, full = run(tmp_path / "whole"), tmp_path / "full"
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(numbers: dict[str, float]) -> None:
        if numbers["iteration"] == 6:  # a part of the next row is all that the disk has room for
            room = (full / "progress.csv").stat().st_size + 40
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, unlimited[1]))

    try:
        with pytest.raises(CheckpointError, match=rf"cannot write .*: File too large; .*train --resume {full}$"):
            run(full, on_progress=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert not (full / "progress.csv").read_text().endswith("\n")
    assert run(full, resume=True).return_curve == whole.return_curve
    assert numbers(full) == numbers(tmp_path / "whole")


def test_a_run_that_is_over_before_its_lag_says_that_nothing_was_learned(tmp_path: Path):
    steps = 16 * 2 * 7
    cfg = train_cfg(task="point", out=tmp_path, total_steps=steps, lag=1, **PPO)
    assert "nothing is learned from the first 224, for ppo.lag is 1" in train(cfg, env=PointTeam(16)).message


def test_a_kept_policy_is_written_before_the_checkpoint_after_which_it_would_not_be(tmp_path: Path, monkeypatch):
    def end(*_: object) -> None:
        raise KeyboardInterrupt  # the process ends as its checkpoint is due

    monkeypatch.setattr("policies.training.train._save", end)
    steps = 16 * 2 * 7 * 4
    cfg = train_cfg(task="point", out=tmp_path, total_steps=steps, checkpoint_every=4, keep_every=4, **PPO)
    with pytest.raises(KeyboardInterrupt):
        train(cfg, env=PointTeam(16))
    assert (tmp_path / "iteration-000004.pt").exists() and not (tmp_path / FILE).exists()


@pytest.mark.slow
def test_resume_on_the_real_task_is_bitwise_the_same(tmp_path: Path):
    def go(folder: str, iterations: int, resume: bool = False) -> TrainResult:
        steps = iterations * 8 * 4 * 4
        cfg = train_cfg(out=tmp_path / folder, num_envs=4, total_steps=steps, resume=resume, **SWARM_PPO)
        return train(cfg)

    whole, _ = go("whole", 12), go("halves", 6)
    halves = go("halves", 12, resume=True)
    one, other = load_checkpoint(whole.path), load_checkpoint(halves.path)
    for name in ("policies", "algorithm", "env", "collector", "progress"):
        assert same(one[name], other[name]), name


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path):
    started: list[float] = []
    before = signal.getsignal(signal.SIGINT)

    def interrupt(numbers: dict[str, float]) -> None:
        if not started:
            started.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    result = run(tmp_path, on_progress=interrupt)
    assert not result.finished
    assert f"phalanx train --resume {tmp_path}" in result.message
    assert load_checkpoint(tmp_path)["progress"]["iteration"] == 1
    assert signal.getsignal(signal.SIGINT) is before
    assert run(tmp_path, resume=True).finished
    assert run(tmp_path, resume=True).message.endswith(f"before; to go on: phalanx train --resume {tmp_path} --steps N")


def test_ctrl_c_that_comes_too_late_to_stop_a_training_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(numbers: dict[str, float]) -> None:
        if numbers["fraction"] == 1.0:
            os.kill(os.getpid(), signal.SIGINT)

    result = run(tmp_path, on_progress=interrupt)
    assert result.finished and result.interrupted
    monkeypatch.setattr("sim.tasks.load_task", lambda name: replace(load_task(name), train_steps=1))
    with pytest.raises(KeyboardInterrupt, match=r"^trained [0-9,]+ agent steps"):  # the whole way ends there
        _train(DemoCfg(tmp_path / "demo"), lambda *_: os.kill(os.getpid(), signal.SIGINT))


def test_a_run_is_not_overwritten_nor_resumed_as_another(tmp_path: Path):
    run(tmp_path, stop=lambda: True)
    with pytest.raises(CheckpointError, match=r"exists: phalanx train --resume .* goes on with that run; another"):
        run(tmp_path)
    other = train_cfg(task="point", out=tmp_path, seed=5, resume=True, **PPO)
    with pytest.raises(CheckpointError, match="cannot resume with seed = 5: the checkpoint was made with 0"):
        train(other, env=PointTeam(16))
    other = train_cfg(
        task="point",
        out=tmp_path,
        resume=True,
    )
    with pytest.raises(
        CheckpointError,
        match=r"other values than the checkpoint\'s: hidden = 64 \(there 16\), peer_embed = 32 \(there 8\)",
    ):
        train(other, env=PointTeam(16))


@pytest.mark.parametrize("task", ["swarm-swap", "velocity"])
def test_environment_state_is_exact(task):
    env, twin = (make_env(task, 3, seed=seed) for seed in (0, 1))
    env.steps[1] = env.max_steps - 10  # a world has just started again when the state is taken
    actions = torch.rand(20, 3, env.num_agents, env.action_dim) * 2 - 1
    for action in actions[:10]:
        env.step(action)
    twin.set_state(env.get_state())
    assert same(twin.obs, env.obs)
    for action in actions[10:]:
        assert same(list(env.step(action)), list(twin.step(action)))


def test_what_is_drawn_for_one_thing_does_not_change_another(tmp_path: Path):
    """A second pass over the samples draws another order of minibatches: actions, worlds and weights stay the same."""

    def acted(epochs: int) -> torch.Tensor:
        cfg = train_cfg(task="point", out=tmp_path, **{**PPO, "epochs": epochs, "learning_rate": 0.0})
        trainer = Trainer(replace(cfg, algorithm={**cfg.algorithm, "schedule": "constant"}), PointTeam(16))
        for _ in range(2):
            trainer.iterate(0.0)
        trainer.close()
        return trainer.algorithm.rollouts["point"].action

    torch.testing.assert_close(acted(1), acted(2), rtol=0, atol=1e-4)  # but for statistics in another order


def test_terms_that_draw_from_the_global_generators_resume_too(tmp_path: Path):
    cfg = train_cfg(task="point", out=tmp_path, total_steps=1, **PPO)
    first = Trainer(cfg, PointTeam(16))
    save_checkpoint(tmp_path / FILE, first.state_dict())
    expected = torch.rand(3), np.random.rand(3)
    second = Trainer(cfg, PointTeam(16))
    torch.rand(7), np.random.rand(7)
    second.load_state_dict(load_checkpoint(tmp_path))
    assert torch.equal(expected[0], torch.rand(3)) and np.array_equal(expected[1], np.random.rand(3))


def test_a_budget_of_time_is_that_of_the_whole_run(tmp_path: Path):
    cfg = train_cfg(task="point", out=tmp_path, total_steps=10**9, wall_budget_s=1.0, **PPO)
    first = train(cfg, env=PointTeam(16))
    assert first.finished and first.message.endswith("s, for --wall-budget-s 1 is used up")
    again = train(replace(cfg, resume=True), env=PointTeam(16))
    assert again.finished and again.agent_steps == first.agent_steps
    assert f"to go on: phalanx train --resume {tmp_path} --wall-budget-s S, above" in again.message


@pytest.mark.slow
def test_a_folder_in_which_another_process_trains_is_refused(tmp_path):
    holder = (
        "import sys, fcntl; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    )
    command = [sys.executable, "-c", holder, str(tmp_path / LOCK)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        other.stdout.readline()
        with pytest.raises(ValueError, match="another process trains in it"):
            run(tmp_path)
        other.communicate("\n")
    assert run(tmp_path).finished
