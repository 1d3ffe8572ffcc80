"""The report says what happened: gates, figures, and a page that needs nothing but itself."""

import json
import re
from copy import deepcopy
from dataclasses import asdict, replace

import numpy as np
import pytest
from synthetic_run import make_flight

from phalanx.commands.demo import demo
from phalanx.demo import stages
from phalanx.report import check_gates, load_flight, render_flight, render_page
from phalanx.report.page import histogram, tiles_of

TEAM = {"success_rate": 0.9, "shielded_success_rate": 0.98, "collision_rate": 0.02, "shielded_collision_rate": 0.0}
GOOD = {
    "parity": {"max_abs": 2e-7},
    "verify": {"teams": {size: dict(TEAM) for size in ("2", "4", "8")}},
    "ros": {
        "robots": 4,
        "control_hz": 49.98,
        "mission_success": True,
        "failures": [],
        "min_separation_m": 0.3,
        "sensor_to_command_ms": {"p50": 3.0, "p99": 7.0},
        "kill_to_fallback_ms": 61.0,
        "landed_safely": True,
        "bare_echo_ms": {when: {"p50": 1.6, "p95": 2.0, "p99": 5.0, "p100": 6.0} for when in ("before", "after")},
        "other_programs_cores": 0.1,
        "stolen_cores": 0.0,
        "machine_cores": 2,
        "cores": {"simulated_robots": 0.3, "policy_host_1": 0.3, "shield_host_1": 0.4},
    },
    "shield": {"interventions": 10, "violations": 0},
}


def failed(result, learned=True):
    return [gate.name for gate in check_gates(result, learned) if not gate.passed]


def test_a_good_run_passes_every_gate():
    assert failed(GOOD) == []


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        ("parity.max_abs", 1e-5, "parity"),
        ("parity.max_abs", float("nan"), "parity"),
        ("verify.teams.4.shielded_success_rate", 0.94, "success"),
        ("verify.teams.8.shielded_collision_rate", 1 / 256, "collisions"),
        ("ros.control_hz", 49.0, "lost by the slowest robot"),
        ("ros.sensor_to_command_ms.p99", 20.0, "sensor to command"),
        ("ros.kill_to_fallback_ms", 120.0, "kill to fallback"),
        ("ros.kill_to_fallback_ms", None, "kill to fallback"),
        ("ros.landed_safely", False, "landed"),
        ("ros.mission_success", False, "mission"),
        ("shield.violations", 1, "violations"),
    ],
)
def test_each_gate_closes_on_its_own_figure(path, value, word):
    result = deepcopy(GOOD)
    *parents, last = path.split(".")
    place = result
    for name in parents:
        place = place[name]
    place[last] = value
    (name,) = failed(result)
    assert word in name


def late(p99=37.0, others=0.1, before=2.0, after=2.0, **ros) -> list:
    """Gates, if not all green, of a run whose figures of time are too large, on a machine of two cores."""
    result = deepcopy(GOOD)
    result["ros"] |= {"sensor_to_command_ms": {"p50": 9.0, "p99": p99}, "other_programs_cores": others, **ros}
    for when, p95 in (("before", before), ("after", after)):
        result["ros"]["bare_echo_ms"][when]["p95"] = p95
    gates = check_gates(result, True)
    assert all(gate.warning == (gate.passed and bool(gate.cause)) for gate in gates)
    return [gate for gate in gates if not gate.passed or gate.warning]


def test_a_delay_of_ours_on_a_quiet_machine_is_a_failure_that_says_how_quiet_it_was():
    for p99 in (20.0, 26.0, 500.0):
        (gate,) = late(p99)
        assert not gate.passed and gate.cause.startswith(
            "the load explains 20 ms (how fast its cores are is not looked at): other programs held 0.1 of 2 cores"
        )
        assert "2.0 ms before and 2.0 ms after the mission" in gate.cause
    assert [gate.passed for gate in late(7.0, kill_to_fallback_ms=125.0)] == [False]
    assert [gate.passed for gate in late(7.0, control_hz=49.4)] == [False]


