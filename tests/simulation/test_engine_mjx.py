"""MJX beside native MuJoCo: the same start and the same commands have to give the same motion."""

import sys

import mujoco
import pytest
import torch
from one_scene import build_scene
from twins import Twins

from hardware import load_robot
from sim.envs.world import task_scene
from sim.physics import EngineError, Physics
from sim.physics.jax.mjx import MjxPhysics, put_scene
from sim.physics.jax.setup import engine_modules, find_device
from sim.physics.mujoco.mujoco_threads import MujocoPhysics
from sim.scenes.scene import Scene
from sim.tasks import load_task

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quickly_compiled")]  # it compiles

STEPS = 5  # of physics in a control step
BENCH = """
<mujoco><option timestep="0.004" integrator="implicitfast"/><worldbody>
  <geom type="box" size=".5 .5 .05" pos="0 0 .05"/>
  <body pos="0 2 1"><joint name="shoulder" axis="0 1 0" armature="0.05" frictionloss="0.3"/>
    <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass=".5"/></body>
  <body pos="0 0 .2"><freejoint/><geom name="puck" type="cylinder" size=".04 .03" mass=".2"/></body>
</worldbody><actuator><position joint="shoulder" kp="60" kv="4" forcerange="-5 5"/></actuator></mujoco>
"""


def flying(scene: Scene, engines: list[Physics], worlds: int, spread: float = 1.0) -> None:
    """Put every drone 3 m up, a metre apart, moving at random."""
    generator, model = torch.Generator().manual_seed(0), scene.model
    qpos = torch.from_numpy(model.qpos0).expand(worlds, -1).clone()
    base = torch.from_numpy(scene.group.base_qpos)
    qpos[:, base[:, 0]] = torch.arange(float(len(base)), dtype=torch.float64)
    qpos[:, base[:, 2]] = 3.0
    qvel = 0.3 * spread * (torch.rand(worlds, model.nv, generator=generator, dtype=torch.float64) - 0.5)
    act = torch.full((worlds, model.na), 0.1, dtype=torch.float64)
    for engine in engines:
        engine.reset(torch.arange(worlds), qpos, qvel, act)


def commands(scene: Scene, worlds: int, seed: int) -> torch.Tensor:
    """Random set-points (W, n, nu), half of full strength."""
    generator = torch.Generator().manual_seed(seed)
    low, high = torch.from_numpy(scene.model.actuator_ctrlrange).T
    draw = torch.rand(worlds, 1, scene.model.nu, generator=generator, dtype=torch.float64)
    return (0.75 * low + 0.25 * high + 0.5 * (high - low) * draw).expand(-1, STEPS, -1)


def errors(scene: Scene, native: Physics, other: Physics, worlds: int, until: tuple[int, ...]) -> list[float]:
    """The largest difference of an entry of qpos after so many control steps."""
    columns, found = torch.arange(scene.model.nq), []
    for step in range(1, until[-1] + 1):
        for engine in (native, other):
            engine.step(commands(scene, worlds, step))
        if step in until:
            found.append(float((native.now(columns) - other.now(columns)).abs().max()))
    return found


@pytest.fixture(scope="module")
def hover() -> tuple[Scene, MujocoPhysics, MjxPhysics]:
    scene = task_scene(load_task("hover"))
    return scene, MujocoPhysics(scene, 8, STEPS), MjxPhysics(scene, 8, STEPS)


def test_a_drone_flies_as_in_native_mujoco(hover):
    scene, native, mjx = hover
    flying(scene, [native, mjx], 8)
    after = errors(scene, native, mjx, 8, (1, 10, 50))
    assert after[0] < 2e-6 and after[1] < 1e-4 and after[2] < 2e-3, after


# Worst world after 1 and 10 control steps; measured 5e-7, 2e-5. An arm and a humanoid: test_engine_agreement.py.
def test_a_team_moves_as_in_native_mujoco():
    twins = Twins("swarm-swap", "mjx")
    twins.go(1)
    assert twins.apart().max() < 1e-5
    twins.go(9)
    assert twins.apart().max() < 2e-4


def test_wind_pushes_and_time_is_remembered_alike(hover):
    scene, native, mjx = hover
    flying(scene, [native, mjx], 8)
    force = torch.zeros(8, 6, dtype=torch.float64)
    force[:, 0] = torch.linspace(0.0, 0.1, 8)
    worlds, columns = torch.tensor([1, 6]), torch.tensor([[0, 2, 7]])
    for engine in (native, mjx):
        engine.step(commands(scene, 8, 1))
        engine.step(commands(scene, 8, 2), force)
        engine.add_velocity(worlds, torch.tensor([0, 1]), torch.tensor([[0.5, 0.0], [0.0, 1.5]]))
    for ago in (0, 1, STEPS, 2 * STEPS - 1):
        age = torch.full((2, 1), ago)
        assert torch.allclose(native.recall(worlds, age, columns), mjx.recall(worlds, age, columns), atol=1e-5)
    assert torch.allclose(native.now(torch.arange(13)), mjx.now(torch.arange(13)), atol=1e-3)


def test_a_reset_leaves_other_worlds_alone_and_a_lost_world_is_found(hover):
    scene, _, mjx = hover
    flying(scene, [mjx], 8)
    mjx.step(commands(scene, 8, 1))
    before = mjx.now(torch.arange(13))
    qpos = torch.from_numpy(scene.model.qpos0).expand(2, -1)
    mjx.reset(torch.tensor([2, 5]), qpos, torch.full((2, 6), 3.0).double(), torch.zeros(2, 4).double())
    after = mjx.now(torch.arange(13))
    assert (after[[2, 5], 7:] == 3.0).all() and torch.equal(after[[0, 1, 3, 4, 6, 7]], before[[0, 1, 3, 4, 6, 7]])
    mjx.add_velocity(torch.tensor([3]), torch.tensor([0]), torch.tensor([[torch.nan]]))
    mjx.add_velocity(torch.tensor([4]), torch.tensor([0]), torch.tensor([[2e4]]))
    assert mjx.finite().tolist() == [True, True, True, False, False, True, True, True]


