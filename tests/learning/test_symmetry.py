"""Left and right: a mirrored world steps as the mirror of the world, and a symmetric policy acts so."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from command import assert_one_line_error, here
from small_run import train_cfg
from test_resume import same

from policies.checkpoint import CheckpointError, load_checkpoint
from policies.evaluation.trained import load_controllers
from policies.networks.critic import Critic, QFunction
from policies.networks.mirror import Mirror, Mirrored
from policies.networks.normaliser import ObsNormaliser, dims_of
from policies.training.train import train
from policies.training.trainer import Trainer
from sim.envs.team_env import TeamEnv
from sim.mirror import TURN, VECTOR, of_group, of_robot
from sim.task import Draw, Start, TaskCfg
from sim.tasks import load_task
from sim.terms import Term, observations

TASKS = ("hover", "swarm-swap", "swarm-track", "payload-lift", "stand", "velocity")
PARTS = ("policy", "neighbours", "privileged")


def in_mirror(flip: Any, values: torch.Tensor) -> torch.Tensor:
    return Mirrored(flip.index, flip.sign)(values)


def with_mirrored_starts(task: TaskCfg) -> TaskCfg:
    """World 1 begins as world 0 in the mirror, the plane of x and z of the world."""
    asked = (1.0, -1.0, -1.0) if task.name == "velocity" else VECTOR.sign  # forward, left, turning left; else a place

    def pair(values: torch.Tensor | None, sign: tuple[float, ...] = VECTOR.sign) -> torch.Tensor | None:
        return None if values is None else torch.stack([values[0], values[0] * torch.tensor(sign)])

    def starts(draw: Draw) -> dict[str, Start]:
        ((name, start),) = task.starts(draw).items()
        turned, joint_pos = (1.0, *TURN.sign), start.joint_pos
        if joint_pos is not None:
            joint_pos = torch.stack([joint_pos[0], in_mirror(of_robot(task.group.robot)[0], joint_pos[0])])
        both = {key: {k: pair(v, asked) for k, v in getattr(start, key).items()} for key in ("command", "plan")}
        objects = {key: (pair(pos), pair(quat, turned)) for key, (pos, quat) in start.objects.items()}
        place = {"pos": pair(start.pos), "quat": pair(start.quat, turned), "lin_vel": pair(start.lin_vel)}
        return {name: replace(start, **both, **place, joint_pos=joint_pos, objects=objects)}

    return replace(task, starts=starts)


@pytest.mark.parametrize("name", TASKS)
def test_the_step_of_a_mirrored_world_is_the_mirror_of_its_step(name: str):
    """To rounding for drones; the masses of the G1's own two sides differ by about 1 %."""
    task = with_mirrored_starts(load_task(name))
    env, flips = TeamEnv(task, 2, 0, randomise=False), of_group(task.group)
    group, loose = env.group, 0.02 if task.group.robot == "g1" else 1e-5
    if "gait_phase" in group.memory:
        group.memory["gait_phase"][1] = 0.5  # of the other foot
        env._observe()
    generator, seen = torch.Generator().manual_seed(1), []
    for _ in range(8):
        action = 2 * torch.rand(env.group.num_agents, group.action_dim, generator=generator) - 1
        step = env.step({task.group_name: torch.stack([action, in_mirror(flips["action"], action)])})
        assert not step.ended.any()
        for term, reward in step.reward_terms[task.group_name].items():
            torch.testing.assert_close(reward[0], reward[1], rtol=loose, atol=loose / 5, msg=term)
        seen.append({part: getattr(env.obs[task.group_name], part).clone() for part in PARTS})
    for part in PARTS:
        one, other = torch.stack([obs[part] for obs in seen], dim=1)  # (steps, robots, ..., n)
        if not one.numel():
            continue
        off, size = (x.abs().flatten(0, -2).amax(0) for x in (in_mirror(flips[part], one) - other, other))
        assert (off <= loose * size).all(), f"{part}: {(off > loose * size).nonzero().flatten().tolist()}"


def trained(out: Path, iterations: int, algo: str = "ppo", resume: bool = False) -> Path:
    """A policy of the G1 after a few iterations with large steps: its two sides would have come apart."""
    off_policy = {} if algo == "ppo" else {"warm_up": 8, "batch": 16, "updates": 2}
    cfg = train_cfg(
        task="stand", out=out, algo=algo, num_envs=4, total_steps=4 * 4 * iterations, resume=resume, num_steps=4,
        symmetric=True, hidden=16, threads=1, learning_rate=0.1, checkpoint_every=2, **off_policy,
    )  # fmt: skip
    return train(cfg).path


