"""Hidden numbers of simulated robots are found in recordings of them, and what a recording does not tell is said."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from places import ZOO

pytest.importorskip("scipy")
from recorded import FLIGHT, JOINT_NOISE, NOISE, fly_about, record, wave

from hardware import load_robot
from hardware.overlay import load_overlay, quantities
from phalanx.cli import main
from phalanx.commands.identify import _show
from sim.envs.team_env import TeamEnv
from sim.identification.recording import read_recording
from sim.scenes.scene import Members, compose_scene
from sim.task import Start
from sim.tasks import load_task

FLOWN = {"thrust": 0.88, "drag": 1.6, "actuator_delay_s": 0.012}
FIRMWARE = {**FLOWN, "rate_loop.lag": 0.8, "rate_loop.gain": 1.25}
OWN = {**FLOWN, "mass_kg": 0.047, "own_loop.lag": 1.4, "own_loop.speed": 0.8}
ARM = {"actuator_delay_s": 0.01, "tool_mass_kg": 0.6}


def identified(tmp_path, capsys, table, *args):
    """As `run_identify`, of a table."""
    np.savez(tmp_path / "recording.npz", **table)
    return run_identify(tmp_path / "recording.npz", capsys, *args)


def run_identify(recording, capsys, *args):
    """What the command prints as JSON of a recording, and the robot that its file names."""
    out = recording.with_name("it@lab.yaml")
    with pytest.raises(SystemExit) as end:
        main(["identify", str(recording), *args, "--out", str(out), "--json"])
    assert end.value.code == 0
    return json.loads(capsys.readouterr().out), load_robot(str(out))


def assert_found(found, hidden, spec, least=0.8):
    """At least a share of the hidden numbers is in its interval, and all are in twice its width."""
    numbers, inside = found["numbers"], []
    for name, number in numbers.items():
        true, half = hidden.get(name, quantities(spec)[name].nominal), (number["high"] - number["low"]) / 2
        inside.append(number["low"] <= true <= number["high"])
        assert abs(number["value"] - true) < 2 * half, (name, number, true)
    assert np.mean(inside) >= least, numbers


@pytest.mark.slow
@pytest.mark.parametrize(("loop", "hidden", "known"), [("firmware", FIRMWARE, ()), ("model", OWN, ("mass_kg=0.047",))])
def test_the_numbers_of_a_crazyflie_are_found_in_a_flight(tmp_path, capsys, loop, hidden, known):
    flight = record("crazyflie", hidden, fly_about, 4.5, NOISE, FLIGHT, firmware=loop == "firmware")
    args = ("--known", *known) if known else ()
    found, spec = identified(tmp_path, capsys, flight, "--robot", "crazyflie", *args)
    assert found["rate_loop"] == loop
    assert_found(found, hidden, load_robot("crazyflie"))
    assert {"thrust", "drag", "actuator_delay_s"} <= found["numbers"].keys()
    gap = {row["signal"]: row for row in found["gap"]["held_out"]}
    assert gap["velocity z"]["after"] < 0.3 * gap["velocity z"]["before"]
    assert gap["velocity z"]["after"] < 1.2 * NOISE.lin_vel_m_s
    assert known or "thrust" in found["not_identifiable"]["mass_kg"]  # which of the two it is, only a scale can tell
    assert spec.overlay["thrust"] == found["numbers"]["thrust"]["value"]


@pytest.mark.slow
def test_the_numbers_of_an_arm_are_found_joint_by_joint(tmp_path, capsys):
    spec, rng = load_robot("panda"), np.random.default_rng(1)
    names = [f"{joint.name}.{name}" for joint in spec.joints[:7] for name in ("stiffness", "damping", "friction")]
    hidden = ARM | {name: quantities(spec)[name].nominal * rng.uniform(0.7, 1.4) for name in names}
    moved = record("panda", hidden, wave(spec), 5.0, JOINT_NOISE, Start(command={}))
    gains = [f"{name}={value}" for name, value in hidden.items() if "stiffness" in name]  # as they were set
    found, arm = identified(tmp_path, capsys, moved, "--robot", "panda", "--known", *gains)
    assert_found(found, hidden, spec)
    _show(found)
    shown = capsys.readouterr().out
    assert "joint7.damping" in shown and "the part that was held out" in shown and "hardly depends on it" in shown
    damped = {f"joint{j}.damping" for j in range(1, 8)}
    assert not damped & found["not_identifiable"].keys()
    gap = {row["signal"]: row for row in found["gap"]["held_out"]}
    assert all(gap[f"joint{j} velocity"]["after"] < 1.3 * JOINT_NOISE.joint_vel_rad_s for j in range(1, 8)), gap
    model = compose_scene([Members(arm, 1)]).model  # as every scene has it from now on
    assert model.actuator("robot0/joint1").gainprm[0] == pytest.approx(hidden["joint1.stiffness"])


def test_an_overlay_is_a_robot_with_other_numbers(tmp_path):
    file = tmp_path / "cf@lab.yaml"
    number = "{value: %g, low: %g, high: %g}"
    lines = [f"mass_kg: {number % (0.05, 0.049, 0.051)}", f"drag: {number % (2, 1.9, 2.1)}"]
    file.write_text(f"robot: crazyflie\nnumbers:\n  {lines[0]}\n  {lines[1]}\n")
    spec, plain = load_robot(str(file)), load_robot("crazyflie")
    assert (spec.name, spec.mass_kg) == ("crazyflie", 0.05)
    model, before = (compose_scene([Members(each, 1)]).model for each in (spec, plain))
    assert model.body_mass.sum() == pytest.approx(0.05)
    assert model.body_inertia[1] == pytest.approx(before.body_inertia[1] * 0.05 / plain.mass_kg)
    assert model.actuator("robot0/drag_x").biasprm[2] == 2 * before.actuator("robot0/drag_x").biasprm[2]
    assert load_overlay(file).numbers["drag"].high == 2.1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("robot: crazyflie\nnumbers: {dragg: {value: 1, low: 1, high: 1}}", "no 'dragg'; did you mean 'drag'?"),
        ("robot: crazyflie\nnumbers: {drag: {value: 1, low: 2, high: 1}}", "low 2, value 1, high 1"),
        ("robot: crazyfly\nnumbers: {}", "did you mean 'crazyflie'?"),
        ("robot: bad.yaml\nnumbers: {}", "bad.yaml: wanted a kind of robot, not another overlay"),
        ("robot: crazyflie\nnumbers: {mass_kg: {value: 0, low: 0, high: 1}}", "mass_kg = 0: above 0"),
        ("robot: crazyflie\nnumbers: {drag: {value: -1, low: -1, high: 1}}", "drag = -1: 0 or more"),
        ("numbers: {}", "missing required field `robot`"),
        ("[", "is not YAML"),
        ("robot: crazyflie\nrobot: x500\nnumbers: {}", "line 2: 'robot' is there twice"),
    ],
)
def test_a_file_that_is_no_overlay_is_refused_in_one_line(tmp_path, text, why):
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        load_robot(str(file))
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["none.npz"], "no such recording"),
        (["short.npz"], "too few"),
        (["other.npz"], "no column 'thrust'"),
        (["short.npz", "--known", "mass=1"], "no 'mass'"),
        (["short.npz", "--known", "mass_kg=heavy"], "wanted NUMBER=VALUE"),
        (["short.npz", "--known", "mass_kg=0"], "--known mass_kg = 0: above 0"),
        (["short.npz", "--known", "drag=-1"], "--known drag = -1: 0 or more"),
        (["short.npz", "--window-s", "0"], "window_s = 0"),
        (["uneven.npz"], "column 'pos_x' has shape (), time_s (10,)"),
        (["stamps.npz"], "time_s does not increase"),
        (["turned.npz"], "the quaternion wxyz has a length of 0; wanted 1"),
        (["empty.csv"], "it has no rows"),
        (["bom.csv"], "no column 'pos_x'"),
        ([".", "--name", "cf1"], ".: has no metadata.yaml, so it is no bag"),
    ],
)
def test_a_recording_that_cannot_be_used_is_refused_in_one_line(tmp_path, capsys, monkeypatch, args, why):
    pytest.importorskip("rosbags")
    monkeypatch.chdir(tmp_path)
    row = record("crazyflie", {}, fly_about, 0.02, NOISE, FLIGHT)
    np.savez("short.npz", **row)
    np.savez("other.npz", **{name: column for name, column in row.items() if name != "thrust"})
    rows = record("crazyflie", {}, fly_about, 0.1, NOISE, FLIGHT)
    np.savez("uneven.npz", **rows | {"pos_x": np.float64(0.0)})
    np.savez("stamps.npz", **rows | {"time_s": np.where(np.arange(10) == 4, np.nan, rows["time_s"])})
    np.savez("turned.npz", **rows | {f"quat_{axis}": np.zeros(10) for axis in "wxyz"})
    Path("empty.csv").write_text("time_s,pos_x\n")
    Path("bom.csv").write_bytes("\ufefftime_s,pos_y\n0,1\n1,2\n".encode())
    with pytest.raises(SystemExit) as end:
        main(["identify", *args, "--robot", "crazyflie"])
    said = capsys.readouterr().err
    assert end.value.code == 2 and why in said and said.count("\n") == 1
    assert not list(tmp_path.glob("*.yaml"))


def test_a_robot_that_is_an_overlay_is_refused_before_it_is_overwritten_by_one_of_itself(tmp_path, capsys):
    file = tmp_path / "crazyflie@lab.yaml"
    file.write_text("robot: crazyflie\nnumbers: {mass_kg: {value: 0.05, low: 0.049, high: 0.051}}")
    before = file.read_bytes()
    with pytest.raises(SystemExit) as end:
        main(["identify", "none.npz", "--robot", str(file), "--out", str(file)])
    assert end.value.code == 2 and "wanted the kind of robot, crazyflie" in capsys.readouterr().err
    assert file.read_bytes() == before


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_bag_is_read_as_the_table_of_the_same_flight(tmp_path, storage):
    rosbags = pytest.importorskip("rosbags.typesys")
    pytest.importorskip("rclpy")
    from rosbags.rosbag2 import StoragePlugin, Writer

    from ros_nodes.messages.bag import Bag

    spec, flight = load_robot("crazyflie"), record("crazyflie", {}, fly_about, 0.4, NOISE, FLIGHT)
    np.savez(tmp_path / "flight.npz", **flight)
    store = rosbags.get_typestore(rosbags.Stores.ROS2_JAZZY)
    make = {name.split("/")[-1]: kind for name, kind in store.types.items()}
    zeros, frame = np.zeros(36), "world"
    sqlite = partial(Writer, version=9, storage_plugin=StoragePlugin.SQLITE3)
    with (Bag if storage == "mcap" else sqlite)(tmp_path / "bag") as bag:
        kinds = {"/cf1/odom": "nav_msgs/msg/Odometry", "/cf1/command": "sensor_msgs/msg/JointState"}
        to = {topic: bag.add_connection(topic, kind, typestore=store) for topic, kind in kinds.items()}
        for row in zip(*flight.values(), strict=True):
            now, each = dict(zip(flight, row, strict=True)), 5_000_000_000 + round(row[0] * 1e9)
            stamp = make["Header"](make["Time"](each // 10**9, each % 10**9), frame)
            vector = [make["Vector3"](*(now[f"{what}_{axis}"] for axis in "xyz")) for what in ("vel", "rate")]
            place = make["Point"](*(now[f"pos_{axis}"] for axis in "xyz"))
            pose = make["Pose"](place, make["Quaternion"](*(now[f"quat_{axis}"] for axis in "xyzw")))
            both = make["PoseWithCovariance"](pose, zeros), make["TwistWithCovariance"](make["Twist"](*vector), zeros)
            bag.write(
                to["/cf1/odom"], each, store.serialize_cdr(make["Odometry"](stamp, "cf1", *both), kinds["/cf1/odom"])
            )
            asked = np.array([now[name] for name in spec.channel_names])
            rates, thrust = (np.where(np.arange(4) == 0, *pair) for pair in ((np.nan, asked), (asked, np.nan)))
            command = make["JointState"](stamp, list(spec.channel_names), np.empty(0), rates, thrust)
            bag.write(to["/cf1/command"], each, store.serialize_cdr(command, kinds["/cf1/command"]))
    (file,) = (tmp_path / "bag").glob("*.mcap" if storage == "mcap" else "*.db3")
    table = read_recording(tmp_path / "flight.npz", spec)
    for path in (tmp_path / "bag", file, tmp_path):  # the last as what a deployment wrote
        bagged = read_recording(path, spec)
        np.testing.assert_allclose(bagged.rows, table.rows[: len(bagged.rows)], atol=1e-6)
    np.testing.assert_allclose(bagged.command[::2][: len(table.command)], table.command, atol=1e-6)
    with pytest.raises(ValueError, match="has no crazyflie called 'cf2'; it has cf1"):
        read_recording(tmp_path / "bag", spec, "cf2")


IDENTIFIED = """
robot: crazyflie
numbers:
  mass_kg: {value: 0.0442, low: 0.0442, high: 0.0442}
  thrust: {value: 0.9, low: 0.891, high: 0.918}
  rate_loop.gain: {value: 1.2, low: 1.14, high: 1.26}
  rate_loop.lag: {value: 0.8, low: 0.1, high: 1.5}
  actuator_delay_s: {value: 0.01, low: 0.008, high: 0.012}
