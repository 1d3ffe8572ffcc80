"""The team environment, as a learner and a sceptic would see it."""

import dataclasses
import math
import re

import numpy as np
import pytest
import torch
from one_group import make_env, start_of, starts_at
from one_scene import build_scene

from hardware import load_robot
from sim.envs.team_env import TeamEnv
from sim.noise import Noise
from sim.physics.mujoco.mujoco_threads import MujocoPhysics
from sim.task import Draw
from sim.tasks import load_task
from sim.terms import EventTerm, RewardTerm, Term

HOVER = torch.zeros(4)


def run(env, steps: int, seed: int = 0):
    """Observations and rewards of `steps` random actions."""
    generator = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(steps):
        action = torch.rand(env.num_envs, env.num_agents, env.action_dim, generator=generator) * 2 - 1
        obs, reward, *_ = env.step(action)
        out.append((obs.clone(), reward.clone()))
    return out


def same(left, right) -> bool:
    return all(torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(left, right, strict=True))


@pytest.mark.slow
def test_same_seed_same_run_bitwise_and_another_seed_another():
    first, second, other = (run(make_env("swarm-swap", 8, seed), 120) for seed in (3, 3, 4))
    assert same(first, second) and not same(first, other)


def draw(worlds: int, robots: int, seed: int = 0) -> Draw:
    return Draw(torch.Generator().manual_seed(seed), worlds, robots, torch.ones(worlds))


def test_threads_do_not_change_the_physics():
    scene = build_scene(load_robot("crazyflie"), 2)
    states = []
    for threads in (1, 2):
        physics = MujocoPhysics(scene, 16, 5, num_threads=threads)
        qpos = torch.zeros(16, 14, dtype=torch.float64)
        qpos[:, [2, 9, 3, 10]] = 1.0
        qpos[:, 7] = torch.linspace(0.08, 0.5, 16)  # some pairs start in contact
        physics.reset(torch.arange(16), qpos, torch.zeros(16, 12).double(), torch.zeros(16, 8).double())
        for _ in range(40):
            physics.step(torch.full((16, 5, scene.model.nu), 0.2, dtype=torch.float64))
        states.append(physics.now(torch.arange(26)))
    assert torch.equal(*states)


@pytest.mark.slow
def test_state_dict_continues_bitwise():
    env = make_env("swarm-swap", 8, 5)
    run(env, 90)
    saved = env.get_state()
    saved = torch.load(_stored(saved), weights_only=False)
    expected = run(env, 120, seed=1)
    twin = make_env("swarm-swap", 8, 99)
    twin.set_state(saved)
    assert same(expected, run(twin, 120, seed=1))


def _stored(state):
    import io

    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return buffer


def test_a_world_that_ends_keeps_its_terminal_observation_and_starts_again():
    env = make_env("swarm-swap", 32, 0)
    env.reset(0)
    falling = torch.tensor([-1.0, 0, 0, 0]).expand(32, 4, 4)
    for _ in range(100):
        obs, _, terminated, truncated, info = env.step(falling)
        if info["ended"].any():
            break
    ended = info["ended"]
    assert ended.any() and torch.equal(ended, (terminated | truncated).any(-1))
    assert torch.equal((terminated | truncated).all(-1), ended) and not (terminated & truncated).any()
    assert not torch.equal(info["final_obs"][ended], obs[ended])
    assert torch.equal(info["final_obs"][~ended], obs[~ended])
    assert not info["success"].any()
    assert (env.now.state.base_pos[ended][..., 2] > 0.7).all()


def test_time_limit_truncates_and_does_not_terminate():
    task = load_task("swarm-swap").changed(episode_s=0.2)
    env = make_env(task, 4, 0, randomise=False)
    for step in range(1, 11):
        _, _, terminated, truncated, info = env.step(HOVER.expand(4, 4, 4))
        assert truncated.all() == (step == 10) and not terminated.any()
    assert (info["episode_length"] == 10).all()


