"""JointState and Odometry at the offsets of their fields: what a control loop would spend on making messages of them.

Bytes that are laid out in another way are brought into this one by the middleware.
"""

import struct
from collections.abc import Sequence
from typing import Any

from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

PLAIN_CDR = b"\x00\x01"  # little endian, as every middleware here sends it
STAMP_AT = 4  # behind the encapsulation header
_STAMP, _LENGTH, _NUMBER = struct.Struct("<iI"), struct.Struct("<I"), struct.Struct("<d")
SLACK = 24  # bytes that `serialize_message` may leave behind the end: it makes room for three gaps of alignment
FIELDS = ("position", "velocity", "effort")


class MessageError(ValueError):
    """A message with invalid content; the text names the reason."""


def aligned(offset: int) -> int:
    """The next offset for a number of eight bytes: a multiple of that, counted from behind the header."""
    return offset + (4 - offset) % 8


def write_stamp(message: bytearray, time_ns: int) -> None:
    """Write `time_ns` into the header of a serialised message."""
    _STAMP.pack_into(message, STAMP_AT, *divmod(time_ns, 1_000_000_000))


def read_stamp(message: bytes) -> int:
    """The stamp in the header of a serialised message, ns."""
    sec, nanosec = _STAMP.unpack_from(message, STAMP_AT)
    return int(sec * 1_000_000_000 + nanosec)


class JointLayout:
    """Where a serialised JointState has what; all messages of one sender are alike."""

    def __init__(self, message: bytes):
        """ValueError for bytes that are no JointState in plain CDR."""
        try:
            self._find(message)
        except (struct.error, UnicodeDecodeError) as error:
            raise ValueError("no JointState in plain CDR") from error

    def _find(self, message: bytes) -> None:
        end = STAMP_AT + _STAMP.size
        end += 4 + _LENGTH.unpack_from(message, end)[0]
        end += -end % 4
        names, end = _LENGTH.unpack_from(message, end)[0], end + 4
        self.names: list[str] = []
        if names > len(message):
            raise ValueError(f"{names} names")
        for _ in range(names):
            length = _LENGTH.unpack_from(message, end)[0]
            self.names.append(message[end + 4 : end + 3 + length].decode())
            end += 4 + length + -length % 4
        self._at: dict[str, tuple[int, struct.Struct]] = {}
        fixed = [(STAMP_AT + _STAMP.size, end)]
        for field in FIELDS:
            count = _LENGTH.unpack_from(message, end)[0]
            fixed.append((end, end + 4))
            start = aligned(end + 4) if count else end + 4
            if count > len(message):
                raise ValueError(f"{count} numbers")
            self._at[field] = start, struct.Struct(f"<{count}d")
            end = start + 8 * count
        if message[:2] != PLAIN_CDR or not 0 <= len(message) - end <= SLACK:
            raise ValueError(f"{len(message)} bytes where {end} are due")
        self._size, self.end = len(message), end
        self._same = [(slice(first, last), message[first:last]) for first, last in fixed]

    def matches(self, message: bytes) -> bool:
        """Whether another message is laid out like this, with the same names."""
        return (
            len(message) == self._size
            and message[:2] == PLAIN_CDR
            and all(message[where] == what for where, what in self._same)
        )

    def numbers(self, message: bytes, field: str) -> tuple[float, ...]:
        """One of `FIELDS`."""
        offset, numbers = self._at[field]
        return numbers.unpack_from(message, offset)

    def write(self, message: bytearray, field: str, values: Sequence[float]) -> None:
        """Fill one of `FIELDS`."""
        offset, numbers = self._at[field]
        numbers.pack_into(message, offset, *values)

    def offset(self, field: str, index: int) -> int:
        """Where one number is, for `write_number`."""
        return self._at[field][0] + 8 * index


def write_number(message: bytearray, offset: int, value: float) -> None:
    """Fill one number."""
    _NUMBER.pack_into(message, offset, value)


class JointReader:
    """Reads the JointStates of a topic, whose layout hardly ever changes."""

    def __init__(self) -> None:
        self.layout = JointLayout(serialize_message(JointState()))

    def read(self, message: bytes) -> bytes:
        """`message` as `layout` has it now. MessageError for bytes that are no JointState."""
        if not self.layout.matches(message):
            message = self._relearn(message)
        return message

    def _relearn(self, message: bytes) -> bytes:
        try:
            self.layout = JointLayout(message)
        except ValueError:
            message = plain(message, JointState)
            self.layout = JointLayout(message)
        return message


def plain(message: bytes, message_type: type) -> bytes:
    """A serialised message in plain CDR. MessageError for bytes that are none of its type."""
    try:
        decoded: Any = deserialize_message(message, message_type)
        return bytes(serialize_message(decoded))
    except Exception as error:  # whatever the middleware raises on bytes that are none of its own
        raise MessageError(f"{message_type.__name__} of {len(message)} bytes cannot be read") from error
