"""What a person types wrongly, and where they type it: said in one line, before any work starts."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from command import assert_one_line_error, here, phalanx
from places import ZOO

from deploy.bundle import load_bundle
from hardware.ranges import check_range
from phalanx.arguments import options_of
from phalanx.commands import COMMANDS
from phalanx.commands.demo import demo as run_command
from phalanx.demo import stages
from phalanx.folders import check_files_out, fresh_folder, results_folder, with_room
from phalanx.train_options import FLAGS, VALUED
from phalanx.verification.verdict import warn_of_size
from policies.evaluation.verify import VerifyCfg, too_few_asked


def test_the_version_is_that_of_the_package():
    done = here("--version")
    assert done.returncode == 0 and done.stdout.startswith("phalanx 0.")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["train", "hover", "--total-steps", "5"], "did you mean '--steps'"),
        (["play", "--robts", "3"], "did you mean '--robots'"),
        (["calibrate", "g1"], "ROBOT is missing: Its name in that file; see phalanx calibrate --help"),
        (
            ["operate", "lnad"],
            "what 'lnad': choose from arm, start, land, hold, disarm, estop, reset, goal, swap, reconnect; see",
        ),
        (["operate", "lnad"], "did you mean 'land'?"),
        (["train", "hover", "--td3.gamma", "0.9"], "unknown option --td3.gamma: it is one of --algo td3, which is not"),
        (["train", "hover", "--algo", "td3", "--td3.gama", "0.9"], "did you mean '--td3.gamma'"),
        (["train", "hover", "--ppo.lr", "1e-3"], "did you mean '--ppo.learning-rate' or '--ppo.limit-rate'?"),
        (["train", "hover", "--ppo.ent", "1e-3"], "did you mean '--ppo.entropy-coef'"),
        (["train", "hover", "--ppo.epochs", "0"], "phalanx: --ppo.epochs = 0: 1 to 1000; see phalanx train --help"),
        (["train", "hover", "--network.hidden", "0"], "phalanx: --network.hidden = 0: 1 to 16384; see"),
        (["play", "hover", "--seed", "abc"], "--seed: cannot read 'abc', wanted INT"),
        (["play", "hover", "--seed", "1.5"], "--seed: cannot read '1.5', wanted INT"),
        (["play", "hover", "--seed", "1e400"], "--seed: cannot read '1e400', wanted INT"),
        (["operate", "goal", "cf1", "--at", "0", "0"], "--at 0 0: 2 values given, wanted 3 numbers: X Y Z; see"),
        (["operate", "goal", "cf1", "--at", "0", "0", "x"], "--at 0 0 x: 3 values given, wanted 3 numbers: X Y Z; see"),
        (["operate", "goal", "cf1", "--at"], "--at: 0 values given, wanted 3 numbers: X Y Z; see"),
        (["play", "hover", "--agent", "pilot"], "'pilot'"),
        (["tasks", "hover", "reach"], "too many arguments: 'reach'"),
        (["train"], "TASK is missing"),
        (["export"], "RUN is missing"),
        (["verify"], "which policy file?"),
        (["verify", "some.onnx", "--only", "mass"], "--only mass: chooses what --margins pushes; give that too"),
        (["verify", "some.onnx", "--margin-episodes", "8"], "--margin-episodes 8: chooses what --margins pushes"),
        (["verify", "some.onnx", "--replace"], "--replace: says what --record may replace; give that too"),
    ],
)
def test_wrong_arguments_are_one_line_with_the_nearest_option(args, said):
    assert_one_line_error(here(*args), said, f"phalanx {args[0]} --help")


def test_for_an_option_of_a_task_the_help_of_that_task_is_named():
    done = here("train", "hover", "--task.episod", "1")
    assert_one_line_error(done, "see phalanx train hover --help; did you mean '--task.episode-s'")


def test_the_ends_of_a_range_are_written_as_a_person_writes_them():
    for value, low, high, said in ((0, 1, 1_000_000, "1 to 1000000"), (2.0, 1e-6, 0.5, "1e-06 to 0.5")):
        with pytest.raises(ValueError, match=f"^number = {value}: {said}$"):
            check_range("number", value, low, high)


def test_an_error_shows_what_a_terminal_would_obey_as_its_number(tmp_path):
    (tmp_path / "team.yaml").write_text('"\\e[31mrobots\\u200b\\x07": []')
    done = here("deploy", str(tmp_path / "team.yaml"))
    assert_one_line_error(done, r"\x1b[31mrobots\u200b\x07: unknown")
    assert done.stderr.rstrip("\n").isprintable()


def test_a_misspelt_name_is_answered_before_torch_is_loaded(tmp_path):
    wrong = [[command, "hoverr"] for command in ("train", "eval", "play", "tasks", "deploy")]
    wrong += [[command, "none.onnx"] for command in ("eval", "play", "verify", "inspect", "deploy")]
    wrong += [["train", "hover", "--nmu-envs", "8"]]
    wrong += [["export", "norun"], ["eval", "runs/none.pt"], ["verify", "none.onnx", "--run", "norun"]]
    code = (
        f"import sys\nfrom phalanx.cli import main\nfor args in {wrong!r}:\n    try:\n        main(args)\n"
        "    except SystemExit as end:\n        print(args, end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.splitlines() == [f"{args} 2 False" for args in wrong]
    assert done.stderr.count("did you mean 'hover'") == 5 and not list(tmp_path.iterdir())


def test_options_of_every_training_are_known_without_its_task():
    shown = {option for option in options_of(COMMANDS, "train", []) if "." not in option}
    known = {*FLAGS, *(f"--{name}" for name in VALUED.split())}
    usual = {"--no-shield", "--onnx", "--film", "--no-wandb"}  # which are there where they change something
    assert shown == known - usual - {"--help"}


def test_a_misspelt_file_or_run_is_answered_with_the_one_that_is_there(tmp_path):
    (tmp_path / "zoo").mkdir()
    for name in ("zoo/reach.onnx", "zoo/stand.onnx", "team.yaml"):
        (tmp_path / name).touch()
    (tmp_path / "runs" / "hover").mkdir(parents=True)
    for command in ("inspect", "deploy", "drill", "play", "verify"):
        assert_one_line_error(here(command, "zoo/raech.onnx", cwd=tmp_path), "did you mean 'zoo/reach.onnx'")
    for command in ("deploy", "drill"):
        assert_one_line_error(here(command, "tem.yaml", cwd=tmp_path), "no such file; did you mean 'team.yaml'")
    assert_one_line_error(here("export", "runs/hovver", cwd=tmp_path), "did you mean 'runs/hover'")
    for name, leads in (("zoo/gone.onnx", "nowhere.onnx"), ("gone.yaml", "nowhere.yaml"), ("runs/gone", "nowhere")):
        (tmp_path / name).symlink_to(leads)  # the very same name was suggested
        command = "inspect" if name.endswith("onnx") else "deploy" if name.endswith("yaml") else "export"
        done = here(command, name, cwd=tmp_path)
        assert_one_line_error(done, f"it is a link to {leads}, which is not there")
        assert "did you mean" not in done.stderr
    (tmp_path / "policies").mkdir()
    for file in ("nowhere/else.onnx", "zoo/nix.onnx", "policy.onnx"):  # neither a suffix alone nor a folder is alike
        assert "did you mean" not in here("inspect", file, cwd=tmp_path).stderr


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_says_nothing_of_none(name, monkeypatch):
    for columns in ("80", "160"):  # lines end elsewhere
        monkeypatch.setenv("COLUMNS", columns)
        text = " ".join(here(name, "--help").stdout.replace("│", " ").split())
        assert "None}" not in text and "default: None" not in text and "default: False" not in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seed", "-1"], "seed = -1: 0 to"),
        (["--robots", "300"], "robots = 300: 1 to 64"),
        (["--robots", "0"], "robots = 0: 1 to 64"),
        (["--out", "afile/page.html"], "afile is a file, not a folder"),
        (["--out", "afolder.html"], "afolder.html: is a folder, wanted a file"),
        (["--out", "film.avi"], "known: .html, .png, .gif, .mp4"),
        (["--size", "wide"], "size = wide: WIDTHxHEIGHT"),
    ],
)
def test_values_are_checked_before_an_episode_is_played(options, said, tmp_path):
    (tmp_path / "afile").touch()
    (tmp_path / "afolder.html").mkdir()
    assert_one_line_error(here("play", "hover", "--agent", "zero", *options, cwd=tmp_path), said)


def test_the_number_of_robots_and_the_shield_are_named_alike_everywhere(tmp_path):
    for name in ("train", "eval", "play", "verify", "deploy"):
        text = here(name, "--help").stdout
        assert "--robots" in text and "--num-agents" not in text and "--teams" not in text, name
    for name in ("eval", "play"):  # as on the robot, unless it is taken away
        assert "--no-shield" in here(name, "--help").stdout
    (tmp_path / "afile").touch()
    assert_one_line_error(here("train", "hover", "--out", "afile", cwd=tmp_path), "afile: is a file, wanted a folder")
    (tmp_path / "flown").mkdir()
    (tmp_path / "flown" / "report.html").touch()
    assert_one_line_error(here("deploy", "hover", "--out", "flown", cwd=tmp_path), "--out flown: exists already")
    assert_one_line_error(here("train", "hover", "--robots", "0"), "robots = 0")
    for command in ("eval", "play"):  # by the name that was typed
        assert_one_line_error(here(command, "hover", "--episodes", "0"), "episodes = 0: at least 1")
    for episodes in ("0", "2000000"):  # more than a record may hold
        assert_one_line_error(here("verify", "hover", "--episodes", episodes), f"episodes = {episodes}: 1 to 1000000")
    assert_one_line_error(here("verify", "flown", cwd=tmp_path), "no checkpoint at flown/checkpoint.pt")
    assert_one_line_error(here("eval", "hover", "--agent", "zero", "--seed", "-3"), "seed = -3")


def test_what_keeps_a_flight_from_its_folder_is_said_without_numbers_of_errors(monkeypatch, capsys):
    assert_one_line_error(here("demo", "--out", "/proc/x"), "/proc/x: No such file or directory")
    assert "Errno" not in here("demo", "--out", "/proc/x").stderr
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=3e6))
    with pytest.raises(ValueError, match="--out runs/new: 3 MB are free on its disk; logs and bag need 100"):
        with_room(Path("runs/new"))
    zoo = ZOO
    for file, robots, warns in (("payload-lift", 2, True), ("payload-lift", 3, False), ("swarm-swap", 8, False)):
        bundle = load_bundle(zoo / f"{file}.onnx")
        warn_of_size({zoo / f"{file}.onnx": bundle}, robots)
        says = " ".join(capsys.readouterr().err.split())
        assert says.endswith("was trained with 3 robots, not verified with 2") if warns else says == ""


def test_two_runs_of_the_same_moment_have_folders_of_their_own(tmp_path):
    (tmp_path / "deploy" / "2").mkdir(parents=True)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: fresh_folder(tmp_path / "deploy"), range(32)))
    assert sorted(int(folder.name) for folder in found) == [1, *range(3, 34)]
    assert all(folder.is_dir() for folder in found)


def test_a_command_that_refuses_leaves_no_folder_behind(tmp_path):
    with pytest.raises(ValueError), results_folder(None, tmp_path / "deploy") as folder:
        assert folder.is_dir()
        raise ValueError
    assert not folder.exists()
    with results_folder(None, tmp_path / "deploy") as folder:
        (folder / "logs").mkdir()
    assert folder.is_dir()
    with results_folder(tmp_path, tmp_path / "deploy") as given:
        pass
    assert given == tmp_path and tmp_path.is_dir()


def test_where_policy_files_go_is_looked_at_before_the_run_is_read(tmp_path):
    (tmp_path / "run.json").write_text('{"algorithm": {"arm": {}, "drone": {}}}')
    check_files_out(tmp_path, None, tmp_path)
    with pytest.raises(ValueError, match="is a folder, wanted a file"):
        check_files_out(tmp_path, "arm", tmp_path)
    with pytest.raises(ValueError, match="is a file, wanted a folder"):
        check_files_out(tmp_path, None, tmp_path / "run.json")


def test_a_folder_that_cannot_be_written_is_named_before_any_work(monkeypatch, tmp_path):
    monkeypatch.setattr("os.access", lambda path, how: path != tmp_path)
    done = here("train", "hover", "--out", str(tmp_path / "run"))
    assert_one_line_error(done, f"out = {tmp_path}/run: {tmp_path} cannot be written")


def test_logs_that_ros_cannot_write_are_one_line(tmp_path):
    (tmp_path / "file").touch()
    args = [sys.executable, "-m", "phalanx", "monitor", "--once", "--domain", "5"]
    env = os.environ | {"ROS_LOG_DIR": str(tmp_path / "file" / "logs")}
    done = subprocess.run(args, env=env, capture_output=True, text=True)
    assert_one_line_error(done, "set ROS_LOG_DIR to a folder that can be written")


def test_a_damaged_record_of_a_run_is_named(tmp_path):
    (tmp_path / "run.json").write_text("{")
    assert_one_line_error(here("train", "--resume", str(tmp_path)), f"{tmp_path}/run.json: is damaged")


def test_a_demo_that_is_interrupted_says_how_its_training_goes_on(monkeypatch, tmp_path):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "_train", press)
    with pytest.raises(KeyboardInterrupt, match=f"phalanx train --resume {tmp_path}/train"):
        run_command(quick=True, out_dir=tmp_path)
    monkeypatch.setattr(stages, "_train", lambda *_: {})
    monkeypatch.setattr(stages, "_export", press)
    with pytest.raises(KeyboardInterrupt, match=f"trained is there: phalanx verify {tmp_path}/train"):
        run_command(quick=True, out_dir=tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_exported")
def test_a_run_is_played_and_evaluated_as_a_file_is(tmp_path):
    run = tmp_path / "run"
    options = ("--num-envs", "8", "--steps", "1000", "--task.episode-s", "1", "--keep-every", "1")
    assert here("train", "hover", "--out", str(run), *options).returncode == 0
    assert (run / "iteration-000001.pt").exists()
    assert '"duration_s":1.0,' in (run / "best.html").read_text(), (
        "an episode of the best, as long as it was in training"
    )
    for subject in (run, run / "checkpoint.pt"):
        done = here("play", str(subject), "--json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["task"] == "hover" and found["episodes"][0]["duration_s"] <= 1.0, "the task as it was trained"
    done = here("eval", str(run), "--episodes", "4", "--json")
    assert done.returncode == 0, done.stderr
    written = (run / "best.onnx").stat().st_mtime_ns
    done = here("verify", str(run), "--episodes", "4", "--json")
    verdict = json.loads(done.stdout)
    assert (
        verdict["bundle"] == str(run / "best.onnx")
        and verdict["parity"]["between"] == "torch controller and policy file"
    )
    assert (run / "best.onnx").stat().st_mtime_ns == written, "the file that training wrote is taken"
    (run / "best.html").unlink()
    for again in (["--no-film"], []):  # which the run remembers, as it does what it was begun with
        assert here("train", "--resume", str(run), *again).returncode == 0 and not (run / "best.html").exists()
    (run / "best.html").mkdir()
    done = here("train", "--resume", str(run), "--film")
    assert done.returncode == 0 and "no film of the best policies: " in done.stderr, "training is over all the same"
    assert_one_line_error(here("play", str(run), str(ZOO / "hover.onnx")), "give it alone")


def test_verify_says_before_it_flies_that_so_few_starts_cannot_show_what_is_asked():
    done = here("verify", str(ZOO / "hover.onnx"), "--episodes", "2")
    few = "warning: 2 episodes cannot show 0.99: at least 381 are needed; this ends as not shown at best"
    assert done.stderr.splitlines()[0] == few and "not shown" in done.stdout
    contract = load_bundle(ZOO / "hover.onnx").contract
    assert too_few_asked(contract, VerifyCfg(num_worlds=380)) == (0.99, 381)
    assert too_few_asked(contract, VerifyCfg(num_worlds=381)) is too_few_asked(contract, VerifyCfg()) is None


@pytest.fixture
def project(tmp_path) -> Path:
    """A folder of a user's that has a `sim` and a `policies` of its own."""
    for name in ("sim", "policies"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "deploy").mkdir()  # hides nothing: Python passes by a folder without __init__.py
    return tmp_path