def test_a_core_held_by_another_program_is_a_warning_that_names_it():
    (gate,) = late(others=0.8)
    assert gate.passed and gate.cause.startswith("the machine: other programs held 0.8 of 2 cores, this one 1.0;")
    assert [gate.passed for gate in late(37.0, others=0.4)] == [False]  # too little for so much
    assert [gate.passed for gate in late(7.0, others=1.0, control_hz=49.2)] == [True]
    assert [gate.passed for gate in late(7.0, others=1.0, kill_to_fallback_ms=150.0)] == [True]
    (gate,) = late(others=1.0, machine_cores=16)
    assert not gate.passed  # what is left of sixteen cores is enough for anything


def test_one_core_is_less_than_the_demo_is_made_for_which_is_a_warning():
    (gate,) = late(74.6, machine_cores=1)
    assert gate.passed and gate.cause.startswith("the machine: this machine has 1 core, where 2 are needed;")


def test_what_the_host_of_a_virtual_machine_takes_counts_as_others():
    (gate,) = late(stolen_cores=0.6)
    assert gate.passed and "the host of this virtual machine 0.6" in gate.cause


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_machine_that_is_slow_while_nothing_of_ours_runs_is_a_warning(when):
    (gate,) = late(33.0, **{when: 6.0})
    assert gate.passed and f"6.0 ms {when}" in gate.cause
    assert [gate.passed for gate in late(41.0, **{when: 6.0})] == [False]  # twice too slow makes nothing three times


def test_a_machine_of_which_nothing_is_known_excuses_nothing():
    unknown = {"other_programs_cores": None, "bare_echo_ms": {"before": None, "after": None}}
    result = deepcopy(GOOD)
    result["ros"] |= {"sensor_to_command_ms": {"p50": 9.0, "p99": 21.0}, **unknown}
    assert failed(result) == ["sensor to command in ROS 2, p99"]


@pytest.mark.parametrize(("others", "says"), [(0.1, ""), (1.0, ", 1 with a warning")])
def test_a_demo_counts_what_the_machine_alone_made_late(others, says, tmp_path, monkeypatch, capsys):
    gates = check_gates(GOOD, True) if others < 0.5 else late(others=others)
    result = {"gates": [asdict(gate) for gate in gates], "failures": [], "wall_s": 61.0}
    monkeypatch.setattr(stages, "run_demo", lambda cfg, display: result)
    assert demo(out_dir=tmp_path) == 0
    shown = capsys.readouterr().err
    assert f"all gates passed{says}  (61 s)" in shown
    assert ("warn" in shown and "other programs held 1.0 of 2 cores" in shown) == bool(says)


def test_a_short_training_is_not_judged_by_its_skill_but_by_its_safety():
    result = deepcopy(GOOD)
    result["verify"]["teams"]["4"]["shielded_success_rate"] = 0.0
    result["ros"]["mission_success"] = False
    assert failed(result, learned=False) == []
    result["shield"]["violations"] = 1
    assert failed(result, learned=False) != []


def test_separation_is_that_of_the_closest_pair():
    flight = make_flight()
    moment = flight.separation_m().argmin()
    brute = min(np.linalg.norm(flight.pos[moment, i] - flight.pos[moment, j]) for i in range(4) for j in range(i))
    assert flight.separation_m()[moment] == pytest.approx(brute)
    assert flight.thinned(5.0).separation_m().min() == pytest.approx(brute)  # thinning must not hide it


def test_a_robot_alone_has_no_separation_and_still_a_page():
    flight = make_flight()
    alone = replace(
        flight,
        names=("cf1",),
        pos=flight.pos[:, :1],
        goal=flight.goal[:1],
        mode=flight.mode[:, :1],
        intervention=flight.intervention[:, :1],
    )
    assert np.isinf(alone.separation_m()).all()
    assert "Infinity" not in render_page({"gates": [], "success": True}, alone, "alone")


