"""Drones under their firmware's rate loop: it answers as published, on every engine, and varies as asked."""

import math

import pytest
import torch
from one_group import make_env, start_of

from benchmarks.transfer import PLANTS, set_plants
from hardware import load_robot
from hardware.rotation import rotate, rotate_inverse
from hardware.spec import GRAVITY
from hardware.types import ActuatorCommand
from sim import randomisation
from sim.envs.world import World
from sim.noise import Noise
from sim.scenes.scene import Members, compose_scene
from sim.task import Start
from sim.tasks import load_task
from sim.tasks.parts.crazyflie import ROBOT
from sim.tasks.parts.multirotor import firmware
from sim.terms import EventTerm

HOVER = load_task("hover").changed(rate_loop=True, randomisation={}, noise=Noise())
ALL = torch.tensor([0])
STRAIGHT = torch.tensor([[[1.0, 0.0, 0.0, 0.0]]])


def flown(robot: str, engine: str = "mujoco", worlds: int = 1, looped: bool = True) -> World:
    """A drone 5 m up, in the hands of its firmware, or of its model's own loop."""
    spec = load_robot(robot)
    scene = compose_scene([Members(spec, 1)], 1.0 / spec.flight.rate_loop.rate_hz)
    world = World(scene, worlds, 1.0 / spec.control_hz, engine, rate_loops=[looped])
    place = torch.tensor([0.0, 0.0, 5.0]).expand(worlds, 1, 3)
    world.reset(torch.arange(worlds), [Start(command={}, pos=place, quat=STRAIGHT.expand(worlds, 1, 4))])
    return world


def answer(world: World, axis: int, rate: float = 0.5, periods: int = 15) -> torch.Tensor:
    """The rate about `axis` as a share of its set-point `rate`, rad/s, after each physics step."""
    target = world.groups[0].rest.expand(world.num_worlds, 1, 4).clone()
    target[..., 1 + axis] = rate
    columns, found = world.groups[0]._columns, []
    for _ in range(periods):
        world.step([ActuatorCommand(target)])
        for ago in reversed(range(world.decimation)):
            found.append(world.physics.recall(ALL, torch.tensor([[ago]]), columns)[0, 0, 10 + axis] / rate)
    return torch.stack(found)


def rise_s(world: World, share: torch.Tensor) -> float:
    """Time to 63 %."""
    return (int((share >= 0.632).nonzero()[0]) + 1) * world.sim_dt


@pytest.mark.parametrize("axis", [0, 1])
def test_the_crazyflies_loop_answers_in_36_ms_and_overshoots_by_a_quarter(axis):
    world = flown("crazyflie")
    share = answer(world, axis)
    assert rise_s(world, share) == pytest.approx(0.036, abs=0.004)
    assert 0.2 < share.max() - 1.0 < 0.35


def test_px4s_loop_is_quick_and_nearly_without_overshoot():
    world = flown("x500")
    share = answer(world, 1)
    assert rise_s(world, share) == pytest.approx(0.0375, abs=0.008)
    assert share.max() < 1.15


@pytest.mark.parametrize("robot", ["crazyflie", "x500"])
def test_a_drone_with_its_models_own_loop_flies_as_the_model_does(robot):
    ours, model = flown(robot), flown(robot, looped=False)
    ours.groups[0].rate_loops.state["slow"][:] = True
    for world in (ours, model):
        target = world.groups[0].rest.clone()
        target[0] *= 1.2
        target[1:] = torch.tensor([0.8, -0.5, 0.3])
        for _ in range(25):
            world.step([ActuatorCommand(target.expand(1, 1, 4))])
    mine, theirs = (world.groups[0].truth() for world in (ours, model))
    assert mine.base_pos == pytest.approx(theirs.base_pos, abs=0.01)
    assert mine.base_ang_vel == pytest.approx(theirs.base_ang_vel, abs=0.01)


@pytest.mark.parametrize("tilt", [0.0, 1.2])
@pytest.mark.parametrize(
    ("robot", "drag"), [("crazyflie", (0.02149163, 0.02149163, 0.02359736)), ("x500", (0.24823918, 0.24823918, 0.0))]
)
def test_drag_is_that_of_the_model_however_a_drone_is_tilted(robot, drag, tilt):
    """N s/m along each axis of the body, as in its MJCF; the drone's drives are dead, and it does not turn."""
    world = flown(robot)
    quat = torch.tensor([[[math.cos(tilt / 2), 0.0, math.sin(tilt / 2), 0.0]]])
    before = torch.tensor([[[3.0, -2.0, 1.0]]])
    world.reset(ALL, [Start(command={}, pos=torch.tensor([[[0.0, 0.0, 5.0]]]), quat=quat, lin_vel=before)])
    world.groups[0].dead[:] = True
    world.step([ActuatorCommand(world.groups[0].rest.expand(1, 1, 4))])
    after = rotate(quat, world.groups[0].truth().base_lin_vel)
    falls = torch.tensor([0.0, 0.0, -GRAVITY * world.control_dt])
    slowed = rotate(quat, torch.tensor(drag) * rotate_inverse(quat, before + falls / 2)) / world.groups[0].robot.mass_kg
    assert (after - before - falls) / world.control_dt == pytest.approx(-slowed, abs=0.01 * float(slowed.norm()))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mjx", "warp"])
