"""A bag can be read at any moment, by all who read bags."""

import shutil
import time

import pytest
import yaml

pytest.importorskip("rosbags")
pytest.importorskip("rclpy")
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore

from ros_nodes.messages import bag as bag_file
from ros_nodes.messages.bag import Bag
from ros_nodes.nodes.recorder_node import _offered

STORE = get_typestore(Stores.ROS2_JAZZY)
STRING = STORE.types["std_msgs/msg/String"]


def messages(folder):
    with AnyReader([folder]) as reader:
        found = [(time_ns, reader.deserialize(data, c.msgtype).data) for c, time_ns, data in reader.messages()]
    with (folder / f"{folder.name}.mcap").open("rb") as file:
        assert len(list(make_reader(file, validate_crcs=True).iter_messages())) == len(found)
    return found


def write(bag, topic, time_ns, text, sent_ns=0):
    bag.write(topic, time_ns, STORE.serialize_cdr(STRING(data=text), STRING.__msgtype__), sent_ns)


def test_a_bag_is_whole_after_each_save_and_at_its_end(tmp_path):
    said = []
    with Bag(tmp_path / "bag") as bag:
        topic = bag.add_connection("/log", STRING.__msgtype__, typestore=STORE)
        for number in range(4):
            for time_ns in (10 * number + 5, 10 * number):  # topics are drained in turn, so not in the order of time
                write(bag, topic, time_ns, f"{number} " + "x" * 700_000)
                said.append(time_ns)
            bag.save()
            shutil.copytree(tmp_path / "bag", tmp_path / str(number) / "bag")
            assert [time_ns for time_ns, _ in messages(tmp_path / str(number) / "bag")] == sorted(said)
        write(bag, topic, 99, "last")
    assert [time_ns for time_ns, _ in messages(tmp_path / "bag")] == [*sorted(said), 99]


def test_a_message_keeps_when_it_was_published_and_one_of_another_layout_is_not_damaged(tmp_path, monkeypatch):
    with Bag(tmp_path / "bag") as bag:
        topic = bag.add_connection("/log", STRING.__msgtype__, typestore=STORE)
        for number in range(4):
            write(bag, topic, 100 + number, "said" * number, sent_ns=90 * (number != 2))  # 0 where it is not known
            bag.save()
        monkeypatch.setattr(bag_file, "LOG_TIME", 14)
        with pytest.raises(RuntimeError, match="otherwise than MCAP"):
            write(bag, topic, 110, "last", sent_ns=90)
    with (tmp_path / "bag" / "bag.mcap").open("rb") as file:
        times = [(m.log_time, m.publish_time) for _, _, m in make_reader(file, validate_crcs=True).iter_messages()]
    assert times == [(100, 90), (101, 90), (102, 102), (103, 90), (110, 110)]
    assert [text for _, text in messages(tmp_path / "bag")] == ["", "said", "saidsaid", "saidsaidsaid", "last"]


def test_a_save_says_of_the_bag_what_rosbags_says_at_its_end(tmp_path):
    bag = Bag(tmp_path / "bag")
    bag.open()
    for name in ("/log", "/other"):
        topic = bag.add_connection(name, STRING.__msgtype__, typestore=STORE, offered_qos_profiles=[_offered(True)])
        write(bag, topic, 7, "first")
    write(bag, topic, 5, "late")
    bag.save()
    saved = yaml.safe_load(bag.metapath.read_text())
    bag.close()
    assert yaml.safe_load(bag.metapath.read_text()) == saved


def test_a_full_disk_leaves_what_was_saved(tmp_path, monkeypatch):
    bag = Bag(tmp_path / "bag")
    bag.open()
    topic = bag.add_connection("/log", STRING.__msgtype__, typestore=STORE)
    write(bag, topic, 1, "first")
    bag.save()
    write(bag, topic, 2, "x" * 100_000)
    pwrite, room = bag_file.os.pwrite, [1000]
    monkeypatch.setattr(
        bag_file.os, "pwrite", lambda file, data, at: pwrite(file, data[: room.pop() if room else None], at)
    )
    with pytest.raises(OSError, match="No space left"):
        bag.save()
    bag.abort()
    assert messages(tmp_path / "bag") == [(1, "first")]


def test_a_save_in_flight_costs_a_part_of_the_last_one(tmp_path):
    """As it is repeated each second, beside the robots: of a team of eight it took a tenth of a core."""
    bag = Bag(tmp_path / "bag")
    bag.open()
    topics = [bag.add_connection(f"/{n}", STRING.__msgtype__, typestore=STORE) for n in range(40)]
    took_s = []
    for save in (bag.save, bag.save, bag.close):
        for topic in topics:
            write(bag, topic, 1, "said")
        begun_s = time.process_time()
        save()
        took_s.append(time.process_time() - begun_s)
    assert took_s[1] < 0.3 * took_s[2]
    assert len(messages(tmp_path / "bag")) == 3 * len(topics)
