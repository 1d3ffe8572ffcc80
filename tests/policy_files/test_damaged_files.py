"""Files that are damaged, or that someone made to do harm, are refused in one line."""

import sqlite3

import numpy as np
import pytest

from hardware import load_robot
from hardware.yaml_file import read_yaml

CRAZYFLIE = load_robot("crazyflie")


@pytest.mark.parametrize("opening", ["[", "{a: "])
@pytest.mark.parametrize("times", [300, 3000, 100_000])
def test_yaml_that_goes_deep_is_refused(tmp_path, opening, times):
    (tmp_path / "it.yaml").write_text(f"robots: {opening * times}")
    with pytest.raises(ValueError, match="inside each other"):
        read_yaml(tmp_path / "it.yaml")


def _read(path):
    pytest.importorskip("mujoco")
    from sim.identification.recording import read_recording

    return read_recording(path, CRAZYFLIE)


def test_an_empty_table_is_refused(tmp_path):
    (tmp_path / "it.npz").write_bytes(b"")
    with pytest.raises(ValueError, match="cannot be read as a table"):
        _read(tmp_path / "it.npz")


@pytest.mark.parametrize("end", [1e6, 1e12])
def test_a_stamp_that_is_years_away_is_refused(tmp_path, end):
    from sim.identification.recording import row_names

    names = ["time_s", *row_names(CRAZYFLIE), *CRAZYFLIE.channel_names]
    rows = np.ones((9, len(names)))
    rows[:, 0] = [*np.arange(8) * 0.01, end]
    np.savetxt(tmp_path / "it.csv", rows, delimiter=",", header=",".join(names), comments="")
    with pytest.raises(ValueError, match="at most 21600 s"):
        _read(tmp_path / "it.csv")


@pytest.mark.parametrize("tail", [b"", b"\x01" + (2**40).to_bytes(8, "little") + bytes(100) + b"\x89MCAP0\r\n"])
def test_a_bag_that_was_cut_off_or_says_it_is_huge_is_refused(tmp_path, tail):
    pytest.importorskip("rosbags")
    (tmp_path / "it.mcap").write_bytes(b"\x89MCAP0\r\n" + tail)
    with pytest.raises(ValueError, match="cannot be read as a bag"):
        _read(tmp_path / "it.mcap")


def test_text_in_place_of_messages_is_refused(tmp_path):
    pytest.importorskip("rosbags")
    with sqlite3.connect(tmp_path / "it.db3") as file:
        file.execute(
            "create table topics(id integer, name text, type text, serialization_format text,"
            " offered_qos_profiles text)"
        )
        file.execute("create table messages(id integer, topic_id integer, timestamp integer, data blob)")
        file.execute("insert into topics values(1, '/cf1/command', 'std_msgs/msg/Float64MultiArray', 'cdr', '')")
        file.execute("insert into messages values(1, 1, 0, 'text')")
    with pytest.raises(ValueError, match="cannot be read as a bag"):
        _read(tmp_path / "it.db3")


def test_a_name_of_two_lines_is_refused(tmp_path):
    pytest.importorskip("rclpy")
    from ros_nodes.plans.team_file import TeamError, load_team

    (tmp_path / "it.yaml").write_text('robots:\n  - {name: "cf1\\n", bundle: none.onnx}\n')
    with pytest.raises(TeamError, match="name = cf1"):
        load_team(tmp_path / "it.yaml")
