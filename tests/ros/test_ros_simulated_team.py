"""The simulated robots behave like hardware where that matters to safety."""

import numpy as np
import pytest

pytest.importorskip("mujoco")
from ros_rig import SPEC, standing

from ros_nodes.messages.scene import Obstacle, Scene
from ros_nodes.simulation.simulated_team import SimulatedTeam
from sim.noise import Noise

HOVER = np.array([SPEC.flight.hover_thrust_n, 0.0, 0.0, 0.0])
DT = 0.002


def make_team(robots=2, **options) -> SimulatedTeam:
    return SimulatedTeam(standing([[x, 0.0, 1.0, 0.3] for x in range(robots)]), DT, seed=1, **options)


def fly(team: SimulatedTeam, start_s: float, duration_s: float, command=None) -> float:
    now_s = start_s
    while now_s < start_s + duration_s:
        if command is not None:
            team.robots[0].receive(command, now_s)
        now_s += DT
        team.step(now_s)
    return now_s


def test_a_robot_stays_on_its_stand_until_its_first_command():
    team = make_team()
    now_s = fly(team, 0.0, 1.0)
    np.testing.assert_allclose(team.true_poses()[:, :3], [[0, 0, 1], [1, 0, 1]], atol=1e-3)
    fly(team, now_s, 1.0, 1.2 * HOVER)
    assert team.true_poses()[0, 2] > 1.5
    np.testing.assert_allclose(team.true_poses()[1, :3], [1, 0, 1], atol=1e-3)


def test_without_commands_it_levels_and_then_its_motors_stop():
    team = make_team()
    now_s = fly(team, 0.0, 0.4, HOVER + np.array([0.0, 0.3, 0.0, 0.0]))
    assert tilt(team) > 0.08
    now_s = fly(team, now_s, 1.6)
    assert tilt(team) < 0.03
    assert team.true_poses()[0, 2] > 0.5
    fly(team, now_s, 2.0)
    assert team.true_poses()[0, 2] < 0.1


def test_a_clock_that_begins_again_holds_up_no_command_and_no_watchdog():
    """What was in flight then had a time of before: all that came later waited behind it for a minute."""
    team = make_team(command_latency_s=0.01)
    before_s = fly(team, 60.0, 0.2, HOVER + np.array([0.0, 0.3, 0.0, 0.0]))
    worked_s = team.robots[0].worked_s
    now_s = fly(team, before_s - 60.0, 0.1, HOVER)
    np.testing.assert_array_equal(team.robots[0].target, HOVER)
    assert team.robots[0].worked_s >= worked_s
    fly(team, now_s, 4.0)
    assert team.true_poses()[0, 2] < 0.1


def test_robots_meet_what_stands_around():
    """A drone comes down on a box, on a ball and on a capsule that lies across; their tops are at 0.5 m."""
    scene = Scene(
        (
            Obstacle("box", (0.0, 0.0, 0.25, 0.3), (0.6, 0.6, 0.5)),
            Obstacle("ball", (1.0, 0.0, 0.2, 0.0), radius=0.3),
            Obstacle("log", (2.0, 0.0, 0.4, np.pi / 2), (2.0, 0.0, 0.0), 0.1),
        )
    )
    team = make_team(3, solids=scene.boxes())
    for robot in team.robots:
        robot.receive(0.0 * HOVER, 0.0)
    lowest = np.full(3, np.inf)
    for step in range(225):  # 0.45 s: less than a metre
        team.step((step + 1) * DT)
        lowest = np.minimum(lowest, team.true_poses()[:, 2])
    assert lowest == pytest.approx(np.full(3, 0.5), abs=0.02)


def tilt(team: SimulatedTeam) -> float:
    _, x, y, _ = team.true_poses()[0, 3:]
    return 2 * np.hypot(x, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_garbage_is_no_command(bad):
    team = make_team()
    fly(team, 0.0, 0.1, HOVER)
    assert not team.robots[0].receive(np.array([bad, 0, 0, 0]), 0.1)
    fly(team, 0.1, 0.1, np.array([0.4, bad, 0, 0]))
    assert np.isfinite(team.true_poses()).all()


def test_commands_act_late_by_the_link():
    team = make_team(command_latency_s=0.05)
    fly(team, 0.0, 0.045, 1.5 * HOVER)
    assert team.true_poses()[0, 2] == 1.0
    fly(team, 0.045, 0.2, 1.5 * HOVER)
    assert team.true_poses()[0, 2] > 1.0


def test_sensors_have_the_noise_that_was_asked_for():
    team = make_team(noise=Noise(0.01, 0.02, 0.03, 0.04))
    states = [team.robots[0].measure() for _ in range(2000)]
    assert np.std([s.base_pos for s in states], axis=0) == pytest.approx(0.01, rel=0.1)
    assert np.std([s.base_lin_vel for s in states], axis=0) == pytest.approx(0.03, rel=0.1)
    assert np.std([s.base_ang_vel for s in states], axis=0) == pytest.approx(0.04, rel=0.1)
    truth = make_team().robots[0].measure().base_quat
    angle = 2 * np.arccos(np.clip([abs(s.base_quat @ truth) for s in states], 0, 1))
    assert np.sqrt((angle**2).mean()) == pytest.approx(0.02 * np.sqrt(3), rel=0.1)
    assert np.mean([s.base_pos for s in states], axis=0) == pytest.approx([0, 0, 1], abs=0.002)


def test_measured_velocity_is_in_the_body_frame():
    team = make_team()
    fly(team, 0.0, 0.5, HOVER + np.array([0.0, 0.0, 0.4, 0.0]))
    before = team.true_poses()[0].copy()
    team.step(0.502)
    velocity_w = (team.true_poses()[0, :3] - before[:3]) / DT
    w, x, y, z = team.true_poses()[0, 3:]
    from scipy.spatial.transform import Rotation

    measured_w = Rotation.from_quat([x, y, z, w]).apply(team.robots[0].measure().base_lin_vel)
    np.testing.assert_allclose(measured_w, velocity_w, atol=0.02)
