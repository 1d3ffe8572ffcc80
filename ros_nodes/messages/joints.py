"""Joints and actuators in `sensor_msgs/JointState`, by name; order is never relied upon.

What is measured travels on `joint_states` and what is commanded on `requested` and `command`, in the same message type.
"""

from collections.abc import Sequence

import numpy as np
from sensor_msgs.msg import JointState

from hardware.spec import Channel
from hardware.types import ActuatorCommand, RobotState
from ros_nodes.messages.conversion import MessageError, set_stamp, stamp_ns


class JointConverter:
    """Joint positions and velocities of a RobotState <-> JointState."""

    def __init__(self, names: Sequence[str], frame_id: str = ""):
        """`names` in the order of the robot's joints."""
        self._names = list(names)
        self._message = JointState(name=self._names)
        self._message.header.frame_id = frame_id
        self._seen: list[str] = self._names
        self._order = np.arange(len(self._names))

    def write(self, state: RobotState, time_ns: int) -> JointState:
        """The message for `state` (no batch), stamped with its measurement; valid until the next call."""
        self._message.position = state.joint_pos.tolist()
        self._message.velocity = state.joint_vel.tolist()
        set_stamp(self._message.header.stamp, time_ns)
        return self._message

    def read(self, message: JointState, state: RobotState) -> int:
        """Fill the joints of `state` (no batch); returns the measurement's stamp in ns.

        The message may hold further joints. MessageError, and `state` as it was, when one is missing or a length wrong.
        """
        if message.name != self._seen:
            missing = sorted(set(self._names) - set(message.name))
            if missing:
                raise MessageError(f"joint_states: {', '.join(missing)[:120]} missing")
            self._seen = list(message.name)
            self._order = np.array([self._seen.index(name) for name in self._names])
        pos, vel = np.asarray(message.position), np.asarray(message.velocity)
        if not len(pos) == len(vel) == len(self._seen):
            raise MessageError(f"joint_states: {len(pos)} positions, {len(vel)} velocities, {len(self._seen)} names")
        if (time_ns := stamp_ns(message.header.stamp)) <= 0:
            raise MessageError("joint_states: no stamp")
        state.joint_pos[:], state.joint_vel[:] = pos[self._order], vel[self._order]
        return time_ns


class CommandConverter:
    """ActuatorCommand <-> JointState with named channels; N, N m are efforts, rad/s velocities, rad and m positions."""

    def __init__(self, channels: Sequence[Channel], frame_id: str = ""):
        """`channels` in command order."""
        self._names = [channel.name for channel in channels]
        self._fields = [_FIELDS[channel.unit] for channel in channels]
        self._message = JointState()
        self._message.header.frame_id = frame_id
        self._message.name = self._names
        for field in set(self._fields):
            setattr(self._message, field, [float("nan")] * len(channels))  # NaN: not commanded in this unit

    def write(self, command: ActuatorCommand, time_ns: int) -> JointState:
        """The message for `command` (U,), stamped with the measurement behind it; valid until the next call."""
        for index, (field, value) in enumerate(zip(self._fields, command.target.tolist(), strict=True)):
            getattr(self._message, field)[index] = value
        set_stamp(self._message.header.stamp, time_ns)
        return self._message

    def read(self, message: JointState) -> tuple[ActuatorCommand, int]:
        """Command (U,) and stamp in ns. MessageError for other channels or lengths; values are not checked here."""
        names = message.name
        if names == self._names:
            order: Sequence[int] = range(len(names))
        elif sorted(names) == sorted(self._names):
            order = [names.index(name) for name in self._names]
        else:
            raise MessageError(f"channels {', '.join(names)[:120] or 'none'}; expected {', '.join(self._names)}")
        target = np.empty(len(order), np.float32)
        for index, (source, field) in enumerate(zip(order, self._fields, strict=True)):
            values = getattr(message, field)
            if len(values) != len(order):
                raise MessageError(f"{field} has {len(values)} entries for {len(order)} channels")
            target[index] = values[source]
        return ActuatorCommand(target), stamp_ns(message.header.stamp)


_FIELDS = {"N": "effort", "N m": "effort", "rad/s": "velocity", "rad": "position", "m": "position"}
