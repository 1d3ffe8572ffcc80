"""The command as a person types it, judged by what it prints and how it exits."""

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import assert_one_line_error, here, phalanx
from places import ZOO
from refused_policy import write_refused

from deploy.bundle import load_bundle
from phalanx.commands import COMMANDS
from phalanx.commands.verify import _show
from phalanx.verification.verdict import next_step
from phalanx.zoo import figure_in_words
from policies.evaluation.evaluate import wilson


def cpu_s() -> float:
    """Computing time of the processes that have ended: what waiting there was is this machine's."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.slow
def test_help_is_quick_and_names_every_command():
    """It takes two to four times as long as to import NumPy, on machines of any speed; torch takes eight."""
    phalanx("--help")  # bytecode is written once
    times, numpy_s = [], []
    for _ in range(3):
        start = cpu_s()
        done = phalanx("--help")
        times.append(cpu_s() - start)
        subprocess.run([sys.executable, "-c", "import numpy"], check=True)
        numpy_s.append(cpu_s() - start - times[-1])
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)
    assert min(times) < 5.0 * min(numpy_s)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself_and_its_arguments(name):
    done = here(name, "--help")
    assert done.returncode == 0
    assert "usage: phalanx" in done.stdout
    for line in done.stdout.splitlines():  # every option has a sentence, not only a default
        assert not line.strip().startswith("(default"), line


def test_help_loads_no_heavy_library():
    heavy = ("torch", "mujoco", "rclpy", "onnxruntime")
    code = f"import sys, phalanx.arguments, phalanx.commands; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_the_success_of_another_team_than_the_tasks_names_that_team():
    figure = {"num_agents": 8, "success_rate": 0.985, "shielded_success_rate": 1.0}
    assert figure_in_words(figure, 8) == "98.5 %, shielded 100.0 %"
    assert figure_in_words(figure, 4) == "8 robots: 98.5 %, shielded 100.0 %"
    rows = {line.split()[0]: line for line in here("tasks").stdout.splitlines()}
    verified = json.loads((ZOO / "swarm-swap.json").read_text())["teams"]["8"]
    rates = f"{verified['success_rate']:.1%}, shielded {verified['shielded_success_rate']:.1%}".replace("%", " %")
    assert f"8 robots: {rates}" in rows["swarm-swap"] and "robots:" not in rows["hover"]


def test_unknown_command_task_and_robot_name_the_nearest():
    assert_one_line_error(phalanx("trian"), "'trian'", "did you mean 'train'")
    assert_one_line_error(here("train", "swarm-swop"), "'swarm-swop'", "did you mean 'swarm-swap'")
    assert_one_line_error(here("play", "--agent", "zero", "--task", "swap"), "'swap'", "swarm-swap")
    assert_one_line_error(here("tasks", "hovver"), "'hovver'", "did you mean 'hover'")
    assert_one_line_error(here("robots", "pandas"), "'pandas'", "did you mean 'panda'")


@pytest.mark.parametrize(
    "name, meant",
    [("swarm-swap-firmwre", "swarm-swap-firmware"), ("reach-rf3", "reach-fr3"), ("velocity-ruff", "velocity-rough")],
)
def test_a_mistyped_long_name_is_not_taken_for_a_short_one_that_is_in_it(name, meant):
    assert f"did you mean {meant!r}" in here("tasks", name).stderr


def test_bad_policy_files_are_refused_with_the_reason(policy_file, tmp_path):
    assert_one_line_error(here("inspect", str(tmp_path / "none.onnx")), "none.onnx")
    whole = policy_file.read_bytes()
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(whole[: len(whole) // 2])
    assert_one_line_error(here("inspect", str(cut)), "cut.onnx")
    touched = bytearray(whole)
    touched[len(whole) // 3] ^= 1
    tampered = tmp_path / "tampered.onnx"
    tampered.write_bytes(touched)
    for command in ("inspect", "verify", "deploy"):
        assert_one_line_error(here(command, str(tampered)), "tampered.onnx")


def test_a_task_without_a_policy_and_a_file_given_twice_are_named(policy_file):
    assert_one_line_error(here("deploy", "co-carry"), "no policy ships for 'co-carry'")
    assert_one_line_error(here("deploy", str(policy_file), str(policy_file)), "given twice")


def test_export_of_a_folder_without_checkpoint_says_so(tmp_path):
    assert_one_line_error(here("export", str(tmp_path)), "checkpoint")


@pytest.mark.slow
def test_json_on_stdout_is_json_and_nothing_else(policy_file):
    lists = (["tasks"], ["tasks", "reach"], ["robots"], ["robots", "g1"], ["inspect", str(policy_file)])
    played = ["play", "--agent", "zero", "--robots", "2", "--no-shield"]  # they fall, which is soon over
    for args in (*lists, played, ["eval", "--agent", "zero", "--episodes", "2", "--no-shield"]):
        done = (phalanx if args is played else here)(*args, "--json")
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)


def test_inspect_tells_a_person_what_the_policy_needs_and_does(policy_file):
    text = here("inspect", str(policy_file)).stdout
    for word in (
        "swarm-swap",
        "crazyflie",
        "50 Hz",
        "base_lin_vel",
        "m/s",
        "goal_pos",
        "-3..3",
        "thrust",
        "last_action",
    ):
        assert word in text, word


def test_a_policy_that_its_verification_refused_is_called_so(tmp_path):
    write_refused(tmp_path)
    assert (
        "refused by success of one robot with shield: 0.842, at least 0.9"
        in here("inspect", "velocity.onnx", cwd=tmp_path).stdout
    )
    done = here("deploy", "velocity.onnx", "--kill-after-s", "3", cwd=tmp_path)  # no flight, but a warning before
    assert done.returncode == 2 and "kill_after_s = 3" in done.stderr
    record = json.loads(here("inspect", "velocity.onnx", "--json", cwd=tmp_path).stdout)["verification"]
    assert record["verdict"] == "refused"
    (tmp_path / "velocity.json").write_bytes((ZOO / "hover.json").read_bytes())  # of another file
    assert "verification" not in here("inspect", "velocity.onnx", cwd=tmp_path).stdout
    (tmp_path / "velocity.json").write_text(json.dumps({"fingerprint": record["fingerprint"]}))  # of its flight
    assert "verification" not in here("inspect", "velocity.onnx", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("gate", "rate", "next_line"),
    [
        ("shielded_success_1", 0.85, "next: see what goes wrong, phalanx play v.onnx --out page.html, then train on: "),
        ("shielded_success_1", 0.99, "next: phalanx verify v.onnx --episodes 1024"),
        ("shielded_collisions_1", 0.99, "next: see what goes wrong, phalanx play v.onnx"),
        ("parity", 0.99, "next: write the file again, phalanx export RUN"),
        ("", 0.99, ""),
    ],
)
def test_a_refused_policy_gets_one_line_with_what_to_do(gate, rate, next_line, capsys):
    """It ended with the word refused."""
    verdict = json.loads((ZOO / "velocity.json").read_text()) | {"bundle": "v.onnx", "episodes": 256}
    verdict["teams"]["1"] |= {"shielded_success_rate": rate}
    verdict["gates"] = [each | {"passed": each["name"] != gate} for each in verdict["gates"]]
    verdict["verdict"] = "refused" if gate else "verified"
    _show(verdict)
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith(next_line or "verified")


def test_what_to_do_names_the_run_that_a_file_lies_in(tmp_path):
    (tmp_path / "run.json").touch()
    gate = {"name": "parity", "passed": False}
    assert f"phalanx export {tmp_path}, " in next_step({"gates": [gate]}, [str(tmp_path / "best.onnx")])
    gate = {"name": "shielded_collisions_2", "passed": False, "limit": 0}
    assert "phalanx play a.onnx b.onnx --out" in next_step({"gates": [gate], "teams": {}}, ["a.onnx", "b.onnx"])


@pytest.mark.parametrize(
    ("episodes", "rate", "ends", "says"),
    [
        (64, 1.0, "not shown", "64 episodes cannot show 0.99: at least 381 are needed"),
        (380, 1.0, "not shown", "380 episodes cannot show 0.99: at least 381 are needed"),
        (400, 0.995, "refused", "400 starts show no more than that; more of them may: --episodes"),
        (64, 0.9, "refused", ""),
    ],
)
def test_episodes_that_cannot_show_what_is_asked_do_not_refuse_a_policy(episodes, rate, ends, says, capsys):
    """64 of 64 were called refused, as if something were known against it."""
    verdict = json.loads((ZOO / "hover.json").read_text()) | {"bundle": "v.onnx", "episodes": episodes}
    low = wilson(round(rate * episodes), episodes)[0]
    verdict["teams"]["1"] |= {"shielded_success_rate": rate, "shielded_success_interval": [low, 1.0]}
    success = {"name": "shielded_success_1", "value": low, "passed": False}
    verdict["gates"] = [each | success if each["name"] == success["name"] else each for each in verdict["gates"]]
    _show(verdict | {"verdict": "refused"})
    *lines, last, todo = capsys.readouterr().out.splitlines()
    assert last.startswith(ends) and says in " ".join(lines)
    if ends == "not shown":
        assert int(todo.rpartition(" ")[2]) >= 381


def test_tasks_and_robots_tell_a_person_what_they_are_made_of():
    reach = " ".join(here("tasks", "reach").stdout.split())
    for word in ("goal_pos", "wxyz", "joint_vel", "joint_friction", "scale 0.5 to 1.5", "Held for the last 0.5 s"):
        assert word in reach, word
    panda = here("robots", "panda").stdout
    for word in ("joint4", "-3.072", "libfranka", "tool"):
        assert word in panda, word
    for name in json.loads(here("robots", "--json").stdout)["robots"]:
        done = here("robots", name["name"])
        assert done.returncode == 0, done.stderr
    assert "rotors_xy_m" in here("robots", "crazyflie").stdout
    (curve,) = (
        line for line in here("robots", "g1").stdout.splitlines() if line.startswith("left_knee") and "131" in line
    )
    assert curve.split() == ["left_knee_joint", "14.5", "22.7", "111", "131"]
    assert "Torque-speed" not in panda  # none is published


def test_a_missing_library_names_the_extra_to_install():
    code = "import sys; sys.modules['torch'] = None; from phalanx.cli import main; main(['train', 'swarm-swap'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert_one_line_error(done, "torch", "phalanx[train]")


@pytest.mark.parametrize(
    ("option", "where"),
    [
        ("--robots 3", "a team file lists its robots"),
        ("--duration-s 5", "until Ctrl-C"),
        ("--kill-after-s 3", "phalanx drill"),
        ("--seed 4", "base_pose"),
        ("--mission swap", "mission: FILE"),
        ("--policy-hosts 2", "hosts: {policies: INT}"),
        ("--shield-hosts 2", "hosts: {shields: INT}"),
        ("--trusted-keys me.pub", "trusted_keys: [...]"),
    ],
)
def test_an_option_that_a_team_file_states_itself_is_refused_with_where_it_belongs(option, where):
    """It was ignored without a word."""
    assert_one_line_error(here("deploy", "team.yaml", *option.split()), f"{option.split()[0]}: ", where)


def test_a_seed_below_zero_is_refused_with_what_is_allowed():
    assert_one_line_error(here("deploy", "hover", "--seed", "-1"), "seed = -1: 0 to ")


@pytest.fixture
def exported(monkeypatch, tmp_path):
    """`phalanx export` of a run, which writes the policy of hover."""
    (tmp_path / "checkpoint.pt").touch()
    content = {"policies": {"crazyflie": None}, "run": {"task": "hover"}}
    monkeypatch.setattr("policies.checkpoint.load_checkpoint", lambda run: content)

    def write(run, file, *_, on_progress):
        return Path(shutil.copy(ZOO / "hover.onnx", file))

    monkeypatch.setattr("policies.export.export.export_policy", write)
    return lambda out: here("export", ".", "--out", out, cwd=tmp_path)


def test_export_says_which_policy_it_replaces(exported, tmp_path):
    assert "replaced" not in exported("new.onnx").stderr + exported("new.onnx").stderr
    shutil.copy(ZOO / "swarm-swap.onnx", tmp_path / "other.onnx")
    before = load_bundle(tmp_path / "other.onnx").fingerprint
    assert f"replaced other.onnx, which was fingerprint {before[:16]}..." in exported("other.onnx").stderr


def test_export_replaces_nothing_but_policy_files_and_writes_no_other_kind(exported, tmp_path):
    (tmp_path / "notes.onnx").write_text("mine")
    assert_one_line_error(exported("notes.onnx"), "notes.onnx: is not a phalanx policy file", "it is not replaced")
    assert (tmp_path / "notes.onnx").read_text() == "mine"
    assert_one_line_error(exported("policy.txt"), "out = policy.txt: a policy file ends in .onnx")
    assert not (tmp_path / "policy.txt").exists()
