"""A rollout compiled as one program is what single steps give, whatever happens in it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_run import train_cfg

from policies.networks.normaliser import dims_of
from policies.networks.policy import GaussianPolicy
from policies.training.jitted import JittedRollout
from policies.training.trainer import Trainer
from sim import randomisation
from sim.envs.team_env import TeamEnv
from sim.noise import Noise
from sim.tasks import load_task
from sim.terms import EventTerm, RewardTerm, Term
from sim.tracing import Untraceable
from sim.tree import flat, on_tensors

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quickly_compiled")]  # it compiles

WORLDS, STEPS = 8, 6
ENDING = slice(0, 3)  # worlds whose episode ends in the third step


def begun(task):
    env = TeamEnv(task, WORLDS, seed=0, engine="mjx")
    env.steps = torch.arange(WORLDS) + 10
    env.steps[ENDING] = env.max_steps - 3
    return env


def jitted(env):
    torch.manual_seed(0)
    policies = {name: GaussianPolicy(dims_of(obs), env.groups[name].action_dim) for name, obs in env.obs.items()}
    return JittedRollout(env, policies, STEPS)


def rolled(rollout, seed=0):
    return list(rollout.steps(torch.Generator().manual_seed(seed)))


def hover(**changes):
    """The task with the loop of the robot's model: a firmware's loop is not for programs."""
    task = load_task("hover")
    kept = {name: t for name, t in task.group.randomisation.items() if name not in ("rate_loop", "lost_commands")}
    return task.changed(**{"rate_loop": False, "randomisation": kept, **changes})


def certain(name):
    """A task in which nothing is random but the start, flown by the robot's model."""
    return load_task(name).changed(randomisation={}, noise=Noise(), rate_loop=False)


def moved(t):
    """A term that compares this step with the one before."""
    return (t.state.base_pos - t.last_state.base_pos).norm(dim=-1)


def jerk(t):
    return torch.cat([t.state.base_lin_vel - t.last_state.base_lin_vel, t.action - t.last_action], dim=-1)


def two_groups():
    """A pair of drones whose reward and critic look at two steps while a battery sags between any two, and a third.

    What the pair measures is late, and from the first step on the same.
    """
    single, swap = certain("hover"), certain("swarm-swap")
    sag = EventTerm(randomisation.battery_sag, {"share": (0.1, 0.1)}, interval_range_s=(0.0, 0.0))
    late = EventTerm(randomisation.sensor_jitter, {"range_s": (0.008, 0.008)}, interval_range_s=(0.0, 0.0))
    always = {"share": (1.0, 1.0), "hold_s": (0.0, 0.0)}
    lost = EventTerm(randomisation.lost_states, always, interval_range_s=(0.0, 0.0))
    pair = swap.changed(
        num_agents=2,
        rewards={**swap.group.rewards, "moved": RewardTerm(moved)},
        observation=replace(swap.group.observation, privileged={"jerk": Term(jerk)}),
        randomisation={"sag": sag, "late": late, "lost": lost},
    )

    def starts(draw):
        two, one = (task.starts(replace(draw, robots=n))[task.group_name] for n, task in ((2, swap), (1, single)))
        return {"pair": two, "third": one}

    return replace(single, groups={"pair": pair.group, "third": single.group}, starts=starts)


@pytest.fixture(scope="module")
def flight():
    """Hover with all its randomisation, a battery that sags at known moments, and three worlds that end."""
    task = hover()
    sag = EventTerm(
        randomisation.battery_sag, {"share": (0.1, 0.1)}, interval_range_s=(0.07, 0.07)
    )  # in the fourth step
    env = begun(task.changed(randomisation={**task.group.randomisation, "sag": sag}))
    return env, jitted(env), on_tensors(torch.clone, env.get_state(traced=True))


def test_a_rollout_is_what_single_steps_give():
    program, stepped = (begun(two_groups()) for _ in range(2))
    going = torch.ones(WORLDS, dtype=torch.bool)  # what they see after a restart is drawn by each for itself
    obs = stepped.obs
    for seen, _, done, outcome in rolled(jitted(program)):
        step = stepped.step({role: action for role, (action, *_) in done.items()})
        for here, there in zip(flat([seen, replace(outcome, obs={})]), flat([obs, replace(step, obs={})]), strict=True):
            torch.testing.assert_close(here[going].float(), there[going].float(), rtol=1e-5, atol=1e-5)
        obs = step.obs
        going &= ~step.ended
    assert not going[ENDING].any() and going.any()  # a drone of random actions may end another world, too
    assert program.steps.tolist() == stepped.steps.tolist()


def test_worlds_start_again_in_the_middle_and_others_go_on(flight):
    env, rollout, before = flight
    env.set_state(on_tensors(torch.clone, before))
    mass = env.world.physics.tensors()["own"]["body_mass"].clone()
    robots, strength = env.group.robots, env.group.robots.strength.clone()
    steps = rolled(rollout)
    assert [int(step.ended.sum()) for *_, step in steps] == [0, 0, 3, 0, 0, 0]
    assert env.steps[ENDING].tolist() == [3] * 3 and bool((env.steps[3:] == torch.arange(3, 8) + 10 + STEPS).all())
    assert all(bool(tensor.isfinite().all()) for tensor in flat(env.obs))
    now = env.world.physics.tensors()
    other = (now["own"]["body_mass"] != mass).any(-1)
    assert other.tolist() == [True] * 3 + [False] * 5
    # What follows from masses has been brought up to date with them
    torch.testing.assert_close(now["heavy"]["body_subtreemass"][:, 0], now["own"]["body_mass"].sum(-1))
    torch.testing.assert_close(robots.strength[3:, :, 0], strength[3:, :, 0] * 0.9)
    obs = env.step({role: torch.zeros_like(action) for role, (action, *_) in steps[-1][2].items()}).obs
    assert all(bool(tensor.isfinite().all()) for tensor in flat(obs))


