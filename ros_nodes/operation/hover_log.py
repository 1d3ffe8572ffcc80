"""What a drone measured and was sent for a while, from outside of its programs.

For a process that does nothing else, and ends by `end_process`.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from math import nan

import numpy as np
import rclpy
from nav_msgs.msg import Odometry
from sensor_msgs.msg import BatteryState, JointState

from hardware.rotation import rotate
from hardware.spec import RobotSpec
from ros_nodes.lifecycle.context import domain_context
from ros_nodes.lifecycle.polling import make_mailbox
from ros_nodes.messages import battery, qos
from ros_nodes.messages.conversion import empty_state, read_motion, read_odometry
from ros_nodes.messages.joints import CommandConverter

LOOK_S = 0.002
_LEFT_OPEN = ExitStack()


@dataclass(frozen=True)
class HoverLog:
    """In the order in which it came; T measurements and S commands."""

    thrust_n: np.ndarray  # (S,) sent
    time_s: np.ndarray  # (T,) of the measurements
    height_m: np.ndarray  # (T,)
    velocity_w: np.ndarray  # (T, 3) m/s
    upright: np.ndarray  # (T,) cosine of the tilt
    voltage_v: float  # of the battery, NaN where none is known


def listen(
    robot: str, spec: RobotSpec, seconds: float, domain: int | None, on_progress: Callable[[float], None]
) -> HoverLog:
    """Listen to `robot` for so long after its first measurement, or without one; `on_progress` gets the seconds."""
    node = rclpy.create_node("calibrate", context=_LEFT_OPEN.enter_context(domain_context(domain)), enable_rosout=False)
    odometry = make_mailbox(node, Odometry, f"/{robot}/odom", qos.SENSOR, raw=True)
    commands = make_mailbox(node, JointState, f"/{robot}/sent", qos.SENSOR, raw=True)
    said = make_mailbox(node, BatteryState, f"/{robot}/{battery.TOPIC}", qos.LATCHED)
    converter, state, voltage_v = CommandConverter(spec.channels), empty_state(0), nan
    thrust_n: list[float] = []
    measured: list[tuple[float, ...]] = []
    begun_s = time.monotonic()
    while (now_s := time.monotonic() - begun_s) < seconds:
        on_progress(now_s)
        if (taken := odometry.take()) is not None:
            if not measured:
                begun_s = time.monotonic()
            stamp_ns = read_odometry(read_motion(taken[0]), state)
            up = rotate(state.base_quat, np.array([0.0, 0.0, 1.0], np.float32))
            x, y, z = (float(each) for each in np.asarray(rotate(state.base_quat, state.base_lin_vel)))
            measured.append((1e-9 * stamp_ns, float(state.base_pos[2]), x, y, z, float(np.asarray(up)[2])))
        if (taken := commands.take()) is not None:
            thrust_n.append(float(converter.read(taken[0])[0].target[0]))
        if (taken := said.take()) is not None:
            voltage_v = float(taken[0].voltage)
        time.sleep(LOOK_S)
    table = np.array(measured).reshape(-1, 6)
    return HoverLog(np.array(thrust_n), table[:, 0], table[:, 1], table[:, 2:5], table[:, 5], voltage_v)
