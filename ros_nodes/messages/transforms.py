"""Where bases are in the world, for tf: `/tf` of what moves, `/tf_static` of what is bolted down.

The message is of the package tf2_msgs, which a system's ROS has and PyPI has not; without it there is no tf.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from geometry_msgs.msg import TransformStamped
from rclpy.lifecycle import LifecyclePublisher

from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.parameters import declare
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import WORLD_FRAME, set_stamp

try:
    from tf2_msgs.msg import TFMessage
except ImportError:
    TFMessage = None

Send = Callable[[list[TransformStamped]], None]


class Transforms:
    """Gathers the poses that one node measures, and sends the newest of all together, `hz` times a second at most."""

    def __init__(self, hz: float, send: Send, send_fixed: Send, listeners: Callable[[], int] = lambda: 1):
        """`listeners`: how many hear what is sent; without any, nothing is."""
        self._period_ns, self._send, self._send_fixed = round(1e9 / hz), send, send_fixed
        self._listeners = listeners
        self._moving: dict[str, TransformStamped] = {}
        self._fixed: dict[str, TransformStamped] = {}
        self._newest: dict[str, tuple[np.ndarray, np.ndarray, int]] = {}
        self._last_ns = 0

    def update(self, frame: str, pos: np.ndarray, quat: np.ndarray, stamp_ns: int, fixed: bool = False) -> None:
        """`frame` was at `pos` (3,) m, `quat` (4,) wxyz in the world; where it is `fixed` once is enough."""
        if fixed:
            if frame not in self._fixed:
                self._fixed[frame] = _filled(TransformStamped(), frame, pos, quat, stamp_ns)
                self._send_fixed(list(self._fixed.values()))  # all of them: only the last message is kept
            return
        self._newest[frame] = pos, quat, stamp_ns
        if abs(stamp_ns - self._last_ns) < self._period_ns:
            return
        self._last_ns = stamp_ns
        if self._listeners():
            for name, pose in self._newest.items():
                self._moving[name] = _filled(self._moving.get(name) or TransformStamped(), name, *pose)
            self._send([self._moving[name] for name in self._newest])
        self._newest.clear()


def declare_tf_hz(node: ManagedNode) -> float:
    """Parameter `tf_hz`."""
    return float(declare(node, "tf_hz", 25.0, "Rate of `/tf` while somebody listens, Hz; 0 for no tf.", 0.0, 50.0))


def make_transforms(node: ManagedNode, hz: float) -> Transforms | None:
    """Publishes until the node's clean-up; None for a rate of 0, and without tf2_msgs, which is logged."""
    if hz == 0.0:
        return None
    if TFMessage is None:
        node.get_logger().info("no tf: the package tf2_msgs is not installed")
        return None
    moving, fixed = node.advertise(TFMessage, "/tf", qos.TF), node.advertise(TFMessage, "/tf_static", qos.LATCHED)

    def send(publisher: LifecyclePublisher, transforms: list[TransformStamped]) -> None:
        publisher.publish(TFMessage(transforms=transforms))

    return Transforms(hz, partial(send, moving), partial(send, fixed), moving.get_subscription_count)


def _filled(
    message: TransformStamped, frame: str, pos: np.ndarray, quat: np.ndarray, stamp_ns: int
) -> TransformStamped:
    message.header.frame_id, message.child_frame_id = WORLD_FRAME, frame
    set_stamp(message.header.stamp, stamp_ns)
    p, q = message.transform.translation, message.transform.rotation
    p.x, p.y, p.z = pos.tolist()
    q.w, q.x, q.y, q.z = quat.tolist()
    return message