def test_hovering_at_the_goal_is_success_and_elsewhere_is_not():
    swap = load_task("swarm-swap")

    def at_goal(draw):
        start = start_of(swap, draw)
        worlds = draw.worlds
        start.lin_vel = torch.zeros_like(start.lin_vel)
        here = start.command["goal_pos"].clone()
        here[worlds // 2 :] = start.pos[worlds // 2 :]
        return dataclasses.replace(start, pos=here)

    task = starts_at(swap, at_goal).changed(episode_s=1.6)
    env = make_env(task, 8, 0, randomise=False)
    for _ in range(80):
        *_, info = env.step(HOVER.expand(8, 4, 4))
    assert info["success"].tolist() == [True] * 4 + [False] * 4


def test_a_robot_in_the_same_place_is_a_collision_for_both_and_no_other():
    env = make_env("swarm-swap", 2, 0, randomise=False)
    start = start_of(env.task, draw(2, 4))
    start.pos[0, 1] = start.pos[0, 0] + torch.tensor([0.1, 0, 0])
    env.world.reset(torch.arange(2), [start])
    _, _, terminated, truncated, info = env.step(HOVER.expand(2, 4, 4))
    assert terminated.tolist() == [[True, True, False, False], [False] * 4]
    assert truncated[0].tolist() == [False, False, True, True]
    assert info["min_separation_m"][0] < 2 * env.robot.radius_m < info["min_separation_m"][1]


def test_an_actuator_delay_delays_by_exactly_that():
    """The thrust that physics gets is the old one for `delay` of the control period's five steps."""
    task = load_task("swarm-swap").changed(randomisation={})
    env = make_env(task, 6, 0)
    env.group.robots.actuator_delay[:] = torch.arange(6).unsqueeze(-1)
    env.step(torch.tensor([1.0, 0, 0, 0]).expand(6, 4, 4))
    thrust = env.world._ctrl[:, :, env.world.scene.group.ctrl_index[0, 0]]
    assert (thrust > 0.5).sum(1).tolist() == [5, 4, 3, 2, 1, 0]


def test_a_sensor_delay_shows_the_past_and_says_so():
    task = load_task("swarm-swap").changed(randomisation={}, noise=type(load_task("swarm-swap").group.noise)())
    env = make_env(task, 2, 0, num_agents=2)
    env.group.robots.sensor_delay[:] = torch.tensor([[0], [5]])
    env.step(torch.tensor([1.0, 0, 0, 0]).expand(2, 2, 4))
    old = env.now.state.base_pos[1].clone()
    env.step(torch.tensor([1.0, 0, 0, 0]).expand(2, 2, 4))
    state, *_ = env.measured
    assert torch.equal(state.base_pos[0], env.now.state.base_pos[0])
    assert torch.equal(state.base_pos[1], old) and state.age[1, 0] == pytest.approx(0.02)


def test_peers_are_the_nearest_first_and_only_those_in_range():
    env = make_env("swarm-swap", 1, 0, num_agents=5, randomise=False)
    start = start_of(env.task, draw(1, 5))
    start.pos[0] = torch.tensor([[0.0, 0, 1], [3.0, 0, 1], [1.0, 0, 1], [0.5, 0, 1], [-2.0, 0, 1]])
    env.world.reset(torch.arange(1), [start])
    ((_, peers, _),) = env._measured(torch.arange(1))
    assert peers.pos[0, 0, :, 0].tolist() == [0.5, 1.0, -2.0, 3.0]
    assert peers.valid[0, 0].tolist() == [True, True, True, False]


def test_observation_does_not_depend_on_heading_or_place():
    """Turn and move a whole team: no robot sees a difference."""
    env = make_env("swarm-swap", 2, 0, randomise=False)
    start = start_of(env.task, draw(2, 4, seed=1))
    turn = torch.tensor([math.cos(0.6), 0.0, 0.0, math.sin(0.6)])
    from hardware.rotation import multiply, rotate

    shift = torch.tensor([0.3, -0.2, 0.0])
    start.pos[1] = rotate(turn, start.pos[0]) + shift
    start.quat[1] = multiply(turn.expand(4, 4), start.quat[0])
    start.lin_vel[1] = rotate(turn, start.lin_vel[0])
    start.command["goal_pos"][1] = rotate(turn, start.command["goal_pos"][0]) + shift
    env.world.reset(torch.arange(2), [start])
    env.group.command = start.command
    env._observe()
    obs, *_ = env.step(torch.tensor([0.3, 0.5, -0.2, 0.1]).expand(2, 4, 4))
    torch.testing.assert_close(obs[0], obs[1], atol=2e-4, rtol=0)


def test_masses_differ_from_world_to_world_and_stay_in_range():
    env = make_env("swarm-swap", 64, 0)
    masses = (
        np.array([m.body_mass[env.world.scene.group.base_body] for m in env.world.physics.models]) / env.robot.mass_kg
    )
    low, high = load_task("swarm-swap").group.randomisation["mass"].params["scale"]
    assert masses.min() >= low and masses.max() <= high and masses.std() > 0.01


def test_nothing_explodes_on_the_floor_with_randomised_masses():
    env = make_env("swarm-swap", 64, 0)
    ctrl = torch.zeros_like(env.world._ctrl)
    for _ in range(150):
        env.world.physics.step(ctrl)
    assert env.world.physics.now(torch.arange(28, 52)).abs().max() < 1.0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_envs": 0}, "at least one world, not 0"),
        ({"num_envs": 2, "num_agents": 0}, "at least one robot, not 0"),
    ],
)
def test_impossible_sizes_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_env("swarm-swap", seed=0, **kwargs)


