"""Engines are chosen by name, and a run survives the loss of one."""

import os
import sys
import threading
from functools import cache
from types import SimpleNamespace

import mujoco
import pytest
import torch
from command import here
from one_group import make_env
from small_run import train_cfg

from deploy.bundle import load_bundle
from policies.checkpoint import global_rng_state, load_checkpoint
from policies.evaluation.evaluate import evaluate
from policies.export.export import export_policy
from policies.training.train import train
from policies.training.trainer import Trainer
from sim.envs.team_env import TeamEnv
from sim.physics import ENGINES, EngineError
from sim.physics.jax import setup

SMALL = dict(num_steps=4, epochs=1, minibatch=64, hidden=16, threads=1)


def cfg(out, **changes):
    options = {"task": "hover", "num_envs": 16, "total_steps": 16 * 4 * 3, "checkpoint_every": 1, **SMALL}
    return train_cfg(out=out, **{**options, **changes})


@pytest.mark.parametrize("name", ["bullet", "mujoco:spring", "mujoco:", "warp:fast", ""])
def test_an_unknown_engine_is_named_with_what_there_is(name):
    with pytest.raises(EngineError, match=f"no engine '{name}'; there are mujoco, warp, mjx, brax"):
        make_env("hover", 2, seed=0, engine=name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is an accelerator")
@pytest.mark.parametrize("engine", ["mujoco", *(pytest.param(name, marks=pytest.mark.slow) for name in ENGINES[1:])])
def test_an_accelerator_that_is_not_there_is_refused(engine):
    with pytest.raises(EngineError, match="cuda"):
        make_env("reach", 2, seed=0, engine=engine, device="cuda")


def test_native_physics_is_not_timed_but_by_a_clock_of_the_programs_own():
    def timed() -> float:
        env = make_env("hover", 2, seed=0)
        env.step(torch.zeros(2, 1, 4))
        return sum(data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration for data in env.world.physics._data)

    assert timed() == 0.0
    ticks = iter(range(10**6))
    mujoco.set_mjcb_time(lambda: float(next(ticks)))
    try:
        assert timed() > 0.0
    finally:
        mujoco.set_mjcb_time(None)
    assert timed() == 0.0


def test_a_thread_of_jax_that_ends_at_once_is_no_error(monkeypatch):
    ended = threading.Thread()
    ended.start()
    ended.join()
    started = iter([[], [str(ended.native_id)]])
    monkeypatch.setattr(setup.os, "listdir", lambda folder: next(started))
    cores = os.sched_getaffinity(0)
    setup._start_on_one_core(SimpleNamespace(devices=lambda: None))
    assert os.sched_getaffinity(0) == cores


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "module"), [("warp", "warp"), ("mjx", "jax")])
def test_an_engine_that_is_not_installed_says_what_to_install(engine, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    done = here("eval", "hover", "--episodes", "2", "--engine", engine)
    assert done.returncode == 2 and f"pip install 'phalanx[{module}]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@cache
def flown(engine):
    return evaluate("zoo/hover.onnx", "hover", 64, engine=engine)


@pytest.mark.slow
@pytest.mark.xdist_group("every engine")
@pytest.mark.parametrize("engine", ["warp", "mjx"])
def test_the_shipped_policy_flies_on_every_engine(engine):
    result = flown(engine)
    assert result.success_rate >= 0.98
    assert result.mean_return == pytest.approx(flown("mujoco").mean_return, rel=0.02)


@pytest.mark.slow
def test_the_same_seed_and_actions_are_rewarded_alike_on_two_engines():
    rewards = {}
    for engine in ("mujoco", "warp"):
        env = make_env("swarm-swap", 8, seed=1, engine=engine)
        draw, total = torch.Generator().manual_seed(2), []
        for _ in range(40):
            action = 0.3 * torch.rand(8, env.num_agents, env.action_dim, generator=draw) - 0.15
            total.append(env.step(action)[1])
        rewards[engine] = torch.stack(total)
    assert torch.allclose(rewards["mujoco"], rewards["warp"], atol=2e-3)


@pytest.mark.slow
def test_a_run_goes_on_on_another_engine(tmp_path):
    train(cfg(tmp_path, engine="warp", total_steps=16 * 4 * 2))
    saved = load_checkpoint(tmp_path)
    other = Trainer(cfg(tmp_path, engine="mujoco", resume=True))
    saved["collector"]["running"]["crazyflie"] += 7.0
    other.load_state_dict(saved)
    assert other.collector.episodes.running["crazyflie"].isnan().all()  # episodes start again, and these are cut short
    assert other.agent_steps == 16 * 4 * 2 and other.collector.env.world.physics.device.type == "cpu"
    for name, value in saved["policies"]["crazyflie"]["state"].items():
        assert torch.equal(other.policy.state_dict()[name], value)
    result = train(cfg(tmp_path, engine="mujoco", resume=True))
    assert result.finished and result.agent_steps == 16 * 4 * 3


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_exported")
def test_a_run_stays_on_its_engine_and_its_file_says_which(tmp_path, capfd):
    train(cfg(tmp_path, engine="warp", total_steps=16 * 4 * 2))
    train(cfg(tmp_path, resume=True, total_steps=16 * 4 * 3))
    saved = load_checkpoint(tmp_path)
    assert (
        saved["made_on"]["engine"] == "warp"
        and saved["run"]["engines"] == ["warp"]
        and "start again" not in capfd.readouterr().err
    )
    train(cfg(tmp_path, resume=True, engine="mujoco", total_steps=16 * 4 * 4))
    assert "from warp (cpu) to mujoco (cpu): learning goes on, episodes start again" in capfd.readouterr().err
    export_policy(tmp_path, tmp_path / "hover.onnx")
    assert load_bundle(tmp_path / "hover.onnx").contract.provenance.versions["mujoco-warp"]


@pytest.mark.slow
def test_the_curriculum_goes_on_on_another_engine(tmp_path):
    trainer = Trainer(cfg(tmp_path, task="swarm-swap", engine="warp"))
    trainer.collector.env.difficulty[:] = torch.linspace(0.0, 1.0, 16)
    state = trainer.state_dict() | {"rng": global_rng_state()}
    other = Trainer(cfg(tmp_path, task="swarm-swap"))
    other.load_state_dict(state)
    assert torch.equal(other.collector.env.difficulty, trainer.collector.env.difficulty)


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory. Tried to\nallocate"), EngineError("lost")]
)
def test_an_engine_that_fails_leaves_a_run_to_go_on_with(tmp_path, error):
    calls = []

    def failing(numbers):
        calls.append(numbers)
        if len(calls) == 2:
            trainer_env.world.physics.step = fail

    def fail(*_):
        raise error

    trainer_env = TeamEnv("hover", 16, seed=0, curriculum=True, engine="warp")
    way = r"; .*--resume .*, or on another --engine"
    with pytest.raises(EngineError, match=rf"('warp': 16 worlds do not fit into the memory|lost){way}"):
        train(cfg(tmp_path, engine="warp", total_steps=10_000), failing, env=trainer_env)
    assert load_checkpoint(tmp_path)["progress"]["agent_steps"] == 16 * 4 * 2
    assert train(cfg(tmp_path, engine="mujoco", resume=True)).finished


@pytest.mark.parametrize(
    ("error", "raised", "line"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to\nallocate"), EngineError, "2 worlds do not fit into"),
        (torch.AcceleratorError("device is lost\nsee the log"), EngineError, "the engine 'mujoco': device is lost$"),
        (RuntimeError("a mistake of ours"), RuntimeError, "^a mistake of ours$"),
    ],
)
def test_what_an_accelerator_cannot_do_is_one_line_in_an_evaluation(error, raised, line, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr("sim.physics.mujoco.mujoco_threads.MujocoPhysics.step", fail)
    with pytest.raises(raised, match=line) as told:
        evaluate("zoo/hover.onnx", "hover", 2)
    assert "\n" not in str(told.value)


@pytest.mark.slow
def test_scenes_are_refused_by_name():
    with pytest.raises(EngineError, match="Brax's pipeline 'generalized' cannot run this scene: it has drives"):
        make_env("hover", 2, seed=0, engine="brax")
