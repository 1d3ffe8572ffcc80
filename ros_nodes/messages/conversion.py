"""Conversion between messages and types: poses, twists and stamps; for joints and actuators see `messages.joints`.

Messages: quaternions xyzw, stamps in two integers, twists of `nav_msgs/Odometry` in the child frame (REP-105, REP-103).
Types: see hardware.types. A stamp here is integer nanoseconds of the sender's clock, see `lifecycle.clock`.
"""

import struct
from typing import NamedTuple

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseArray
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message

from deploy.shield.guards import FARTHEST
from hardware.types import ObjectState, Peers, RobotState
from ros_nodes.messages.layout import PLAIN_CDR, MessageError, aligned, write_stamp

WORLD_FRAME = "world"
MOST_M = FARTHEST  # and m/s, of robots, objects, people, and what stands around: larger numbers are a mistake


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
    """A state (J joints, no batch) for messages to fill; not finite until then."""
    joints, age = (_unknown(num_joints), _unknown(num_joints)), np.array(np.inf, np.float32)
    return RobotState(*joints, _unknown(3), _unknown(4), _unknown(3), _unknown(3), age)


def empty_object() -> ObjectState:
    """An object (no batch) for `read_object` to fill; not finite until then."""
    return ObjectState(_unknown(3), _unknown(4), _unknown(3), _unknown(3), np.array(np.inf, np.float32))


def _unknown(size: int) -> np.ndarray:
    return np.full(size, np.nan, np.float32)


def empty_peers(num_peers: int) -> Peers:
    """Peers (P, ...) to be filled from messages; none valid."""
    vectors = np.zeros((num_peers, 3), np.float32), np.zeros((num_peers, 3), np.float32)
    return Peers(*vectors, np.full(num_peers, np.inf, np.float32), np.zeros(num_peers, bool))


Vector = tuple[float, float, float]


class Motion(NamedTuple):
    """What is read of an Odometry: when and where a body is, and how it moves in its own frame."""

    stamp_ns: int
    frame: str
    pos: Vector  # m
    quat: tuple[float, float, float, float]  # wxyz
    lin_vel: Vector  # m/s
    ang_vel: Vector  # rad/s


def read_motion(serialised: bytes) -> Motion:
    """The content of a serialised Odometry. MessageError for bytes that are none, and for one without a stamp.

    Read at its offsets, without making a message of it, for 72 numbers of covariance are most of that work.
    """
    motion = _at_offsets(serialised) or _decoded(serialised)
    if motion.stamp_ns <= 0:
        raise MessageError(f"odometry of {motion.frame!r} has no stamp")
    return motion


def _at_offsets(serialised: bytes) -> Motion | None:
    """None for bytes that are not laid out as an Odometry is."""
    if serialised[:2] != PLAIN_CDR:
        return None
    try:
        sec, nanosec, length = _STAMP.unpack_from(serialised, 4)
        child = 16 + length + -length % 4  # two strings, each behind its length
        end = child + 4 + _LENGTH.unpack_from(serialised, child)[0]
        pose = aligned(end)
        if len(serialised) != pose + _POSE_AND_TWIST_SIZE:
            return None
        x, y, z, qx, qy, qz, qw = _POSE.unpack_from(serialised, pose)
        vx, vy, vz, wx, wy, wz = _TWIST.unpack_from(serialised, pose + _POSE.size + _COVARIANCE_SIZE)
    except struct.error:
        return None
    frame = bytes(serialised[child + 4 : end - 1]).decode(errors="replace")
    return Motion(sec * 1_000_000_000 + nanosec, frame, (x, y, z), (qw, qx, qy, qz), (vx, vy, vz), (wx, wy, wz))


def _decoded(serialised: bytes) -> Motion:
    """As the middleware reads it: bytes in another order, and whatever else claims to be an Odometry."""
    try:
        return _motion_of(deserialize_message(serialised, Odometry))
    except Exception as error:  # whatever the middleware raises on bytes that are none of its own
        raise MessageError(f"odometry of {len(serialised)} bytes cannot be read") from error