def test_a_saved_state_continues_bitwise(hover):
    scene, _, mjx = hover
    flying(scene, [mjx], 8)
    mjx.step(commands(scene, 8, 1))
    saved, ends = mjx.state_dict(), []
    for again in (False, True):
        if again:  # what was not saved is nominal
            mjx.set_field("dof_damping", torch.arange(8), torch.arange(6), torch.ones(8, 6))
        mjx.load_state_dict(saved)
        for step in range(2, 5):
            mjx.step(commands(scene, 8, step))
        ends.append(mjx.now(torch.arange(13)))
        flying(scene, [mjx], 8)
    assert torch.equal(*ends)


def test_masses_and_gains_differ_from_world_to_world_as_in_native_mujoco():
    scene = build_scene(load_robot("crazyflie"), 2)
    native, mjx = MujocoPhysics(scene, 4, STEPS), MjxPhysics(scene, 4, STEPS)
    flying(scene, [native, mjx], 4)
    body, worlds = torch.tensor([int(scene.group.base_body[0])]), torch.arange(4)
    factor = torch.linspace(0.7, 1.3, 4).double().view(-1, 1)
    for engine in (native, mjx):
        engine.set_field("body_mass", worlds, body, factor * engine.field("body_mass")[body])
        engine.set_field("body_inertia", worlds, body, factor.unsqueeze(-1) * engine.field("body_inertia")[body])
        gains = engine.field("actuator_gainprm")
        channels = torch.arange(len(gains))
        engine.set_field("actuator_gainprm", worlds[:2], channels, 0.8 * gains.expand(2, -1, -1))
        engine.set_field("geom_friction", worlds, torch.tensor([1]), torch.full((4, 1, 3), 0.2))
    after = errors(scene, native, mjx, 4, (1, 10))
    assert after[0] < 2e-6 and after[1] < 1e-4, after
    height = mjx.now(torch.tensor([2]))
    assert height[0] > height[3] + 0.01  # the light one is higher, so that the field did something


def test_drives_at_their_limit_cylinders_on_boxes_and_dry_friction_as_in_native_mujoco():
    spec = mujoco.MjSpec.from_string(BENCH)
    scene = Scene(spec.compile(), (), (), spec)
    native, mjx = MujocoPhysics(scene, 4, STEPS), MjxPhysics(scene, 4, STEPS)
    qpos = torch.from_numpy(scene.model.qpos0).repeat(4, 1)
    qpos[:, 0] = torch.linspace(-0.5, 0.5, 4)
    for engine in (native, mjx):
        engine.reset(torch.arange(4), qpos, torch.zeros(4, scene.model.nv).double(), torch.zeros(4, 0).double())
    columns, found = torch.arange(scene.model.nq), []
    for _ in range(60):
        for engine in (native, mjx):
            engine.step(torch.full((4, STEPS, 1), 2.5))
        found.append((native.now(columns) - mjx.now(columns)).abs())
    assert found[9][:, 0].max() < 1e-5 and found[-1][:, 0].max() < 1e-3, [error[:, 0].max() for error in found]
    assert found[-1][:, 1:4].max() < 2e-3 and native.now(torch.tensor([3])).max() < 0.2  # a puck that lies on the box


@pytest.mark.parametrize("task", ["hover", "swarm-swap", "payload-lift", "push", "swarm-track", "velocity-rough"])
def test_scenes_of_tasks_are_taken(task):
    (mjx,) = engine_modules("mjx", "mujoco.mjx")[1:]
    assert put_scene(mjx, task_scene(load_task(task)), impl="jax").nbody > 1


def test_what_mjx_cannot_collide_is_refused_in_one_line():
    def egg(spec, robots):
        spec.worldbody.add_geom(name="egg", type=4, size=[0.1, 0.1, 0.2], pos=[1, 0, 0])

    with pytest.raises(EngineError, match=r"ellipsoid and box \(egg\); 'mujoco' and 'warp' can$") as error:
        MjxPhysics(build_scene(load_robot("crazyflie"), 1, props=egg), 1, STEPS)
    assert "\n" not in str(error.value)


def test_what_a_machine_does_not_have_is_said_in_one_line(monkeypatch):
    jax, _ = engine_modules("mjx", "mujoco.mjx")
    with pytest.raises(EngineError, match="'cpu' or 'cuda', not on 'tpu'"):
        find_device(jax, "mjx", "tpu")
    if not torch.cuda.is_available():
        with pytest.raises(EngineError, match="sees no such device"):
            find_device(jax, "mjx", "cuda")
    with pytest.raises(EngineError, match="10000000000000 worlds do not fit into the memory of 'cpu'"):
        MjxPhysics(task_scene(load_task("hover")), 10**13, STEPS)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(EngineError, match=r"needs jax, which is not installed: pip install 'phalanx\[jax\]'"):
        engine_modules("mjx", "mujoco.mjx")


def test_a_field_that_is_compiled_in_is_refused(hover):
    mjx = hover[2]
    with pytest.raises(EngineError, match="'geom_condim' in single worlds"):
        mjx.set_field("geom_condim", torch.arange(8), torch.tensor([0]), torch.ones(8, 1))
