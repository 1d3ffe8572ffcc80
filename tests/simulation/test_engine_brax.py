"""Brax's pipelines beside native MuJoCo: other mathematics, so that motions agree roughly and outcomes well."""

import mujoco
import pytest
import torch
from one_group import make_env

from sim.envs.world import task_scene
from sim.physics import EngineError, check_engine
from sim.physics.jax.brax import BraxPhysics, brax_refuses
from sim.physics.mujoco.mujoco_threads import MujocoPhysics
from sim.scenes.scene import Scene
from sim.tasks import load_task

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quickly_compiled")]  # it compiles

PIPELINES = ("generalized", "spring", "positional")
STEPS, WORLDS = 5, 4
ARM = """
<mujoco><option timestep="0.002"/><worldbody>
  <geom type="plane" size="5 5 .1"/>
  <body pos="0 0 1.2"><joint name="shoulder" axis="0 1 0" {more}/>
    <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass=".5" contype="0" conaffinity="0"/></body>
</worldbody><actuator><position joint="shoulder" kp="6" kv=".3" forcerange="-4 4"/></actuator></mujoco>
"""
BOX = """
<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="5 5 .1"/>
  <body pos="0 0 .3"><freejoint/><geom type="box" size=".08 .06 .1" mass="1"/></body></worldbody></mujoco>
"""


def bare(xml: str) -> Scene:
    """A scene of things that are no robots."""
    return Scene(mujoco.MjModel.from_xml_string(xml), (), ())


def begin(scene: Scene, engines: list) -> None:
    """Put every world at its model's zero, at rest."""
    qpos, still = torch.from_numpy(scene.model.qpos0).expand(WORLDS, -1), torch.zeros(WORLDS, scene.model.nv).double()
    for engine in engines:
        engine.reset(torch.arange(WORLDS), qpos, still, torch.zeros(WORLDS, 0).double())


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_dropped_box_falls_and_lies(pipeline):
    scene = bare(BOX)
    native, brax = MujocoPhysics(scene, WORLDS, STEPS), BraxPhysics(scene, WORLDS, STEPS, pipeline=pipeline)
    begin(scene, [native, brax])
    for step in range(100):
        for engine in (native, brax):
            engine.step(torch.zeros(WORLDS, STEPS, 0))
        height = [engine.now(torch.tensor([2])) for engine in (native, brax)]
        if step == 15:
            assert torch.allclose(*height, atol=1e-3) and height[0].max() < 0.28
    assert torch.allclose(*height, atol=3e-3) and brax.finite().all()
    assert brax.now(torch.arange(7, 13)).abs().max() < 0.02


def test_drives_masses_and_wind_differ_from_world_to_world_as_in_native_mujoco():
    scene = bare(ARM.format(more='damping="0.05" armature="0.01"'))
    native, brax = MujocoPhysics(scene, WORLDS, STEPS), BraxPhysics(scene, WORLDS, STEPS)
    begin(scene, [native, brax])
    everyone, factor = torch.arange(WORLDS), torch.linspace(0.6, 1.4, WORLDS).double().view(-1, 1)
    for engine in (native, brax):
        engine.set_field("body_mass", everyone, torch.tensor([1]), factor * engine.field("body_mass")[1])
        gain = engine.field("actuator_gainprm")[:1].repeat(WORLDS, 1, 1)
        gain[:2] *= 0.5
        engine.set_field("actuator_gainprm", everyone, torch.tensor([0]), gain)
    force, angle, target = torch.zeros(WORLDS, 1).double(), torch.tensor([0]), torch.full((WORLDS, STEPS, 1), 0.4)
    force[3] = 0.8
    for step in range(60):
        for engine in (native, brax):
            engine.step(target, force)
        found = [engine.now(angle) for engine in (native, brax)]
        if step == 4:
            assert torch.allclose(*found, atol=1e-2)
    assert torch.allclose(*found, atol=2e-3), found
    assert len({round(float(value), 2) for value in found[1]}) == WORLDS


def test_a_humanoid_falls_and_stands_like_in_native_mujoco():
    env = make_env("stand", WORLDS, 0, randomise=False)
    env.reset()
    native, scene = env.world.physics, env.world.scene
    brax = BraxPhysics(scene, WORLDS, env.world.decimation)
    model = scene.model
    columns = torch.arange(model.nq + model.nv)
    start = native.now(columns).double()
    start[:2, 2] += 1.0  # two fall, two stand
    worlds = torch.arange(WORLDS)
    brax.reset(worlds, start[:, : model.nq], start[:, model.nq :], torch.zeros(WORLDS, 0))
    native.reset(worlds, start[:, : model.nq], start[:, model.nq :], torch.zeros(WORLDS, 0).double())
    for _ in range(20):
        env.group.robots.write(env.world._ctrl, env.group.robots.rest.expand(WORLDS, 1, -1))
        for engine in (native, brax):
            engine.step(env.world._ctrl)
    error = (native.now(columns) - brax.now(columns))[:, : model.nq].abs()
    assert brax.finite().all()
    assert error[:2, :7].max() < 1e-4  # in the air
    assert error[2:, :2].max() < 0.15 and error[2:, 2].max() < 0.04, error[:, :3]  # on its feet
    assert error[:, 7:].median() < 0.01 and error[:, 7:].max() < 0.2


def test_what_a_pipeline_cannot_do_is_refused_in_one_line():
    line = brax_refuses(task_scene(load_task("hover")).model, "generalized")
    assert line is not None and "drives that are not on a joint" in line and "mujoco" in line and "\n" not in line
    line = brax_refuses(task_scene(load_task("reach")).model, "generalized")
    assert line is not None and "equality constraints" in line and "dry friction of joints" in line
    humanoid = task_scene(load_task("velocity")).model
    assert brax_refuses(humanoid, "generalized") is None
    for pipeline in ("spring", "positional"):
        with pytest.raises(EngineError, match="rotor inertia of joints"):
            BraxPhysics(task_scene(load_task("velocity")), WORLDS, STEPS, pipeline=pipeline)
    with pytest.raises(EngineError, match=r"no engine 'brax:mjx'; there are .*brax:generalized, brax:spring, brax:pos"):
        check_engine("brax:mjx")


def test_a_field_that_brax_does_not_know_and_wind_where_there_is_none_are_refused():
    brax = BraxPhysics(bare(BOX), WORLDS, STEPS, pipeline="spring")
    with pytest.raises(EngineError, match="'dof_damping' in single worlds: Brax can change"):
        brax.set_field("dof_damping", torch.arange(WORLDS), torch.tensor([0]), torch.zeros(WORLDS, 1))
    with pytest.raises(EngineError, match="'spring' knows no wind"):
        brax.step(torch.zeros(WORLDS, STEPS, 0), torch.ones(WORLDS, 6))