def test_impossible_ranges_and_unknown_tasks_are_refused():
    from sim import randomisation

    task = load_task("swarm-swap")
    for func, params, message in (
        (randomisation.mass, {"scale": (1.2, 0.8)}, r"randomisation 'x': range \(1.2, 0.8\)"),
        (randomisation.network_delay, {"range_s": (0.0, 0.5)}, r"randomisation 'x': delay range \(0.0, 0.5\)"),
        (randomisation.base_mass, {"add_kg": (-1.0, 0.0)}, r"range \(-1.0, 0.0\): -0.0\d+ or more"),
        (randomisation.thrust_curve, {"exponent": (0.0, 1.0)}, r"range \(0.0, 1.0\): 0.01 or more"),
        (randomisation.thrust, {"scale": (-0.1, 1.0)}, r"range \(-0.1, 1.0\): 0 or more"),
        (randomisation.battery_sag, {"share": (0.0, 1.5)}, r"share \(0.0, 1.5\): 0 to 1"),
        (randomisation.motor_failure, {"probability": 1.5}, r"share 1.5: 0 to 1"),
    ):
        bad = task.changed(randomisation={"x": EventTerm(func, params)})
        with pytest.raises(ValueError, match=message):
            make_env(bad, 2, 0)
    with pytest.raises(ValueError, match="room for 16 robots, not 17"):
        make_env("swarm-swap", 2, 0, num_agents=17)
    with pytest.raises(ValueError, match="did you mean 'swarm-swap'"):
        load_task("swarm-swp")


def test_the_largest_team_starts_inside_its_space_and_apart():
    task = load_task("swarm-swap")
    start = start_of(task, draw(500, 16))
    assert (start.pos.abs() < 2.3).all() and (start.command["goal_pos"].abs() < 2.3).all()
    gap = torch.cdist(start.pos[..., :2], start.pos[..., :2]) + torch.eye(16) * 9
    assert gap.min() > 0.44


@pytest.mark.parametrize(
    ("field", "value"),
    [("episode_s", 0.0), ("episode_s", np.nan), ("episode_s", 1e9), ("success_hold_s", -1.0), ("min_success", 5.0)],
)
def test_a_number_of_a_task_that_makes_no_sense_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=re.escape(f"'hover': {field} = {value}: ")):
        load_task("hover").changed(**{field: value})
    with pytest.raises(ValueError, match="noise pos_m = -1: 0 to 100"):
        Noise(pos_m=-1.0)


