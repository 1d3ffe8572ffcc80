"""Teams whose policies try to collide, in real physics with noise, delay and unequal rotors: nobody touches anybody."""

from dataclasses import fields

import numpy as np
import pytest
from shield_team import HIGH, LOW, SPEC, Measured, fly, random_starts, state_of, steer

from deploy.shield import Context, Mode, Shield, make_shield_params
from hardware import ActuatorCommand

PARAMS = make_shield_params(SPEC)
TOUCH_M = 2 * SPEC.radius_m


class Adversaries:
    """One way of attacking per world, by its number modulo the number of ways."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.held = np.zeros(0)
        self.ways = [
            self.chase_the_nearest,
            self.hunt_the_first,
            self.meet_in_the_middle,
            self.chase_with_full_deflection,
            self.anything,
            self.flee_and_attack,
            self.nothing_real,
            self.full_thrust,
        ]

    def __call__(self, now: Measured, step: int) -> np.ndarray:
        request = np.empty((*now.pos.shape[:2], 4))
        for number, way in enumerate(self.ways):
            rows = slice(number, None, len(self.ways))
            part = Measured(now.pos[rows], now.quat[rows], now.lin_vel_w[rows], now.rate[rows])
            request[rows] = way(part, step)
        return request

    def chase_the_nearest(self, now, step):
        return self.toward(now, self.nearest(now))

    def hunt_the_first(self, now, step):
        goal = np.repeat(now.pos[:, :1], now.pos.shape[1], axis=1)
        goal[:, 0] = self.nearest(now)[:, 0]
        return self.toward(now, goal)

    def meet_in_the_middle(self, now, step):
        return self.toward(now, np.array([0.0, 0.0, 1.3]))

    def chase_with_full_deflection(self, now, step):
        request = self.toward(now, self.nearest(now))
        request[..., 0], request[..., 1:] = HIGH[0], HIGH[1:] * np.sign(request[..., 1:])
        return request

    def anything(self, now, step):
        if step % 10 == 0:
            self.held = self.rng.uniform(LOW, HIGH, (*now.pos.shape[:2], 4))
        return self.held

    def flee_and_attack(self, now, step):
        return self.toward(now, self.nearest(now), 15.0 if step // 25 % 2 else -15.0)

    def nothing_real(self, now, step):
        return np.full((*now.pos.shape[:2], 4), np.nan)

    def full_thrust(self, now, step):
        return np.broadcast_to([HIGH[0], 0.0, 0.0, 0.0], (*now.pos.shape[:2], 4))

    @staticmethod
    def toward(now, goal, accel=15.0):
        way = goal - now.pos
        return steer(now, accel * way / (np.linalg.norm(way, axis=-1, keepdims=True) + 1e-6))

    @staticmethod
    def nearest(now):
        gap = np.linalg.norm(now.pos[:, :, None] - now.pos[:, None], axis=-1) + 1e9 * np.eye(now.pos.shape[1])
        return np.take_along_axis(now.pos, gap.argmin(-1)[..., None], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("robots", "seconds"), [(2, 10.0), (4, 20.0), (8, 20.0)])
def test_adversaries_do_not_touch_each_other_the_fence_or_the_floor(robots, seconds):
    rng = np.random.default_rng(robots)
    result = fly(PARAMS, Adversaries(rng), random_starts(rng, 8, robots), seconds, rng)
    print(f"{robots} robots: {result}")
    assert result.distance_m > TOUCH_M
    assert result.margin > 0.0 and result.violations == 0
    assert result.fence_m < 0.0 and result.floor_m > 0.05


class Squeezers(Adversaries):
    """Robots that press each other into a corner while they turn, and cut in before each other."""

    def __init__(self, rng: np.random.Generator):
        super().__init__(rng)
        self.ways = [self.into_a_corner, self.onto_the_one_in_the_corner, self.cut_in] * 2

    def into_a_corner(self, now, step):
        return self.turning(self.toward(now, np.array([3.0, 3.0, 0.0]), 25.0), -3.0)

    def onto_the_one_in_the_corner(self, now, step):
        goal = np.repeat(now.pos[:, :1], now.pos.shape[1], axis=1)
        goal[:, 0] = 3.0, 3.0, 0.1
        return self.turning(self.toward(now, goal, 20.0), 3.0)

    def cut_in(self, now, step):
        gap = np.linalg.norm(now.pos[:, :, None] - now.pos[:, None], axis=-1) + 1e9 * np.eye(now.pos.shape[1])
        near = gap.argmin(-1)[..., None]
        ahead = np.take_along_axis(now.lin_vel_w, near, axis=1)
        return self.toward(now, np.take_along_axis(now.pos, near, axis=1) + 0.4 * ahead, 20.0)

    @staticmethod
    def turning(request, yaw_rate):
        request[..., 3] = yaw_rate
        return request


class Solo:
    """Requests of one robot against the faces of its fence: one way per world, by its number modulo their number."""

    def __call__(self, now: Measured, step: int) -> np.ndarray:
        rng, turn = np.random.default_rng(step // 10), 0.15 * step
        to_and_fro = 15.0 if step // 40 % 2 else -15.0
        ways = [
            self.steered([10.0, 10.0, 0.0]),
            self.steered([10.0, 10.0, -5.0]),
            self.steered([-10.0, 0.0, 0.0]),
            self.steered([10.0 * np.cos(turn), 10.0 * np.sin(turn), 0.0]),
            self.steered([to_and_fro, to_and_fro, -to_and_fro]),
            lambda part: Squeezers.turning(self.steered([20.0, 20.0, 0.0])(part), 3.0),
            lambda part: Squeezers.turning(self.steered([-20.0, 20.0, 15.0])(part), -3.0),
            lambda part: np.where(rng.random(4) < 0.5, LOW, HIGH),
            lambda part: np.array([LOW[0], 0.0, 0.0, 0.0]),
            lambda part: np.array([HIGH[0], 0.0, 0.0, 0.0]),
        ]
        request = np.empty((len(now.pos), 1, 4))
        for world in range(len(request)):
            part = Measured(*(getattr(now, field.name)[world : world + 1] for field in fields(now)))
            request[world] = ways[world % len(ways)](part)
        return request

    @staticmethod
    def steered(accel_w):
        return lambda part: steer(part, np.broadcast_to(accel_w, part.pos.shape))


@pytest.mark.slow
@pytest.mark.parametrize("robots", [1, 2, 4, 8])
def test_with_all_bounds_at_their_corner_nobody_touches_another_the_fence_or_the_floor(robots):
    rng = np.random.default_rng(10 + robots)
    attack, worlds = (Adversaries(rng), 8) if robots > 1 else (Solo(), 20)
    result = fly(PARAMS, attack, random_starts(rng, worlds, robots), 10.0, rng, corner=True)
    print(f"{robots} robots at the corner: {result}")
    assert result.margin > 0.0 and result.violations == 0
    assert result.fence_m < 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("robots", "least_m"), [(2, PARAMS.separation_m), (4, PARAMS.separation_m), (8, TOUCH_M)])
def test_robots_that_squeeze_each_other_at_the_corner_of_all_bounds_do_not_touch(robots, least_m):
    rng = np.random.default_rng(20 + robots)
    result = fly(PARAMS, Squeezers(rng), random_starts(rng, 6, robots), 8.0, rng, corner=True)
    print(f"{robots} robots squeezed: {result}")
    assert result.distance_m > least_m
    assert result.fence_m < 0.4 and result.floor_m > 0.05


def test_without_the_shield_the_same_adversaries_do_touch():
    def no_guard(now, peers, request):
        return np.nan_to_num(request).clip(LOW, HIGH), 0.0

    rng = np.random.default_rng(2)
    result = fly(PARAMS, Adversaries(rng), random_starts(rng, 8, 4), 4.0, rng, no_guard)
    assert result.distance_m < TOUCH_M and result.fence_m > 0.0


@pytest.mark.slow
@pytest.mark.parametrize(("robots", "within_s"), [(4, 4.5), (8, 8.0)])
def test_opposite_places_on_a_circle_are_swapped_without_waiting_for_each_other(robots, within_s):
    rng = np.random.default_rng(0)
    angle = np.arange(robots) * 2 * np.pi / robots
    circle = np.stack([1.5 * np.cos(angle), 1.5 * np.sin(angle), np.full(robots, 1.3)], axis=-1)
    starts = np.repeat(circle[None], 3, axis=0)
    starts[1:] += rng.normal(0, 0.05, starts[1:].shape)
    goals = starts * [-1, -1, 1]

    def pilot(now: Measured, step: int) -> np.ndarray:
        way = goals - now.pos
        length = np.linalg.norm(way, axis=-1, keepdims=True) + 1e-9
        wanted = way / length * np.minimum(1.5 * length, 1.8)
        return steer(now, np.clip(2.5 * (wanted - now.lin_vel_w), -5.0, 5.0))

    result = fly(PARAMS, pilot, starts, within_s, rng)
    assert np.linalg.norm(result.track[-1] - goals, axis=-1).max() < 0.4
    assert result.violations == 0


@pytest.mark.slow
def test_a_robot_whose_policy_dies_lands_among_others_that_hunt_it():
    rng = np.random.default_rng(3)
    adversaries = Adversaries(rng)
    starts = random_starts(rng, 1, 4)
    shields = [Shield(PARAMS, SPEC) for _ in range(4)]
    modes: list[list[Mode]] = []

    def guard(now, peers, request):
        step = len(modes)
        state, sent, reports = state_of(now), np.empty((1, 4, 4)), []
        for index, shield in enumerate(shields):
            own = type(state)(*(getattr(state, name)[0, index] for name in state.__slots__))
            others = type(peers)(*(getattr(peers, name)[0, index] for name in peers.__slots__))
            alive = index != 0 or step < 100
            wanted = ActuatorCommand(request[0, index].clip(LOW, HIGH)) if alive else None
            command, report = shield.step(0.02 * step, Context(own, others), wanted, 0.01)
            sent[0, index] = command.target
            reports.append(report.mode)
        modes.append(reports)
        return sent, 0.0

    result = fly(PARAMS, adversaries.hunt_the_first, starts, 14.0, rng, guard)
    first = [reports[0] for reports in modes]
    assert all(mode in (Mode.NOMINAL, Mode.FILTERED) for mode in first[:100])
    assert first[104] is Mode.HOLD and Mode.LAND in first and first[-1] is Mode.OFF
    assert result.track[-1, 0, 0, 2] < 0.05
    assert result.distance_m > TOUCH_M and result.margin > -0.1
    assert all(mode in (Mode.NOMINAL, Mode.FILTERED) for reports in modes for mode in reports[1:])
