"""The air that a drone blows down: drones below sink as the literature's equations say, all others do not notice."""

from dataclasses import replace
from math import pi, sqrt

import pytest
import torch

from hardware import load_robot
from hardware.types import ActuatorCommand
from sim.envs.team_env import TeamEnv
from sim.envs.world import World
from sim.scenes.scene import Members, compose_scene
from sim.task import Start
from sim.tasks import load_task

PERIOD_S, PERIODS = 0.02, 5
LEVEL = (1.0, 0.0, 0.0, 0.0)


def share_lost(spec, below_m):
    """Share of its thrust that a drone loses right below another one like it: arXiv 2403.13321, eq. 1 to 9."""
    rotors, radius = spec.flight.rotors_xy_m, spec.flight.propeller_radius_m
    arm = sqrt(rotors[0][0] ** 2 + rotors[0][1] ** 2)
    hover = sqrt(spec.flight.hover_thrust_n / (2 * 1.225 * len(rotors) * pi * radius**2))
    jet = max(below_m / (2 * arm), 2.5) + 5.817
    half_width = 0.07668 * jet * 2 * arm
    air = hover * 10.11 / jet / (1 + (sqrt(2) - 1) * (arm / half_width) ** 2) ** 2
    return air / hover / 3


def fly(spec, places, downwash=True, first_stands_still=False, engine="mujoco"):
    """How far each has moved (N, 3), and the truth, after 0.1 s under the thrust that would carry it."""
    world = World(compose_scene([Members(spec, len(places))]), 1, PERIOD_S, engine, downwash=downwash)
    pos = torch.tensor([places])
    world.reset(torch.tensor([0]), [Start({}, pos, torch.tensor(LEVEL).expand(1, len(places), 4))])
    if first_stands_still:
        world.groups[0].stop_drives(torch.tensor([0]), torch.tensor([0]))
    target = torch.tensor([spec.flight.hover_thrust_n, 0.0, 0.0, 0.0]).expand(1, len(places), 4)
    for _ in range(PERIODS):
        world.step([ActuatorCommand(target)])
    truth = world.groups[0].truth()
    return truth.base_pos[0] - pos[0], truth


@pytest.mark.parametrize("robot", ["crazyflie", "x500"])
@pytest.mark.parametrize("below_m", [0.3, 0.6, 1.0])
def test_a_drone_below_another_one_sinks_by_what_the_equation_says(robot, below_m):
    spec = load_robot(robot)
    moved, truth = fly(spec, [[0.0, 0.0, 2.0], [0.0, 0.0, 2.0 - below_m]])
    expected = 0.5 * 9.81 * share_lost(spec, below_m) * (PERIODS * PERIOD_S) ** 2
    assert moved[1, 2] == pytest.approx(-expected, rel=0.06)  # drag takes up to 3 %
    assert moved[1, :2].norm() < 1e-5 and truth.base_ang_vel[0, 1].norm() < 1e-4
    assert moved[0].norm() < 1e-5


def test_the_force_is_that_measured_between_two_crazyflies():
    """Neural-Swarm, ICRA 2020: 8 to 9 g for a Crazyflie 2.0 (34 g, 46 mm rotors, 92 mm) 0.3 m below another one."""
    small = load_robot("crazyflie")
    flight = replace(
        small.flight,
        hover_thrust_n=0.034 * 9.81,
        propeller_radius_m=0.0231,
        rotors_xy_m=tuple((x * 0.0325, y * 0.0325) for x in (1, -1) for y in (1, -1)),
    )
    assert 8.0 <= 34 * share_lost(replace(small, flight=flight), 0.3) <= 9.0


def test_a_drone_above_or_beside_notices_nothing_nor_does_one_below_rotors_that_stand_still():
    spec = load_robot("crazyflie")
    for beside in ([0.3, 0.0, 1.5], [0.0, 0.4, 1.45], [0.5, 0.0, 1.3]):
        moved, _ = fly(spec, [[0.0, 0.0, 1.5], beside])
        assert moved.norm(dim=-1).max() < 2e-4, beside
    moved, _ = fly(spec, [[0.0, 0.0, 2.0], [0.0, 0.0, 1.4]], first_stands_still=True)
    assert moved[1].norm() < 1e-5


def test_a_wake_on_one_side_turns_the_drone_below_towards_it():
    spec = load_robot("crazyflie")
    moved, truth = fly(spec, [[0.08, 0.0, 2.0], [0.0, 0.0, 1.7]])
    assert truth.base_ang_vel[0, 1, 1] > 1e-3 and moved[1, 2] < -1e-3  # nose, at +x, down
    moved, truth = fly(spec, [[0.0, 0.08, 2.0], [0.0, 0.0, 1.7]])
    assert truth.base_ang_vel[0, 1, 0] < -1e-3  # left side, at +y, down


def test_it_is_off_unless_a_task_asks_for_it():
    spec = load_robot("crazyflie")
    moved, _ = fly(spec, [[0.0, 0.0, 2.0], [0.0, 0.0, 1.4]], downwash=False)
    assert moved.norm(dim=-1).max() < 1e-5
    task = load_task("swarm-swap")
    assert not task.scene.downwash
    blown = task.changed(scene=replace(task.scene, downwash=True))
    heights = []
    for each in (task, blown):
        env = TeamEnv(each, 1, 0, 2, randomise=False)
        physics = env.world.physics
        qpos = physics.scene.group.base_qpos
        start = torch.as_tensor(physics.scene.model.qpos0)[None].clone()
        start[0, qpos[0]] = torch.tensor([0.0, 0.0, 1.8, *LEVEL]).double()
        start[0, qpos[1]] = torch.tensor([0.0, 0.0, 1.3, *LEVEL]).double()
        env.world.groups[0].sent[:] = env.world.groups[0].rest
        model = physics.scene.model
        physics.reset(torch.tensor([0]), start, torch.zeros(1, model.nv), torch.zeros(1, model.na))
        for _ in range(5):
            env.step({"crazyflie": torch.zeros(1, 2, 4)})
        heights.append(float(env.group.now.state.base_pos[0, 1, 2]))
    assert heights[1] < heights[0] - 5e-3
