"""Thrust of an airframe from a hover: numbers, what is refused, and what is written into a team file."""

from dataclasses import replace

import numpy as np
import pytest

from phalanx.calibration.thrust import hover_thrust, new_scale, write_option

pytest.importorskip("rclpy")
from ros_nodes.operation.hover_log import HoverLog

MASS_KG = 0.0434
LOG = HoverLog(
    thrust_n=np.full(250, 0.5),
    time_s=np.linspace(0.0, 5.0, 500),
    height_m=np.full(500, 1.0),
    velocity_w=np.zeros((500, 3)),
    upright=np.ones(500),
    voltage_v=3.9,
)


def test_an_airframe_that_needs_more_than_its_weight_gets_more():
    sent_n, carried_n = hover_thrust(LOG, MASS_KG)
    assert sent_n == pytest.approx(0.5) and carried_n == pytest.approx(0.0434 * 9.81, rel=1e-3)
    assert new_scale(1.0, sent_n, carried_n) == pytest.approx(0.5 / (0.0434 * 9.81), abs=2e-3)
    assert new_scale(1.2, carried_n, carried_n) == 1.2


def test_a_drone_that_gains_height_is_carried_by_more_than_its_weight():
    velocity = np.zeros((500, 3))
    velocity[:, 2] = np.linspace(-0.25, 0.25, 500)
    assert hover_thrust(replace(LOG, velocity_w=velocity), MASS_KG)[1] == pytest.approx(0.0434 * 9.91, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"thrust_n": np.zeros(0)}, "nothing is heard"),
        ({"thrust_n": np.full(50, 0.5)}, "are few"),
        ({"height_m": np.full(500, 0.02)}, "does not hover: from 0.02 m"),
        ({"velocity_w": np.full((500, 3), 0.4)}, "does not hover: .* 0.69 m/s"),
        ({"upright": np.full(500, 0.9)}, "does not hover: .* tilted by 26 degrees"),
        ({"thrust_n": np.linspace(0.4, 0.5, 250)}, "changes from 0.42"),
    ],
)
def test_what_is_no_hover_is_refused(change, why):
    with pytest.raises(ValueError, match=why):
        hover_thrust(replace(LOG, **change), MASS_KG)


@pytest.mark.parametrize(("scale", "sent_n"), [(1.0, 0.7), (1.4, 0.5), (1.0, 0.2)])
def test_a_scale_that_cannot_be_is_refused(scale, sent_n):
    with pytest.raises(ValueError, match="thrust_scale would be"):
        new_scale(scale, sent_n, 0.425)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{name: cf1, options: {uri: "usb://0"}}', '{name: cf1, options: {"thrust_scale": 1.1, uri: "usb://0"}}'),
        ("{name: cf1, options: {thrust_scale: 0.9}}  # mine", "{name: cf1, options: {thrust_scale: 1.1}}  # mine"),
    ],
)
def test_one_number_of_a_team_file_is_written_and_nothing_else(tmp_path, before, after):
    file, other = tmp_path / "team.yaml", "{name: cf10, options: {thrust_scale: 0.8}}"
    file.write_text(f"robots:\n  - {other}\n  - {before}\n")
    write_option(file, "cf1", "thrust_scale", 1.1)
    assert file.read_text() == f"robots:\n  - {other}\n  - {after}\n"


def test_a_team_file_that_is_written_otherwise_stays_as_it_is(tmp_path):
    file = tmp_path / "team.yaml"
    file.write_text(text := "robots:\n  - name: cf1\n    options:\n      uri: usb://0\n")
    with pytest.raises(ValueError, match=r"write thrust_scale: 1.1 into the options of cf1"):
        write_option(file, "cf1", "thrust_scale", 1.1)
    assert file.read_text() == text
