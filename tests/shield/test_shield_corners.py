"""Drones behind their filter where what is around is slanted, above, below, or comes nearer; all bounds at once."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from test_shield_obstacles import LOWEST_M, batched_no_peers

from deploy.shield import Context, ShieldParams, filter_command, make_shield_params
from deploy.shield.drone.guarantee import BOUNDS
from deploy.shield.obstacles import outward
from deploy.shield.types import Obstacles
from hardware import load_robot
from hardware.rotation import multiply, rotate
from hardware.spec import RobotSpec
from sim.attack.attackers import View, steer, toward
from sim.attack.faults import FAULTS, Fault
from sim.attack.team import Team

BOTH = pytest.mark.parametrize("name", ["crazyflie", "x500"])


def boxes(pos: np.ndarray, quat: np.ndarray, half: np.ndarray) -> Obstacles:
    """That stand still, (W, O, ...)."""
    none = np.zeros(pos.shape[:-1])
    return Obstacles(pos, quat, half, none, none, none == 0.0)


def turned(yaw: np.ndarray, slant: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """Quaternions (W, 4): about the vertical by `yaw` (W,) rad, then about `axis` (W, 3) by `slant` (W,) rad."""
    axis = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
    upright = np.stack([np.cos(yaw / 2), 0.0 * yaw, 0.0 * yaw, np.sin(yaw / 2)], axis=-1)
    return multiply(np.c_[np.cos(slant / 2), np.sin(slant / 2)[:, None] * axis], upright)


def least_gaps(
    spec: RobotSpec,
    params: ShieldParams,
    starts: np.ndarray,
    fault: Fault,
    rng: np.random.Generator,
    steps: int,
    ask: Callable[[View], np.ndarray],
    around: Obstacles | Callable[[View], Obstacles],
) -> np.ndarray:
    """(W,) m, how near each of W drones, from `starts` (W, 3) m on, came to what is `around` it (W, O, ...).

    `ask` requests (W, 1, 4). What moves is where it is after each period.
    """
    worlds = len(starts)
    team = Team(spec, starts[:, None], fault, rng)
    view, no_peers, least_m = View(spec, params, rng, team.now), batched_no_peers(worlds), np.full(worlds, np.inf)
    sent = np.broadcast_to(np.float32([spec.flight.hover_thrust_n, 0, 0, 0]), (worlds, 1, 4))
    for step in range(steps):
        view.now, view.t_s = team.now, step * team.dt_s
        solid = around(view) if callable(around) else around
        asked = ask(view).astype(np.float32)
        things = Obstacles(*(getattr(solid, name)[:, None] for name in Obstacles.__slots__))
        context = Context(team.state(), no_peers, people=no_peers, obstacles=things, sent=sent)
        sent, _ = filter_command(params, spec, context, asked)
        for seen in team.step(sent):
            least_m = np.minimum(least_m, outward(np, seen[:, 0], solid)[1].min(-1))
    print(f"{spec.name}: least {least_m.min():.3f} m of {worlds}, guaranteed {params.obstacle_m:.3f}")
    return least_m


@pytest.mark.slow
def test_who_sinks_along_slanted_walls_keeps_off_them():
    """It pulls away with less thrust than carries it: taken to pull with that, it came 8 cm too near."""
    spec, worlds, rng = load_robot("crazyflie"), 12, np.random.default_rng(3)
    params = make_shield_params(spec, geofence_low=(-9, -9, LOWEST_M["crazyflie"]), geofence_high=(9, 9, 9))
    yaw, slant, axis = rng.uniform(-np.pi, np.pi, worlds), rng.uniform(0.0, 0.7, worlds), rng.normal(size=(worlds, 3))
    quat, up = turned(yaw, slant, axis), np.array([0.0, 0.0, 3.0])
    middle = up + rotate(quat[:, None], np.array([[0.3, -1.9, 0.0], [-2.5, 0.3, 0.0]]))
    half = np.tile([[0.3, 2.5, 2.5], [2.5, 0.3, 2.5]], (worlds, 1, 1))
    walls, into = boxes(middle, np.repeat(quat[:, None], 2, axis=1), half), rotate(quat, np.array([1.0, 1.0, 0.0]))
    starts = up - rng.uniform(0.7, 1.3, (worlds, 1)) * into + rng.uniform(-0.2, 0.2, (worlds, 3))
    starts = np.maximum(starts, [-9.0, -9.0, 0.8])
    goal = (up + 0.3 * into)[:, None]
    least_m = least_gaps(spec, params, starts, FAULTS["corner"], rng, 250, lambda view: toward(view, goal), walls)
    assert (least_m > params.obstacle_m).all()


@pytest.mark.slow
@BOTH
def test_who_is_sent_at_the_top_of_a_box_again_and_again_keeps_off_it(name):
    """With weak rotors and constant errors: it took itself to climb off already, dropped, and touched it."""
    spec, worlds, rng = load_robot(name), 24, np.random.default_rng(1)
    params = make_shield_params(spec, geofence_low=(-5, -5, LOWEST_M[name]), geofence_high=(5, 5, 5))
    half, yaw = rng.uniform(0.1, 0.6, (worlds, 1, 3)), rng.uniform(-3.0, 3.0, worlds)
    quat = turned(yaw, 0.0 * yaw, np.ones((worlds, 3)))[:, None]
    starts = np.concatenate([rng.uniform(-1.2, 1.2, (worlds, 2)), rng.uniform(3.4, 4.2, (worlds, 1))], axis=-1)
    goal, asks = np.tile([0.0, 0.0, 1.8], (worlds, 1, 1)), np.full((worlds, 1, 1), 20.0)

    def dive(view: View) -> np.ndarray:
        dives, climbs = rng.random((2, worlds, 1, 1)) < [[[[0.03]]], [[[0.01]]]]
        goal[:] = np.where(dives, rng.uniform([-0.8, -0.8, 1.2], [0.8, 0.8, 2.6], (worlds, 1, 3)), goal)
        asks[:] = np.where(dives, rng.choice([2.0, 5.0, 10.0, 20.0], (worlds, 1, 1)), asks)
        goal[:] = np.where(climbs, rng.uniform([-2.0, -2.0, 4.0], [2.0, 2.0, 4.0], (worlds, 1, 3)), goal)
        way = goal - view.now.pos
        return steer(view, asks * way / (np.linalg.norm(way, axis=-1, keepdims=True) + 1e-6))

    solid = boxes(np.tile([0.0, 0.0, 1.8], (worlds, 1, 1)), quat, half)
    weak = replace(FAULTS["corner, biased"], strength=(-1.0, -1.0))
    assert (least_gaps(spec, params, starts, weak, rng, 400, dive, solid) > params.obstacle_m).all()


@pytest.mark.slow
@pytest.mark.parametrize("strength", [-1.0, 1.0], ids=["weak rotors", "strong rotors"])
@BOTH
def test_who_is_sent_into_the_corner_of_two_walls_and_a_ceiling_keeps_off_all_three(name, strength):
    """Level in half of the worlds, else turned together: a drone that took itself to sink already climbed into it."""
    spec, worlds, size, rng = load_robot(name), 48, {"crazyflie": 1.0, "x500": 2.0}[name], np.random.default_rng(1)
    params = make_shield_params(spec, geofence_low=(-12, -12, LOWEST_M[name]), geofence_high=(12, 12, 14))
    yaw, axis = rng.uniform(-np.pi, np.pi, worlds), rng.normal(size=(worlds, 3))
    quat = turned(yaw, rng.uniform(0.0, 0.8, worlds) * (np.arange(worlds) % 2), axis)
    up = np.array([0.0, 0.0, 6.0])
    middle = up + rotate(quat[:, None], size * np.array([[0.3, -1.9, 0.0], [-2.5, 0.3, 0.0], [-1.0, -1.0, 1.8]]))
    half = np.tile(size * np.array([[0.3, 2.5, 2.5], [2.5, 0.3, 2.5], [2.5, 2.5, 0.3]]), (worlds, 1, 1))
    starts = up + rotate(quat, size * np.array([-1.0, -1.0, 0.3])) + rng.uniform(-0.2, 0.2, (worlds, 3))
    goal = (up + rotate(quat, size * np.array([0.3, 0.3, 1.8])))[:, None]
    room = boxes(middle, np.repeat(quat[:, None], 3, axis=1), half)
    fault = replace(FAULTS["corner"], strength=(strength, strength))
    least_m = least_gaps(spec, params, starts, fault, rng, 250, lambda view: toward(view, goal), room)
    assert (least_m > params.obstacle_m).all()


@pytest.mark.slow
@pytest.mark.parametrize("flies_at_it", [True, False], ids=["it flies at it", "it hovers"])
@BOTH
def test_what_comes_straight_on_as_fast_as_is_stated_is_kept_off(name, flies_at_it):
    """A ball of 10 cm that follows it from any side, and whose speed its shield knows."""
    spec, worlds, rng = load_robot(name), 24, np.random.default_rng(5)
    params = make_shield_params(spec, geofence_low=(-30, -30, LOWEST_M[name]), geofence_high=(30, 30, 30))
    starts, ball = np.tile([0.0, 0.0, 6.0], (worlds, 1)), rng.normal(size=(worlds, 3))
    ball = starts + 2.0 * ball / np.linalg.norm(ball, axis=-1, keepdims=True)
    none = np.zeros((worlds, 1))

    def follow(view: View) -> Obstacles:
        """Half a second after the start it begins to."""
        way, speed = view.now.pos[:, 0] - ball, BOUNDS.thing * (view.t_s >= 0.5)
        ball[:] += speed / spec.control_hz * way / np.linalg.norm(way, axis=-1, keepdims=True)
        quat = np.tile([1.0, 0.0, 0.0, 0.0], (worlds, 1, 1))
        return Obstacles(ball[:, None], quat, np.zeros((worlds, 1, 3)), none + 0.1, none + speed, none == 0.0)

    def ask(view: View) -> np.ndarray:
        way = ball[:, None] - view.now.pos
        if flies_at_it:
            return steer(view, 10.0 * way / np.linalg.norm(way, axis=-1, keepdims=True))
        return steer(view, 1.5 * (starts[:, None] - view.now.pos) - 2.0 * view.now.lin_vel_w)

    fault = replace(FAULTS["corner"], strength=(-1.0, 1.0))
    assert (least_gaps(spec, params, starts, fault, rng, 250, ask, follow) > params.obstacle_m).all()
