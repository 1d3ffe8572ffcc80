"""Everything that may differ from world to world does so in its range, only where it should, and physics feels it."""

import inspect
import math

import numpy as np
import pytest
import torch
from one_group import make_env, start_of

from sim import randomisation
from sim.envs.team_env import TeamEnv
from sim.noise import Noise
from sim.task import Curriculum
from sim.tasks import load_task
from sim.terms import EventTerm

HOVER = load_task("hover")
WORLDS = torch.tensor([1, 3])
UNIFORM = (0.5, 0.6)


def bare(name: str = "hover", worlds: int = 4, **changes) -> TeamEnv:
    """A task without noise and randomisation."""
    return make_env(load_task(name).changed(randomisation={}, noise=Noise(), **changes), worlds, seed=0)


def apply(env: TeamEnv, func, **params) -> None:
    func(env.group.robots, WORLDS, env.generator, **params)


def model_values(env: TeamEnv, field: str) -> np.ndarray:
    return np.stack([getattr(model, field) for model in env.world.physics.models])


@pytest.mark.parametrize(
    ("task", "func", "params", "field"),
    [
        ("hover", randomisation.mass, {"scale": UNIFORM}, "body_mass"),
        ("hover", randomisation.mass, {"scale": UNIFORM}, "body_inertia"),
        ("hover", randomisation.friction, {"scale": UNIFORM}, "geom_friction"),
        ("reach", randomisation.armature, {"scale": UNIFORM}, "dof_armature"),
        ("reach", randomisation.joint_friction, {"scale": UNIFORM}, "dof_frictionloss"),
        ("reach", randomisation.motor_strength, {"scale": UNIFORM}, "actuator_forcerange"),
        ("reach", randomisation.gains, {"stiffness": UNIFORM, "damping": UNIFORM}, "actuator_gainprm"),
        ("reach", randomisation.gains, {"stiffness": UNIFORM, "damping": UNIFORM}, "actuator_biasprm"),
    ],
)
def test_a_factor_scales_the_field_of_the_worlds_asked_for_and_of_no_other(task, func, params, field):
    env = bare(task)
    nominal = model_values(env, field)
    apply(env, func, **params)
    changed = model_values(env, field)
    assert (changed[[0, 2]] == nominal[[0, 2]]).all()
    touched = changed[[1, 3]] != nominal[[1, 3]]
    ratio = changed[[1, 3]][touched] / nominal[[1, 3]][touched]
    assert touched.any() and ratio.min() >= 0.5 - 1e-6 and ratio.max() <= 0.6 + 1e-6


def test_stiffness_changes_gain_and_bias_alike():
    """A position drive whose gain and bias differ would have an equilibrium elsewhere than at its set-point."""
    env = bare("reach")
    apply(env, randomisation.gains, stiffness=(0.5, 0.6), damping=(1.0, 1.0))
    model = env.world.physics.models[1]
    np.testing.assert_allclose(model.actuator_gainprm[:, 0], -model.actuator_biasprm[:, 1], rtol=1e-6)


def test_added_mass_and_a_shifted_centre_are_what_was_asked():
    env = bare()
    base = env.world.scene.group.base_body[0]
    apply(env, randomisation.base_mass, add_kg=(0.01, 0.01))
    apply(env, randomisation.centre_of_mass, shift_m=(0.002, 0.002))
    model = env.world.physics.models[3]
    assert model.body_mass[base] == pytest.approx(env.robot.mass_kg + 0.01, rel=1e-5)
    assert model.body_ipos[base] == pytest.approx([0.002] * 3, abs=1e-6)


def hover_height(env: TeamEnv, steps: int = 25) -> torch.Tensor:
    """How far each world's drone rises under hover thrust."""
    before = env.now.state.base_pos[:, 0, 2].clone()
    for _ in range(steps):
        env.step(torch.zeros(env.num_envs, 1, 4))
    return env.now.state.base_pos[:, 0, 2] - before


def still(draw):
    start = start_of(HOVER, draw)
    start.quat = torch.tensor([1.0, 0, 0, 0]).expand_as(start.quat).clone()
    start.lin_vel = torch.zeros_like(start.lin_vel)
    return start


@pytest.mark.parametrize(
    ("func", "params"),
    [
        (randomisation.thrust, {"scale": (0.8, 0.8)}),
        (randomisation.thrust_curve, {"exponent": (1.3, 1.3)}),
        (randomisation.battery_sag, {"share": (0.2, 0.2)}),
        (randomisation.mass, {"scale": (1.2, 1.2)}),
    ],
)
def test_a_drone_sinks_with_weaker_rotors_or_more_mass(func, params):
    env = bare(starts=lambda draw: {"crazyflie": still(draw)})
    apply(env, func, **params)
    rise = hover_height(env)
    assert rise[[0, 2]].abs().max() < 0.01 and rise[WORLDS].max() < -0.1


