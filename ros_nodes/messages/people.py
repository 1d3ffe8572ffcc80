"""People that a tracker sees. Who they are it does not say: how fast they are follows from who was nearest before."""

import struct
from collections import deque
from collections.abc import Sequence

import numpy as np
from geometry_msgs.msg import PoseArray

from deploy.shield.types import NO_PEERS
from hardware.types import Peers
from ros_nodes.lifecycle.clock import SenderClock
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import MOST_M, WORLD_FRAME, MessageError
from ros_nodes.messages.layout import PLAIN_CDR, aligned, plain, read_stamp

SILENT_S = 0.5  # of a tracker, after which people may be anywhere
SPEED_OVER_S = 0.2  # their speed is that over so long, as far as there are messages
FASTEST = 2.5  # m/s: who would have had to be faster is somebody else
_LENGTH, _POSE = struct.Struct("<I"), 7  # numbers


class PeopleTopic:
    """The newest message of one tracker. While two publish nothing is believed, for either may see whom the other does
    not."""

    def __init__(self, node: ManagedNode, topic: str, most: int):
        """`most`: of so many people where they are is kept, of those who are nearest."""
        self._mailbox = node.subscribe(PoseArray, topic, qos.SENSOR, raw=True)
        self._logger, self._sender, self._most = node.get_logger(), SenderClock(node.clock), most
        self._past: deque[tuple[int, np.ndarray]] = deque(maxlen=64)  # stamps and positions (P, 3)
        self._people: Peers = NO_PEERS
        self._doubled = self._many = False

    def update(self, now_ns: int, own: np.ndarray | None) -> tuple[Peers, str]:
        """People as they were seen last, and why that is not known any more, or an empty string.

        `own` (3,) m: where the robot is, None where that is not known.
        """
        before, self._doubled = self._doubled, (publishers := self._mailbox.publishers) > 1
        for taken in self._mailbox.drain():
            if before or self._doubled:  # whose it is is not known
                continue
            try:
                self._take(taken[0], now_ns, own)
            except MessageError as error:  # those who were seen last stay, and age
                self._logger.error(str(error), throttle_duration_sec=1.0)
        lost = f"{self._mailbox.topic} has {publishers} publishers where one is due" if self._doubled else ""
        if not self._past:
            return NO_PEERS, lost
        age_s = (now_ns - self._past[-1][0]) * 1e-9
        self._people.age[:] = age_s
        return self._people, lost or (f"no word of people for over {SILENT_S:g} s" if age_s > SILENT_S else "")

    def _take(self, message: bytes, now_ns: int, own: np.ndarray | None) -> None:
        sent_ns, pos = read_people(message)
        many, self._many = self._many, len(pos) > self._most
        if self._many and not many:
            self._logger.warning(f"{len(pos)} people: the {self._most} nearest count")
        pos = nearest_people(pos, own, self._most)
        seen_ns = min(self._sender.to_own(sent_ns, now_ns), now_ns)
        while self._past and seen_ns - self._past[0][0] > SPEED_OVER_S * 1e9 and len(self._past) > 1:
            self._past.popleft()
        vel = velocities(pos, seen_ns, self._past)
        self._past.append((seen_ns, pos))
        self._people = Peers(pos, vel, np.zeros(len(pos)), np.ones(len(pos), bool))


def nearest_people(pos: np.ndarray, own: np.ndarray | None, most: int) -> np.ndarray:
    """Of people at `pos` (P, 3) m the `most` that are nearest to `own` (3,) m; MessageError where that is not known."""
    if len(pos) <= most:
        return pos
    if own is None:
        raise MessageError(f"{len(pos)} people, and the robot does not know which {most} are nearest to it")
    return pos[np.argpartition(np.linalg.norm(pos[:, :2] - own[:2], axis=-1), most)[:most]]


def read_people(message: bytes) -> tuple[int, np.ndarray]:
    """Stamp, ns, and positions (P, 3) m, world, of a serialised PoseArray.

    MessageError for bytes that are none, another frame, no stamp, and positions that are not finite or beyond `MOST_M`.
    """
    try:
        if message[:2] != PLAIN_CDR:
            message = plain(message, PoseArray)
        length = _LENGTH.unpack_from(message, 12)[0]
        end = 16 + length + -length % 4
        count = _LENGTH.unpack_from(message, end)[0]
        numbers = np.frombuffer(message, "<f8", _POSE * count, aligned(end + 4) if count else 0)
    except (struct.error, ValueError) as error:
        raise MessageError(f"people: {len(message)} bytes cannot be read") from error
    frame = bytes(message[16 : 15 + length]).decode(errors="replace")
    pos, sent_ns = numbers.reshape(-1, _POSE)[:, :3].astype(np.float64), read_stamp(message)
    if frame not in ("", WORLD_FRAME):
        raise MessageError(f"people in the frame {frame!r}: must be {WORLD_FRAME!r}")
    if sent_ns <= 0:
        raise MessageError("people without a stamp")
    if not (np.abs(pos) < MOST_M).all():
        raise MessageError(f"people that are not finite, or beyond {MOST_M:g} m")
    return sent_ns, pos


def velocities(pos: np.ndarray, seen_ns: int, past: Sequence[tuple[int, np.ndarray]]) -> np.ndarray:
    """Velocities (P, 3) m/s of people at `pos` (P, 3), from who was nearest in the oldest message of the `past`."""
    still = np.zeros_like(pos)
    if not past or not len(past[0][1]) or (elapsed_s := (seen_ns - past[0][0]) * 1e-9) <= 0.01:
        return still
    ways = pos[:, None] - past[0][1][None]
    apart = np.linalg.norm(ways, axis=-1)
    way = ways[np.arange(len(pos)), apart.argmin(-1)]
    return np.where(apart.min(-1, keepdims=True) <= FASTEST * elapsed_s, way / elapsed_s, still)
