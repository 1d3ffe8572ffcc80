"""The supervisor of a humanoid that walks: its policy dies, or somebody stands in its way."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from places import ZOO
from shield_stand import Stand, tilt_rad

from benchmarks.humanoid_shield import Walkers, way_m
from deploy.bundle import BundleError
from deploy.runtime import PolicyRuntime
from deploy.shield import Context, Mode, Shield, make_shield_params, narrowed_limits
from deploy.shield.joints.way import Way
from deploy.shield.types import NO_PEERS
from hardware import Peers, load_robot
from policies.threads import single_threaded_torch

WALKS = ZOO / "velocity.onnx"


class Walk:
    """A G1 behind its shield, walking straight on by the policy of a file, which begins in a `phase` of its gait."""

    def __init__(self, m_s: float, phase: float = 0.4, file: Path = WALKS, **changes):
        spec, self.policy = load_robot("g1"), PolicyRuntime.load(file)
        self.stand = Stand(replace(spec, **changes), **narrowed_limits(spec, self.policy.contract.shield)[0])
        self.command = {"velocity": np.array([m_s, 0.0, 0.0])}
        self.policy.reset()
        self.policy._graph.inputs["gait_phase"][...] = phase

    def run(self, seconds: float, silent: bool = False) -> set[Mode]:
        """The modes in that time; a `silent` policy works on, and is not heard."""
        modes, every = set(), round(self.policy.contract.control_dt_s / self.stand.dt_s)
        for period in range(round(seconds / self.stand.dt_s)):
            if period % every == 0:
                asked = self.policy.step(self.stand.state(), NO_PEERS, self.command).requested.target
            modes.add(self.stand.step(request=None if silent else asked)[1].mode)
        return modes


@pytest.mark.parametrize(("m_s", "hz"), [(0.0, 50.0), (0.3, 50.0), (0.6, 50.0), (1.0, 50.0), (0.6, 200.0)])
def test_when_its_policy_dies_as_it_walks_it_slows_down_and_stands(m_s, hz):
    walk = Walk(m_s, control_hz=hz)
    walk.run(1.7 + 0.2 * m_s)
    before = walk.stand.data.qvel[0]
    assert before > 0.7 * m_s - 0.1
    walk.run(3.5, silent=True)
    assert walk.stand.modes[-1] is Mode.HOLD and tilt_rad(walk.stand) < 0.15
    assert np.linalg.norm(walk.stand.data.qvel[:2]) < 0.15 and walk.stand.data.qpos[2] > 0.7
    assert walk.stand.shield.at_rest(Mode.HOLD)


def test_who_takes_over_goes_on_as_the_policy_would_have():
    """Its targets are nearer to those of a policy that is heard than the last ones would be, 0.1 s later."""
    apart, stale = [], []
    for phase in (0.05, 0.25, 0.45, 0.65, 0.85):
        ends = []
        for silent in (False, True):
            walk = Walk(0.6, phase=phase)
            walk.run(1.9)
            last = walk.stand.data.ctrl[walk.stand.ctrl].copy()
            walk.run(0.1, silent)
            ends.append(walk.stand.data.ctrl[walk.stand.ctrl].copy())
        assert walk.stand.modes[-2:] == [Mode.FILTERED, Mode.HOLD]
        apart.append(np.linalg.norm(ends[1] - ends[0]))
        stale.append(np.linalg.norm(last - ends[0]))
    assert sum(apart) < 0.3 * sum(stale)  # rad


def test_without_a_fallback_policy_it_falls_as_it_walks():
    walk = Walk(0.6, fallback_policy=None)
    walk.run(1.8)
    walk.run(2.0, silent=True)
    assert walk.stand.modes[-1] is Mode.DAMP


@pytest.mark.parametrize("periods", [1, 3, 8])
def test_it_walks_on_when_requests_are_missing_for_a_while(periods):
    walk = Walk(0.6)
    walk.run(1.8)
    modes = walk.run(periods * walk.stand.dt_s, silent=True)
    assert modes == ({Mode.FILTERED, Mode.HOLD} if periods > 5 else {Mode.FILTERED})
    began_m = walk.stand.data.qpos[0]
    modes = walk.run(2.0)
    assert Mode.DAMP not in modes and walk.stand.modes[-1] in (Mode.NOMINAL, Mode.FILTERED)
    assert walk.stand.data.qpos[0] - began_m > 0.8


def test_a_damaged_fallback_policy_and_one_for_another_robot_are_refused(tmp_path):
    spec = load_robot("g1")
    assert spec.fallback_policy is not None
    damaged = tmp_path / "damaged.onnx"
    data = bytearray(spec.fallback_policy.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    with pytest.raises(BundleError, match="was damaged or edited"):
        Shield(make_shield_params(spec), replace(spec, fallback_policy=damaged))
    h1 = load_robot("h1")
    with pytest.raises(BundleError, match="is for robot 'g1', this robot has 'h1'"):
        Shield(make_shield_params(h1), replace(h1, fallback_policy=spec.fallback_policy))
    slow = replace(spec, control_hz=25.0)
    with pytest.raises(BundleError, match="is for a control rate of 50 Hz, this robot runs at 25 Hz"):
        Shield(make_shield_params(slow), slow)


def walkers_at_walls(speed: float, steps: int, ahead_m: tuple[float, float], file: Path = WALKS) -> Walkers:
    """Two robots that have gone on for `steps`, each with a wall that far ahead of it now."""
    walkers = Walkers(speed=speed, worlds=2, policy=file, push=False)
    for _ in range(steps):
        walkers.step()
    for world, far_m in enumerate(ahead_m):
        walkers.build_wall(world, far_m)
    return walkers


@pytest.mark.slow
@single_threaded_torch()
def test_a_robot_that_walks_towards_a_wall_stands_before_it_and_one_that_walks_away_goes_on():
    walkers = walkers_at_walls(0.6, 100, (1.8, -0.5))  # behind one: nearer, and not in its way
    for _ in range(170):
        walkers.step()
    ahead, behind = walkers.reports
    assert ahead.mode is Mode.HOLD and "obstacle_0 is 1." in ahead.reason
    assert 0.45 < walkers.wall_gap_m()[0] < 1.2 and not walkers.fallen.any()
    assert behind.mode in (Mode.NOMINAL, Mode.FILTERED) and walkers.wall_gap_m()[1] > 1.5


def around(walkers: Walkers, world: int) -> Context:
    return Context(walkers.states()[world], NO_PEERS, obstacles=walkers.obstacles[world])


@single_threaded_torch()
def test_a_robot_that_stands_near_a_wall_does_not_set_out_towards_it_but_away_from_it_it_may():
    walkers = walkers_at_walls(0.0, 100, (0.7, -0.5))
    walkers.robots.command["velocity"][..., 0] = 1.0
    walkers.step()
    walkers.step()
    near, away = walkers.reports
    assert near.mode is Mode.HOLD and near.reason.startswith("obstacle_0 is 0.")
    assert away.mode in (Mode.NOMINAL, Mode.FILTERED)
    least_m = np.full(2, np.inf)
    for _ in range(60):
        walkers.step()
        least_m = np.minimum(least_m, walkers.wall_gap_m())
    assert least_m[0] > 0.6 and not walkers.fallen.any()
    assert walkers.wall_gap_m()[1] > 0.7
    walkers.build_wall(1, ahead_m=0.85)  # so near only for who is on its way back
    walkers.shields[1].fallback._way.reset()
    assert not walkers.shields[1].fallback.check_way(walkers.states()[1], around(walkers, 1), 0.0)


def test_a_person_in_the_way_is_seen_farther_off_the_older_the_word_of_them_is():
    params = make_shield_params(load_robot("g1"))
    stand = Stand(load_robot("g1"))
    state = replace(stand.state(), base_lin_vel=np.array([0.6, 0.0, 0.0]))
    for age_s, first_m in ((0.0, 1.9), (0.5, 2.7)):
        way = Way(params, 0.78)

        def said(at_m: float, way: Way = way, age_s: float = age_s) -> str:
            pos = np.array([[state.base_pos[0] + at_m, state.base_pos[1], 1.0]])
            people = Peers(pos, np.zeros((1, 3)), np.array([age_s]), np.array([True]))
            return way.check(state, Context(state, NO_PEERS, people=people), 1.0)

        said(9.0), said(9.0)
        assert said(first_m + 0.1) == "" and said(first_m - 0.1).startswith("a person is ")


def test_how_far_robots_go_on_is_measured_the_way_they_walked():
    steps = np.arange(200)[:, None]
    places = np.stack([0.01 * np.minimum(steps, 150), 0.0 * steps], axis=-1)  # along x, until step 150
    back = np.concatenate([places, -places[..., ::-1]], axis=1)  # and one along -y
    np.testing.assert_allclose(way_m(back, np.array([100, 120]), 0.02), [0.51, 0.31])
