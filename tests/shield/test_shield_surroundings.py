"""A shield knows all that is around its robot, names it, and holds the robot where it does not know any more."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from test_shield_obstacles import LEVEL, THINGS, state_at

from deploy.shield import Context, Mode, Shield, known, make_shield_params, types
from deploy.shield.fallbacks import make_fallback
from deploy.shield.types import NO_PEERS, Obstacles
from hardware import ActuatorCommand, Peers, load_robot


def test_hundreds_of_nearer_things_and_people_do_not_hide_the_one_in_the_way():
    """The command is what it is with that one alone."""
    spec, rng = load_robot("crazyflie"), np.random.default_rng(4)
    pos = rng.uniform(-0.3, 0.3, (300, 3)) + np.array([-0.6, 0.0, 1.0])
    pos[250] = 1.5, 0.0, 1.0
    level, ones = np.tile(LEVEL, (300, 1)), np.ones(300)
    many = Obstacles(pos, level, np.full((300, 3), 0.05), 0.0 * ones, 0.0 * ones, ones > 0.0)
    crowd = Peers(pos[::-1] + np.array([0.0, 20.0, 0.0]), np.zeros((300, 3)), 0.0 * ones, ones > 0.0)
    ahead = ActuatorCommand(np.float32([spec.flight.hover_thrust_n, 0, 2.0, 0]))
    names, answers = [f"thing{number}" for number in range(300)], []
    for last, people in ((slice(250, 251), NO_PEERS), (slice(None), crowd)):
        around = Obstacles(*(getattr(many, field)[last] for field in Obstacles.__slots__))
        shield = Shield(make_shield_params(spec), spec)
        for step in range(60):
            state = replace(state_at([0.3, 1e-4 * step, 1.0]), base_lin_vel=np.array([2.0, 0.0, 0.0]))
            context = Context(state, NO_PEERS, people=people, obstacles=around, obstacle_names=names[last])
            command, report = shield.step(step * 0.02, context, ahead, 0.005)
        answers.append(command.target)
        assert "thing250" in report.active
    np.testing.assert_allclose(*answers, atol=1e-5)


def test_hundreds_of_nearer_people_do_not_hide_the_one_in_the_way():
    spec, rng = load_robot("crazyflie"), np.random.default_rng(5)
    behind = rng.uniform(-0.1, 0.1, (300, 3)) + np.array([-2.0, 0.0, 1.0])
    behind[250] = 2.7, 0.0, 1.0
    ahead = ActuatorCommand(np.float32([spec.flight.hover_thrust_n, 0, 2.0, 0]))
    answers = []
    for pos, name in ((behind[250:251], "person_0"), (behind, "person_250")):
        people = Peers(pos, 0.0 * pos, np.zeros(len(pos)), np.ones(len(pos), bool))
        shield = Shield(make_shield_params(spec), spec)
        for step in range(60):
            state = replace(state_at([0.3, 1e-4 * step, 1.0]), base_lin_vel=np.array([2.0, 0.0, 0.0]))
            command, report = shield.step(step * 0.02, Context(state, NO_PEERS, people=people), ahead, 0.005)
        answers.append(command.target)
        assert name in report.active
    np.testing.assert_allclose(*answers, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "at_m", "says"), [("panda", 0.5, "inside bench"), ("g1", 0.75, "from bench, at least 0.45")]
)
def test_an_arm_and_a_humanoid_are_not_armed_where_something_is(name, at_m, says):
    spec = load_robot(name)
    shield = Shield(make_shield_params(spec), spec)
    home = np.array(spec.home)
    level = spec.home_height_m if not spec.fixed_base else 0.0
    state = replace(state_at([0.0, 0.0, level]), joint_pos=home, joint_vel=0.0 * home)
    one = [np.array([LEVEL]), np.array([[0.4, 1.0, 0.5]]), np.zeros(1), np.zeros(1), np.ones(1, bool)]
    reasons = []
    for far_m in (0.0, 2.0):
        bench = Obstacles(np.array([[at_m + far_m, 0.0, 0.5]]), *one)
        context = Context(state, NO_PEERS, obstacles=bench, obstacle_names=["bench"])
        reasons.append(shield.observe(far_m, context).reason)
    assert says in reasons[0] and reasons[1] == ""


def test_an_arm_says_which_obstacle_holds_it_back():
    """The nearer one of two, also where another comes first in the list."""
    spec = load_robot("panda")
    shield = Shield(make_shield_params(spec), spec)
    home = np.array(spec.home)
    place = [np.tile(LEVEL, (2, 1)), np.tile([0.3, 0.05, 0.5], (2, 1)), np.zeros(2), np.zeros(2), np.ones(2, bool)]
    things = Obstacles(np.array([[0.5, 1.5, 0.5], [0.5, 0.2, 0.5]]), *place)
    state = replace(state_at([0.0, 0.0, 0.0]), joint_pos=home, joint_vel=0.5 * np.eye(8)[0])
    context = Context(state, NO_PEERS, obstacles=things, obstacle_names=["door", "bench"])
    aside = ActuatorCommand(np.float32(home + 0.2 * np.eye(8)[0]))
    for step in range(3):
        _, report = shield.step(step * 0.02, context, aside, 0.005)
    assert report.active == ("links: obstacle (nearest: bench)",)
    assert report.reason == "kept off bench"


def test_a_shield_that_has_lost_sight_of_what_is_around_holds_its_robot_and_goes_on_when_it_is_back():
    spec = load_robot("crazyflie")
    shield, hover = (
        Shield(make_shield_params(spec), spec),
        ActuatorCommand(np.float32([spec.flight.hover_thrust_n, 0, 0, 0])),
    )
    modes = []
    for step in range(100):
        lost = "no word of people" if 50 <= step < 60 else ""
        context = Context(state_at([0.0, 0.0, 1.0 + 1e-4 * step]), NO_PEERS, obstacles=THINGS, lost=lost)
        _, report = shield.step(step * 0.02, context, hover, 0.005)
        modes.append((report.mode, report.reason))
    assert modes[49][0] is modes[53][0] is Mode.NOMINAL
    assert modes[58] == (Mode.HOLD, "no word of people")
    assert modes[99][0] is Mode.NOMINAL


def test_new_data_about_the_surroundings_reaches_the_filter_with_one_field(monkeypatch):
    """As CONTRIBUTING says: a field of `Context`, and nothing else, is edited."""
    edited, keeper = ModuleType("deploy.shield.types"), ModuleType("keeper")
    last = "    load: Array | None"
    monkeypatch.setitem(sys.modules, edited.__name__, edited)
    exec(Path(types.__file__).read_text().replace(last, f"    wind: float = 0.0\n{last}"), vars(edited))
    exec(Path(known.__file__).read_text(), vars(keeper))
    spec = load_robot("crazyflie")
    params, sent = make_shield_params(spec), np.zeros(4)
    keeps = keeper.Known(params, make_fallback(params, spec))
    keeps.take_time(0.0)
    keeps.take_state(state_at([0.0, 0.0, 1.0]), sent, False)
    keeps.take_peers(NO_PEERS)
    keeps.take_around(edited.Context(None, NO_PEERS, wind=7.0))
    context = keeps.context(None, sent)
    assert context.wind == 7.0 and context.sent is sent and context.state.base_pos[2] == 1.0
