"""`phalanx attack` as a person types it."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from command import assert_one_line_error, here
from drones import wait_until

from deploy.shield import Mode, ShieldReport, make_shield_params
from hardware import ActuatorCommand, load_robot
from phalanx.report.attack import table_of
from policies.evaluation.learned_attack import fly_learned
from policies.training.train import CollectionCfg, TrainCfg, train
from sim.attack import arms, campaign, drones, faults, humanoids, learned

FAST = ["attack", "crazyflie", "--workers", "1", "--robots", "2", "--steps", "2000", "--attackers", "cut in"]


def test_a_campaign_is_flown_once_and_written_down(tmp_path):
    done = here(*FAST, "--faults", "corner", "--out", str(tmp_path), "--json")
    result = json.loads(done.stdout)
    assert done.returncode == 0 and result["passed"] and result == json.loads((tmp_path / "attack.json").read_text())
    (row,) = result["rows"]
    assert row["fault"] == "corner" and row["steps"] == 2000 and row["violations"] == 0
    assert set(row["margins"]) == {"distance", "fence", "floor"} and 0 < min(row["margins"].values()) < 5
    assert row["changed"] > 1000 and row["ended"] == {"FILTERED": 4}
    (shown,) = table_of(result)
    page = (tmp_path / "report.html").read_text()
    assert all(cell in page for cell in shown) and shown[4].split()[1] in row["margins"]
    before = (tmp_path / "flights.jsonl").read_bytes()
    again = here(*FAST, "--faults", "corner", "--out", str(tmp_path), "--json")
    assert json.loads(again.stdout) == result and (tmp_path / "flights.jsonl").read_bytes() == before


@pytest.mark.slow
def test_the_processes_of_a_campaign_that_is_killed_end_with_it(tmp_path):
    args = ["attack", "crazyflie", "--workers", "2", "--steps", "100000", "--out", str(tmp_path)]
    killed = subprocess.Popen([sys.executable, "-m", "phalanx", *args], stderr=subprocess.DEVNULL)

    children = Path(f"/proc/{killed.pid}/task/{killed.pid}/children")
    wait_until(lambda: len(children.read_text().split()) >= 2, "it has no workers", within_s=60.0)
    workers = children.read_text().split()
    killed.kill()
    killed.wait()
    wait_until(lambda: not any(Path("/proc", pid).exists() for pid in workers), "they are still there")


def test_it_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(drones, "SECONDS", 1.0)
    monkeypatch.setattr(campaign, "SECONDS", 1.0)
    steps = ["attack", "--workers", "1", "--robots", "1", "--faults", "usual", "--attackers", "drop", "--json"]
    whole = here(*steps, "--steps", "200", "--out", str(tmp_path / "whole"))
    here(*steps, "--steps", "200", "--out", str(tmp_path / "part"))
    flights = tmp_path / "part" / "flights.jsonl"
    head, first, second = flights.read_text().splitlines()
    flights.write_text(f"{head}\n{first}\n{second[:40]}")  # killed while it wrote
    on = here(*steps, "--steps", "200", "--out", str(tmp_path / "part"))
    assert json.loads(on.stdout) == json.loads(whole.stdout)
    assert [json.loads(line)["number"] for line in flights.read_text().splitlines()[1:]] == [0, 1]
    other = here(*steps, "--steps", "200", "--seed", "1", "--out", str(tmp_path / "part"))
    assert_one_line_error(other, "a campaign with seed = 0, not 1")


def test_a_team_that_leaves_its_fence_has_a_margin_below_zero_however_far_its_robots_are_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(drones, "PRESSED_M", -2.0)  # as if a metre inside of the fence were outside of it
    done = here(*FAST, "--faults", "corner", "--out", str(tmp_path))
    assert done.returncode == 1 and " fence" in done.stdout
    (row,) = json.loads((tmp_path / "attack.json").read_text())["rows"]
    assert row["margins"]["fence"] < 0 < row["margins"]["distance"] and row["broken"]["fence"] == row["violations"]


@pytest.mark.slow
def test_violations_count_inside_of_what_is_stated_only(tmp_path, monkeypatch):
    lost = replace(faults.FAULTS["bias x 10"], bias=150.0)  # each believes itself 0.75 m away
    monkeypatch.setitem(faults.FAULTS, "bias x 10", lost)
    args = [*FAST, "--faults", "bias x 10"]
    done = here(*args, "--out", str(tmp_path / "outside"))
    assert done.returncode == 0 and "bias x 10, outside" in done.stdout and "held" in done.stdout
    monkeypatch.setitem(faults.FAULTS, "bias x 10", replace(lost, inside=True))
    done = here(*args, "--out", str(tmp_path / "inside"))
    assert done.returncode == 1 and "broken" in done.stdout and "first violation: cut in with bias x 10" in done.stdout


@pytest.mark.slow
def test_rotors_that_are_slow_under_the_firmwares_loop_are_flown(tmp_path):
    """Its figures are no others than of the model's loop if the rotors' lag gets lost on the way."""
    args = ["--faults", "corner", "--json", "--out"]
    own, slow = (
        json.loads(here(*FAST, *more, *args, str(tmp_path / name)).stdout)
        for name, more in (("own", ()), ("slow", ("--rotor-lag-s", "0.06", "0.06")))
    )
    assert own["loop"] is None and slow["loop"] == {"rotors_s": [0.06, 0.06], "gains": [1.0, 1.0]}
    assert own["inside"]["margins"] != slow["inside"]["margins"] and slow["inside"]["steps"] == 2000


@pytest.mark.slow
def test_arms_are_driven_behind_whole_shields(tmp_path):
    args = ["ur5e", "--workers", "1", "--steps", "1000", "--faults", "late", "--attackers", "whip", "--json"]
    result = json.loads(here("attack", *args, "--out", str(tmp_path)).stdout)
    assert result["passed"] and result["rows"][0]["steps"] == 1000 and result["rows"][0]["changed"] > 300
    assert 0.5 < result["inside"]["most"]["speed_share"] < 1.05


class Bare:
    """Instead of a shield: what is asked for, inside the channels."""

    def __init__(self, params, spec):
        self.low, self.high, self.sent = np.array(spec.command_low), np.array(spec.command_high), None

    def step(self, now_s, context, requested, age_s):
        if requested is not None:
            self.sent = np.nan_to_num(requested.target).clip(self.low, self.high)
        return ActuatorCommand(self.sent), ShieldReport(Mode.NOMINAL, "", 1.0, (), 0.0, False, True)


def test_an_arm_without_its_shield_is_found_to_touch_things(monkeypatch):
    spec = load_robot("panda")
    args = (spec, make_shield_params(spec), "late, loaded", "anything and hold", 1, 3.0, 1)
    held = arms.drive(*args)
    assert not held.violations and set(held.margins) == {"range", "speed", "contact"}
    monkeypatch.setattr(arms, "Shield", Bare)
    bare = arms.drive(*args)
    assert bare.broken["contact"] > 10 and bare.broken["speed"] > 10 and bare.margins["contact"] < -1.0


def test_humanoids_are_attacked_and_one_without_its_shield_breaks_all_that_is_promised(tmp_path, monkeypatch):
    args = ["g1", "--workers", "1", "--steps", "1000", "--faults", "corner", "--attackers", "bang bang each"]
    result = json.loads(here("attack", *args, "--json", "--out", str(tmp_path)).stdout)
    assert result["passed"] and result["inside"]["steps"] == 1000 and result["inside"]["most"]["falls"] > 1
    assert {"range", "effort", "power"} == set(result["inside"]["margins"])
    monkeypatch.setattr(humanoids, "Shield", Bare)
    spec = load_robot("g1")
    args = (spec, make_shield_params(spec), "usual")
    broken = [
        humanoids.drive_humanoid(*args, attacker, 1, 3.0, 0).broken for attacker in ("stutter", "bang bang together")
    ]
    assert {"range", "effort", "power", "falls undamped", "takes over"} <= set().union(*broken)


def test_a_fall_that_hesitates_while_states_are_lost_is_damped_in_time():
    spec = load_robot("g1")
    args = (spec, make_shield_params(spec), "corner", "anything")
    assert not humanoids.drive_humanoid(*args, 1, 10.0, 260878698015933).broken


def test_a_learned_attacker_flies_against_whole_shields(tmp_path, monkeypatch):
    monkeypatch.setattr(drones, "SECONDS", 1.0)
    small = TrainCfg("sim.attack.learned:BREAK", out=tmp_path, collection=CollectionCfg(4, 3, True), total_steps=1)
    assert train(small).finished
    cfg = campaign.Campaign("crazyflie", {}, (3,), 300, 0, ("corner",), ("learned",))
    outcome = fly_learned(cfg, tmp_path, campaign.Flight(0, "corner", "learned", 3))
    assert outcome.steps == 300 and outcome.violations == 0 and outcome.changed > 0 and "exception" not in outcome.first


def test_it_is_rewarded_for_what_the_shield_must_prevent():
    apart = torch.tensor([[0.0, 0, 1], [0.26, 0, 1], [2.0, 0, 1]]).repeat(1, 1, 1)
    task = learned.GROUP.rewards
    near, far = (SimpleNamespace(offset=(pos[:, None] - pos[:, :, None])) for pos in (apart, 3.0 * apart))
    reward = {name: term.func(near, **term.params)[0] for name, term in task.items()}
    assert reward["nearness"][0] > 0.9 > 0.1 > reward["nearness"][2] and not reward["broken"].any()
    assert task["nearness"].func(far, **task["nearness"].params).max() < reward["nearness"].max()
    inside = SimpleNamespace(offset=near.offset * 0.9)
    assert task["broken"].func(inside, **task["broken"].params)[0].tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["crazyfly"], ["neither a robot, a task nor a policy file: 'crazyfly'"]),
        (["crazyflie", "--faults", "cornr"], ["unknown fault 'cornr'", "did you mean 'corner'"]),
        (["crazyflie", "--attackers", "chase"], ["unknown attacker 'chase'", "did you mean 'chaser'"]),
        (["crazyflie", "--steps", "0"], ["steps = 0"]),
        (["payload-lift", "--robots", "0"], ["robots = 0"]),
        (["g1", "--faults", "partition"], ["unknown fault 'partition'", "pushed"]),
        (["panda", "--rotor-lag-s", "0.02", "0.06"], ["no rate loop of a panda is published"]),
        (["crazyflie", "--rotor-lag-s", "0.06", "0.02"], ["rotor-lag-s"]),
        (["x500", "--train", "10"], ["--train is for crazyflie, not for x500"]),
    ],
)
def test_wrong_arguments_are_answered_in_one_line(tmp_path, args, said):
    assert_one_line_error(here("attack", *args, cwd=tmp_path), *said)
    assert not list(tmp_path.iterdir())
