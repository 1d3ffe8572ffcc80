"""Uneven ground is where physics has it, another one in each world, the same again for a seed, and never in a robot."""

import dataclasses

import mujoco
import numpy as np
import pytest
import torch
from one_group import make_env
from places import ZOO

from phalanx.agents import make_agent
from phalanx.report.episode import play_episode
from phalanx.subjects import runners_and_task
from sim import randomisation
from sim.envs.team_env import TeamEnv
from sim.noise import Noise
from sim.scenes.terrain import CELL_M, HALF, NODES, RELIEF_M, ROUGHEST_M, Ground, level_ground, uneven_ground
from sim.task import Curriculum, SceneCfg
from sim.tasks import load_task
from sim.terms import EventTerm, humanoids

ROUGH = load_task("velocity-rough")
STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS


def make(worlds: int = 4, low: float = 0.05, high: float = 0.05, seed: int = 0, **changes) -> TeamEnv:
    """The task with nothing random but the start and the ground."""
    terrain = {"terrain": EventTerm(randomisation.terrain, {"roughness_m": (low, high)})}
    return make_env(ROUGH.changed(randomisation=terrain, noise=Noise(), **changes), worlds, seed)


def ground_of(env: TeamEnv) -> Ground:
    assert env.now.ground is not None
    return env.now.ground


def nodes(env: TeamEnv) -> np.ndarray:
    """What MuJoCo has in each world, (W, nodes)."""
    return np.stack([model.hfield_data for model in env.world.physics.models])


def placed(env: TeamEnv, world: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """One world as MuJoCo sees it now."""
    model = env.world.physics.models[world]
    data = mujoco.MjData(model)
    data.qpos[:] = env.world.physics.now(torch.arange(model.nq))[world].numpy()
    mujoco.mj_forward(model, data)
    return model, data


def test_ground_is_where_rays_meet_the_field():
    env = make(worlds=3, low=0.02, high=ROUGHEST_M)
    pos = (torch.rand(3, 200, 3, generator=torch.Generator().manual_seed(0)) - 0.5) * 2.0 * HALF * CELL_M
    height = ground_of(env).height(pos)
    for world in range(3):
        model, data = placed(env, world)
        down, field = np.array([0.0, 0.0, -1.0]), model.geom("terrain").id
        for point, expected in zip(pos[world].numpy().astype(float), height[world].tolist(), strict=True):
            above = np.array([*point[:2], 1.0])
            assert 1.0 - mujoco.mj_rayHfield(model, data, field, above, down, None) == pytest.approx(expected, abs=1e-5)


def test_balls_come_to_rest_on_the_ground():
    spec, radius = mujoco.MjSpec(), 0.02
    spec.option.timestep = 0.002
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[10, 10, 0.1])
    uneven_ground(spec, 0)
    for x in np.arange(-6.0, 7.0, 3.0):
        for y in np.arange(-6.0, 7.0, 3.0):
            ball = spec.worldbody.add_body(pos=[x + 0.03, y + 0.06, 0.25])
            ball.add_freejoint()
            ball.add_geom(size=[radius, 0, 0], mass=0.1, condim=6, priority=1, friction=[1.0, 0.1, 0.1])
    model = spec.compile()
    level = level_ground(model, 1)
    assert level is not None
    ground = level.renewed(torch.tensor([0]), torch.tensor([[17, 40]]), torch.tensor([ROUGHEST_M]))
    model.hfield_data[:] = ground.shares(torch.tensor([0]))[0].numpy()
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 1000)
    pos = data.qpos.reshape(-1, 7)[:, :3]
    height = pos[:, 2] - ground.height(torch.tensor(pos).float().unsqueeze(0))[0].numpy()
    assert np.abs(data.qvel).max() < 0.05 and np.ptp(pos[:, 2]) > 0.1
    assert (height > radius - 0.001).all() and (height < 1.3 * radius).all()  # over a slope a ball's middle is higher