def test_a_stopped_drone_falls_and_tumbles_freely_and_is_whole_after_the_restart():
    env = bare("swarm-swap")
    apply(env, randomisation.motor_failure, probability=1.0)
    assert env.group.robots.dead.sum(-1).tolist() == [0, 1, 0, 1]
    apply(env, randomisation.motor_failure, probability=1.0)
    assert env.group.robots.dead.sum(-1).tolist() == [0, 1, 0, 1]  # of each world one at most
    dead = env.group.robots.dead.clone()
    env.world.physics.add_velocity(torch.arange(4), torch.tensor([3, 9, 15, 21]), torch.full((4, 4), 2.0))
    for _ in range(10):
        env.step(torch.zeros(4, 4, 4))
    state = env.now.state
    assert (state.base_lin_vel[dead].norm(dim=-1) > 1.5).all() and (state.base_ang_vel[dead][:, 0] > 1.8).all()
    assert state.base_ang_vel[~dead][:, 0].abs().max() < 0.5  # the others' rate loops have stopped the rotation
    env.reset(1)
    assert not env.group.robots.dead.any()
    nominal = env.world.scene.model.actuator_gainprm
    assert all((model.actuator_gainprm == nominal).all() for model in env.world.physics.models)


def test_wind_and_pushes_move_those_they_hit():
    for func, params in (
        (randomisation.wind, {"force_n": (0.1, 0.1)}),
        (randomisation.push, {"speed_m_s": (1.0, 1.0)}),
    ):
        env = bare(starts=lambda draw: {"crazyflie": still(draw)})
        before = env.now.state.base_pos[:, 0, :2].clone()
        apply(env, func, **params)
        for _ in range(20):
            env.step(torch.zeros(4, 1, 4))
        moved = (env.now.state.base_pos[:, 0, :2] - before).norm(dim=-1)
        assert moved[[0, 2]].max() < 0.01 and moved[WORLDS].min() > 0.1


def test_a_push_changes_the_velocity_by_exactly_that():
    env = bare(starts=lambda draw: {"crazyflie": still(draw)})
    apply(env, randomisation.push, speed_m_s=(0.7, 0.7))
    speed = env.group.robots.truth().base_lin_vel[:, 0, :2].norm(dim=-1)
    assert speed[WORLDS].tolist() == pytest.approx([0.7, 0.7], abs=1e-5) and speed[[0, 2]].max() == 0.0


def test_delays_are_drawn_for_each_robot_and_bounded():
    env = bare("swarm-swap", worlds=64)
    robots, worlds = env.group.robots, torch.arange(64)
    for name in ("actuator_delay", "sensor_delay", "network_delay"):
        getattr(randomisation, name)(robots, worlds, env.generator, range_s=(0.004, 0.016))
        steps = getattr(robots, name)
        assert steps.min() == 1 and steps.max() == 4 and (steps[:, :1] != steps).any()
    with pytest.raises(ValueError, match=r"delay range \(0.0, 0.05\)"):
        randomisation.sensor_delay(robots, worlds, env.generator, range_s=(0.0, 0.05))


def test_a_bias_stays_for_the_episode():
    env = bare("reach")
    apply(env, randomisation.sensor_bias, bias=Noise(joint_pos_rad=0.1))
    error = []
    for _ in range(2):
        env.step(torch.zeros(4, 1, env.action_dim))
        error.append(env.measured[0].joint_pos - env.now.state.joint_pos)
    torch.testing.assert_close(error[0], error[1], atol=1e-5, rtol=0)
    assert error[0][WORLDS].abs().mean() > 0.02 and error[0][[0, 2]].abs().max() < 1e-6
    assert torch.equal(env.measured[0].base_pos, env.now.state.base_pos)  # a bolted base is known exactly


def test_a_lost_message_leaves_the_last_one_standing():
    env = bare("swarm-swap")
    env.step(torch.zeros(4, 4, 4))
    heard = env.measured[1]
    apply(env, randomisation.dropped_messages, share=(1.0, 1.0))
    first = env.step(torch.zeros(4, 4, 4)) and env.measured[1]
    env.step(torch.zeros(4, 4, 4))
    later = env.measured[1]
    assert heard.age.max() == 0.0 and later.age[[0, 2]].max() == 0.0
    # Nothing had been kept when the first message was lost, so that one is heard; from then on it ages.
    assert torch.equal(later.pos[1], first.pos[1]) and later.age[1].min().item() == pytest.approx(env.control_dt)


def test_terms_with_an_interval_act_again_and_again_and_not_at_the_start():
    calls: list[int] = []

    def count(robots, worlds, generator) -> None:
        calls.append(len(worlds))

    for interval_range_s, expected in (((0.1, 0.1), 10 * 4), ((0.0, 0.0), 50 * 4)):
        calls.clear()
        task = HOVER.changed(randomisation={"count": EventTerm(count, interval_range_s=interval_range_s)})
        env = make_env(task, 4, seed=0)
        assert not calls
        for _ in range(50):
            env.step(torch.zeros(4, 1, 4))
        assert sum(calls) == expected