@pytest.mark.slow
def test_a_project_with_a_sim_of_its_own_does_not_get_in_the_way(project):
    done = phalanx("play", "hover", "--agent", "zero", "--no-shield", cwd=project)
    assert done.returncode == 0, done.stderr


def test_the_doctor_sees_and_explains_the_clash(project):
    found = json.loads(phalanx("doctor", "--json", cwd=project).stdout)["checks"]
    clash = {check["name"]: check for check in found if check["group"] == "names" and check["status"] != "ok"}
    assert set(clash) == {"sim", "policies"}
    assert str(project / "sim") in clash["sim"]["found"] and "rename" in clash["sim"]["hint"]


@pytest.mark.slow
def test_processes_that_are_started_from_such_a_project_find_the_package_too(project):
    """As the nodes of a mission are: `python -m` puts the working directory first."""
    code = (
        "import subprocess, sys; from phalanx.names import put_own_packages_first; put_own_packages_first(); "
        "subprocess.run([sys.executable, '-c', 'import sim.task, own; print(sim.__file__, own.__file__)'], check=True)"
    )
    (project / "own.py").touch()
    script = project / "start.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=project)
    assert done.returncode == 0, done.stderr
    package, own = done.stdout.split()
    assert not package.startswith(str(project)) and own.startswith(str(project))