def test_worlds_differ_and_a_seed_brings_the_same_ground():
    env = make(low=0.0, high=0.05)
    first = nodes(env)
    assert len(np.unique(first, axis=0)) == 4 and len(ground_of(env).roughness.unique()) == 4
    assert (nodes(make(low=0.0, high=0.05)) == first).all()
    assert (nodes(make(low=0.0, high=0.05, seed=1)) != first).any(axis=1).all()
    env.reset()
    assert (nodes(env) != first).any(axis=1).all()


def test_only_worlds_that_start_again_get_another_ground():
    env = make()
    before, others = nodes(env), torch.tensor([1, 3])
    held = env.now
    seen = held.above_ground(held.state.base_pos)
    env._restart(others)
    assert ((nodes(env) != before).any(axis=1) == [False, True, False, True]).all()
    assert (held.above_ground(held.state.base_pos) == seen).all()  # what was seen before stays as it was


def test_the_ground_fits_into_the_field_and_is_as_rough_as_it_was_drawn():
    everywhere = torch.arange(0, 256, 5).repeat_interleave(2).view(-1, 2)
    level = level_ground(make(1).world.scene.model, len(everywhere))
    assert level is not None
    all_worlds = torch.arange(len(everywhere))
    ground = level.renewed(all_worlds, everywhere, torch.full((len(everywhere),), ROUGHEST_M))
    heights = ground.heights(all_worlds)
    assert heights.abs().max() <= RELIEF_M and heights.shape[1:] == (NODES, NODES)
    assert (heights.amax((1, 2)) - heights.amin((1, 2)) > 2 * ROUGHEST_M).all()
    steps = heights.diff(dim=-1).abs()
    assert steps.max() > 0.9 * ROUGHEST_M and steps.max() < 1.2 * ROUGHEST_M
    half = level.renewed(all_worlds, everywhere, torch.full((len(everywhere),), ROUGHEST_M / 2))
    assert torch.allclose(half.heights(all_worlds), heights / 2, atol=1e-6)


def test_robots_start_above_the_ground_and_find_it_under_their_feet():
    def depth(env: TeamEnv) -> list[float]:
        """How deep, m, the deepest contact of each world is."""
        return [max(0.0, -placed(env, world)[1].contact.dist.min(initial=0.0)) for world in range(env.num_envs)]

    level, rough = make(16, 0.0, 0.0), make(16, ROUGHEST_M, ROUGHEST_M)
    assert all(on_rough <= on_level + 1e-6 for on_rough, on_level in zip(depth(rough), depth(level), strict=True))
    for _ in range(15):
        rough.step(torch.zeros(16, 1, 29))
    t = rough.now
    stands = ~humanoids.fallen(t, 0.6, 0.5)[:, 0]
    soles = t.above_ground(humanoids.foot_pos(t))[stands]
    assert stands.sum() > 8 and (soles > -0.01).all() and (soles.amin(-1) < 0.05).all()


def test_level_ground_is_as_good_as_a_floor():
    calm = {"randomisation": {}, "noise": Noise()}
    floor, level = (make_env(load_task(name).changed(**calm), 8, 5) for name in ("velocity", ROUGH.name))
    assert floor.now.ground is None
    rewards = []
    for _ in range(40):
        rewards.append([env.step(torch.zeros(8, 1, 29))[1].mean() for env in (floor, level)])
    gap = floor.now.state.base_pos - level.now.state.base_pos
    assert gap.abs().max() < 0.005
    on_floor, on_level = torch.tensor(rewards).mean(0)
    assert on_level == pytest.approx(float(on_floor), rel=0.02)


def test_heights_are_above_the_ground_and_on_a_floor_they_are_z():
    t = make().now
    raised = dataclasses.replace(t.ground, top=t.ground.top - 0.3)
    above = dataclasses.replace(
        t, ground=raised, state=dataclasses.replace(t.state, base_pos=t.state.base_pos + torch.tensor([0.0, 0.0, 0.3]))
    )
    for term, params in {
        humanoids.base_motion: {},
        humanoids.feet: {},
        humanoids.height_error: {"height_m": 0.77},
        humanoids.balance: {"scale_m": 0.25},
        humanoids.stance_matches: {"swing_share": 0.4},
        humanoids.clearance_error: {"swing_share": 0.4, "height_m": 0.08},
        humanoids.foot_slip: {},
        humanoids.fallen: {"height_m": 0.55, "tilt_rad": 0.8},
    }.items():
        here, there = (term(x, **params).float() for x in (t, above))
        if term is not humanoids.foot_slip:  # which compares with where the feet were before
            assert torch.allclose(here, there, atol=1e-4), term.__name__
    assert humanoids.fallen(dataclasses.replace(t, ground=raised), 0.55, 0.8).all()
    floor = make_env("velocity", 4, seed=0).now
    assert (floor.above_ground(floor.state.base_pos) == floor.state.base_pos[..., 2]).all()


