"""The only place where messages and types meet.

Messages: quaternions xyzw, stamps in two integers, twists of `nav_msgs/Odometry` in the child frame (REP-105, REP-103).
Types: see hardware.types. A stamp here is integer nanoseconds of the ROS clock.
"""

from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseArray
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from hardware.spec import Channel
from hardware.types import ActuatorCommand, Peers, RobotState

WORLD_FRAME = "world"


class MessageError(ValueError):
    """A message that cannot be what it claims to be; the text says why."""


def base_frame(robot: str) -> str:
    """The tf frame of a robot's base."""
    return f"{robot}/base_link"


def stamp_ns(stamp: Time) -> int:
    """Nanoseconds of a message stamp."""
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def set_stamp(stamp: Time, time_ns: int) -> None:
    """Write `time_ns` into a message stamp."""
    stamp.sec, stamp.nanosec = divmod(time_ns, 1_000_000_000)


def empty_state(num_joints: int) -> RobotState:
    """A state (J joints, no batch) for `read_odometry` to fill; not finite until then."""

    def unknown(size: int) -> np.ndarray:
        return np.full(size, np.nan, np.float32)

    age = np.array(np.inf, np.float32)
    return RobotState(unknown(num_joints), unknown(num_joints), unknown(3), unknown(4), unknown(3), unknown(3), age)


def empty_peers(num_peers: int) -> Peers:
    """Room (P, ...) for what `num_peers` others say; none of it valid."""
    vectors = np.zeros((num_peers, 3), np.float32), np.zeros((num_peers, 3), np.float32)
    return Peers(*vectors, np.full(num_peers, np.inf, np.float32), np.zeros(num_peers, bool))


def read_odometry(message: Odometry, state: RobotState) -> int:
    """Fill `state` (no batch) but for its age; returns the measurement's stamp in ns."""
    pose, twist = message.pose.pose, message.twist.twist
    p, q, v, w = pose.position, pose.orientation, twist.linear, twist.angular
    state.base_pos[:] = p.x, p.y, p.z
    state.base_quat[:] = q.w, q.x, q.y, q.z
    state.base_lin_vel[:] = v.x, v.y, v.z
    state.base_ang_vel[:] = w.x, w.y, w.z
    return stamp_ns(message.header.stamp)


def read_peer(message: Odometry, peers: Peers, slot: int) -> int:
    """Fill position and world velocity of `peers[slot]`; returns the measurement's stamp in ns.

    A peer that is not finite is a peer that says nothing: MessageError.
    """
    pose, twist = message.pose.pose, message.twist.twist
    p, q, v = pose.position, pose.orientation, twist.linear
    # Scalars: for a single vector this is ten times cheaper than array arithmetic.
    tx, ty, tz = 2 * (q.y * v.z - q.z * v.y), 2 * (q.z * v.x - q.x * v.z), 2 * (q.x * v.y - q.y * v.x)
    velocity = (
        v.x + q.w * tx + q.y * tz - q.z * ty,
        v.y + q.w * ty + q.z * tx - q.x * tz,
        v.z + q.w * tz + q.x * ty - q.y * tx,
    )
    if not np.isfinite(sum(velocity) + p.x + p.y + p.z):
        raise MessageError(f"odometry of {message.child_frame_id!r} is not finite")
    peers.pos[slot] = p.x, p.y, p.z
    peers.lin_vel[slot] = velocity
    return stamp_ns(message.header.stamp)


def write_odometry(message: Odometry, state: RobotState, time_ns: int) -> None:
    """Fill pose, twist and stamp of `message` from `state` (no batch); frames stay as they are."""
    pose, twist = message.pose.pose, message.twist.twist
    p, q, v, w = pose.position, pose.orientation, twist.linear, twist.angular
    p.x, p.y, p.z = state.base_pos.tolist()
    q.w, q.x, q.y, q.z = state.base_quat.tolist()
    v.x, v.y, v.z = state.base_lin_vel.tolist()
    w.x, w.y, w.z = state.base_ang_vel.tolist()
    set_stamp(message.header.stamp, time_ns)


def write_poses(message: PoseArray, poses: np.ndarray, time_ns: int) -> None:
    """Fill the N poses of `message` from (N, 7): position m, quaternion wxyz."""
    for pose, values in zip(message.poses, poses.tolist(), strict=True):
        p, q = pose.position, pose.orientation
        p.x, p.y, p.z, q.w, q.x, q.y, q.z = values
    set_stamp(message.header.stamp, time_ns)


def odometry_of(robot: str) -> Odometry:
    """An Odometry with the frames of `robot`, to be filled again and again."""
    message = Odometry()
    message.header.frame_id = WORLD_FRAME
    message.child_frame_id = base_frame(robot)
    return message


class CommandConverter:
    """ActuatorCommand <-> JointState with named channels; N and N m are efforts, rad/s velocities, rad positions."""

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
        """Command (U,) and stamp in ns. MessageError for other channels or lengths; values are not judged here."""
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


_FIELDS = {"N": "effort", "N m": "effort", "rad/s": "velocity", "rad": "position"}
