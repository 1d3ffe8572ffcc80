"""What shields are said to guarantee: the document is what the code gives, and its margins are what physics finds."""

import pytest
from places import ROOT
from test_shield_attitude import remaining_error

from deploy.shield import make_shield_params
from deploy.shield.drone.guarantee import BOUNDS, attitude_loop, used_of_buffer
from deploy.shield.guarantees import make_guarantee
from hardware import load_robot, robot_names
from phalanx.documents.guarantees import guarantee_part
from phalanx.documents.markdown import with_parts

DOCUMENT = ROOT / "docs" / "shield.md"
DRONES = [name for name in robot_names() if load_robot(name).flight is not None]


def test_the_document_holds_what_the_code_guarantees_of_every_robot():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert all(f"<!-- shield of {name} -->" in text for name in robot_names())
    assert with_parts(text, guarantee_part) == text, "run: make docs"


def test_a_parameter_that_changes_changes_what_is_guaranteed():
    spec = load_robot("crazyflie")
    wide = make_guarantee(spec, make_shield_params(spec, separation_m=0.4))
    assert ("distance of two centres at one height", "0.400 m or more") in wide.holds


@pytest.mark.parametrize("name", DRONES)
def test_what_is_assumed_of_a_drone_fits_into_its_buffers(name):
    params = make_shield_params(load_robot(name))
    pair, fence = (used_of_buffer(params, BOUNDS, bodies) for bodies in (2, 1))
    assert pair.total_m < params.buffer_m and fence.total_m < params.fence_buffer_m


def test_the_attitude_loop_circles_with_as_much_more_delay_as_is_said():
    spec = load_robot("crazyflie")
    params = make_shield_params(spec)
    _, reserve_s = attitude_loop(params, spec.flight, BOUNDS)
    calm, circling = (remaining_error(params, BOUNDS.age_s, BOUNDS.delay_s + share * reserve_s) for share in (0.8, 1.4))
    assert calm < 0.3 and circling > 1.0


def test_the_command_prints_what_holds_and_what_does_not(capsys):
    from phalanx.commands.robots import robots

    assert robots(("ur5e",), shield=True) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "105 % of its limit" in words and "not kept off" in words
