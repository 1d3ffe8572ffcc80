"""Action chunks: one decision every few control periods, in training, in the file and behind a shield."""

from pathlib import Path

import numpy as np
import pytest
import torch
from parity import measure_parity
from point_team import PointPair, PointTeam
from small_run import train_cfg
from test_resume import same

from deploy.bundle import load_bundle
from deploy.runtime import PolicyRuntime
from policies.algorithms.gae import gae
from policies.checkpoint import load_checkpoint
from policies.evaluation.policy_runner import TorchRunner
from policies.export.export import export_policy
from policies.networks.chunk import nothing_left
from policies.networks.controller import Controller
from policies.networks.normaliser import dims_of
from policies.networks.policy import GaussianPolicy
from policies.training.train import train
from policies.training.trainer import Trainer
from sim.envs.team_env import TeamEnv

SMALL = dict(hidden=16, peer_embed=8, num_steps=12, threads=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, Path]:
    """A run of hover with chunks of 4, and its file."""
    folder = tmp_path_factory.mktemp("chunks")
    train(train_cfg(task="hover", out=folder, num_envs=4, chunk=4, init_std=1.0, total_steps=4 * 12 * 3, **SMALL))
    return folder, export_policy(folder, folder / "policy.onnx")


def test_a_chunk_of_one_is_no_chunk_to_the_last_bit(tmp_path: Path, monkeypatch):
    """The way through chunks, taken with k = 1, beside the way without."""
    weights = []
    for through_chunks in (False, True):
        trainer = Trainer(train_cfg(task="point", out=tmp_path, **SMALL), env=PointTeam(8))
        if through_chunks:
            trainer.policy.memory = nothing_left(1, 2)
            trainer.collector.begin(trainer.algorithm.policies)
            (rollout,) = trainer.algorithm.rollouts.values()
            rollout.decides = torch.zeros_like(rollout.acted)
        for _ in range(3):
            trainer.iterate(0.0)
        trainer.close()
        weights.append([p.detach().clone() for net in trainer.algorithm.networks().values() for p in net.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*weights, strict=True))


def test_advantages_are_those_of_decisions_as_steps():
    """Worked out row by row of what is decided, beside what PPO has from rows of control periods."""
    generator = torch.Generator().manual_seed(0)
    periods, gamma, lam = 30, 0.9, 0.8
    reward, value, after = torch.randn(3, periods, 1, generator=generator, dtype=torch.float64)
    ended = torch.zeros(periods, 1, dtype=torch.bool)
    ended[[6, 17]] = True  # in the middle of a chunk, and at its end
    terminated = ended.clone()
    terminated[17] = False
    starts = [0, 4, 7, 11, 15, 18, 22, 26]
    following = torch.cat([value[1:], after[-1:]])
    following[ended] = after[ended]
    decides = torch.zeros(periods, 1, dtype=torch.bool)
    decides[starts] = True
    lams = torch.where(decides.roll(-1, 0), torch.tensor(lam, dtype=torch.float64), 1.0)
    got, _ = gae(reward, value, following, terminated, ended, gamma, lams)
    wanted, running = {}, 0.0
    for start, end in reversed(list(zip(starts, [*starts[1:], periods], strict=True))):
        earned = sum(gamma**i * float(reward[start + i]) for i in range(end - start))
        future = gamma ** (end - start) * float(following[end - 1]) * (not terminated[end - 1])
        running = 0.0 if ended[end - 1] else gamma ** (end - start) * lam * running
        running += earned + future - float(value[start])
        wanted[start] = running
    assert {start: float(got[start]) for start in starts} == pytest.approx(wanted, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "steps"), [("ppo", 20_000), ("td3", 6_000)])
def test_it_learns_while_it_decides_at_every_second_period(tmp_path: Path, algo: str, steps: int):
    quick = dict(warm_up=640, batch=128, updates=8, gamma=0.95, tau=0.05) if algo == "td3" else {}
    cfg = train_cfg(task="p", out=tmp_path, algo=algo, total_steps=steps, chunk=2, hidden=32, peer_embed=16, **quick)
    result = train(cfg, env=PointTeam(32, num_agents=1))
    rates = [point["success_rate"] for point in result.return_curve if "success_rate" in point]
    assert sum(rates[:5]) / 5 < 0.3 and sum(rates[-5:]) / 5 > 0.8


