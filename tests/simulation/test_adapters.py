"""Other libraries' own checks, run on the adapters."""

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import FlattenObservation, NormalizeObservation, RecordEpisodeStatistics
from pettingzoo.test import parallel_api_test, parallel_seed_test

from sim.adapters.gymnasium import TeamGymEnv, TeamVectorEnv
from sim.adapters.pettingzoo import TeamParallelEnv
from sim.envs.team_env import TeamEnv
from sim.tasks import load_task

PRIVILEGED = ("velocity", "stand", "payload-lift", "co-carry")
FALLING = np.array([-1, 0, 0, 0], np.float32)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", ["swarm-swap", *PRIVILEGED])
def test_gymnasium_checks_one_world(task):
    check_env(TeamGymEnv(task), skip_render_check=True)


@pytest.mark.parametrize("task", PRIVILEGED)
def test_what_only_critics_may_see_is_in_no_adapter(task):
    env = TeamEnv(task, 1, seed=0)
    hidden, width = env.group.obs.privileged.shape[-1], env.group.obs.flat().shape[-1]
    assert hidden > 0 and width == len(env.group.obs.policy[0, 0]) + env.group.num_peers * sum(
        part.shape[-1] for part in (env.group.obs.neighbours, env.group.obs.valid[..., None])
    )
    agent = f"{load_task(task).group_name}_0"
    assert TeamGymEnv(task).observation_space.shape == (env.group.num_agents, width)
    assert TeamVectorEnv(task, 2).single_observation_space.shape == (env.group.num_agents, width)
    assert TeamParallelEnv(task).observation_space(agent).shape == (width,)


def test_gymnasium_vector_env_keeps_the_last_observation_of_an_episode():
    env = RecordEpisodeStatistics(TeamVectorEnv("swarm-swap", 3, num_agents=2))
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    for _ in range(200):
        obs, reward, terminated, truncated, info = env.step(np.tile(FALLING, (3, 2, 1)))
        if terminated.any():
            break
    assert terminated.any() and "episode" in info
    index = int(terminated.nonzero()[0][0])
    assert not np.allclose(info["final_obs"][index], obs[index])
    assert reward.shape == truncated.shape == (3,)


def test_with_restarts_in_the_next_step_the_wrappers_of_gymnasium_work():
    task = load_task("swarm-swap").changed(episode_s=0.1)
    env = TeamVectorEnv(task, 3, num_agents=2, autoreset_mode=AutoresetMode.NEXT_STEP)
    seen = []
    wrapped = FlattenObservation(NormalizeObservation(RecordEpisodeStatistics(env)))
    wrapped.reset(seed=1)
    first = env.env.obs["crazyflie"].flat().clone()
    for k in range(1, 13):
        obs, reward, terminated, truncated, info = wrapped.step(np.zeros((3, 2, 4), np.float32))
        assert obs.shape == (3, wrapped.single_observation_space.shape[0]) and not terminated.any()
        assert truncated.all() == (k in (5, 11)) and (reward == 0.0).all() == (k in (6, 12))
        assert "final_obs" not in info
        seen.append(env.env.obs["crazyflie"].flat().clone())
        assert (env.env.steps == k % 6).all()
    assert not (seen[4] == seen[5]).all() and not (first == seen[5]).all()  # the last one, then another start


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("task", ["swarm-swap", *PRIVILEGED, "perch"])
def test_pettingzoo_checks_the_parallel_env(task):
    parallel_api_test(TeamParallelEnv(task), num_cycles=100)
    parallel_seed_test(lambda: TeamParallelEnv(task), num_cycles=20)


