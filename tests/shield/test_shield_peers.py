"""Peers that do not do their half: foreign, hunting, silent, larger ones; and people."""

import numpy as np
import pytest
from shield_team import HIGH, LOW, SPEC

from deploy.shield import Context, Mode, Shield, filter_command, make_shield_params
from deploy.shield.drone.constraints import constraint_rows
from deploy.shield.types import NO_PEERS, Sharing
from hardware import ActuatorCommand
from hardware.types import Peers, RobotState
from sim.attack.attackers import Request, View, steer
from sim.attack.drones import fly
from sim.attack.faults import FAULTS
from sim.attack.team import Team

PARAMS = make_shield_params(SPEC)
SILENT_AFTER_S = 1.2


class Scene:
    """Robot 0, behind the filter, wants to stay where it is, or hunts robot 1; that one passes no filter.

    Robot 1 flies with `vel` m/s until `stops_s`, or hunts as fast.
    """

    def __init__(self, starts, vel, chases=False, hunts=False, stops_s=np.inf, silent=False, shares=False):
        self.starts, self.vel, self.chases, self.hunts = np.array(starts, float), np.array(vel), chases, hunts
        self.stops_s, self.silent, self.shares = stops_s, silent, shares

    def policy(self, view: View) -> Request:
        now = view.now
        way = now.pos[:, 1] - now.pos[:, 0]
        way /= np.linalg.norm(way, axis=-1, keepdims=True)
        stay = 25.0 * (self.starts[0] - now.pos[:, 0]) - 8.0 * now.lin_vel_w[:, 0]
        wanted = -way * np.linalg.norm(self.vel) if self.hunts else self.vel if view.t_s < self.stops_s else 0.0
        accel = np.zeros(now.pos.shape)
        accel[:, 0] = 15.0 * way if self.chases else np.clip(stay, -15.0, 15.0)
        accel[:, 1] = np.clip(4.0 * (wanted - now.lin_vel_w[:, 1]), -4.0, 4.0)
        return Request(steer(view, accel), np.full(view.shape, 0.01), np.ones(view.shape, bool))

    def guard(self, t_s, state, peers, asked):
        if not self.silent or t_s < SILENT_AFTER_S:
            self.last = peers.pos[:, 0].copy(), peers.lin_vel[:, 0].copy()
        else:
            peers.pos[:, 0], peers.lin_vel[:, 0] = self.last
            peers.age[:, 0] = t_s - SILENT_AFTER_S + 0.03
        sharing = Sharing(np.full(peers.valid.shape, self.shares), np.zeros(peers.valid.shape))
        sent, _ = filter_command(PARAMS, SPEC, Context(state, peers, sharing=sharing), asked.target.astype(np.float32))
        sent[:, 1] = np.clip(asked.target[:, 1], LOW, HIGH)
        return sent, np.full(asked.there.shape, Mode.FILTERED.value)

    def margin(self, seconds):
        rng = np.random.default_rng(1)
        team = Team(SPEC, self.starts[None], FAULTS["usual"], rng)
        return fly(team, View(SPEC, PARAMS, rng, team.now), self.policy, self.guard, seconds).margins["distance"]


@pytest.mark.parametrize("speed", [1.5, 2.4])
def test_a_robot_at_the_fence_evades_one_that_flies_straight_on_and_does_not_share(speed):
    at_the_fence = [[-2.8, 0.0, 1.3], [2.0, 0.0, 1.3]]
    assert Scene(at_the_fence, [-speed, 0.0, 0.0]).margin(3.8) > 0.3


def test_a_robot_at_the_fence_is_not_touched_by_a_hunter_of_1_5_m_s_that_does_not_share():
    at_the_fence = [[-2.8, 0.0, 1.3], [1.0, 0.0, 1.3]]
    assert Scene(at_the_fence, [1.5, 0.0, 0.0], hunts=True).margin(4.0) > 0.0
    assert Scene(at_the_fence, [1.5, 0.0, 0.0], hunts=True, shares=True).margin(4.0) < 0.0  # why one has to know


