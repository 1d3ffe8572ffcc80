"""A recording from a busy machine tells `identify` nothing that is not so: gaps, late commands, clocks that step."""

import os
import re

import numpy as np
import pytest

pytest.importorskip("rosbags")
pytest.importorskip("rclpy")
pytest.importorskip("scipy")
from recorded import FLIGHT, NOISE, fly_about, record
from rosbags.typesys import Stores, get_typestore
from test_identify import assert_found, run_identify

from hardware import load_robot
from phalanx.cli import main
from phalanx.commands.identify import _recorded
from ros_nodes.messages.bag import Bag
from sim.identification import bag
from sim.identification.identify import BEFORE_S, STEP_S, WINDOW_S, rhythm_of
from sim.identification.recording import read_recording, row_names
from sim.identification.windows import make_windows

STORE = get_typestore(Stores.ROS2_JAZZY)
SPEC = load_robot("crazyflie")
BEGAN_S, HEARD_S = 5.0, 0.002
KINDS = {"/cf1/odom": "nav_msgs/msg/Odometry", "/cf1/sent": "sensor_msgs/msg/JointState"}
KINDS["/cf1/command"] = KINDS["/cf1/sent"]


@pytest.fixture(scope="module")
def flight():
    return record("crazyflie", {"thrust": 0.88, "drag": 1.6}, fly_about, 7.0, NOISE, FLIGHT, firmware=True)