def test_the_curriculum_makes_the_ground_rougher_with_success():
    task = ROUGH.changed(curriculum=Curriculum(initial=0.2))
    env = make_env(task, 8, seed=0, curriculum=True)
    assert 0.0 < float(ground_of(env).roughness.max()) <= 0.2 * 0.05
    env.difficulty[:] = 1.0
    env._restart(torch.arange(8))
    assert float(env.robots.ground.roughness.max()) > 0.02
    assert float(ground_of(make_env(ROUGH, 8, seed=0, curriculum=True)).roughness.max()) == 0.0
    assert float(ground_of(make_env(ROUGH, 8, seed=0)).roughness.max()) > 0.02


def test_a_saved_state_goes_on_with_its_ground():
    env, other = make(low=0.01, seed=3), make(low=0.01, seed=4)
    for _ in range(5):
        env.step(torch.zeros(4, 1, 29))
    other.set_state(env.get_state())
    assert (nodes(other) == nodes(env)).all()
    for _ in range(10):
        for left, right in zip(env.step(torch.zeros(4, 1, 29))[:4], other.step(torch.zeros(4, 1, 29))[:4], strict=True):
            assert (left == right).all()
    env.robots.difficulty[:] = 0.25
    other.set_state(env.get_state())
    assert (other.robots.difficulty == 0.25).all()


@pytest.mark.slow
def test_a_policy_file_for_a_floor_plays_on_rough_ground_and_in_no_unlike_task():
    file = str(ZOO / "velocity.onnx")
    pilots, task = runners_and_task("policy", [file], ROUGH.name, 0)
    assert len(task.groups) == 1 and task.name == ROUGH.name
    short = task.changed(episode_s=0.2)
    assert play_episode(short, pilots, None, 5, shield=False).ground is not None
    for other in ("stand", "hover", "perch"):
        with pytest.raises(ValueError, match=f"is a policy for 'velocity', not for '{other}'"):
            runners_and_task("policy", [file], other, 0)


def test_the_ground_is_drawn_where_it_is():
    task = ROUGH.changed(episode_s=0.1)
    film = play_episode(task, {"g1": make_agent("zero", 5, task.group)}, None, 5, shield=False).flight.film
    assert film is not None
    corners = np.concatenate([shape.points for shape in film.shapes if shape.name == "terrain"])
    ground = ground_of(make_env(task, 1, seed=5))
    assert np.ptp(corners[:, 2]) > 0.02
    assert np.allclose(corners[:, 2], ground.height(torch.tensor(corners).float().unsqueeze(0))[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("bounds", [(0.02, 0.01), (-0.01, 0.02), (0.0, 0.2), (0.0, float("nan"))])
def test_an_impossible_roughness_is_one_clear_line(bounds):
    with pytest.raises(ValueError, match=r"roughness range .* 0 to 0\.1 m is possible") as failed:
        make(1, *bounds)
    assert "\n" not in str(failed.value)


def test_terrain_needs_a_scene_with_uneven_ground_and_like_robots():
    with pytest.raises(ValueError, match="plain floor"):
        make(1, scene=SceneCfg())
    mixed = load_task("perch")
    assert len(mixed.groups) > 1

    def props(spec: mujoco.MjSpec, robots: int) -> None:
        assert mixed.scene.props is not None
        mixed.scene.props(spec, robots)
        uneven_ground(spec, robots)

    with pytest.raises(ValueError, match="all alike"):
        TeamEnv(dataclasses.replace(mixed, scene=dataclasses.replace(mixed.scene, props=props)), 1, seed=0)
