"""What the shield made of a policy's last request, for policies that are shown it."""

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import JointState

from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand
from ros_nodes.lifecycle.clock import SenderClock
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import MessageError
from ros_nodes.messages.first_speaker import FirstSpeaker
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.messages.own_shield import COMMAND


class Corrections:
    """`command`, polled, less the request that it answers. A second publisher there counts as nothing."""

    def __init__(self, node: ManagedNode, spec: RobotSpec) -> None:
        self._speaker = FirstSpeaker(node.subscribe(JointState, COMMAND, qos.COMMANDS_IN, raw=True))
        self._converter, self._sender = CommandConverter(spec.channels), SenderClock(node.clock)
        self._near_ns = round(0.5e9 / spec.control_hz)  # stamps of one measurement, and no other's, are as near
        self._requested, self._stamp_ns = np.zeros(0, np.float32), 0

    def request(self, command: ActuatorCommand, stamp_ns: int) -> None:
        """The policy asks for `command`, for the measurement of `stamp_ns` in the time of the node."""
        self._requested, self._stamp_ns = command.target, stamp_ns

    def take(self, now_ns: int) -> NDArray | None:
        """What was sent, less what had been requested, (U,) in units of the channels.

        None where the newest command is no answer to the last request, or cannot be read.
        """
        if (taken := self._speaker.take()) is None:
            return None
        try:
            sent, stamp_ns = self._converter.read(taken[0])
        except MessageError:  # the driver says it
            return None
        answers = abs(self._sender.to_own(stamp_ns, now_ns) - self._stamp_ns) < self._near_ns
        return sent.target - self._requested if answers and np.isfinite(sent.target).all() else None
