"""Evaluation counts one episode a world, the first."""

from dataclasses import replace

import pytest
import torch
from one_group import make_env

from policies.evaluation.evaluate import evaluate, fly, wilson
from policies.evaluation.policy_runner import TeamRunner
from sim.envs.team_env import TeamEnv
from sim.tasks import load_task


class Drift:
    """Tilts every world's robots by another amount, so that worlds end at different times and some end twice."""

    def start(self, env) -> None:
        self.action = torch.zeros(env.num_envs, env.num_agents, env.action_dim)
        self.action[..., 1] = torch.linspace(0.01, 1.0, env.num_envs)[:, None]

    def act(self, env) -> tuple[torch.Tensor, torch.Tensor]:
        return self.action, self.action


def test_only_the_first_episode_of_a_world_counts():
    worlds = 6
    env, pilot = make_env("swarm-swap", worlds, seed=4, num_agents=3), Drift()
    pilot.start(env)
    first: dict[int, tuple[int, bool, float]] = {}
    ends = 0
    total = torch.zeros(worlds)
    while len(first) < worlds:
        _, reward, terminated, truncated, info = env.step(pilot.act(env)[0])
        open_worlds = [w for w in range(worlds) if w not in first]
        total[open_worlds] += reward.mean(-1)[open_worlds]
        for w in (terminated | truncated).any(-1).nonzero().flatten().tolist():
            ends += 1
            outcome = int(info["episode_length"][w]), bool(info["terminations"]["collision"][w].any())
            first.setdefault(w, (*outcome, float(info["min_separation_m"][w])))
    assert ends > worlds  # some world did end twice

    result = fly(TeamRunner({"crazyflie": pilot}), TeamEnv("swarm-swap", worlds, seed=4, num_agents=3))
    lengths, collisions, separations = zip(*first.values(), strict=True)
    assert result.mean_episode_s == pytest.approx(0.02 * sum(lengths) / worlds)
    assert result.collision_rate == pytest.approx(sum(collisions) / worlds)
    assert result.min_separation_m == pytest.approx(min(separations))
    assert result.mean_return == pytest.approx(float(total.mean()), rel=1e-5)
    assert result.success_rate == 0.0 and not result.shield and result.episodes == worlds
    assert result.corrected_by == {}


@pytest.mark.parametrize(
    ("name", "robot", "push", "expected"),
    [
        ("hover", "crazyflie", {1: 1.0}, {"speed"}),
        ("hover", "crazyflie", {0: -1.0}, {"descent"}),
        ("reach", "panda", {3: -1.0}, {"braking", "range"}),
    ],
    ids=["roll", "no thrust", "elbow"],
)
def test_it_says_for_what_the_shield_corrected(name, robot, push, expected):
    class Pushed(Drift):
        def start(self, env) -> None:
            self.action = torch.zeros(env.num_envs, env.num_agents, env.action_dim)
            for channel, value in push.items():
                self.action[..., channel] = value

    result = fly(TeamRunner({robot: Pushed()}), TeamEnv(name, 8, seed=0, shield=True))
    shares = list(result.corrected_by.values())
    assert expected & set(list(result.corrected_by)[:2]), result.corrected_by
    assert shares == sorted(shares, reverse=True) and max(shares) <= result.intervention_rate <= sum(shares) + 1e-9


def test_wilson_interval():
    assert wilson(250, 256) == (pytest.approx(0.9498190, abs=1e-6), pytest.approx(0.9892151, abs=1e-6))
    assert wilson(0, 256)[0] == 0.0 and wilson(7, 7)[1] == 1.0


@pytest.mark.slow
def test_a_file_is_flown_by_its_own_target_whatever_its_action_means_today():
    task = load_task("hover")
    action = task.group.action
    changed = task.changed(action=replace(action, scale=tuple(-scale for scale in action.scale)))
    one, other = (evaluate("zoo/hover.onnx", each, num_worlds=8) for each in (task, changed))
    assert one.success_rate == other.success_rate == 1.0
    assert one.mean_episode_s == other.mean_episode_s