def test_a_mixed_team_has_agents_of_its_groups_with_spaces_of_their_own():
    env = TeamParallelEnv("perch")
    assert env.possible_agents == ["drone_0", "arm_0"]
    assert env.action_space("drone_0").shape == (4,) and env.action_space("arm_0").shape == (8,)
    obs, _ = env.reset(seed=2)
    assert all(env.observation_space(agent).contains(seen) for agent, seen in obs.items())
    with pytest.raises(ValueError, match=r"task 'perch' has several groups: drone, arm; this takes one$"):
        TeamVectorEnv("perch", 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_action_that_is_no_number_is_refused_in_one_line(bad):
    action = np.zeros((2, 4, 4), np.float32)
    action[1, 2, 3] = bad
    vector, single, parallel = TeamVectorEnv("swarm-swap", 2), TeamGymEnv("swarm-swap"), TeamParallelEnv("swarm-swap")
    with pytest.raises(ValueError, match=rf"^action {bad} at \[1, 2, 3\]: finite numbers are needed, from -1 to 1$"):
        vector.step(action)
    single.reset()
    with pytest.raises(ValueError, match=rf"^action {bad} at \[2, 3\]: finite"):
        single.step(action[1])
    parallel.reset()
    with pytest.raises(ValueError, match=rf"^crazyflie_2: action {bad} at \[3\]: finite"):
        parallel.step(dict(zip(parallel.possible_agents, action[1], strict=True)))
    with pytest.raises(ValueError, match=r"^actions have the shape \(2, 4\): \(2, 4, 4\) is needed$"):
        vector.step(action[0, :2])


@pytest.mark.slow
def test_stable_baselines3_learns_with_every_robot_a_row_of_its_own(tmp_path, monkeypatch):
    sb3 = pytest.importorskip("stable_baselines3")
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path))
    from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

    from sim.adapters.stable_baselines3 import TeamVecEnv

    rows = TeamVecEnv(load_task("swarm-swap").changed(episode_s=0.2), 4, num_agents=2)
    rows.seed(3)
    first = rows.reset()
    assert rows.num_envs == 8 and first.shape == (8, *rows.observation_space.shape)
    rows.seed(3)
    assert np.array_equal(rows.reset(), first)
    for _ in range(10):
        obs, reward, ended, infos = rows.step(np.zeros((8, 4), np.float32))
    assert ended.all() and reward.shape == (8,) and all(info["TimeLimit.truncated"] for info in infos)
    assert not np.allclose(infos[5]["terminal_observation"], obs[5])
    learner = sb3.PPO("MlpPolicy", VecNormalize(VecMonitor(rows)), n_steps=16, batch_size=32, n_epochs=1, device="cpu")
    learner.learn(256)
    assert len(learner.ep_info_buffer) > 0
    with pytest.raises(ValueError, match=r"^action nan at \[7, 0\]"):
        rows.step(np.concatenate([np.zeros((7, 4)), np.full((1, 4), np.nan)]))


@pytest.mark.slow
def test_rsl_rl_learns_with_every_robot_a_row_of_its_own(capsys):
    pytest.importorskip("rsl_rl")
    from rsl_rl.runners import OnPolicyRunner

    from sim.adapters.rsl_rl import TeamTensorEnv

    rows = TeamTensorEnv(load_task("swarm-swap").changed(episode_s=0.2), 4, num_agents=2, seed=3)
    again = TeamTensorEnv(load_task("swarm-swap").changed(episode_s=0.2), 4, num_agents=2, seed=3)
    first = rows.get_observations()
    assert first.batch_size == (8,) and torch.equal(first["policy"], again.get_observations()["policy"])
    for step in range(10):
        assert rows.episode_length_buf.tolist() == [step] * 8
        obs, reward, ended, extras = rows.step(torch.zeros(8, 4))
    assert ended.all() and extras["time_outs"].all() and reward.shape == (8,)
    assert not torch.equal(first["policy"], obs["policy"])
    rows.episode_length_buf = torch.arange(8)
    assert rows.env.steps.tolist() == [0, 2, 4, 6]  # a world's robots begin together
    network = {"class_name": "MLPModel", "hidden_dims": [8], "obs_normalization": True}
    spread = {"class_name": "GaussianDistribution", "init_std": 0.5}
    cfg = {
        **{"num_steps_per_env": 8, "obs_groups": {"actor": ["policy"], "critic": list(first.keys())}},
        **{"algorithm": {"class_name": "PPO"}, "actor": {**network, "distribution_cfg": spread}, "critic": network},
    }
    runner = OnPolicyRunner(rows, cfg)
    before = [weights.clone() for weights in runner.alg.actor.parameters()]
    runner.learn(2)
    assert any(not torch.equal(a, b) for a, b in zip(before, runner.alg.actor.parameters(), strict=True))
    with pytest.raises(ValueError, match=r"shape \(7, 4\): \(8, 4\) is needed"):
        rows.step(torch.zeros(7, 4))