@pytest.mark.parametrize("algo", ["ppo", "happo", "hasac", "vdn"])
def test_a_mixed_team_with_chunks_resumes_to_the_last_bit(tmp_path: Path, algo: str):
    def go(folder: str, iterations: int, resume: bool = False):
        quick = dict(warm_up=48, batch=48, updates=1) if algo in ("hasac", "vdn") else dict(epochs=1)
        out, steps = tmp_path / folder, iterations * 7 * 3 * 8
        cfg = train_cfg(
            task="p", out=out, algo=algo, total_steps=steps, resume=resume, chunk=3, checkpoint_every=2,
            **SMALL | quick | {"num_steps": 7},
        )  # fmt: skip
        return load_checkpoint(train(cfg, env=PointPair(8)).path)

    whole, _ = go("whole", 4), go("halves", 3)
    halves = go("halves", 4, resume=True)
    for name in ("policies", "algorithm", "env", "collector"):
        assert same(whole[name], halves[name]), name
    assert float(whole["collector"]["memory"]["cart"]["chunk_left"].max()) > 0, "it stopped in the middle of chunks"


def test_what_cannot_be_is_said_in_one_line(tmp_path: Path):
    for algo, more, said in (("impala", {}, "with impala.lag = 1"), ("sac", {"n_step": 3}, "one of the two")):
        with pytest.raises(ValueError, match=said):
            Trainer(train_cfg(task="p", out=tmp_path, algo=algo, chunk=2, hidden=8, **more), env=PointTeam(4))
    with pytest.raises(ValueError, match=r"network.chunk = 9 of 'point' with ppo.num_steps = 8: no longer"):
        Trainer(train_cfg(task="p", out=tmp_path, chunk=9, num_steps=8, hidden=8), env=PointTeam(4))


@pytest.mark.slow
def test_the_file_carries_the_rest_of_a_chunk_as_memory_and_does_what_training_did(run: tuple[Path, Path]):
    folder, path = run
    bundle = load_bundle(path)
    sizes = {memory.input: len(memory.initial) for memory in bundle.contract.memory}
    width = len(bundle.contract.robot.channels)
    said = {tensor.name: tensor.meaning for tensor in bundle.contract.inputs}
    assert said["chunk"].startswith("actions that are decided and not yet done")
    assert sizes["chunk"] == 3 * width and sizes["chunk_left"] == 1
    assert measure_parity(bundle, folder, 2)["max_abs"] < 1e-5


@pytest.mark.slow
def test_a_shield_cuts_into_a_chunk():
    """Drones whose chunks take them out of their space are kept in it, by commands changed between two decisions."""
    torch.manual_seed(0)
    env = TeamEnv("swarm-swap", 8, seed=3, shield=True)
    policy = GaussianPolicy(dims_of(env.group.obs), env.group.action_dim, chunk=4)
    torch.nn.init.normal_(policy.head.weight)
    controller = Controller(env.task.group, policy)
    runner = TorchRunner(controller)
    runner.start(env.group)
    between = torch.zeros(())
    for _ in range(100):
        rest, left = runner.memory["chunk"], runner.memory["chunk_left"]
        action, target = runner.act(env.group)
        going = left[..., 0] > 0
        assert torch.equal(action[going], rest[going][:, : action.shape[-1]]), "one action of the chunk after the other"
        step = env.step({env.task.group_name: action})
        changed = (env.group.now.target - target).abs().amax(-1) > 1e-6
        between += (changed & going & ~step.ended[:, None]).sum()
        first = controller.initial_memory(8, 4)
        runner.memory = {n: torch.where(step.ended[:, None, None], first[n], v) for n, v in runner.memory.items()}
    assert between > 100


@pytest.mark.slow
def test_a_robot_that_begins_again_decides_again(run: tuple[Path, Path]):
    bundle = load_bundle(run[1])
    runtime, probe = PolicyRuntime(bundle), bundle.probes.sequences[0]
    rows = {name: value[0, :1] for name, value in probe.inputs.items()}

    def flown(memory: dict, **seen: float) -> tuple[np.ndarray, dict]:
        given = {name: value + np.float32(seen.get(name, 0.0)) for name, value in rows.items()}
        outputs = runtime.step_batch(given | memory)
        return outputs["action"], {m.input: outputs[m.output] for m in bundle.contract.memory}

    first = runtime.initial_memory(1)
    _, kept = flown(first)
    as_seen, moved = flown(kept)[0], flown(kept, base_lin_vel=1.0)[0]
    assert np.array_equal(as_seen, moved), "what was decided does not change with what is seen since"
    assert not np.array_equal(flown(first)[0], flown(first, base_lin_vel=1.0)[0])