def test_every_engine_gives_the_same_answer(engine):
    pytest.importorskip({"mjx": "mujoco.mjx", "warp": "mujoco_warp"}[engine])
    shares = [answer(flown("crazyflie", each), 0, periods=5) for each in ("mujoco", engine)]
    assert shares[1] == pytest.approx(shares[0], abs=1e-3)


def test_at_full_thrust_attitude_comes_first_and_thrust_pays():
    """The firmware slows all rotors down until the fastest is in range; a mixer that clipped each would turn less."""
    world = flown("crazyflie")
    loops = world.groups[0].rate_loops
    loops.state["rotors"][:] = 0.2
    target = torch.tensor([0.8, 6.0, 0.0, 0.0]).expand(1, 1, 4)
    wrench = torch.stack([loops.step(target, torch.zeros(1, 1, 3), *torch.ones(2, 1, 1, 1)) for _ in range(100)])
    assert wrench[-1, 0, 0, 0] == pytest.approx(0.75 * 0.8, rel=0.02)  # two rotors at full thrust, two at half of it
    assert wrench[-1, 0, 0, 1] == pytest.approx(0.25 * 0.8 * 0.035355, rel=0.05)  # clipped it would be half of that


def test_a_saved_state_goes_on_bitwise():
    task = HOVER.changed(randomisation=firmware(ROBOT), noise=load_task("hover").group.noise)
    env = make_env(task, 4, seed=1)
    action = torch.full((4, 1, 4), 0.3)
    env.step(action)
    kept = env.get_state()
    ends = []
    for _ in range(2):
        env.set_state(kept)
        for _ in range(5):
            env.step(action)
        ends.append(env.obs["crazyflie"].policy.clone())
    assert torch.equal(*ends)


def test_a_lost_command_leaves_the_last_one_standing():
    event = EventTerm(randomisation.lost_commands, {"share": (1.0, 1.0)}, interval_range_s=(0.0, 0.0))
    env = make_env(HOVER.changed(randomisation={"lost": event}), 2, seed=0)
    env.step(torch.full((2, 1, 4), 0.1))  # none is lost yet
    for _ in range(3):
        env.step(torch.full((2, 1, 4), -0.5))
    sent = env.group.robots.sent
    assert (sent[..., 1] == 0.1 * HOVER.group.action.scale[1]).all()


def test_each_drone_draws_its_loop_within_the_ranges_of_its_spec():
    ranges = load_robot("crazyflie").flight.rate_loop.variation
    params = {name: ranges[name] for name in ("gain", "lag", "trim")} | {"own": 0.25}
    env = make_env(HOVER.changed(randomisation={"loop": EventTerm(randomisation.rate_loop, params)}), 200, seed=0)
    state = env.group.robots.rate_loops.state
    for name in ("gain", "lag"):
        low, high = ranges[name]
        assert low <= state[name].min() < low + 0.1 and high - 0.1 < state[name].max() <= high
    assert 0.95 <= state["trim"].min() < state["trim"].max() <= 1.05
    assert 0.15 < state["slow"].float().mean() < 0.35


def test_a_loop_cannot_vary_where_the_model_flies_by_its_own():
    event = EventTerm(randomisation.rate_loop, {"gain": (1, 1), "lag": (1, 1), "trim": (0, 0), "own": 0.0})
    with pytest.raises(ValueError, match="rate_loop=True"):
        make_env(HOVER.changed(rate_loop=False, randomisation={"loop": event}), 1, seed=0)


def test_a_dead_drone_under_the_firmware_falls():
    env = make_env(HOVER.changed(starts=lambda draw: {"crazyflie": start_of(load_task("hover"), draw)}), 2, seed=0)
    before = env.now.state.base_lin_vel[..., 2].clone()
    env.group.robots.stop_drives(torch.tensor([0]), torch.tensor([0]))
    for _ in range(10):
        env.step(torch.zeros(2, 1, 4))
    down = env.now.lin_vel_w[..., 2]
    assert down[0, 0] - before[0, 0] < -1.3 and down[1, 0] > -0.7


def test_the_benchmark_gives_each_plant_its_share_of_the_worlds():
    event = EventTerm(set_plants, {"plants": PLANTS})
    env = make_env(HOVER.changed(randomisation={"plants": event}), 2 * len(PLANTS), seed=0)
    robots, index = env.group.robots, PLANTS.index((1.5, 0.06, 0.04, False))
    state, pair = robots.rate_loops.state, slice(2 * index, 2 * index + 2)
    assert (state["gain"][pair] == 1.5).all() and state["lag"][pair] == pytest.approx(1.0)
    assert (robots.actuator_delay[pair] + robots.sensor_delay[pair] == 20).all()  # steps of 2 ms
    assert state["slow"].flatten().nonzero().flatten().tolist() == [0, 1]
