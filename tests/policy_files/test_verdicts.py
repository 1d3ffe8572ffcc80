"""`python -m benchmarks verdicts`: what is expected of a policy is what verify found, and a miss is named."""

import json

import pytest
from places import ZOO
from test_margins import row

from benchmarks import verdicts
from benchmarks.defects import defects, save_edited, swap_joints
from deploy.bundle import load_bundle
from deploy.bundle.verification import CARE, NOT


def verdict_on(advice, held, *rows, corner=None):
    numbers = [{"mass": 1.2}, {"worst corner": 1.0}, {"mass": 0.9}]
    plants = {
        plant.name: {"success": 1.0 if holds else 0.2, "numbers": each}
        for plant, holds, each in zip(verdicts.PLANTS, held, numbers, strict=True)
    }
    margins = {"rows": list(rows), "corner": corner}
    return dict(advice=advice, reasons=[], success=1.0, gate=0.95, worlds=32, plants=plants, margins=margins)


@pytest.mark.parametrize(
    ("found", "misses"),
    [
        (verdict_on(CARE, (True, True, True)), None),
        (verdict_on(CARE, (True, False, True)), "corner"),
        (verdict_on(NOT, (False, False, False)), None),
        (verdict_on(NOT, (True, False, True)), "other loop, RK4, late"),
        (verdict_on(CARE, (False, True, True), row(held=1.1, fell=1.2)), None),
        (verdict_on(CARE, (True, True, True), row(held=1.1, fell=1.2)), "other loop"),
        (verdict_on(CARE, (True, True, True), row(held=1.2, fell=1.3)), None),
        (verdict_on(CARE, (True, True, False), row(direction="down", held=0.95, fell=0.92)), None),
        (verdict_on(CARE, (True, False, True), corner=row(parameter="worst corner", nominal=0.0, fell=1.0)), None),
        (verdict_on(CARE, (False, True, True), row(held=None, fell=1.0)), None),
    ],
)
def test_a_plant_holds_unless_the_advice_or_one_of_its_numbers_is_against_it(found, misses):
    summary = verdicts.summary({"policy": found})
    assert summary["misses"].get("policy") == misses
    held = sum(each["success"] == 1.0 for each in found["plants"].values())
    assert summary["agree"]["policies"] == ("1 of 1" if (held >= 2) == (found["advice"] != NOT) else "0 of 1")


def test_every_task_has_defects_of_its_own_robots():
    found = {task: set(defects(load_bundle(ZOO / f"{task}.onnx").contract)) for task in verdicts.SPOILT}
    assert "joints swapped" in found["reach"] & found["stand"] and "joints swapped" not in found["hover"]
    assert "wrong frame" in found["hover"] & found["swarm-swap"] & found["stand"]
    assert sum(map(len, found.values())) >= 20


@pytest.mark.slow
def test_what_was_flown_is_kept_and_a_spoilt_file_falls_as_it_was_expected_to(tmp_path, monkeypatch):
    monkeypatch.setattr(verdicts, "SPOILT", ())
    spoilt = save_edited(ZOO / "reach.onnx", tmp_path / "spoilt.onnx", swap_joints)
    for _ in range(2):
        found = verdicts.bench_verdicts((spoilt,), 8, tmp_path / "out", on_progress=lambda total: None)
        assert found["agree"] == {"plants": "3 of 3", "policies": "1 of 1"}
        monkeypatch.setattr(verdicts, "assess", lambda *_: pytest.fail("flown once more"))
    assert json.loads((tmp_path / "out" / "spoilt.json").read_text())["advice"] == NOT