_STAMP, _LENGTH = struct.Struct("<iII"), struct.Struct("<I")
_POSE, _TWIST, _COVARIANCE_SIZE = struct.Struct("<7d"), struct.Struct("<6d"), 36 * 8
_POSE_AND_TWIST_SIZE = _POSE.size + _TWIST.size + 2 * _COVARIANCE_SIZE


def _motion_of(message: Odometry) -> Motion:
    pose, twist = message.pose.pose, message.twist.twist
    p, q, v, w = pose.position, pose.orientation, twist.linear, twist.angular
    vectors = (p.x, p.y, p.z), (q.w, q.x, q.y, q.z), (v.x, v.y, v.z), (w.x, w.y, w.z)
    return Motion(stamp_ns(message.header.stamp), message.child_frame_id, *vectors)


def read_odometry(motion: Motion, state: RobotState) -> int:
    """Fill the base of `state` (no batch); returns the measurement's stamp in ns."""
    state.base_pos[:], state.base_quat[:] = motion.pos, motion.quat
    state.base_lin_vel[:], state.base_ang_vel[:] = motion.lin_vel, motion.ang_vel
    return motion.stamp_ns


def read_object(motion: Motion, state: ObjectState) -> int:
    """Fill `state` (no batch) but for its age; returns the measurement's stamp in ns."""
    state.pos[:], state.quat[:] = motion.pos, motion.quat
    state.lin_vel[:], state.ang_vel[:] = motion.lin_vel, motion.ang_vel
    return motion.stamp_ns


def world_motion(motion: Motion) -> tuple[Vector, Vector]:
    """Position, m, and velocity in the world, m/s. MessageError where one is not finite, or beyond `MOST_M`."""
    (w, x, y, z), (vx, vy, vz) = motion.quat, motion.lin_vel
    # Scalars: for a single vector this is ten times cheaper than array arithmetic.
    tx, ty, tz = 2 * (y * vz - z * vy), 2 * (z * vx - x * vz), 2 * (x * vy - y * vx)
    velocity = (vx + w * tx + y * tz - z * ty, vy + w * ty + z * tx - x * tz, vz + w * tz + x * ty - y * tx)
    if not all(abs(value) < MOST_M for value in (*motion.pos, *velocity)):  # NaN is not less either
        raise MessageError(f"odometry of {motion.frame!r} is not finite, or beyond {MOST_M:g} m or m/s")
    return motion.pos, velocity


class OdometryWriter:
    """Serialised Odometry of one body in the world, filled again and again."""

    def __init__(self, child_frame: str):
        message = Odometry(child_frame_id=child_frame)
        message.header.frame_id = WORLD_FRAME
        self._message = bytearray(serialize_message(message))
        self._pose = len(self._message) - _POSE_AND_TWIST_SIZE
        self._twist = self._pose + _POSE.size + _COVARIANCE_SIZE

    def base(self, state: RobotState, time_ns: int) -> bytes:
        """The message for the base of `state` (no batch), measured at `time_ns`."""
        return self._write(state.base_pos, state.base_quat, state.base_lin_vel, state.base_ang_vel, time_ns)

    def object(self, state: ObjectState, time_ns: int) -> bytes:
        """The message for `state` (no batch), measured at `time_ns`."""
        return self._write(state.pos, state.quat, state.lin_vel, state.ang_vel, time_ns)

    def _write(
        self, pos: np.ndarray, quat: np.ndarray, lin_vel: np.ndarray, ang_vel: np.ndarray, time_ns: int
    ) -> bytes:
        w, x, y, z = quat.tolist()
        _POSE.pack_into(self._message, self._pose, *pos.tolist(), x, y, z, w)
        _TWIST.pack_into(self._message, self._twist, *lin_vel.tolist(), *ang_vel.tolist())
        write_stamp(self._message, time_ns)
        return bytes(self._message)


def write_poses(message: PoseArray, poses: np.ndarray, time_ns: int) -> None:
    """Fill the N poses of `message` from (N, 7): position m, quaternion wxyz."""
    for pose, values in zip(message.poses, poses.tolist(), strict=True):
        p, q = pose.position, pose.orientation
        p.x, p.y, p.z, q.w, q.x, q.y, q.z = values
    set_stamp(message.header.stamp, time_ns)
