"""Teams that share one body of Gymnasium's: the parts are the whole, and each robot acts on what it sees alone."""

import gymnasium
import numpy as np
import pytest
import torch

pytest.importorskip("imageio")  # which Gymnasium's MuJoCo environments ask for
pytest.importorskip("gymnasium_robotics")
from gymnasium_robotics import mamujoco_v1

from benchmarks.papers.gym_team import GymTeam, environment, learn
from benchmarks.papers.teams import ALGOS
from policies.algorithms import ALGORITHMS
from policies.networks.policy import GaussianPolicy
from policies.networks.trunk import NetworkCfg

SMALL = {
    "ppo": {"num_steps": 8, "minibatch": 16, "epochs": 1, "schedule": "constant"},
    "happo": {"num_steps": 8, "minibatch": 16, "epochs": 1, "schedule": "constant"},
    "hasac": {"num_steps": 4, "updates": 1, "batch": 16, "warm_up": 16, "replay": 200},
}


@pytest.mark.parametrize("task, robots, sizes", [("HalfCheetah-2x3", 2, (12, 3)), ("Ant-4x2", 4, (42, 2))])
def test_the_team_is_multi_agent_mujoco_and_the_robot_that_it_parts_to_the_last_bit(task, robots, sizes):
    """The same actions in ours, in Gymnasium-Robotics' environment and, all joints at once, in Gymnasium's."""
    torch.manual_seed(0)
    team, generator = GymTeam(task, 1, seed=3), torch.Generator().manual_seed(0)
    body, _, split = task.rpartition("-")
    theirs, whole = mamujoco_v1.parallel_env(body, split), gymnasium.make(f"{body}-v5")
    seen, _ = theirs.reset(seed=3)
    whole.reset(seed=3)
    groups = team.groups(NetworkCfg(), None)
    policies = {name: GaussianPolicy(**group.policy, init_std=0.5) for name, group in groups.items()}
    assert len(groups) == robots and {(g.dims.policy, g.width) for g in groups.values()} == {sizes}
    returns = np.zeros(3)
    for _ in range(50):
        for name, obs in team.obs().items():
            assert np.array_equal(obs.policy[0, 0], seen[name].astype(np.float32))
        steps = team.step(policies, generator)
        actions = {name: step.action[0, 0].clamp(-1, 1).numpy() for name, step in steps.items()}
        joint = theirs.map_local_actions_to_global_action(actions)
        seen, earned, failed, _, _ = theirs.step(actions)
        rewards = [float(steps[name].reward) for name in steps]
        assert rewards == [np.float32(earned[name]) for name in steps] and len(set(rewards)) == 1
        alone = whole.step(joint)
        returns += rewards[0], np.float32(earned[name]), np.float32(alone[1])
        assert bool(steps[name].terminated) == failed[name] == alone[2]
        if alone[2]:
            break
    assert len(set(returns)) == 1 and returns[0] != 0


def test_every_joint_belongs_to_one_robot():
    for task, joints in (("HalfCheetah-2x3", 6), ("Ant-4x2", 8), ("HalfCheetah-v5", 6)):
        assert sorted(i for part in environment(task)[1].values() for i in part.moves) == list(range(joints))
    with pytest.raises(ValueError, match=r"HalfCheetah-7x9"):
        environment("HalfCheetah-7x9")


@pytest.mark.parametrize("algo", ALGOS)
def test_each_robot_learns_a_policy_of_its_own_from_what_it_sees_alone(algo):
    name, given = ALGOS[algo]
    given = {key: given[key] for key in given.keys() & {"critic"}} | SMALL[name]
    cfg = ALGORITHMS[name].Cfg(**given)
    early, late = (
        next(learn(GymTeam("HalfCheetah-2x3", 2, seed=0), name, NetworkCfg(hidden=8), cfg, 0, steps, steps))[1]
        for steps in (1, 64)
    )
    parts, seen = environment("HalfCheetah-2x3")[1], np.random.default_rng(0).normal(size=(4, 17))
    before = late(seen)
    assert before.shape == (4, 6) and (abs(before) <= 1).all()
    for part, other in (("agent_0", "agent_1"), ("agent_1", "agent_0")):
        assert (before[:, parts[part].moves] != early(seen)[:, parts[part].moves]).all()
        moved = seen.copy()
        moved[:, sorted(set(parts[other].sees) - set(parts[part].sees))] += 1.0
        assert np.array_equal(late(moved)[:, parts[part].moves], before[:, parts[part].moves])
        assert (late(moved)[:, parts[other].moves] != before[:, parts[other].moves]).any()
