"""An X500 under PX4's rate loop, whose mixer takes thrust for rates: policies that ask for both."""

import numpy as np
import pytest

from deploy.shield import Context, Mode, filter_command, make_shield_params
from hardware import Peers, RobotState, load_robot
from sim.attack.attackers import Attacker, Request, View, request_of, shaking
from sim.attack.drones import flight, fly
from sim.attack.faults import FAULTS
from sim.attack.firmware import Loop
from sim.attack.team import Team

SPEC = load_robot("x500")
PARAMS = make_shield_params(SPEC)
LOOP = Loop((0.0125, 0.025))
WORLDS, SECONDS = 8, 2.5


def spin_and_climb(view: View) -> np.ndarray:
    """Of all rates the most, sides changed at different paces; from the floor up in one half of the worlds."""
    up = np.where(view.t_s % 2.0 < 0.6, view.low[0], view.high[0])
    share = np.linspace(0.0, 1.0, WORLDS)[:, None, None]
    return shaking(view, np.where(np.arange(WORLDS)[:, None, None] % 2, up, share * view.high[0]), 1.0)


def shake_and_climb(view: View) -> np.ndarray:
    """Up with much thrust, while roll and pitch rates change sides: their thrust grows with the signals' squares."""
    return shaking(view, np.where(np.arange(WORLDS)[:, None, None] % 2, 0.75, 1.0) * view.high[0], 0.0)


@pytest.mark.parametrize(("ask", "height_m"), [(spin_and_climb, 0.3), (shake_and_climb, 0.6)])
@pytest.mark.parametrize("fault", ["corner", "corner, weak"])
def test_rates_leave_the_thrust_that_keeps_a_drone_in_its_fence(fault, ask, height_m):
    rng, low_m = np.random.default_rng(0), PARAMS.geofence_low[2] + height_m
    starts = rng.uniform([-1.0, -1.0, low_m], [1.0, 1.0, low_m + 0.5], (WORLDS, 1, 3))
    team = Team(SPEC, starts, FAULTS[fault], rng, LOOP)

    def guard(t_s: float, state: RobotState, peers: Peers, asked: Request) -> tuple[np.ndarray, np.ndarray]:
        sent, info = filter_command(PARAMS, SPEC, Context(state, peers), asked.target.astype(np.float32))
        return sent, np.where(info.intervention > 0, Mode.FILTERED.value, Mode.NOMINAL.value)

    attack = Attacker("walls", ask)
    result = fly(team, View(SPEC, PARAMS, rng, team.now), lambda view: request_of(attack, view), guard, SECONDS)
    print(fault, ask.__name__, result)
    assert result.violations == 0 and result.changed > 0.5 * result.steps


def test_rates_that_change_sides_do_not_carry_a_drone_through_its_ceiling():
    """Roll and pitch from one end to the other every 40 or 60 ms doubled the thrust that it was to sink with."""
    result = flight(SPEC, PARAMS, "corner", "shake", 1, 114935638558032, LOOP)
    assert result.violations == 0, result
