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


@pytest.mark.parametrize(
    "value", ["2001-99-99", "!!int x", "!!bool x", "9" * 5000], ids=["date", "int", "bool", "digits"]
)
def test_a_value_that_looks_like_a_date_or_a_number_and_is_none_is_refused_by_the_name_of_its_file(tmp_path, value):
    file = tmp_path / "it.yaml"
    file.write_text(f"a: {value}")
    with pytest.raises(ValueError, match="is not YAML") as refused:
        read_yaml(file)
    assert str(refused.value).startswith(f"{file}: ")


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


def rewritten(bag, to, **written):
    """A bag with one topic, as another program would write it."""
    from mcap.reader import make_reader
    from mcap.writer import Writer

    with bag.open("rb") as file, to.open("wb") as out:
        reader, writer = make_reader(file), Writer(out, **written)
        writer.start(profile="ros2")
        (schema,), (channel,) = reader.get_summary().schemas.values(), reader.get_summary().channels.values()
        kind = writer.register_schema(schema.name, schema.encoding, schema.data)
        topic = writer.register_channel(channel.topic, channel.message_encoding, kind, channel.metadata)
        for _, _, message in reader.iter_messages():
            writer.add_message(topic, message.log_time, message.data, message.publish_time)
        writer.finish()


def test_a_bag_that_another_program_wrote_or_that_is_none_is_refused_by_its_name_and_in_words(tmp_path):
    pytest.importorskip("rclpy")
    from mcap.writer import IndexType
    from rosbags.typesys import Stores, get_typestore

    from ros_nodes.messages.bag import Bag

    store, kind = get_typestore(Stores.ROS2_JAZZY), "std_msgs/msg/String"
    with Bag(tmp_path / "bag") as bag:
        topic = bag.add_connection("/cf1/command", kind, typestore=store)
        bag.write(topic, 5, store.serialize_cdr(store.types[kind](data="on"), kind))
    whole = tmp_path / "bag" / "bag.mcap"
    rewritten(whole, tmp_path / "a.mcap", index_types=IndexType.CHUNK)
    rewritten(whole, tmp_path / "b.mcap", repeat_schemas=False)
    (tmp_path / "old.bag").write_bytes(whole.read_bytes())
    (tmp_path / "no").mkdir()
    (tmp_path / "cut").mkdir()
    for name in ("metadata.yaml", "bag.mcap"):
        data = (tmp_path / "bag" / name).read_bytes()
        (tmp_path / "cut" / name).write_bytes(data if name == "metadata.yaml" else data[:-40])
    for name, where, said in (
        ("a.mcap", "a.mcap", "cannot be read as a bag: its index is not whole; `mcap recover` rebuilds it"),
        ("b.mcap", "b.mcap", "cannot be read as a bag: its index is not whole; `mcap recover` rebuilds it"),
        ("old.bag", "old.bag", "expected the folder of a rosbag2, .mcap, .db3, .ulg, .npz or .csv"),
        ("no", "no", "has no metadata.yaml, so it is no bag"),
        ("cut", "cut/bag.mcap", "cannot be read as a bag: File end magic is invalid."),
    ):
        with pytest.raises(ValueError, match=name) as refused:
            _read(tmp_path / name)
        assert str(refused.value) == f"{tmp_path / where}: {said}"


def test_a_bag_whose_messages_or_definitions_are_damaged_is_refused_by_its_name_in_a_short_line(tmp_path):
    pytest.importorskip("rclpy")
    from rosbags.typesys import Stores, get_typestore

    from ros_nodes.messages.bag import Bag

    store, kind = get_typestore(Stores.ROS2_JAZZY), "sensor_msgs/msg/JointState"
    with Bag(tmp_path / "bag") as bag:
        topic = bag.add_connection("/cf1/command", kind, typestore=store)
        for number, names in enumerate((CRAZYFLIE.channel_names, ["roll_rate"])):
            time, zeros = store.types["builtin_interfaces/msg/Time"](0, number), np.zeros(len(names))
            header = store.types["std_msgs/msg/Header"](stamp=time, frame_id="")
            said = store.types[kind](header=header, name=list(names), position=zeros, velocity=zeros, effort=zeros)
            bag.write(topic, number, store.serialize_cdr(said, kind))
    file = tmp_path / "bag" / "bag.mcap"
    whole = file.read_bytes()
    for damaged in (whole, whole.replace(b"float64[] position", b"float64[} position")):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="cannot be read as a bag: ") as refused:
            _read(file)
        said = str(refused.value).removeprefix(f"{file}: ")
        assert said != str(refused.value) and len(said) < 300, said


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
    from ros_nodes.plans.team import TeamError
    from ros_nodes.plans.team_file import load_team

    (tmp_path / "it.yaml").write_text('robots:\n  - {name: "cf1\\n", bundle: none.onnx}\n')
    with pytest.raises(TeamError, match="name = cf1"):
        load_team(tmp_path / "it.yaml")
