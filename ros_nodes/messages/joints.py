"""Joints and actuators in serialised `sensor_msgs/JointState`, by name; order is never relied upon.

What is measured travels on `joint_states` and what is commanded on `requested` and `command`, in the same message type.
"""

from collections.abc import Sequence

import numpy as np
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState

from hardware.spec import Channel
from hardware.types import ActuatorCommand, RobotState
from ros_nodes.messages.layout import (
    FIELDS,
    JointLayout,
    JointReader,
    MessageError,
    read_stamp,
    write_number,
    write_stamp,
)


class JointConverter:
    """Joint positions and velocities of a RobotState <-> JointState."""

    def __init__(self, names: Sequence[str], frame_id: str = ""):
        """`names` in the order of the robot's joints."""
        self._names = list(names)
        zeros = [0.0] * len(self._names)
        self._message, self._layout = _template(frame_id, self._names, {"position": zeros, "velocity": zeros})
        self._reader = JointReader()
        self._seen: list[str] = []
        self._order = np.arange(0)

    def write(self, state: RobotState, time_ns: int) -> bytes:
        """The message for `state` (no batch), stamped with its measurement."""
        self._layout.write(self._message, "position", state.joint_pos.tolist())
        self._layout.write(self._message, "velocity", state.joint_vel.tolist())
        write_stamp(self._message, time_ns)
        return bytes(self._message)

    def read(self, message: bytes, state: RobotState) -> int:
        """Fill the joints of `state` (no batch); returns the measurement's stamp in ns.

        The message may hold further joints. MessageError, and `state` as it was, when one is missing or a length wrong.
        """
        message = self._reader.read(message)
        layout = self._reader.layout
        if layout.names is not self._seen:
            if missing := sorted(set(self._names) - set(layout.names)):
                raise MessageError(f"joint_states: {', '.join(missing)[:120]} missing")
            self._order = np.array([layout.names.index(name) for name in self._names], int)
            self._seen = layout.names
        pos, vel = layout.numbers(message, "position"), layout.numbers(message, "velocity")
        if not len(pos) == len(vel) == len(self._seen):
            raise MessageError(f"joint_states: {len(pos)} positions, {len(vel)} velocities, {len(self._seen)} names")
        if (time_ns := read_stamp(message)) <= 0:
            raise MessageError("joint_states: no stamp")
        state.joint_pos[:], state.joint_vel[:] = np.array(pos)[self._order], np.array(vel)[self._order]
        return time_ns


class CommandConverter:
    """ActuatorCommand <-> JointState with named channels; N, N m are efforts, rad/s velocities, rad and m positions."""

    def __init__(self, channels: Sequence[Channel], frame_id: str = ""):
        """`channels` in command order."""
        self._names = [channel.name for channel in channels]
        self._fields = [_FIELDS[channel.unit] for channel in channels]
        unset = [float("nan")] * len(channels)  # not commanded in this unit
        self._message, layout = _template(frame_id, self._names, dict.fromkeys(self._fields, unset))
        self._offsets = [layout.offset(field, index) for index, field in enumerate(self._fields)]
        self._reader = JointReader()
        self._seen: list[str] = []
        self._sources: list[tuple[str, int]] = []  # where each channel is in what comes

    def write(self, command: ActuatorCommand, time_ns: int) -> bytes:
        """The message for `command` (U,), stamped with the measurement behind it."""
        for offset, value in zip(self._offsets, command.target.tolist(), strict=True):
            write_number(self._message, offset, value)
        write_stamp(self._message, time_ns)
        return bytes(self._message)

    def read(self, message: bytes) -> tuple[ActuatorCommand, int]:
        """Command (U,) and stamp in ns. MessageError for other channels or lengths; values are not checked here."""
        message = self._reader.read(message)
        layout = self._reader.layout
        if layout.names is not self._seen:
            if sorted(layout.names) != sorted(self._names):
                given = ", ".join(layout.names)[:120] or "none"
                raise MessageError(f"channels {given}; expected {', '.join(self._names)}")
            self._sources = [
                (field, layout.names.index(name)) for name, field in zip(self._names, self._fields, strict=True)
            ]
            self._seen = layout.names
        values = {field: layout.numbers(message, field) for field in set(self._fields)}
        for field, numbers in values.items():
            if len(numbers) != len(self._names):
                raise MessageError(f"{field} has {len(numbers)} entries for {len(self._names)} channels")
        target = np.array([values[field][index] for field, index in self._sources], np.float32)
        return ActuatorCommand(target), read_stamp(message)


_FIELDS = {"N": "effort", "N m": "effort", "rad/s": "velocity", "rad": "position", "m": "position"}


def _template(frame_id: str, names: list[str], fields: dict[str, list[float]]) -> tuple[bytearray, JointLayout]:
    """A serialised message to be filled again and again, and where it has what."""
    message = JointState(name=names, **{field: fields.get(field, []) for field in FIELDS})
    message.header.frame_id = frame_id
    serialised = bytes(serialize_message(message))
    layout = JointLayout(serialised)
    return bytearray(serialised[: layout.end]), layout
