"""Arms with a payload that their shield is not told of: it is weighed, held in other poses too, and may be refused."""

import numpy as np
import pytest
from shield_links import Bounds, Cell

from deploy.shield import Mode, Shield, make_shield_params
from hardware import RobotState, load_robot

TABLE = ((0.75, 0.0, 0.05), (0.3, 1.0, 0.1))  # its top is 15 cm high
# From there all weight falls on the second joint, up and down onto the table; what the old shield did is behind it.
REACHES = (
    ([-0.27, -0.28, 0.34, -0.55, -0.55, 2.88, 0.0, 0.04], 43),  # 62 mm into the table
    ([-0.12, -0.07, -0.28, -0.34, -0.57, 3.01, 0.0, 0.04], 51),  # 51 mm
)


def carrying(name: str, kg: float, gains: tuple[float, float], boxes=(), seed: int = 0) -> Cell:
    bounds = Bounds(delay_s=0.012, age_s=0.004, pos_rad=2e-4, vel_rad_s=5e-3, gains=gains, payload_kg=kg)
    return Cell(load_robot(name), bounds, boxes, seed).settled()


@pytest.mark.parametrize(("up", "seed"), REACHES)
def test_a_panda_with_its_whole_payload_stops_before_a_table_that_it_falls_towards(up, seed):
    """Its braking distances did not count on so little torque being left."""
    cell = carrying("panda", 2.2, (1.1, 0.9), [TABLE], seed)
    high, low = np.array(up), np.array(up)
    low[1] = 1.75
    cell.run(high, 2.0).run(low, 2.0).run(high, 1.0).run(low, 2.0)
    assert cell.least_m > 0.005, cell.nearest
    assert cell.pos[1] - high[1] > 0.8 and "links: obstacle" in cell.active  # it went there, and was held back


@pytest.mark.parametrize("name", ["panda", "ur5e"])
def test_a_payload_is_weighed_at_rest_and_held_in_other_poses_from_the_start(name):
    """An arm that is slowed to a stop where it was never at rest sagged at 0.1 m/s until its drives' pull was known."""
    cell = carrying(name, load_robot(name).payload_kg, (0.9, 1.1))
    fallback = cell.shield.fallback
    assert fallback._kg == pytest.approx(load_robot(name).payload_kg, rel=0.2)
    target = cell.home.copy()
    target[1] += 0.6
    cell.run(target, 0.5)  # on the way: it has not been at rest again
    known, data = fallback.load(cell.measured[-1], cell.sent, 0.0), cell.data
    carried = (data.qfrc_bias - data.qfrc_gravcomp)[cell.qvel][cell.channel]
    turning = np.array([channel.unit == "rad" for channel in cell.spec.channels])
    assert np.abs(carried).max() > 5.0
    np.testing.assert_allclose(known[turning], carried[turning], atol=0.25 * np.abs(carried).max())


def test_a_mass_that_becomes_less_is_believed_after_a_longer_rest_and_one_that_becomes_more_at_once():
    """What slows an arm down looks like less mass; its way to a stop would count on torque that the load takes."""
    spec, dt_s = load_robot("ur5e"), 0.01
    fallback = Shield(make_shield_params(spec), spec).fallback
    home, still, none = np.array(spec.home, np.float32), np.zeros(len(spec.joints), np.float32), np.zeros(3)
    elsewhere = home + np.float32([0, 0.6, 0, 0, 0, 0])

    def state(pos, vel=still):
        return RobotState(pos, vel, none, np.array([1.0, 0, 0, 0]), none, none, np.zeros(()))

    def rest(seconds, kg):
        """Hold `kg` at home; the torque at the shoulder that it counts on for the load elsewhere."""
        per_kg = fallback._per_kg(state(home))
        sent = home + kg * per_kg / fallback._limits.rows.stiffness
        for _ in range(round(seconds / dt_s)):
            fallback.load(state(home), sent, dt_s)
        fallback._rest[:] = 0.0  # what is no mass stays in this pose
        return fallback.load(state(elsewhere), sent, 0.0)[1] / fallback._per_kg(state(elsewhere))[1]

    def move():
        fallback.load(state(home, still + np.float32(0.05)), home, dt_s)

    assert rest(1.0, 2.0) == pytest.approx(2.0, abs=0.05)
    move()
    assert rest(0.25, 0.5) == pytest.approx(2.0, abs=0.1)
    assert rest(0.75, 0.5) == pytest.approx(0.5, abs=0.1)
    move()
    assert rest(0.25, 2.0) > 1.5


def test_an_arm_that_is_blocked_on_its_way_does_not_sag_into_the_floor():
    cell = carrying("ur5e", 3.0, (1.1, 0.9))
    cell.run(np.array([3.0, -0.9, 0.9, -1.2, 1.6, 0.0]), 0.6)
    cell.run(np.array([3.8, 0.5, 0.5, -2.2, 1.7, -1.6]), 3.0)
    assert cell.least_m > 0.01, cell.nearest
    assert "links: floor" in cell.active


@pytest.mark.parametrize(("name", "kg"), [("panda", 4.0), ("ur5e", 5.5)])
def test_what_an_arm_may_not_carry_is_refused_by_its_weight(name, kg):
    cell = carrying(name, kg, (0.9, 1.1))
    assert cell.modes[-1] is Mode.HOLD
    most = load_robot(name).payload_kg
    reason = cell.shield.fallback.doubt(cell.measured[-1], 0.0, cell.shield.rest())
    assert f"kg in the hand, more than {most:g}" in reason