@pytest.mark.parametrize("algo", ["ppo", "sac", "td3"])
def test_a_symmetric_policy_does_in_the_mirror_what_it_does_and_its_critic_values_both_alike(tmp_path: Path, algo: str):
    path = trained(tmp_path / "run", 3, algo)
    policy, flips = load_controllers(path)["g1"].policy, of_group(load_task("stand").group)
    obs = TeamEnv("stand", 8, 0).obs["g1"]
    mirrored = replace(obs, policy=in_mirror(flips["policy"], obs.policy))
    with torch.no_grad():
        action, turned = (policy.best(seen, {})[0] for seen in (obs, mirrored))
    assert action.std(0).max() > 1e-3, "it looks at what it sees"
    torch.testing.assert_close(in_mirror(flips["action"], action), turned, atol=1e-5, rtol=1e-4)
    if algo == "ppo":
        spread = policy.log_std
        assert torch.equal(spread, spread[list(flips["action"].index)]) and not torch.equal(spread[:1], spread[1:2])


def test_a_symmetric_critic_values_both_sides_alike():
    flips, obs = of_group(load_task("stand").group), TeamEnv("stand", 8, 0).obs["g1"]
    parts = {part: in_mirror(flips[part], getattr(obs, part)) for part in ("policy", "privileged")}
    dims, mirror = dims_of(obs), Mirror({part: (flip.index, flip.sign) for part, flip in flips.items()})
    normaliser, action = ObsNormaliser(dims, mirror), torch.rand(8, 1, 29)
    normaliser.update(obs)
    here, there = normaliser(obs), normaliser(replace(obs, **parts))
    critic, q = Critic(dims, mirror=mirror), QFunction(dims, 29, mirror=mirror)
    torch.testing.assert_close(critic(here), critic(there))
    torch.testing.assert_close(q(here, action), q(there, in_mirror(flips["action"], action)))
    assert critic(here).std() > 1e-3 and not torch.allclose(Critic(dims)(here), Critic(dims)(there), rtol=1e-2)


def test_a_symmetric_run_resumes_to_the_last_bit(tmp_path: Path):
    whole, _ = trained(tmp_path / "whole", 4), trained(tmp_path / "halves", 2)
    ends = [load_checkpoint(path) for path in (whole, trained(tmp_path / "halves", 4, resume=True))]
    assert all(same(ends[0][part], ends[1][part]) for part in ("policies", "algorithm", "collector"))
    plain = train_cfg(task="stand", out=tmp_path / "other", num_envs=4, start_from=whole, hidden=16)
    with pytest.raises(CheckpointError, match="networks differ in symmetry"):
        Trainer(plain)


def test_what_has_no_mirror_is_refused_in_one_line(tmp_path: Path):
    refused = here("train", "reach", "--network.symmetric", "--num-envs", "2", "--out", str(tmp_path / "run"))
    assert_one_line_error(
        refused, "network.symmetric: it is not stated how transform, limit, tool_to_goal of 'panda' mirror"
    )
    with pytest.raises(ValueError, match=r"network.symmetric: it is for one kind of robot, and there are drone, arm"):
        Trainer(train_cfg(task="perch", out=tmp_path, num_envs=2, symmetric=True))
    with pytest.raises(ValueError, match=r"network.symmetric with network.independent: one of the two"):
        Trainer(train_cfg(task="swarm-swap", out=tmp_path, num_envs=2, symmetric=True, independent=True))
    with pytest.raises(ValueError, match=r"robot 'panda': joint 'joint2' has no counterpart in the mirror"):
        of_robot("panda")
    group = load_task("stand").group
    one_leg = replace(group.observation, own={"joints": Term(observations.joint_vel, {"joints": (0, 1, 2)})})
    with pytest.raises(ValueError, match=r"network.symmetric: number 0 is seen without number 6, its counterpart"):
        of_group(replace(group, observation=one_leg))
    leaning = replace(group.action, centre=(0.1, *group.action.centre[1:]))
    with pytest.raises(ValueError, match=r"actions reach elsewhere at left_hip_pitch_joint than at its counterpart"):
        of_group(replace(group, action=leaning))