def slow(t, least):
    return t.state.base_lin_vell


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (slow, "reward 'slow' is a function, wanted RewardTerm"),
        (RewardTerm(slow, {"most": 1.0}), "reward 'slow': test_env.slow: got an unexpected keyword argument 'most'"),
        (RewardTerm(slow, {"least": 1.0}), "reward 'slow': .*test_env.py:[0-9]+: AttributeError: .*base_lin_vell"),
        (RewardTerm(slow, 1.0), "reward 'slow': params = 1.0: wanted a dict; a weight is weight=1.0"),
        (RewardTerm(lambda t: t.state.base_pos), r"reward 'slow': .* returns \(2, 4, 3\), wanted a tensor \(2, 4\)"),
    ],
    ids=["function", "parameter", "attribute", "weight", "shape"],
)
def test_a_mistake_in_a_term_is_one_line_that_names_the_term(term, said):
    group = load_task("swarm-swap").group
    task = load_task("swarm-swap").changed(rewards={**group.rewards, "slow": term})
    with pytest.raises(ValueError, match=said) as refused:
        TeamEnv(task, 2, seed=0)
    assert str(refused.value).startswith("task 'swarm-swap': crazyflie: ") and "\n" not in str(refused.value)


def test_a_term_that_fails_in_a_later_step_is_named_too():
    calls = []

    def tires(t):
        calls.append(1)
        return t.action[..., 0] if len(calls) < 5 else t.no_such_thing

    rewards = load_task("hover").group.rewards
    env = TeamEnv(load_task("hover").changed(rewards={**rewards, "tires": RewardTerm(tires)}), 2, seed=0)
    with pytest.raises(
        ValueError, match=r"task 'hover': crazyflie: reward 'tires': \S+test_env.py:\d+: AttributeError"
    ):
        for _ in range(10):
            env.step({"crazyflie": torch.zeros(2, 1, 4)})


@pytest.mark.parametrize("kind", ["own", "peer", "privileged"])
def test_of_two_terms_with_one_name_both_are_checked(kind):
    seen = load_task("swarm-swap").group.observation
    every = {name: Term(lambda inputs: inputs.state.base_pos) for name in ("own", "peer", "privileged")}
    every[kind] = Term(every[kind].func, {"most": 1.0})
    added = {name: {**getattr(seen, name), "seen": term} for name, term in every.items()}
    task = load_task("swarm-swap").changed(observation=dataclasses.replace(seen, **added))
    with pytest.raises(ValueError, match=r"observation 'seen': .*unexpected keyword argument 'most'"):
        TeamEnv(task, 2, seed=0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "action of 'crazyflie': wanted a torch tensor of shape (2, 1, 4), not NoneType"),
        ({"crazyflie": np.zeros((2, 1, 4))}, "not ndarray"),
        ({"crazyflie": torch.zeros(2, 1, 3)}, "wanted a torch tensor of shape (2, 1, 4), not shape (2, 1, 3)"),
    ],
)
def test_an_action_that_does_not_fit_is_refused_in_one_line(given, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        TeamEnv("hover", 2, seed=0).step(given)


@pytest.mark.parametrize("task", ["push", "swarm-swap"])
def test_a_world_whose_action_is_no_number_fails_alone(task):
    """MuJoCo takes no notice of a set-point that is none, so a joint would go on as if nothing had been asked."""
    env = make_env(task, 3, 0)
    action = torch.zeros(3, env.group.num_agents, env.group.action_dim)
    action[1, 0, 0] = torch.nan
    obs, reward, _, _, rest = env.step(action)
    assert rest["terminations"]["unstable"].all(-1).tolist() == [False, True, False]
    assert all(value.isfinite().all() for value in (obs, rest["final_obs"], reward))
