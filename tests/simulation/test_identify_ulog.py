"""Logs that PX4 writes of its flights are read as what they say, and tell a vehicle's hidden numbers."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("pyulog")
from recorded import FLIGHT, fly_about, record
from test_identify import assert_found, run_identify
from ulog_file import logged, write_ulog

from hardware import load_robot
from sim.identification.recording import read_recording
from sim.noise import Noise

X500 = load_robot("x500")
HOVER_N = X500.flight.hover_thrust_n
NOISE = Noise(pos_m=0.001, angle_rad=0.002, lin_vel_m_s=0.02, ang_vel_rad_s=0.05)
HIDDEN = {"thrust": 0.88, "drag": 1.6, "actuator_delay_s": 0.012, "rate_loop.lag": 0.8, "rate_loop.gain": 1.25}
HOVER = {"MPC_THR_HOVER": 0.6, "THR_MDL_FAC": 0.0}
HALF_TURN = 0.5**0.5
# north, east, down in m and m/s; wxyz; forward, right, down in rad/s; roll, pitch, yaw in rad/s and thrust
LEVEL = {
    "vehicle_local_position": [1.0, 2.0, -3.0, 0.1, 0.2, -0.3],
    "vehicle_attitude": [1.0, 0.0, 0.0, 0.0],
    "vehicle_angular_velocity": [0.4, 0.5, 0.6],
    "vehicle_rates_setpoint": [0.7, 0.8, 0.9, 0.0, 0.0, -0.6],
}


def written(path, rows, parameters=HOVER, count=9):
    """A log in which nothing changes."""
    times = np.arange(count) * 0.01
    write_ulog(path, {topic: (times, np.tile(row, (count, 1))) for topic, row in rows.items()}, parameters)
    return path


def test_a_level_vehicle_that_faces_north_is_read_as_east_north_up(tmp_path):
    read = read_recording(written(tmp_path / "it.ulg", LEVEL), X500)
    assert read.rows[0, :3] == pytest.approx([2.0, 1.0, 3.0])
    assert np.abs(read.rows[0, 3:7]) == pytest.approx([HALF_TURN, 0.0, 0.0, HALF_TURN], abs=1e-6)
    assert read.rows[0, 3] * read.rows[0, 6] > 0.0  # forward is north, a quarter turn to the left of east
    assert read.rows[0, 7:10] == pytest.approx([0.2, 0.1, 0.3])
    assert read.rows[0, 10:] == pytest.approx([0.4, -0.5, -0.6])
    assert read.command[0] == pytest.approx([HOVER_N, 0.7, -0.8, -0.9])
    assert read.command_s[0] == 0.0 == read.time_s[0]  # a measurement is from its sample, not from its message


def test_thrust_is_what_the_parameters_make_of_it(tmp_path):
    rows = LEVEL | {"vehicle_rates_setpoint": [0.0, 0.0, 0.0, 0.0, 0.0, -0.3]}
    for factor, share in ((0.0, 0.25), (0.3, 0.5)):  # of the rotors' signal the square; linear where PX4 makes it so
        read = read_recording(written(tmp_path / "it.ulg", rows, HOVER | {"THR_MDL_FAC": factor}), X500)
        assert read.command[0, 0] == pytest.approx(share * HOVER_N)


def test_what_else_a_vehicle_was_set_to_is_said(tmp_path):
    parameters = HOVER | {"MC_ROLLRATE_P": 0.3, "MC_PITCHRATE_P": 0.15, "MC_YAWRATE_P": 0.1, "MC_YAWRATE_K": 2.0}
    (said,) = read_recording(written(tmp_path / "it.ulg", LEVEL, parameters), X500).notes
    assert said == "MC_ROLLRATE_P is 0.3, specified 0.15: only one factor for all is fitted"


@pytest.mark.slow
def test_the_hidden_numbers_of_an_x500_are_found_in_its_log(tmp_path, capsys):
    flown = record("x500", HIDDEN, partial(fly_about, robot="x500"), 7.0, NOISE, FLIGHT, firmware=True)
    np.savez(tmp_path / "it.npz", **flown)
    write_ulog(tmp_path / "it.ulg", logged(flown, HOVER_N, 0.6), HOVER)
    log, table = (read_recording(tmp_path / name, X500) for name in ("it.ulg", "it.npz"))
    np.testing.assert_allclose(log.rows, table.rows, atol=1e-5)
    found, spec = run_identify(tmp_path / "it.ulg", capsys, "--robot", "x500")
    assert found["rate_loop"] == "firmware" and spec.name == "x500"
    assert_found(found, HIDDEN, X500)
    assert {"thrust", "actuator_delay_s"}.isdisjoint(found["not_identifiable"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda file: file.write_bytes(b"no log"), "cannot be read as a ULog: Invalid file format"),
        (
            lambda file: written(file, {t: r for t, r in LEVEL.items() if "angular" not in t}),
            "has no vehicle_angular_v",
        ),
        (lambda file: written(file, LEVEL, {}), "does not say the parameter MPC_THR_HOVER"),
        (lambda file: written(file, LEVEL, HOVER | {"MPC_THR_HOVER": 0.0}), "MPC_THR_HOVER is 0: expected 0.05 to"),
        (lambda file: written(file, LEVEL, HOVER | {"THR_MDL_FAC": 3.0}), "THR_MDL_FAC is 3: expected 0 to 1"),
        (lambda file: written(file, LEVEL | {"vehicle_attitude": [np.nan] * 4}), "0 measurements of vehicle_attitude"),
    ],
)
def test_a_log_that_cannot_be_used_is_refused_in_one_line(tmp_path, change, why):
    change(tmp_path / "it.ulg")
    with pytest.raises(ValueError, match=r"^[^\n]*$") as refused:
        read_recording(tmp_path / "it.ulg", X500)
    assert why in str(refused.value)


def test_a_log_is_of_no_arm(tmp_path):
    with pytest.raises(ValueError, match="flies by thrust and body rates, not of 'panda'"):
        read_recording(written(tmp_path / "it.ulg", LEVEL), load_robot("panda"))
