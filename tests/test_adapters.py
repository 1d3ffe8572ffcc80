"""Other libraries' own checks, run on the adapters."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from pettingzoo.test import parallel_api_test, parallel_seed_test

from sim.adapters.gymnasium import TeamGymEnv, TeamVectorEnv
from sim.adapters.pettingzoo import TeamParallelEnv


def test_gymnasium_checks_one_world():
    check_env(TeamGymEnv("swarm-swap", num_agents=2), skip_render_check=True)


def test_gymnasium_vector_env_keeps_the_last_observation_of_an_episode():
    env = RecordEpisodeStatistics(TeamVectorEnv("swarm-swap", 3, num_agents=2))
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    falling = np.tile(np.array([-1, 0, 0, 0], np.float32), (3, 2, 1))
    for _ in range(200):
        obs, reward, terminated, truncated, info = env.step(falling)
        if terminated.any():
            break
    assert terminated.any() and "episode" in info
    index = int(terminated.nonzero()[0][0])
    assert not np.allclose(info["final_obs"][index], obs[index])
    assert reward.shape == truncated.shape == (3,)


@pytest.mark.filterwarnings("ignore")
def test_pettingzoo_checks_the_parallel_env():
    parallel_api_test(TeamParallelEnv("swarm-swap", num_agents=3), num_cycles=500)
    parallel_seed_test(lambda: TeamParallelEnv("swarm-swap", num_agents=2), num_cycles=50)
