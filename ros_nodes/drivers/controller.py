"""A controller of ros2_control, by what it says of itself: which joints it takes, in which order, and where.

Facts: https://control.ros.org/jazzy/doc/ros2_controllers/doc/controllers_index.html, of `forward_command_controller`,
`position_controllers` and `joint_trajectory_controller`.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.client import Client
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from hardware.drivers import DriverError
from ros_nodes.messages import qos

FORWARD, TRAJECTORY = "commands", "joint_trajectory"
# Either, as it was called before: a trajectory begins at what was commanded last, not at what is measured.
GOES_ON = ("interpolate_from_desired_state", "open_loop_control")
ASKED = ("joints", "command_interfaces", "interface_name", *GOES_ON)
LOOK_S = 0.05


class Controller:
    """Takes joint positions, as `Float64MultiArray` in its own order, or as `JointTrajectory`."""

    def __init__(self, node: Node, name: str, joints: Sequence[str], horizon_s: float, within_s: float):
        """`joints` (J,) in the order of set-points; `horizon_s`: in which a point of a trajectory is reached, as
        long as from one to the next.

        DriverError where it does not answer `within_s`, or takes other joints or no positions.
        """
        self._node, self._joints, self.name = node, list(joints), f"/{name.strip('/')}"
        said = self._ask(within_s)
        if sorted(said["joints"]) != sorted(joints):
            given = ", ".join(said["joints"]) or "none"
            raise DriverError(f"controller {self.name} takes the joints {given}; expected {', '.join(joints)}")
        takes = said["command_interfaces"] or [said["interface_name"] or "position"]
        if takes != ["position"]:
            raise DriverError(f"controller {self.name} takes {', '.join(takes)}; expected position")
        if said["command_interfaces"] and not said["goes_on"]:
            raise DriverError(
                f"controller {self.name} begins each trajectory where the joints are: set {GOES_ON[0]}: true"
            )
        self._order = [self._joints.index(joint) for joint in said["joints"]]
        kind = TRAJECTORY if said["command_interfaces"] else FORWARD
        self.topic = f"{self.name}/{kind}"
        message = JointTrajectory if kind == TRAJECTORY else Float64MultiArray
        self._publisher = node.create_publisher(message, self.topic, qos.MEASURED)
        self._make = self._trajectory if kind == TRAJECTORY else self._array
        self._horizon_ns = round(horizon_s * 1e9)

    def send(self, q: np.ndarray) -> None:
        """Set-points (J,), rad or m."""
        self._publisher.publish(self._make(q))

    def hindrance(self) -> str:
        """Why it does not hear us alone; empty for nothing."""
        if not self._publisher.get_subscription_count():
            return f"no controller listens to {self.topic}"
        if (others := self._node.count_publishers(self.topic) - 1) > 0:
            return f"{others} more publish to {self.topic}: this robot has one commander"
        return ""

    def _array(self, q: np.ndarray) -> Float64MultiArray:
        return Float64MultiArray(data=q[self._order].tolist())

    def _trajectory(self, q: np.ndarray) -> JointTrajectory:
        """Without a stamp it begins as it comes, and after its only point the joints hold it."""
        point = JointTrajectoryPoint(positions=q.tolist())
        point.time_from_start.nanosec = self._horizon_ns
        return JointTrajectory(joint_names=self._joints, points=[point])

    def _ask(self, within_s: float) -> dict[str, Any]:
        """Its parameters; those that it does not have are empty."""
        client = self._node.create_client(GetParameters, f"{self.name}/get_parameters")
        executor = SingleThreadedExecutor(context=self._node.context)
        executor.add_node(self._node)
        until_s = time.monotonic() + within_s
        try:
            while not client.service_is_ready():
                if time.monotonic() > until_s:
                    why = self._others() or "is it loaded?"
                    raise DriverError(f"controller {self.name} does not answer within {within_s:g} s: {why}")
                time.sleep(LOOK_S)
            joints, interfaces, interface, *goes_on = (self._value(client, executor, name, until_s) for name in ASKED)
        finally:
            executor.remove_node(self._node)
            executor.shutdown()
            self._node.destroy_client(client)
        return {
            "joints": list(joints.string_array_value),
            "command_interfaces": list(interfaces.string_array_value),
            "interface_name": interface.string_value,
            "goes_on": any(each.bool_value for each in goes_on),
        }

    def _others(self) -> str:
        """Which controllers there are, by what they listen to; empty for none."""
        kinds = {FORWARD: "std_msgs/msg/Float64MultiArray", TRAJECTORY: "trajectory_msgs/msg/JointTrajectory"}
        found = {
            name.rpartition("/")[0].strip("/")
            for name, types in self._node.get_topic_names_and_types()
            if kinds.get(name.rpartition("/")[2]) in types and self._node.count_subscribers(name)
        } - {"", self.name.strip("/")}
        return f"there are the controllers {', '.join(sorted(found))}" if found else ""

    def _value(self, client: Client, executor: SingleThreadedExecutor, name: str, until_s: float) -> ParameterValue:
        """Asked for one by one: a node that lacks one of several says none."""
        answer = client.call_async(GetParameters.Request(names=[name]))
        executor.spin_until_future_complete(answer, max(LOOK_S, until_s - time.monotonic()))
        if not answer.done() or answer.result() is None:
            raise DriverError(f"controller {self.name} does not say its parameter {name}")
        values = answer.result().values
        return values[0] if values else ParameterValue()