def late(count, share, most_s, seed=0):
    """By how much each of `count` commands is heard late, s."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(count) < share, rng.uniform(0.02, most_s, count), 0.0)


def write_bag(folder, flight, late_s, published=True, back_s=0.0, gaps=()):
    """A flight as a recorder hears it, its commands by `late_s` (K,) late; `back_s` the clock is set in the middle.

    Measurements between the (begin, end) of `gaps` are missing. `published`: whether it says when commands were sent.
    """
    make = {name.split("/")[-1]: kind for name, kind in STORE.types.items()}
    names, rates, zeros = list(SPEC.channel_names), ("thrust", "roll_rate", "pitch_rate", "yaw_rate"), np.zeros(36)
    assert names == list(rates)
    number = 0
    with Bag(folder) as bag:
        to = {topic: bag.add_connection(topic, kind, typestore=STORE) for topic, kind in KINDS.items()}

        def say(topic, message, heard_s, sent_s):
            data = STORE.serialize_cdr(message, KINDS[topic])
            bag.write(to[topic], round(1e9 * heard_s), data, round(1e9 * sent_s) * published)

        for row in zip(*flight.values(), strict=True):
            now = dict(zip(flight, row, strict=True))
            heard_s, at_s = BEGAN_S + now["time_s"], BEGAN_S + now["time_s"]
            at_s -= back_s * (now["time_s"] > 0.5 * flight["time_s"][-1])
            stamp = make["Header"](make["Time"](int(at_s), round(at_s % 1.0 * 1e9)), "world")
            if not any(begin < now["time_s"] < end for begin, end in gaps):
                vector = [make["Vector3"](*(now[f"{what}_{axis}"] for axis in "xyz")) for what in ("vel", "rate")]
                place = make["Point"](*(now[f"pos_{axis}"] for axis in "xyz"))
                pose = make["Pose"](place, make["Quaternion"](*(now[f"quat_{axis}"] for axis in "xyzw")))
                both = (
                    make["PoseWithCovariance"](pose, zeros),
                    make["TwistWithCovariance"](make["Twist"](*vector), zeros),
                )
                say("/cf1/odom", make["Odometry"](stamp, "cf1", *both), heard_s + HEARD_S, at_s)
            if round(100 * now["time_s"]) % 2 == 0:
                asked = np.array([now[name] for name in names])
                turn, push = (np.where(np.arange(4) == 0, *pair) for pair in ((np.nan, asked), (asked, np.nan)))
                command = make["JointState"](stamp, names, np.empty(0), turn, push)
                for topic in ("/cf1/command", "/cf1/sent"):
                    say(topic, command, heard_s + HEARD_S + late_s[number], at_s)
                number += 1
    return folder


def said(recording):
    return " | ".join(_recorded(rhythm_of(recording)))


def windows(recording):
    return make_windows(recording, SPEC, WINDOW_S["drone"], BEFORE_S, STEP_S, 60)


def test_commands_that_were_recorded_late_are_replayed_as_they_were_sent(tmp_path, flight):
    count = (len(flight["time_s"]) + 1) // 2
    punctual = read_recording(write_bag(tmp_path / "a", flight, np.zeros(count)), SPEC)
    busy = read_recording(write_bag(tmp_path / "b", flight, late(count, 0.4, 0.12)), SPEC)
    np.testing.assert_allclose(busy.command_s, punctual.command_s, atol=1e-6)
    np.testing.assert_array_equal(busy.command, punctual.command)
    assert re.search(
        r"commands: (3[5-9]|4[0-5])% were recorded up to 12\d ms late; replayed as they were sent", said(busy)
    )
    assert "late" not in said(punctual)


def test_where_a_bag_does_not_say_when_commands_were_sent_what_is_about_late_ones_is_left_out(tmp_path, flight):
    count = (len(flight["time_s"]) + 1) // 2
    late_s = np.zeros(count)
    late_s[[100, 200]] = 0.06
    busy = read_recording(write_bag(tmp_path / "a", flight, late_s, published=False), SPEC)
    assert "commands: 1% came or were recorded up to 60 ms late; left out" in said(busy)
    begins = windows(busy).begin_s
    for true_s in flight["time_s"][[200, 400]]:
        assert not ((begins - BEFORE_S < true_s) & (true_s + 0.06 < begins + WINDOW_S["drone"])).any()
    assert len(begins) >= 8


def test_a_recording_of_which_too_little_is_left_is_refused_with_what_its_machine_did(tmp_path, flight, capsys):
    count = (len(flight["time_s"]) + 1) // 2
    bag = write_bag(tmp_path / "a", flight, late(count, 0.31, 0.1), published=False)
    with pytest.raises(SystemExit) as end:
        main(["identify", str(bag), "--robot", "crazyflie", "--out", str(tmp_path / "it.yaml")])
    refused = capsys.readouterr().err
    assert end.value.code == 2 and refused.count("\n") == 1
    assert re.search(r"\d+% of its commands were recorded late .* on a machine with less to do", refused), refused


def test_a_bag_that_grows_while_it_is_read_is_read(tmp_path, flight, monkeypatch):
    written = write_bag(tmp_path / "a", flight, np.zeros((len(flight["time_s"]) + 1) // 2))
    whole, read = read_recording(written, SPEC), bag._published
    monkeypatch.setattr(bag, "_published", lambda *args: [*read(*args), 10**12, 10**12])
    np.testing.assert_array_equal(read_recording(written, SPEC).command_s, whole.command_s)


def test_gaps_and_a_clock_that_steps_back_are_said_and_not_bridged(tmp_path, flight):
    count = (len(flight["time_s"]) + 1) // 2
    gapped = read_recording(write_bag(tmp_path / "a", flight, np.zeros(count), gaps=[(3.0, 3.2)]), SPEC)
    assert re.search(r"measurements: 1 pauses of more than 15 ms, (19|20) missed, (200|210) ms at most", said(gapped))
    begins = windows(gapped).begin_s
    assert not ((begins - BEFORE_S < 3.199) & (begins + WINDOW_S["drone"] > 3.001)).any()
    stepped = read_recording(write_bag(tmp_path / "b", flight, np.zeros(count), back_s=2.0), SPEC)
    assert "measurements: the clock was set back 1 times, by up to 1.99 s" in said(stepped)
    assert stepped.time_s[-1] == pytest.approx(flight["time_s"][-1] / 2, abs=0.05)
    assert stepped.command_s.max() < stepped.time_s[-1] + 0.05


def test_a_drone_that_stands_on_its_legs_is_not_in_the_air(tmp_path):
    spec, time_s = load_robot("x500"), np.arange(0.0, 8.0, 0.01)
    rows = {name: np.zeros(len(time_s)) for name in row_names(spec)}
    rows |= {"quat_w": np.ones(len(time_s)), "pos_z": np.where(time_s < 4.0, spec.home_height_m, 1.5)}
    commands = {name: 0.001 * np.sin(time_s) for name in spec.channel_names}
    np.savez(tmp_path / "it.npz", time_s=time_s, **rows, **commands)
    begins = make_windows(read_recording(tmp_path / "it.npz", spec), spec, 0.4, BEFORE_S, STEP_S, 60).begin_s
    assert len(begins) >= 8 and begins.min() - BEFORE_S >= 3.99


@pytest.mark.slow
def test_the_numbers_of_a_drone_are_found_in_a_recording_of_a_busy_machine(tmp_path, flight, capsys):
    bag = write_bag(tmp_path / "a", flight, late((len(flight["time_s"]) + 1) // 2, 0.4, 0.12))
    found, _ = run_identify(bag, capsys, "--robot", "crazyflie")
    assert found["rate_loop"] == "firmware"
    assert_found(found, {"thrust": 0.88, "drag": 1.6}, SPEC)


@pytest.mark.parametrize("name", ["pipe", "pipe.npz", "pipe.ulg", "bag/pipe.mcap"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, capsys, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / name)
    path = tmp_path / name.partition("/")[0]
    with pytest.raises(SystemExit) as end:
        main(["identify", str(path), "--robot", "crazyflie", "--out", str(tmp_path / "it.yaml")])
    assert end.value.code == 2
    assert "is neither a file nor a folder" in capsys.readouterr().err.replace("\n", " ")
