"""Topics with the measurements of a robot, real or simulated."""

from collections import deque

from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from hardware.spec import RobotSpec
from hardware.types import RobotState
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import MessageError, OdometryWriter, base_frame
from ros_nodes.messages.joints import JointConverter
from ros_nodes.messages.transforms import Transforms

REMEMBERED_S = 5.0  # a shield that is blind lands its robot by the last measurement


class Measurements:
    """Publishes `odom`, `joint_states` where there are joints, and tf.

    The odometry of a fixed base is published once a control period only: just its peers use it.
    """

    def __init__(
        self, node: ManagedNode, spec: RobotSpec, robot: str, transforms: Transforms | None, namespace: str = ""
    ):
        """`namespace` ends in a slash; empty for the node's own."""
        self._transforms, self._fixed_base = transforms, spec.fixed_base
        self._frame = base_frame(robot)
        self._odometry = OdometryWriter(self._frame)
        self._odometry_publisher = node.advertise(Odometry, f"{namespace}odom", qos.MEASURED)
        self._odometry_ns = round(1e9 / spec.control_hz) if spec.fixed_base else 0
        self._last_ns = 0
        self._stamps_ns: deque[int] = deque(maxlen=round(REMEMBERED_S * spec.sensor_hz))
        self._joints = JointConverter(spec.joint_names, self._frame)
        self._joint_publisher = (
            node.advertise(JointState, f"{namespace}joint_states", qos.MEASURED) if spec.joints else None
        )

    def publish(self, state: RobotState, stamp_ns: int) -> None:
        """Publish `state` (no batch), measured at `stamp_ns` (the node's clock)."""
        self._stamps_ns.append(stamp_ns)
        if abs(stamp_ns - self._last_ns) >= self._odometry_ns:
            self._last_ns = stamp_ns
            self._odometry_publisher.publish(self._odometry.base(state, stamp_ns))
        if self._joint_publisher is not None:
            self._joint_publisher.publish(self._joints.write(state, stamp_ns))
        if self._transforms is not None:
            self._transforms.update(self._frame, state.base_pos, state.base_quat, stamp_ns, self._fixed_base)

    def refuse(self, stamp_ns: int, publishers: int) -> None:
        """MessageError for a command stamped `stamp_ns`, of one of several `publishers`, that may be a stranger's.

        A shield stamps its commands with the measurement behind them. Who else commands the robot, by mistake, does not
        know these times, and is not obeyed; the shield still is. Where only one publishes it is free to stamp.
        """
        if publishers > 1 and stamp_ns not in self._stamps_ns:
            raise MessageError(
                f"command has {publishers} publishers: obeyed is what answers a measurement, this was not"
            )
