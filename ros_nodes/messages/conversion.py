"""Conversion between messages and types: poses, twists and stamps; for joints and actuators see `messages.joints`.

Messages: quaternions xyzw, stamps in two integers, twists of `nav_msgs/Odometry` in the child frame (REP-105, REP-103).
Types: see hardware.types. A stamp here is integer nanoseconds of the ROS clock.
"""

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseArray
from nav_msgs.msg import Odometry

from hardware.types import ObjectState, Peers, RobotState

WORLD_FRAME = "world"


class MessageError(ValueError):
    """A message with invalid content; the text names the reason."""


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


def read_odometry(message: Odometry, state: RobotState) -> int:
    """Fill the base of `state` (no batch); returns the measurement's stamp in ns."""
    return _read(message, state.base_pos, state.base_quat, state.base_lin_vel, state.base_ang_vel)


def read_object(message: Odometry, state: ObjectState) -> int:
    """Fill `state` (no batch) but for its age; returns the measurement's stamp in ns."""
    return _read(message, state.pos, state.quat, state.lin_vel, state.ang_vel)


def _read(message: Odometry, pos: np.ndarray, quat: np.ndarray, lin_vel: np.ndarray, ang_vel: np.ndarray) -> int:
    pose, twist = message.pose.pose, message.twist.twist
    p, q, v, w = pose.position, pose.orientation, twist.linear, twist.angular
    pos[:] = p.x, p.y, p.z
    quat[:] = q.w, q.x, q.y, q.z
    lin_vel[:] = v.x, v.y, v.z
    ang_vel[:] = w.x, w.y, w.z
    return stamp_ns(message.header.stamp)


def read_peer(message: Odometry, peers: Peers, slot: int) -> int:
    """Fill position and world velocity of `peers[slot]`; returns the measurement's stamp in ns.

    MessageError where it is not finite.
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
    """Fill pose, twist and stamp of `message` from the base of `state` (no batch); frames stay as they are."""
    _write(message, state.base_pos, state.base_quat, state.base_lin_vel, state.base_ang_vel)
    set_stamp(message.header.stamp, time_ns)


def write_object(message: Odometry, state: ObjectState, time_ns: int) -> None:
    """Fill pose, twist and stamp of `message` from `state` (no batch); frames stay as they are."""
    _write(message, state.pos, state.quat, state.lin_vel, state.ang_vel)
    set_stamp(message.header.stamp, time_ns)


def _write(message: Odometry, pos: np.ndarray, quat: np.ndarray, lin_vel: np.ndarray, ang_vel: np.ndarray) -> None:
    pose, twist = message.pose.pose, message.twist.twist
    p, q, v, w = pose.position, pose.orientation, twist.linear, twist.angular
    p.x, p.y, p.z = pos.tolist()
    q.w, q.x, q.y, q.z = quat.tolist()
    v.x, v.y, v.z = lin_vel.tolist()
    w.x, w.y, w.z = ang_vel.tolist()


def write_poses(message: PoseArray, poses: np.ndarray, time_ns: int) -> None:
    """Fill the N poses of `message` from (N, 7): position m, quaternion wxyz."""
    for pose, values in zip(message.poses, poses.tolist(), strict=True):
        p, q = pose.position, pose.orientation
        p.x, p.y, p.z, q.w, q.x, q.y, q.z = values
    set_stamp(message.header.stamp, time_ns)


def odometry_of(child_frame: str) -> Odometry:
    """An Odometry of `child_frame` in the world, to be filled again and again."""
    message = Odometry(child_frame_id=child_frame)
    message.header.frame_id = WORLD_FRAME
    return message
