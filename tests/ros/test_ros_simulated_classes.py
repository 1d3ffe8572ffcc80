"""Simulated arms and humanoids, and the things around them, behave like hardware where that matters."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("mujoco")
from places import ZOO
from ros_rig import standing
from test_ros_simulated_team import DT, fly

from deploy.runtime import PolicyRuntime
from deploy.shield.types import NO_PEERS
from hardware import load_robot
from hardware.spec import SLIDE_LEVER_M
from phalanx.missions.task import plan_task
from ros_nodes.mission.ground_truth import ground_truth_columns, read_ground_truth
from ros_nodes.simulation.command_watchdog import DAMP_AFTER_S
from ros_nodes.simulation.simulated_team import SimulatedTeam
from sim.noise import Noise
from sim.tasks import load_task

PANDA, H1 = load_robot("panda"), load_robot("h1")
STAND_H1 = ZOO / "stand-h1.onnx"


def test_an_arm_stands_where_it_is_bolted_and_holds_its_last_target_in_silence():
    team = SimulatedTeam(standing([[0.4, -0.3, 0.1, 0.7]], PANDA), DT)
    now_s = fly(team, 0.0, 0.5)
    np.testing.assert_allclose(team.robots[0].measure().joint_pos, PANDA.home, atol=1e-4)
    target = np.array(PANDA.home_target) + np.array([0.5, 0, 0, 0, 0, 0, 0, -0.02])
    now_s = fly(team, now_s, 1.5, target)
    fly(team, now_s, 3.0)
    state = team.robots[0].measure()
    np.testing.assert_allclose(state.joint_pos, target, atol=5e-3)
    np.testing.assert_allclose(state.base_pos, [0.4, -0.3, 0.1])
    np.testing.assert_allclose(state.base_quat, [np.cos(0.35), 0, 0, np.sin(0.35)])
    assert not state.base_lin_vel.any() and not state.base_ang_vel.any()


def test_fingers_that_mirror_each_other_start_where_they_belong():
    joint_pos = np.array([*PANDA.home[:-1], 0.015])
    mission = standing([[0, 0, 0, 0]], PANDA)
    mission = replace(mission, team=(replace(mission.team[0], joint_pos=joint_pos),))
    team = SimulatedTeam(mission, DT)
    for step in range(20):
        team.robots[0].receive(joint_pos, DT * step)
        team.step(DT * (step + 1))
        state = team.robots[0].measure()
        assert abs(state.joint_vel[-1]) < 0.01
        assert state.joint_pos[-1] == pytest.approx(0.015, abs=1e-4)


def test_a_humanoid_stands_while_its_policy_commands_it_and_sinks_without_stiffness_in_silence():
    team, policy = SimulatedTeam(standing([[0.0, 0.0, H1.home_height_m, 1.0]], H1), DT), PolicyRuntime.load(STAND_H1)
    policy.reset()
    now_s = fly(team, 0.0, 0.3)
    for _ in range(100):
        target = policy.step(team.robots[0].measure(), NO_PEERS, {}).requested.target
        now_s = fly(team, now_s, policy.contract.control_dt_s, target)
    assert team.true_poses()[0, 2] > 0.95 * H1.home_height_m
    now_s = fly(team, now_s, DAMP_AFTER_S)
    before = team.true_poses()[0, 2]
    assert before > 0.95 * H1.home_height_m
    now_s = fly(team, now_s, 0.4)
    fallen = before - team.true_poses()[0, 2]
    assert 0.005 < fallen < 0.5 * 9.81 * 0.4**2 / 2  # it gives way, but does not drop
    fly(team, now_s, 4.0)
    assert team.true_poses()[0, 2] < 0.6 * H1.home_height_m
    assert np.isfinite(team.robots[0].measure().joint_pos).all()


def test_joints_have_the_noise_that_was_asked_for_and_slides_that_of_their_drum():
    noise = Noise(joint_pos_rad=0.01, joint_vel_rad_s=0.2)
    team = SimulatedTeam(standing([[0, 0, 0, 0]], PANDA), DT, noise)
    states = [team.robots[0].measure() for _ in range(2000)]
    lever = np.array([1.0] * 7 + [SLIDE_LEVER_M])
    np.testing.assert_allclose(np.std([s.joint_pos for s in states], axis=0), 0.01 * lever, rtol=0.1)
    np.testing.assert_allclose(np.std([s.joint_vel for s in states], axis=0), 0.2 * lever, rtol=0.1)
    assert np.ptp([s.base_pos for s in states], axis=0).max() == 0.0  # where it is bolted is known


def puck_of(team: SimulatedTeam) -> np.ndarray:
    """What is recorded of the one object, the last of all."""
    return team.ground_truth_row()[-13:]


def test_things_of_the_task_start_where_the_mission_says_and_are_tracked():
    mission = plan_task(load_task("push"), 1, 4.0, None, seed=2)
    team = SimulatedTeam(mission, DT, Noise(pos_m=0.01))
    np.testing.assert_allclose(puck_of(team)[:7], mission.objects["puck"])
    fly(team, 0.0, 0.5)
    np.testing.assert_allclose(puck_of(team)[:3], mission.objects["puck"][:3], atol=2e-3)
    seen = [team.measure_object("puck").pos for _ in range(1000)]
    assert np.std(seen, axis=0) == pytest.approx(0.01, rel=0.15)


def test_an_object_that_is_not_there_is_named():
    mission = replace(plan_task(load_task("push"), 1, 4.0, None, seed=2), objects={})
    with pytest.raises(ValueError, match="the scene of 'push' has puck; the mission starts none: 'puck' differs"):
        SimulatedTeam(mission, DT)


def test_what_is_recorded_is_read_as_it_was():
    mission = plan_task(load_task("push"), 1, 4.0, None, seed=2)
    team = SimulatedTeam(mission, DT)
    fly(team, 0.0, 0.2, np.array(PANDA.home_target))
    columns, row = ground_truth_columns(mission), team.ground_truth_row()
    series = {name: np.array([value]) for name, value in zip(columns, row, strict=True)}
    truth = read_ground_truth(series | {"time_s": np.zeros(1)}, mission)
    state, puck = team.robots[0].measure(), puck_of(team)  # without noise
    for name in ("joint_pos", "joint_vel", "base_pos", "base_quat"):
        np.testing.assert_array_equal(getattr(truth.robots[0], name)[0], getattr(state, name))
    np.testing.assert_array_equal(truth.objects["puck"].pos[0], puck[:3])
    np.testing.assert_array_equal(truth.objects["puck"].ang_vel[0], puck[10:])
    np.testing.assert_array_equal(truth.target[0][0], team.robots[0].target)
