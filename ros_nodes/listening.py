"""What a node knows of its own robot and of the others, kept up to date by polling."""

from collections.abc import Sequence

from nav_msgs.msg import Odometry

from hardware.types import Peers, RobotState
from ros_nodes import qos
from ros_nodes.conversion import MessageError, empty_peers, empty_state, read_odometry, read_peer
from ros_nodes.managed import ManagedNode


class OwnState:
    """The newest measurement of this robot."""

    def __init__(self, node: ManagedNode, num_joints: int):
        self.mailbox = node.listen(Odometry, "odom", qos.SENSOR)
        self.state: RobotState = empty_state(num_joints)
        self.stamp_ns = 0

    def update(self, now_ns: int) -> bool:
        """Take what has arrived and let the age be that at `now_ns` (ROS clock); True when something new was there."""
        taken = self.mailbox.take()
        if taken is not None:
            self.stamp_ns = read_odometry(taken[0], self.state)
        if self.stamp_ns:
            self.state.age[()] = (now_ns - self.stamp_ns) * 1e-9
        return taken is not None


class PeerTable:
    """The newest word of every other robot; those never heard are not valid."""

    def __init__(self, node: ManagedNode, names: Sequence[str]):
        self._mailboxes = [node.listen(Odometry, f"/{name}/odom", qos.SENSOR) for name in names]
        self.peers: Peers = empty_peers(len(names))
        self._stamps_ns = [0] * len(names)

    def update(self, now_ns: int) -> Peers:
        """Take what has arrived and let ages be those at `now_ns` (ROS clock)."""
        for slot, mailbox in enumerate(self._mailboxes):
            taken = mailbox.take()
            if taken is not None:
                try:
                    self._stamps_ns[slot] = read_peer(taken[0], self.peers, slot)
                    self.peers.valid[slot] = True
                except MessageError:
                    pass  # the last good word stays, and grows old
            if self._stamps_ns[slot]:
                self.peers.age[slot] = (now_ns - self._stamps_ns[slot]) * 1e-9
        return self.peers
