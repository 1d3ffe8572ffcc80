"""Our models against models that others made of the same robots; what is not installed is skipped."""

import dataclasses
import importlib
import json

import mujoco
import pytest
from command import assert_one_line_error, here
from places import ROOT

from hardware import load_robot
from phalanx.documents.markdown import MARKED
from phalanx.documents.models import comparison_part
from sim.model_comparison import compare_models
from sim.model_figures import WHOLE
from sim.vendor_models import VENDOR_MODELS, vendor_model_path

DOCUMENT = ROOT / "docs" / "models.md"


def installed(name: str) -> bool:
    try:
        return vendor_model_path(load_robot(name)).is_file()
    except ValueError:
        return False


def needs_model(name: str):
    return pytest.mark.skipif(not installed(name), reason=f"{VENDOR_MODELS[name].distribution} is not installed")


with_meshes = pytest.mark.parametrize("name", [pytest.param(name, marks=needs_model(name)) for name in VENDOR_MODELS])


def largest(name: str, *quantities: str) -> float:
    """Largest difference of these quantities of any joint."""
    rows = compare_models(load_robot(name)).rows
    return max(abs(row.ours - row.theirs) for row in rows if row.quantity in quantities and row.joint != WHOLE)


def test_what_is_not_installed_is_named_with_its_extra_in_one_line(monkeypatch):
    monkeypatch.setattr(
        "sim.vendor_models.find_spec", lambda package: importlib.util.find_spec(package + "_that_is_not_there")
    )
    done = here("robots", "compare", "g1")
    assert_one_line_error(done, "model of 'g1' is not installed: pip install 'phalanx[robots]'")


def test_a_robot_without_one_says_which_have_one():
    assert_one_line_error(here("robots", "compare", "crazyflie"), "'crazyflie'", "g1, h1, panda, ur5e")
    assert_one_line_error(here("robots", "compare"), "compare which robot?", "g1, h1, panda, ur5e")
    assert_one_line_error(here("robots", "compare", "pandas"), "did you mean 'panda'")
    assert_one_line_error(here("robots", "panda", "g1"), "too many arguments: 'g1'")
    assert_one_line_error(here("robots", "compare", "g1", "--shield"), "compare takes no --shield")


@needs_model("panda")
def test_the_command_shows_both_figures_where_they_differ_and_one_where_not():
    shown = here("robots", "compare", "panda").stdout
    (drive,) = (line.split() for line in shown.splitlines() if line.startswith("joint1 ") and "-2.897" in line)
    assert drive[1:4] == ["-2.897", "2.897", "87"] and "3000 | 4500" in " ".join(drive)
    found = json.loads(here("robots", "compare", "panda", "--json").stdout)
    (gain,) = (row for row in found["rows"] if (row["joint"], row["quantity"]) == ("joint1", "kp"))
    assert gain == {
        **{"joint": "joint1", "quantity": "kp", "unit": "N m/rad", "ours": 3000.0, "theirs": 4500.0},
        **{"tolerance": 225.0, "differs": True},
    }
    assert found["differing"] == sum(row["differs"] for row in found["rows"]) > 7
    assert f"{found['differing']} of {len(found['rows'])} figures differ" in shown
    assert found["only_ours"] == ["finger_mirror"] and found["beside"].startswith("MuJoCo Menagerie (envpool")


@pytest.mark.slow
def test_the_page_is_what_the_code_gives():
    parts = {found[2]: found[0] for found in MARKED.finditer(DOCUMENT.read_text(encoding="utf-8"))}
    assert parts.keys() == VENDOR_MODELS.keys()
    for name in filter(installed, parts):
        text = f"<!-- {name} -->\n{comparison_part(name)}<!-- end -->"
        assert parts[name] == text, "run: phalanx robots compare --markdown docs/models.md"


@pytest.mark.slow
@with_meshes
def test_every_axis_passes_the_same_place_in_the_same_direction(name):
    rows = [row for row in compare_models(load_robot(name)).rows if row.quantity.startswith("axis")]
    assert len(rows) == 6 * len(load_robot(name).joints)
    assert not [row for row in rows if row.differs]


@with_meshes
def test_an_error_in_our_model_would_show(name, tmp_path):
    spec = load_robot(name)
    wrong = mujoco.MjSpec.from_file(str(spec.mjcf))
    body = wrong.joint(spec.joints[2].name).parent
    body.pos = body.pos + 0.02
    file = tmp_path / "wrong.xml"
    file.write_text(wrong.to_xml())
    rows = compare_models(dataclasses.replace(spec, mjcf=file)).rows
    assert max(abs(row.ours - row.theirs) for row in rows if row.differs and row.unit == "m") > 8e-3


@pytest.mark.slow
@needs_model("g1")
def test_the_g1_is_the_same_robot_to_the_gram():
    assert largest("g1", "mass") < 0.002
    assert largest("g1", "low", "high") < 1e-4
    assert largest("g1", "weight") < 0.01
    assert largest("g1", "carries") < 2e-3
    found = compare_models(load_robot("g1"))
    assert abs(found.rows[0].ours - found.rows[0].theirs) < 0.01 and found.rows[0].joint == WHOLE
    assert found.only_ours == found.only_theirs == []


@needs_model("h1")
def test_the_h1_is_heavier_by_what_unitree_added_later():
    whole = compare_models(load_robot("h1")).rows[0]
    assert whole.ours - whole.theirs == pytest.approx(59.338 - 51.436, abs=0.2)
