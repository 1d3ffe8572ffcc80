"""Learning may begin with the networks of another run whose robots see and do the same."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from places import ZOO
from small_run import train_cfg

from policies.checkpoint import CheckpointError, load_checkpoint
from policies.training.train import TrainCfg, train
from policies.training.trainer import Trainer
from sim.tasks import load_task

PPO = dict(num_steps=8, epochs=1, minibatch=64, hidden=16, peer_embed=8)


@pytest.fixture(scope="module")
def hovered(tmp_path_factory) -> TrainCfg:
    cfg = train_cfg(task="hover", out=tmp_path_factory.mktemp("hover"), num_envs=8, total_steps=8 * 8 * 3, **PPO)
    train(cfg)
    return cfg


def test_networks_of_another_run_are_what_learning_begins_with(hovered: TrainCfg, tmp_path: Path):
    done = Trainer(hovered)
    done.load_state_dict(load_checkpoint(hovered.out))
    begun = Trainer(replace(hovered, out=tmp_path, seed=5, start_from=hovered.out))
    for name, value in done.policy.state_dict().items():
        torch.testing.assert_close(begun.policy.state_dict()[name], value, rtol=0, atol=0)
    assert begun.agent_steps == 0
    assert not begun.algorithm.optimisers["crazyflie"].state_dict()["state"]  # it learns at its own pace
    begun.iterate(0.0)


@pytest.mark.parametrize("algo", ["td3", "sac"])
def test_an_algorithm_with_slow_copies_of_its_policy_begins_with_those_of_another_algorithms_run(
    hovered: TrainCfg, tmp_path: Path, algo: str, capsys: pytest.CaptureFixture[str]
):
    small = dict(num_envs=8, num_steps=8, batch=64, warm_up=64, hidden=16, peer_embed=8)
    begun = Trainer(train_cfg(task="hover", algo=algo, out=tmp_path, start_from=hovered.out, **small))
    saved = load_checkpoint(hovered.out)["policies"]["crazyflie"]["state"]
    torch.testing.assert_close(begun.policy.state_dict()["trunk.own.weight"], saved["trunk.own.weight"])
    learner = begun.algorithm.learners["crazyflie"]
    for part, slow in learner.targets.items():
        for name, value in getattr(learner, part).state_dict().items():
            assert torch.equal(slow.state_dict()[name], value), (part, name)
    assert not begun.policy.by_chance, "it acts as it has learned, while the replay fills"
    assert "from a run of ppo: policies are taken over, but for log_std" in capsys.readouterr().err


def test_networks_that_do_not_fit_are_refused_in_one_line(hovered: TrainCfg, tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"cannot start from .*: networks differ in hidden \(16 there, 32 here\)"):
        Trainer(replace(hovered, out=tmp_path, start_from=hovered.out, network={"hidden": 32, "peer_embed": 8}))
    task = load_task("hover")
    seen = task.group.observation
    (first, term), *rest = seen.own.items()
    for own, said in (
        ({f"other_{first}": term, **dict(rest)}, f"{first} there, other_{first} here"),
        ({**dict(rest), first: term}, "own in another order"),  # of the same size, but not the same
    ):
        other = task.changed(observation=replace(seen, own=own))
        with pytest.raises(CheckpointError, match=f"sees or does other things there: {said}"):
            Trainer(replace(hovered, task=other, out=tmp_path, start_from=hovered.out))
    with pytest.raises(CheckpointError, match="no policy for 'drone' of task 'perch', but for crazyflie"):
        Trainer(replace(hovered, task="perch", out=tmp_path, start_from=hovered.out))
    with pytest.raises(CheckpointError, match="no checkpoint at"):
        Trainer(replace(hovered, out=tmp_path, start_from=tmp_path / "nothing"))


def test_a_run_that_decided_in_chunks_is_refused_by_name_where_this_one_does_not(hovered: TrainCfg, tmp_path: Path):
    train(replace(hovered, out=tmp_path / "chunks", network={**hovered.network, "chunk": 2}))
    with pytest.raises(CheckpointError, match=r"networks differ in actions of a chunk \(2 there, 1 here\)"):
        Trainer(replace(hovered, out=tmp_path / "other", start_from=tmp_path / "chunks"))


def test_learning_begins_with_the_networks_in_a_policy_file_and_its_critic_learns_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    cfg = train_cfg(
        task="swarm-swap", out=tmp_path, num_envs=4, start_from=ZOO / "swarm-swap.onnx", num_steps=8, epochs=1,
        minibatch=64, learning_rate=1e-3, critic_first=1, lag=0,
    )  # fmt: skip
    begun = Trainer(cfg)  # which compares what its policy does with the file's probes
    assert "from a policy file: crazyflie is taken over, its critic is new" in capsys.readouterr().err
    policy, critic = (
        {k: v.clone() for k, v in net.state_dict().items()} for net in begun.algorithm.networks().values()
    )
    begun.iterate(0.0)

    def changed(net: dict, name: str) -> bool:
        return any(not torch.equal(net[k], v) for k, v in begun.algorithm.networks()[name].state_dict().items()
                   if "normaliser" not in k)  # fmt: skip

    now = list(begun.algorithm.networks())
    assert changed(critic, now[1]) and not changed(policy, now[0])
    begun.iterate(0.0)
    assert changed(policy, now[0]), "after so many steps the policy learns too"


def test_a_policy_file_that_does_not_fit_is_refused_in_one_line(tmp_path: Path):
    for task, file, said in (
        ("hover", "reach.onnx", "reach.onnx is for 'panda'; task 'hover' has crazyflie"),
        ("hover", "swarm-swap-firmware.onnx", "crazyflie sees or does other things there: .* there, .* here"),
        ("velocity", "velocity.onnx", "does something else than the file .* network.symmetric"),  # and is, there
        ("hover", "hover.json", "is not a checkpoint of phalanx"),
    ):
        with pytest.raises(CheckpointError, match=said) as refused:
            Trainer(train_cfg(task=task, out=tmp_path, num_envs=4, start_from=ZOO / file))
        assert "\n" not in str(refused.value)
    with pytest.raises(CheckpointError, match=r"this run's trunk.own.weight is \(32, 67\), it has \(64, 67\)"):
        Trainer(train_cfg(task="hover", out=tmp_path, num_envs=4, start_from=ZOO / "hover.onnx", hidden=32))
