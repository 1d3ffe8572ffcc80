"""People that a tracker sees. Who they are it does not say: how fast they are follows from who was nearest before."""

from collections import deque
from collections.abc import Sequence

import numpy as np
from geometry_msgs.msg import PoseArray

from deploy.shield.types import NO_PEERS
from hardware.types import Peers
from ros_nodes.lifecycle.clock import SenderClock
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import FAR, WORLD_FRAME, MessageError, stamp_ns

SPEED_OVER_S = 0.2  # their speed is that over so long, as far as there are messages
FASTEST = 2.5  # m/s: who would have had to be faster is somebody else


class PeopleTopic:
    """The newest message of one tracker."""

    def __init__(self, node: ManagedNode, topic: str):
        self._mailbox = node.subscribe(PoseArray, topic, qos.SENSOR)
        self._logger, self._sender = node.get_logger(), SenderClock(node.clock)
        self._past: deque[tuple[int, np.ndarray]] = deque(maxlen=64)  # stamps and positions (P, 3)
        self._people: Peers = NO_PEERS

    def update(self, now_ns: int) -> tuple[Peers, float]:
        """People as they were seen last, and how long ago that was, s; 0 before any message."""
        while (taken := self._mailbox.take()) is not None:
            try:
                self._take(taken[0], now_ns)
            except MessageError as error:  # those who were seen last stay, and age
                self._logger.error(str(error), throttle_duration_sec=1.0)
        if not self._past:
            return NO_PEERS, 0.0
        age_s = (now_ns - self._past[-1][0]) * 1e-9
        self._people.age[:] = age_s
        return self._people, age_s

    def _take(self, message: PoseArray, now_ns: int) -> None:
        if message.header.frame_id not in ("", WORLD_FRAME):
            raise MessageError(f"people in the frame {message.header.frame_id!r}: must be {WORLD_FRAME!r}")
        if (sent_ns := stamp_ns(message.header.stamp)) <= 0:
            raise MessageError("people without a stamp")
        points = [(p.position.x, p.position.y, p.position.z) for p in message.poses]
        pos = np.array(points, dtype=np.float64).reshape(-1, 3)
        if not (np.abs(pos) < FAR).all():
            raise MessageError(f"people that are not finite, or beyond {FAR:g} m")
        seen_ns = min(self._sender.to_own(sent_ns, now_ns), now_ns)
        while self._past and seen_ns - self._past[0][0] > SPEED_OVER_S * 1e9 and len(self._past) > 1:
            self._past.popleft()
        vel = velocities(pos, seen_ns, self._past)
        self._past.append((seen_ns, pos))
        self._people = Peers(pos, vel, np.zeros(len(pos)), np.ones(len(pos), bool))


def velocities(pos: np.ndarray, seen_ns: int, past: Sequence[tuple[int, np.ndarray]]) -> np.ndarray:
    """Velocities (P, 3) m/s of people at `pos` (P, 3), from who was nearest in the oldest message of the `past`."""
    still = np.zeros_like(pos)
    if not past or not len(past[0][1]) or (elapsed_s := (seen_ns - past[0][0]) * 1e-9) <= 0.01:
        return still
    ways = pos[:, None] - past[0][1][None]
    apart = np.linalg.norm(ways, axis=-1)
    way = ways[np.arange(len(pos)), apart.argmin(-1)]
    return np.where(apart.min(-1, keepdims=True) <= FASTEST * elapsed_s, way / elapsed_s, still)