def test_histograms_hide_no_tail():
    samples = np.concatenate([np.full(990, 1.0), np.full(10, 500.0)])
    drawn = histogram(samples, top=20.0)
    assert sum(drawn["counts"]) == 1000
    assert drawn["counts"][-1] >= 10 and drawn["max"] == 500.0


def test_the_page_carries_everything_and_loads_nothing_else():
    result = {**GOOD, "success": True, "gates": [], "train": None, "title": "</script><b>x</b>"}
    page = render_page(result, make_flight(), "swap </script><img src=x>")
    assert len(page) < 5_000_000
    assert "<img" not in page.split('id="data">')[0]
    assert not re.search(r"(src|href)\s*=\s*[\"']?https?:", page) and "@import" not in page
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert data and json.loads(data[1])["flight"]["names"] == ["cf1", "cf2", "cf3", "cf4"]


def test_a_flight_survives_its_file(tmp_path):
    flight = make_flight()
    path = tmp_path / "flight.npz"
    arrays = {name: getattr(flight, name) for name in ("t", "pos", "goal", "mode", "intervention", "latency_ms")}
    np.savez(
        path,
        **arrays,
        period_error_us=flight.period_error_us,
        names=np.array(flight.names),
        mode_names=np.array(flight.mode_names),
        limit_m=flight.limit_m,
        radius_m=flight.radius_m,
        control_period_ms=20.0,
        events=json.dumps([{"t": e.t, "robot": e.robot, "kind": e.kind, "text": e.text} for e in flight.events]),
    )
    again = load_flight(path)
    assert again.events == flight.events and again.names == flight.names
    assert np.array_equal(again.pos, flight.pos)
    np.savez(path, t=flight.t)
    with pytest.raises(ValueError, match="not a recorded flight"):
        load_flight(path)


def test_a_flown_mission_has_a_page_of_its_own():
    figures = {
        **GOOD["ros"],
        "shield": {"violations": 0, "interventions": 3},
        "seed": 1,
        "fingerprint": "ab",
        "bag": "bag",
        "period_error_us": {"p50": 1.0, "p99": 2.0},
    }
    data = page_data(render_flight(figures, make_flight(), "swarm-swap", ["crazyflie"] * 4))
    assert data["title"] == "swarm-swap: 4 crazyflie in ROS 2" and data["result"]["task"] == "swarm-swap"
    tiles = {label: (value, unit) for value, unit, label in data["result"]["tiles"]}
    assert tiles["closest pair"] == ("0.3", "m") and tiles["violations of the shield's limits"] == ("0", "")


def test_an_arm_has_no_figures_of_a_swarm():
    """What was not measured, such as the closest pair of a single robot, has no tile."""
    arm = {"robots": 1, "min_separation_m": None, "kill_to_fallback_ms": None, "landed_safely": None}
    figures = {
        **(GOOD["ros"] | arm),
        "failures": [],
        "shield": {"violations": 0, "interventions": 3},
        "seed": 1,
        "fingerprint": "ab",
        "bag": "bag",
    }
    data = page_data(render_flight(figures, make_flight(), "reach", ["ur5e"]))
    assert data["title"] == "reach: ur5e in ROS 2"
    labels = [label for _, _, label in data["result"]["tiles"]]
    assert not {"closest pair", "from policy killed to fallback"} & set(labels) and len(labels) == 2


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (0.0, "0"),
        (2.384e-7, "2.4e-7"),
        (1.25e-12, "1.2e-12"),
        (9.99e-4, "1.0e-3"),
        (0.00123, "0.00123"),
        (1234.6, "1235"),
    ],
)
def test_a_figure_of_a_tile_is_short_enough_for_one_line(figure, shown):
    assert [value for value, _, label in tiles_of({"parity": {"max_abs": figure}}) if "file" in label] == [shown]


def page_data(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


def test_the_page_says_how_much_the_shield_corrected_on_held_out_starts():
    teams = {"2": {"intervention_rate": 0.01}, "4": {"intervention_rate": 0.061}}
    tiles = tiles_of({"verify": {"teams": teams}, "ros": {"robots": 4}})
    assert tiles == [("6.1", "%", "of their steps corrected by the shield")]