"""


def test_a_task_for_one_robot_is_varied_within_its_intervals_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cf@lab.yaml").write_text(IDENTIFIED)
    task, plain = load_task("hover@cf@lab.yaml"), load_task("hover").group.randomisation
    varied = task.group.randomisation
    assert varied["mass"].params["scale"] == (1.0, 1.0)
    assert varied["thrust"].params["scale"] == pytest.approx((0.99, 1.02))
    assert varied["rate_loop"].params["gain"] == pytest.approx((0.95, 1.05)) and varied["rate_loop"].params["own"] == 0
    assert varied["rate_loop"].params["lag"] == plain["rate_loop"].params["lag"]  # which knew more than this interval
    assert varied["actuator_delay"].params["range_s"] == (0.008, 0.012)
    assert varied["wind"] == plain["wind"]
    env = TeamEnv(task, num_envs=2, seed=0)
    env.reset()
    assert env.world.scene.model.body_mass.sum() == pytest.approx(0.0442)
    with pytest.raises(ValueError, match=r"cf@lab.yaml: is a crazyflie; 'reach' is a task for panda"):
        load_task("reach@cf@lab.yaml")


def test_a_policy_that_was_not_trained_for_this_robot_is_refused(tmp_path, capsys):
    file = tmp_path / "cf@lab.yaml"
    file.write_text(IDENTIFIED.replace("value: 1.2, low: 1.14, high: 1.26", "value: 1.9, low: 1.8, high: 2"))
    with pytest.raises(SystemExit) as end:
        main(["verify", str(ZOO / "hover.onnx"), "--overlay", str(file)])
    said = capsys.readouterr().err
    assert end.value.code == 2 and "is for flight.rate_loop.gain.proportional.roll from" in said, said
    (tmp_path / "cf2@lab.yaml").write_text(IDENTIFIED)
    team = tmp_path / "team.yaml"
    pytest.importorskip("rclpy")
    from ros_nodes.plans.team_file import load_team
    from ros_nodes.plans.team_mission import team_mission

    team.write_text(f"robots: [{{name: cf1, bundle: {ZOO / 'hover.onnx'}, type: cf2@lab.yaml}}]")
    (member,) = team_mission(load_team(team)).team
    assert load_robot(member.robot).mass_kg == 0.0442  # as its nodes, simulated ones too, know it
