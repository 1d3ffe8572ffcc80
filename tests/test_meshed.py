"""Our models against models that others made of the same robots; what is not installed is skipped."""

import dataclasses
import importlib

import mujoco
import pytest
from meshed import ASSETS, compare, meshed_model, meshed_path

from hardware import load_robot


def installed(name: str) -> bool:
    try:
        return meshed_path(load_robot(name)).is_file()
    except ModuleNotFoundError:
        return False


with_meshes = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.skipif(not installed(name), reason=f"{asset.distribution} is not installed")
        )
        for name, asset in ASSETS.items()
    ],
)


def rows_of(name: str, ending: str) -> dict[str, float]:
    """Difference by joint of the quantity that ends so."""
    return {
        r.quantity.removesuffix(ending): r.difference for r in compare(load_robot(name)) if r.quantity.endswith(ending)
    }


def test_a_missing_package_is_named_in_one_line(monkeypatch):
    monkeypatch.setattr("meshed.find_spec", lambda package: importlib.util.find_spec(package + "_that_is_not_there"))
    with pytest.raises(ModuleNotFoundError, match=r"^the meshed model of 'g1' .*pip install .*playground-humanoid$"):
        meshed_model(load_robot("g1"))


def test_a_robot_without_one_says_which_have_one():
    with pytest.raises(ValueError, match=r"'crazyflie'.*g1, h1, panda, ur5e"):
        meshed_path(load_robot("crazyflie"))


@with_meshes
def test_it_has_meshes_and_compiles(name):
    model = meshed_model(load_robot(name)).compile()
    assert model.nmesh > 5


@pytest.mark.slow
@with_meshes
def test_every_axis_passes_the_same_place_in_the_same_direction(name):
    places = [abs(value) for c in "xyz" for value in rows_of(name, f" axis passes {c}, m").values()]
    directions = [abs(value) for c in "xyz" for value in rows_of(name, f" axis points {c}").values()]
    assert len(places) == len(directions) == 3 * len(load_robot(name).joints)
    assert max(places) < 2e-3 and max(directions) < 2e-3


@with_meshes
def test_an_error_in_our_model_would_show(name, tmp_path):
    spec = load_robot(name)
    wrong = mujoco.MjSpec.from_file(str(spec.mjcf))
    body = wrong.joint(spec.joints[2].name).parent
    body.pos = body.pos + 0.02
    file = tmp_path / "wrong.xml"
    file.write_text(wrong.to_xml())
    rows = compare(dataclasses.replace(spec, mjcf=file))
    assert max(abs(row.difference) for row in rows if row.quantity.endswith(", m")) > 8e-3


@pytest.mark.slow
@pytest.mark.skipif(not installed("g1"), reason="the meshed humanoids are not installed")
def test_the_g1_is_the_same_robot_to_the_gram():
    assert abs(rows_of("g1", "mass, kg")[""]) < 0.01
    for ending, bound in ((" link mass, kg", 0.002), (" low, rad", 1e-4), (" high, rad", 1e-4), (" weight, N m", 0.01)):
        assert max(map(abs, rows_of("g1", ending).values())) < bound, ending
    assert max(map(abs, rows_of("g1", " inertia, kg m^2").values())) < 2e-3


@pytest.mark.skipif(not installed("h1"), reason="the meshed humanoids are not installed")
def test_the_h1_is_heavier_by_what_unitree_added_later():
    assert rows_of("h1", "mass, kg")[""] == pytest.approx(59.338 - 51.436, abs=0.2)