def test_a_rollout_depends_on_its_seed_and_the_actor_alone(flight):
    env, rollout, before = flight
    runs = []
    for seed in (0, 0, 1):
        env.set_state(on_tensors(torch.clone, before))
        runs.append(torch.cat([tensor.flatten().float() for tensor in flat(rolled(rollout, seed))]))
    assert torch.equal(runs[0].nan_to_num(), runs[1].nan_to_num()) and not torch.equal(runs[0], runs[2])


def test_a_rollout_begins_where_a_saved_state_was(flight):
    env, rollout, before = flight
    env.set_state(on_tensors(torch.clone, before))
    saved, obs = env.get_state(), on_tensors(torch.clone, env.obs)
    expected = flat(rolled(rollout))
    env.reset(7)
    env.set_state(saved)
    again = rolled(rollout)
    assert all(torch.equal(here, there) for here, there in zip(flat(again[0][0]), flat(obs), strict=True))
    for here, there in zip(flat(again), expected, strict=True):
        torch.testing.assert_close(here, there)


def test_a_world_that_blows_up_fails_alone(flight):
    env, rollout, before = flight
    env.set_state(on_tensors(torch.clone, before))
    env.world.physics.tensors()["state"]["qvel"][5] = torch.nan
    first, *rest = rolled(rollout)
    unstable = first[-1].terminations["crazyflie"]["unstable"]
    assert unstable[:, 0].tolist() == [world == 5 for world in range(WORLDS)]
    assert not any(bool(step[-1].terminations["crazyflie"]["unstable"].any()) for step in rest)
    assert all(bool(tensor.isfinite().all()) for step in (first, *rest) for tensor in flat(step[:3]))


@pytest.mark.parametrize(
    ("task", "options", "reason"),
    [
        ("payload-lift", {}, "a firmware's rate loop"),
        ("hover", {"shield": True}, "the safety shield"),
        ("hover", {}, "a firmware's rate loop"),
    ],
)
def test_what_only_single_steps_can_do_goes_by_single_steps_and_says_so(task, options, reason, tmp_path, capfd):
    small = dict(num_steps=2, epochs=1, minibatch=64, hidden=16, threads=1)
    trainer = Trainer(train_cfg(task=task, num_envs=4, engine="mjx", out=tmp_path, **small, **options))
    assert trainer.collector.program(2) is None
    assert f"step by step, for they cannot be compiled as a whole: {reason}" in capfd.readouterr().err


def test_a_mass_that_changes_in_an_episode_comes_into_force(flight):
    env, _, before = flight
    env.set_state(on_tensors(torch.clone, before))
    physics = env.world.physics
    physics.tensors()["own"]["body_mass"][6] *= 2.0  # as a program leaves it behind
    physics.settle()
    heavy = physics.tensors()["heavy"]
    assert torch.equal(heavy["body_mass"], physics.tensors()["own"]["body_mass"])
    torch.testing.assert_close(heavy["body_subtreemass"][:, 0], heavy["body_mass"].sum(-1))


def carefree(draw):
    (start,) = load_task("hover").starts(draw).values()
    return {"crazyflie": replace(start, lin_vel=torch.full((draw.worlds, 1, 3), np.random.rand()))}


def test_a_start_that_numpy_draws_cannot_be_traced():
    with pytest.raises(Untraceable, match="it draws from numpy"):
        jitted(begun(hover(starts=carefree)))


def test_a_motor_that_fails_cannot_be_traced():
    dies = EventTerm(randomisation.motor_failure, {"probability": 1.0}, interval_range_s=(0.0, 0.0))
    with pytest.raises(Untraceable, match="motor failure"):
        jitted(begun(hover(randomisation={"dies": dies})))


def heedless(t):
    """A term that reads the value of a tensor."""
    height = t.state.base_pos[..., 2]
    return height > 1.0 if float(height.mean()) > 1.0 else height > 0.5


def test_a_term_that_asks_what_a_tensor_holds_cannot_be_traced_and_leaves_the_world_as_it_was(capfd):
    env = begun(hover(success=Term(heedless), randomisation={}))
    before = on_tensors(torch.clone, env.get_state(traced=True))
    with pytest.raises(Untraceable, match=r"test_jitted.py:\d+ reads the value of a tensor: return height > 1.0 if"):
        jitted(env)
    assert len(capfd.readouterr().err.splitlines()) == 1  # that it compiles
    assert all(torch.equal(a, b) for a, b in zip(flat(before), flat(env.get_state(traced=True)), strict=True))
    env.step({role: torch.zeros(WORLDS, group.num_agents, group.action_dim) for role, group in env.groups.items()})
