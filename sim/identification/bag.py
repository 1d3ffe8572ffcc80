"""A robot's measurements and commands from a rosbag2, as the recorder of `phalanx deploy` writes it.

A busy recorder hears late. MCAP says of each message besides when it was published, which no recorder can delay; of a
bag without that, a command that came later after its measurement than others do is taken to be uncertain by so much.
"""

from pathlib import Path
from typing import Any

import numpy as np

from hardware.spec import RobotSpec
from sim.identification.rhythm import longest_forward, rhythm
from sim.identification.streams import Streams

STORED = (".mcap", ".db3")
FIELDS = {"N": "effort", "N m": "effort", "rad/s": "velocity", "rad": "position", "m": "position"}
SHOWN = 200  # characters of what a parser says
Arrays = tuple[np.ndarray, np.ndarray]
Heard = tuple[int, Any]  # when a message arrived, ns, and what it says


def read_bag(path: Path, spec: RobotSpec, name: str) -> Streams:
    """Of the robot called `name`; what a driver really sent counts before what it was asked for."""
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_typestore

    if (path / "bag" / "metadata.yaml").exists():  # the folder of a `phalanx deploy`
        path = path / "bag"
    is_part = path.suffix in STORED and (path.parent / "metadata.yaml").exists()
    folder = path.parent if is_part else path
    if folder.is_dir() and not (folder / "metadata.yaml").exists():
        parts = [file.name for end in STORED for file in sorted(folder.glob(f"*{end}"))]
        way = f"; give {parts[0]} in it by name" if parts else ""
        raise ValueError(f"{path}: has no metadata.yaml, so it is no bag{way}")
    if not folder.is_dir() and path.suffix not in STORED:
        raise ValueError(f"{path}: expected the folder of a rosbag2, {', '.join(STORED)}, .ulg, .npz or .csv")
    try:
        with AnyReader([folder], default_typestore=get_typestore(Stores.ROS2_JAZZY)) as reader:
            name = _robot(reader, spec, name)
            base, joints, sent, asked = (
                _messages(reader, f"/{name}/{topic}") for topic in ("odom", "joint_states", "sent", "command")
            )
            poses, angles, commands = (
                [(at, reader.deserialize(raw, c.msgtype)) for c, at, raw in each]
                for each in (base, joints, sent or asked)
            )
        # A recorder may have written more by now.
        published = _published(path, f"/{name}/{'sent' if sent else 'command'}")[: len(commands)]
        return _streams(spec, poses, angles, commands, published, name)
    except NotInBag as error:
        raise ValueError(f"{path}: {error}") from error
    except Exception as error:  # its parsers raise whatever they stumble over
        file = next((each for end in STORED for each in sorted(path.glob(f"*{end}"))), path)
        raise ValueError(f"{file}: cannot be read as a bag: {_why(error)}") from error


class NotInBag(ValueError):
    """What a bag that can be read does not hold."""


def _why(error: Exception) -> str:
    if isinstance(error, (KeyError, StopIteration)):  # a topic or message that its index leaves out
        return "its index is not whole; `mcap recover` rebuilds it"
    why = " ".join(str(error).split()) or type(error).__name__
    return why if len(why) <= SHOWN else f"{why[:SHOWN]} ..."  # some repeat a whole definition


def _streams(
    spec: RobotSpec, base: list[Heard], joints: list[Heard], commands: list[Heard], published: list[int], name: str
) -> Streams:
    """`published`: when each command was sent, ns."""
    came = np.array([at for at, _ in commands], np.int64)
    sent_s, behind_s = 1e-9 * np.array(published or came.tolist()), np.array([_time(m) for _, m in commands])
    heard_late_s = 1e-9 * came - sent_s
    unsure_s = np.zeros(len(came))
    if not heard_late_s.any() and (behind_s > 0).all() and len(came):
        unsure_s = np.maximum(0.0, sent_s - behind_s - np.median(sent_s - behind_s))
    stamps = joints if spec.fixed_base else base
    stamps_s = np.array([_time(m) for _, m in stamps])
    rhythms = {"measurements": rhythm(stamps_s), "commands": rhythm(sent_s)}
    begin, end = 0.0, np.inf
    if rhythms["measurements"].back:  # two clocks cannot be put onto one
        begin, *_, end = [at for at, _ in stamps[longest_forward(stamps_s)]]
    odometry, states = ([m for at, m in each if begin <= at <= end] for each in (base, joints))
    order = np.flatnonzero((came >= begin) & (came <= end))
    order = order[np.argsort(sent_s[order], kind="stable")]
    set_points = [[_set_point(m, c.name, c.unit) for c in spec.channels] for _, m in commands]
    asked = np.array(set_points).reshape(-1, len(spec.channels))
    sent = sent_s[order], asked[order], unsure_s[order]
    return Streams(*_rows(spec, odometry, states), *sent, rhythms, heard_late_s[order], name=name)


