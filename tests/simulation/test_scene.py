"""Scenes: robots of one or several kinds, fixed or free, things around them, and what is refused."""

import dataclasses
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from one_group import make_env, start_of, starts_at
from one_scene import build_scene

from hardware import load_robot, robot_names
from sim.envs.team_env import TeamEnv
from sim.envs.world import task_scene
from sim.noise import Noise
from sim.scenes.scene import Members, compose_scene
from sim.task import GroupCfg, SceneCfg, TaskCfg
from sim.tasks import load_task, task_names

PANDA, CRAZYFLIE = load_robot("panda"), load_robot("crazyflie")


def box(spec: mujoco.MjSpec, robots: int) -> None:
    body = spec.worldbody.add_body(name="box", pos=[0.5, 0, 0.05])
    body.add_freejoint()
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.05, 0.05, 0.05], mass=0.2)


@pytest.mark.parametrize("name", robot_names())
def test_every_robot_makes_a_scene_in_which_its_coordinates_are_its_own(name):
    robot = load_robot(name)
    scene = build_scene(robot, 3)
    group = scene.group
    assert group.joint_qpos.shape == (3, len(robot.joints)) and group.ctrl_index.shape == (3, len(robot.channels))
    used = np.concatenate([group.base_qpos.ravel(), group.joint_qpos.ravel()])
    assert len(set(used)) == len(used) and used.max() < scene.model.nq
    mass = scene.model.body_mass[group.bodies].sum(1)
    assert mass == pytest.approx([robot.mass_kg] * 3, rel=1e-3)


def test_fixed_robots_stand_where_they_are_told_and_say_so():
    bases = np.array([[0.0, -0.5, 0.1, 0.0], [0.0, 0.5, 0.1, np.pi / 2]])
    task = load_task("reach").changed(num_agents=2, scene=SceneCfg(bases=lambda n: bases), noise=Noise())
    env = make_env(task, 2, seed=0)
    np.testing.assert_allclose(env.now.state.base_pos[0], bases[:, :3], atol=1e-6)
    half = np.sqrt(0.5)
    assert env.now.state.base_quat[1, 1].tolist() == pytest.approx([half, 0, 0, half])
    assert (env.now.state.base_lin_vel == 0).all()
    data = mujoco.MjData(env.world.scene.model)
    data.qpos[env.world.scene.group.joint_qpos] = env.now.state.joint_pos[0].numpy()
    mujoco.mj_kinematics(env.world.scene.model, data)
    for robot in range(2):
        site = data.site(f"robot{robot}/{PANDA.frames['tool']}")
        assert env.now.frame("tool")[0][0, robot].tolist() == pytest.approx(site.xpos.tolist(), abs=1e-5)


def test_objects_are_seen_as_they_are_with_velocities_in_their_own_axes():
    hover = load_task("hover")

    def start(draw):
        begin = start_of(hover, draw)
        quat = torch.tensor([np.sqrt(0.5), 0, 0, np.sqrt(0.5)]).float()
        begin.objects["box"] = (torch.tensor([0.5, 0.2, 2.0]).expand(draw.worlds, 3), quat.expand(draw.worlds, 4))
        return begin

    scene = SceneCfg(props=box, objects=("box",))
    task = starts_at(hover, start).changed(scene=scene, randomisation={}, noise=Noise())
    env = make_env(task, 2, seed=0)
    columns = torch.from_numpy(env.world.scene.objects[0].qvel)
    env.world.physics.add_velocity(torch.arange(2), columns[:1], torch.full((2, 1), 1.0))  # along the world's x
    seen = env.world.true_objects()["box"]
    assert seen.pos[0, 0].tolist() == pytest.approx([0.5, 0.2, 2.0])
    assert seen.lin_vel[0, 0].tolist() == pytest.approx([0.0, -1.0, 0.0], abs=1e-6)  # turned by a quarter
    env.step(torch.zeros(2, 1, 4))
    assert env.measured[2]["box"].pos[0, 0, 0] == pytest.approx(0.52, abs=1e-3)


def test_a_mixed_scene_keeps_its_kinds_apart_and_takes_the_smallest_step():
    scene = compose_scene([Members(CRAZYFLIE, 2), Members(PANDA, 1)])
    drones, arm = scene.groups
    assert drones.robot.name == "crazyflie" and arm.robot.name == "panda"
    columns = [drones.base_qpos.ravel(), arm.joint_qpos.ravel()]
    assert not set(columns[0]) & set(columns[1])
    assert scene.model.body(int(arm.base_body[0])).name == f"robot2/{PANDA.base_body}"
    steps = [mujoco.MjModel.from_xml_path(str(robot.mjcf)).opt.timestep for robot in (CRAZYFLIE, PANDA)]
    assert scene.model.opt.timestep == min(steps)
    with pytest.raises(ValueError):
        _ = scene.group