def test_every_function_says_what_it_changes():
    for name, func in inspect.getmembers(randomisation, inspect.isfunction):
        if not name.startswith("_") and func.__module__ == randomisation.__name__:
            assert func.__doc__ and list(inspect.signature(func).parameters)[:3] == ["robots", "worlds", "generator"]


def test_a_world_that_blows_up_fails_alone_and_is_kept_for_study():
    env = bare("hover", worlds=4)
    twin = bare("hover", worlds=4)
    env.world.physics._start[2, 1 + env.world.scene.model.nq] = np.nan
    obs, reward, terminated, _, info = env.step(torch.zeros(4, 1, 4))
    expected, *_ = twin.step(torch.zeros(4, 1, 4))
    assert (
        info["terminations"]["unstable"].flatten().tolist()
        == terminated.flatten().tolist()
        == [False, False, True, False]
    )
    assert torch.isfinite(obs).all() and torch.isfinite(reward).all() and torch.isfinite(info["final_obs"]).all()
    assert torch.equal(obs[[0, 1, 3]], expected[[0, 1, 3]])
    assert info["acted"]["crazyflie"].flatten().tolist() == [True, True, False, True]  # nothing to be learned there
    assert env.unstable["worlds"].tolist() == [2] and env.unstable["crazyflie"]["base_pos"].shape == (1, 1, 3)
    for _ in range(20):
        obs, *_ = env.step(torch.zeros(4, 1, 4))
    assert torch.isfinite(obs).all()


@pytest.mark.parametrize(("task", "speed"), [("hover", 400.0), ("reach", 60.0), ("velocity", 800.0)])
def test_a_robot_much_faster_than_its_drives_has_blown_up_long_before_numbers_overflow(task: str, speed: float):
    env = TeamEnv(task, 4, 0)
    model, index = env.world.scene.model, env.world.scene.group
    column = index.base_qvel[0, 0] if index.base_qvel.size else index.joint_qvel[0, 0]
    for factor, unstable in ((0.1, False), (1.0, True)):
        env.world.physics._start[2, 1 + model.nq + column] = factor * speed
        assert env.world.physics.finite().tolist() == [True, True, not unstable, True]


def test_difficulty_follows_success_in_training_only():
    task = HOVER.changed(curriculum=Curriculum(initial=0.5, up=0.2, down=0.1), episode_s=0.1)
    for curriculum, expected in ((False, 1.0), (True, 0.4)):
        env = make_env(task, 4, seed=0, curriculum=curriculum)
        for _ in range(5):  # an episode of 0.1 s cannot succeed: success has to hold for a second
            env.step(torch.zeros(4, 1, 4))
        assert env.difficulty.tolist() == pytest.approx([expected] * 4)


def test_changed_fields_continue_bitwise():
    env = make_env("swarm-swap", 4, seed=0)
    apply(env, randomisation.motor_failure, probability=1.0)
    saved = env.get_state()
    action = torch.full((4, 4, 4), 0.1)
    expected = [env.step(action)[0] for _ in range(20)]
    twin = make_env("swarm-swap", 4, seed=9)
    twin.set_state(saved)
    assert all(torch.equal(twin.step(action)[0], obs) for obs in expected)


@pytest.mark.parametrize(
    ("func", "params", "says"),
    [
        (randomisation.dropped_messages, {"share": (0.0, 1.2)}, r"share \(0.0, 1.2\): 0 to 1 is possible"),
        (randomisation.lost_states, {"share": (-0.1, 0.0), "hold_s": (0.0, 0.0)}, "0 to 1 is possible"),
        (randomisation.lost_states, {"share": (0.0, 0.0), "hold_s": (-0.1, 0.0)}, "0 or more is possible"),
        (randomisation.sensor_delay, {"range_s": (math.nan, math.nan)}, "is possible"),
        (randomisation.sensor_delay, {"range_s": (0.0, math.inf)}, "is possible"),
        (
            randomisation.camera,
            {"delay_s": (0.0, 0.0), "missing": (0.0, 0.0), "offset": Noise()},
            "this task tracks no objects",
        ),
    ],
)
def test_a_range_that_cannot_be_is_refused(func, params, says):
    with pytest.raises(ValueError, match=says):
        apply(make_env("swarm-swap", 4, 0), func, **params)


@pytest.mark.parametrize("interval_s", [(1.0, 0.0), (-1.0, -1.0), (0.0, math.nan), None])
def test_an_interval_that_cannot_be_is_refused(interval_s):
    term = EventTerm(randomisation.lost_states, {"share": (0.1, 0.1), "hold_s": (0.0, 0.0)}, interval_s)
    with pytest.raises(ValueError, match="randomisation 'lost': interval_range_s"):
        make_env(load_task("swarm-swap").changed(randomisation={"lost": term}), 2, 0)