def _published(path: Path, topic: str) -> list[int]:
    """When each message of a topic was published, ns, in the order in which they arrived; of MCAP only."""
    from mcap.reader import make_reader

    times = []
    for file in sorted(path.glob("*.mcap")) if path.is_dir() else [path] * (path.suffix == ".mcap"):
        with file.open("rb") as opened:
            found = make_reader(opened).iter_messages([topic])
            times += [(message.log_time, message.publish_time) for _, _, message in found]
    return [sent for _, sent in sorted(times, key=lambda each: each[0])]


def _robot(reader: Any, spec: RobotSpec, name: str) -> str:
    """The robot whose commands have the channels of `spec`; NotInBag where it is none or several."""
    found = []
    for connection in reader.connections:
        robot, _, topic = connection.topic.strip("/").rpartition("/")
        if topic == "command" and connection.msgcount:
            _, _, raw = next(reader.messages([connection]))
            if set(reader.deserialize(raw, connection.msgtype).name) == set(spec.channel_names):
                found.append(robot)
    if name and name not in found:
        raise NotInBag(f"has no {spec.name} called {name!r}; it has {', '.join(found) or 'none at all'}")
    if not found:
        raise NotInBag(f"has no commands to a {spec.name}")
    if not name and len(found) > 1:
        raise NotInBag(f"has {', '.join(found)}: say which one with --name")
    return name or found[0]


def _messages(reader: Any, topic: str) -> list[tuple[Any, int, bytes]]:
    """Of one topic, which need not be there: connection, time ns and bytes of each."""
    connections = [connection for connection in reader.connections if connection.topic == topic]
    return list(reader.messages(connections)) if connections else []  # of no connections it gives all messages


def _rows(spec: RobotSpec, odometry: list[Any], states: list[Any]) -> Arrays:
    """Measurements by their stamps; what is measured at other times than the first kind lies between two of its own."""
    parts = []
    if not spec.fixed_base:
        parts.append(_sorted([(_time(m), _base(m)) for m in odometry], 13))
    if spec.joints:
        parts.append(_sorted([(_time(m), _joints(m, spec)) for m in states], 2 * len(spec.joints)))
    time_s = parts[0][0]
    if any(not len(times) for times, _ in parts):
        return np.empty(0), np.empty((0, 0))
    columns = [np.stack([np.interp(time_s, times, c) for c in rows.T], axis=-1) for times, rows in parts]
    if spec.fixed_base or not spec.joints:
        return time_s, columns[0]
    (base, joints), j = columns, len(spec.joints)
    return time_s, np.concatenate([base[:, :7], joints[:, :j], base[:, 7:], joints[:, j:]], axis=1)


def _time(message: Any) -> float:
    return message.header.stamp.sec + 1e-9 * message.header.stamp.nanosec


def _base(message: Any) -> list[float]:
    pose, twist = message.pose.pose, message.twist.twist
    p, q, v, w = pose.position, pose.orientation, twist.linear, twist.angular
    return [p.x, p.y, p.z, q.w, q.x, q.y, q.z, v.x, v.y, v.z, w.x, w.y, w.z]


def _joints(message: Any, spec: RobotSpec) -> list[float]:
    at = [list(message.name).index(joint) for joint in spec.joint_names]
    return [*message.position[at], *message.velocity[at]]


def _set_point(message: Any, channel: str, unit: str) -> float:
    return float(getattr(message, FIELDS[unit])[list(message.name).index(channel)])


def _sorted(timed: list[tuple[float, list[float]]], size: int) -> Arrays:
    """In the order of time, each moment once."""
    by_time = dict(sorted(timed, key=lambda each: each[0]))
    return np.array(list(by_time)), np.array(list(by_time.values())).reshape(-1, size)