def role(name: str, **changes) -> GroupCfg:
    return dataclasses.replace(load_task(name).group, **({"randomisation": {}, "noise": Noise()} | changes))


def test_roles_of_a_mixed_team_live_in_one_world():
    """A drone and an arm, each with the commands, rewards and ends of its own task."""
    hover, reach = load_task("hover"), load_task("reach")

    def starts(draw):
        one = dataclasses.replace(draw, robots=1)
        return {"drone": start_of(hover, one), "arm": start_of(reach, one)}

    task = TaskCfg(
        name="both", summary="", episode_s=1.0, success_hold_s=0.1, starts=starts, scene=reach.scene,
        groups={"drone": role("hover"), "arm": role("reach")},
    )  # fmt: skip
    env = TeamEnv(task, 4, seed=0)
    actions = {name: torch.zeros(4, 1, group.action_dim) for name, group in env.groups.items()}
    step = env.step(actions)
    assert step.obs.keys() == step.reward.keys() == {"drone", "arm"} and step.obs["arm"].policy.shape[:2] == (4, 1)
    assert torch.equal(env.groups["arm"].now.others["drone"].base_pos, env.groups["drone"].now.state.base_pos)
    for _ in range(49):
        step = env.step(actions)
    assert step.ended.all() and all((step.terminated[name] | step.truncated[name]).all() for name in actions)
    with pytest.raises(ValueError, match="several groups: drone, arm; this takes one"):
        _ = env.group


def test_scenes_that_do_not_match_are_refused(tmp_path: Path):
    text = PANDA.mjcf.read_text()
    first = PANDA.joints[0]
    wrong = tmp_path / "panda.xml"
    wrong.write_text(text.replace(f'name="{first.name}"', 'name="other"'))
    with pytest.raises(ValueError, match=f"no joint '{first.name}'|{first.name}"):
        build_scene(dataclasses.replace(PANDA, mjcf=wrong), 1)
    joints = (dataclasses.replace(first, high=first.high + 0.1), *PANDA.joints[1:])
    with pytest.raises(ValueError, match=f"joint '{first.name}' has range .* the spec of 'panda' says"):
        build_scene(dataclasses.replace(PANDA, joints=joints), 1)
    with pytest.raises(ValueError, match="no free body 'base'"):
        build_scene(dataclasses.replace(CRAZYFLIE, mjcf=PANDA.mjcf, base_body="base"), 1)
    with pytest.raises(ValueError, match="at least one robot, not 0"):
        compose_scene([Members(CRAZYFLIE, 1), Members(PANDA, 0)])
    with pytest.raises(ValueError, match="no free body 'ghost' to track"):
        build_scene(CRAZYFLIE, 1, objects=("ghost",))
    with pytest.raises(ValueError, match=r"bases has shape \(1, 4\), not \(2, 4\)"):
        build_scene(PANDA, 2, bases=np.zeros((1, 4)))


def test_a_task_and_its_scene_agree():
    scene = task_scene(load_task("swarm-swap"), num_agents=3, visuals=True)
    assert scene.group.num_robots == 3 and scene.model.ngeom > task_scene(load_task("swarm-swap"), 3).model.ngeom


@pytest.mark.parametrize("name", task_names())
def test_what_a_task_asks_lies_in_the_range_that_its_contract_tells(name):
    for group in TeamEnv(name, 128, seed=0).groups.values():
        for command, cfg in group.cfg.commands.items():
            value = group.command[command]
            assert (value >= torch.tensor(cfg.low) - 1e-6).all() and (value <= torch.tensor(cfg.high) + 1e-6).all()


def test_a_mixed_team_has_the_size_that_it_has():
    with pytest.raises(ValueError, match="'perch' is for a mixed team"):
        task_scene(load_task("perch"), num_agents=2)


def test_noise_of_a_slide_is_that_of_its_motor():
    """0.01 rad at the motor of a gripper is 0.2 mm at the finger, not a centimetre."""
    noise = Noise(joint_pos_rad=0.01)
    env = make_env(load_task("reach").changed(noise=noise, randomisation={}), 512, seed=0)
    error = (env.measured[0].joint_pos - env.now.state.joint_pos).std((0, 1))
    assert error[-1].item() == pytest.approx(0.0002, rel=0.2) and error[0].item() == pytest.approx(0.01, rel=0.2)