@pytest.mark.parametrize("silent", [False, True])
def test_a_leader_that_brakes_is_not_run_into_though_it_has_fallen_silent(silent):
    behind = [[-2.4, 0.0, 1.3], [-1.6, 0.0, 1.3]]
    scene = Scene(behind, [2.0, 0.0, 0.0], chases=True, stops_s=SILENT_AFTER_S + 0.1, silent=silent)
    assert scene.margin(2.8) > 0.0


def hovering(pos=(0.0, 0.0, 1.0), vel=(0.0, 0.0, 0.0)):
    none = np.zeros(0)
    return RobotState(none, none, np.array(pos), np.array([1.0, 0, 0, 0]), np.array(vel), np.zeros(3), np.array(0.005))


def peers_at(*pos, vel=(0.0, 0.0, 0.0), age=0.01):
    return Peers(np.array(pos, float), np.array([vel] * len(pos)), np.full(len(pos), age), np.ones(len(pos), bool))


def test_a_pair_keeps_the_larger_distance_of_both_and_a_person_more():
    towards = ActuatorCommand(np.array([0.4, 0.0, 2.0, 0.0], np.float32))
    near, none = peers_at((0.8, 0.0, 1.0)), NO_PEERS
    equal = Context(hovering(), near, sharing=Sharing(np.ones(1, bool), np.zeros(1)))
    larger = Context(hovering(), near, sharing=Sharing(np.ones(1, bool), np.array([0.96])))
    person = Context(hovering(), none, people=peers_at((1.5, 0.0, 1.0)))
    _, bound = constraint_rows(PARAMS, equal)
    assert bound[0] > 0.0 > constraint_rows(PARAMS, larger)[1][0]
    shield = Shield(PARAMS, SPEC)
    reports = []
    for step in range(40):
        person.state.base_pos[2] = 1.0 + 1e-4 * (step % 2)  # an estimate that never changes is frozen
        reports.append(shield.step(0.02 * step, person, towards, 0.005)[1])
    assert reports[-1].mode is Mode.FILTERED and "person_0" in reports[-1].active


def test_who_flew_and_is_silent_ends_the_policys_turn_by_name_and_gives_it_back_when_it_speaks():
    shield, calm = Shield(PARAMS, SPEC), ActuatorCommand(np.array([0.27, 0.0, 0.0, 0.0], np.float32))

    def step(number, age_s):
        far = peers_at((2.0, 0.0, 1.0), age=age_s)
        state = hovering((0.0, 0.0, 1.0 + 1e-4 * (number % 2)))
        return shield.step(0.02 * number, Context(state, far, peer_names=["cf2"]), calm, 0.005)[1]

    assert step(0, 0.01).filtered and step(1, PARAMS.peer_silent_s - 0.1).mode is Mode.NOMINAL
    held = step(2, PARAMS.peer_silent_s + 0.1)
    assert held.mode is Mode.HOLD and held.reason == "cf2 silent for over 0.5 s" and not held.latched
    assert step(3, 0.01).mode is Mode.HOLD
    assert [step(number, 0.01).mode for number in range(4, 12)][-1] is Mode.NOMINAL
    silent = [step(number, 1.5) for number in range(12, 42)]
    assert silent[-1].latched and silent[-1].reason == "cf2 silent for over 0.5 s"


@pytest.mark.parametrize(
    ("pos", "peer", "why"),
    [
        ((0.0, 0.0, 0.02), (0.2, 0.0, 0.02), "0.20 m from cf2, at least 0.25 needed"),
        ((0.0, 0.0, 0.02), (0.0, 0.0, 0.5), "0.19 m from cf2, at least 0.25 needed"),  # of height a share counts
        ((3.2, 0.0, 0.02), (0.0, 0.0, 0.02), "outside the geofence: x = 3.2 m, allowed -3 .. 3"),
        ((2.9, 0.0, 0.02), (0.0, 0.0, 0.02), ""),
    ],
)
def test_a_robot_is_not_armed_where_its_shield_could_not_keep_it_apart(pos, peer, why):
    context = Context(hovering(pos), peers_at(peer), peer_names=["cf2"])
    assert Shield(PARAMS, SPEC).observe(1.0, context).reason == why
