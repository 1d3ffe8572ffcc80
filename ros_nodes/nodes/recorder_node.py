"""Records all topics of a team as a rosbag2 in MCAP, without deserialising a message."""

import threading
import time
from pathlib import Path

from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.typesys import Stores, get_typestore

from ros_nodes.lifecycle.host import run_node
from ros_nodes.lifecycle.lifecycle_node import QUIET_NS, ThreadNode
from ros_nodes.lifecycle.parameters import declare
from ros_nodes.messages import qos
from ros_nodes.messages.bag import Bag
from ros_nodes.messages.topics import OF_EVERY_NODE, team_topics

QUEUE = 200  # messages a topic: two seconds of the fastest
POLL_S = 0.1
SAVE_S, SAVE_SHARE = 1.0, 0.02  # the bag is saved so often, and after so much of its duration: an index grows


class RecorderNode(ThreadNode):
    """Writes `bag` (a folder) from activation to deactivation; who kills it loses a second, or 2 %."""

    ends_within_s = 8.0  # it writes what is left, behind all others on a busy machine

    def __init__(self) -> None:
        super().__init__("recorder")
        self._received_ns = 0

    def read_parameters(self) -> None:
        self._team = declare(self, "team", [""], "Names of the robots.")
        self._joints = declare(self, "joints", False, "Whether the robots have joints.")
        self._objects = declare(self, "objects", [""], "Names of tracked objects.")
        self._commands = declare(self, "commands", [""], "Names of commands on `commands/<name>` of each robot.")
        self._path = declare(self, "bag", "bag", "Folder of the new bag; must not exist.")

    def configure(self) -> None:
        if Path(self._path).exists():
            raise ValueError(f"bag {self._path!r} exists already")
        self._typestore = get_typestore(Stores.ROS2_JAZZY)  # here, for it takes a second or two on a busy machine
        team, objects, commands = ([n for n in names if n] for names in (self._team, self._objects, self._commands))
        self._topics = team_topics(team, self._joints, objects, commands)
        self._inbox = [
            self.subscribe(kind, topic, qos.recording(QUEUE, latched), raw=True)
            for topic, (kind, latched) in self._topics.items()
        ]

    def wind_down(self) -> bool:
        """What robots say on their way down is recorded too."""
        return self._loop is None or self.clock.now_ns() - self._received_ns > QUIET_NS

    def run(self, stopped: threading.Event) -> None:
        begun_s = time.monotonic()
        save_s = begun_s + SAVE_S
        with Bag(Path(self._path)) as bag:
            connections = {}
            for topic, (kind, latched) in self._topics.items():
                name = f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}"
                connections[topic] = bag.add_connection(
                    topic, name, typestore=self._typestore, offered_qos_profiles=[_offered(latched)]
                )
            ending = False
            while not ending:
                ending = stopped.is_set()  # after the end is asked for, what has arrived is still written
                for mailbox in self._inbox:
                    for message, taken_ns in mailbox.drain():
                        if mailbox.topic not in OF_EVERY_NODE:
                            self._received_ns = self.clock.now_ns()
                        arrived_ns, sent_ns = (self.clock.arrived_ns(ns) for ns in (taken_ns, mailbox.sent_ns))
                        bag.write(connections[mailbox.topic], arrived_ns, message, sent_ns)
                if (now_s := time.monotonic()) > save_s or bag.is_large:
                    bag.save()
                    save_s = now_s + max(SAVE_S, SAVE_SHARE * (now_s - begun_s))
                time.sleep(0 if ending else POLL_S)


def _offered(latched: bool) -> Qos:
    """The quality of service that players offer."""
    forever = QosTime(2147483647, 4294967295)
    return Qos(
        QosHistory.KEEP_LAST,
        1,
        QosReliability.RELIABLE if latched else QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        forever,
        forever,
        QosLiveliness.AUTOMATIC,
        forever,
        False,
    )


def main() -> int:
    """Run the node."""
    run_node(RecorderNode)


if __name__ == "__main__":
    raise SystemExit(main())
