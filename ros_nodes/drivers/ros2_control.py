"""Driver of any robot with joints behind ros2_control: `joint_states` in, set-points of a position controller out.

A thread sends the set-points, which move as the drives of the robot's specification would move its joints. Controllers
of ros2_control have no watchdog: without set-points they hold the last one.
"""

import threading
import time

import numpy as np
import rclpy
from rclpy.node import Node
from sensor_msgs.msg import JointState

from hardware.drivers import DriverError
from hardware.drivers.device_clock import DeviceClock
from hardware.drivers.setpoints import STEADY_S, measured_jump, next_setpoint, out_of_range
from hardware.drivers.threads import beats
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, DeviceStatus, RobotState
from ros_nodes.drivers.controller import Controller
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import empty_state
from ros_nodes.messages.joints import JointConverter
from ros_nodes.messages.layout import MessageError

SILENT_S = 0.25  # of what is measured: its shield has held it long before
LONGEST_WAIT_S = 0.1  # that a message is believed to have waited here: the system's clock may be set
COAST_S = 0.1  # without a target for so long the set-point comes to rest
AWAY_RAD, AWAY_S = 0.3, 0.5  # a joint so far from its set-point, for so long, does not follow
LOOK_S, STOP_S, REST_RAD_S = 0.1, 1.0, 1e-3
COMMAND_HZ = (20.0, 1000.0)


class Ros2ControlDriver:
    """One robot. Calls come from one thread, set-points go out from another."""

    needed_hz = 100.0  # a broadcaster may send fewer than the arm's own controller measures

    def __init__(
        self,
        spec: RobotSpec,
        controller: str,
        joint_states: str = "/joint_states",
        prefix: str = "",
        command_hz: float = 250.0,
        connect_s: float = 10.0,
    ):
        """`controller` by its name, and namespace; `prefix` of the names of joints, such as "left_".

        DriverError for a robot whose channels are not positions of its joints, or a rate that cannot be.
        """
        if not spec.fixed_base or spec.channel_names != spec.joint_names:
            raise DriverError(f"driver ros2_control moves robots on a fixed base by joint positions, not {spec.name!r}")
        if not COMMAND_HZ[0] <= command_hz <= COMMAND_HZ[1]:
            raise DriverError(f"command_hz is {command_hz:g}: expected {COMMAND_HZ[0]:g} to {COMMAND_HZ[1]:g}")
        self._name, self._topic, self._connect_s = controller, joint_states, connect_s
        self._joints = [prefix + name for name in spec.joint_names]
        self._low, self._high = np.array(spec.command_low), np.array(spec.command_high)
        rate = np.array([joint.stiffness / joint.damping for joint in spec.joints])  # 1/s
        max_velocity = np.array([joint.max_velocity for joint in spec.joints])
        self._max_velocity = max_velocity
        self._drive = rate, max_velocity, min(joint.max_acceleration for joint in spec.joints)
        self._cycle_s = 1.0 / command_hz
        self._context: rclpy.Context | None = None  # of our own, where the process has none
        self._node: Node | None = None
        self._state, self._next = empty_state(len(spec.joints)), empty_state(len(spec.joints))
        self._measured_s, self._away_since_s, self._look_s = -np.inf, np.inf, -np.inf
        self._came_s, self._stamp_ns = -np.inf, 0  # the last good message, whatever its stamp says
        self._jumped: tuple[float, str] = -np.inf, ""  # when a joint was measured where it cannot have gone, and which
        self._clock = DeviceClock()
        self._garbage = self._hindrance = self._fault = ""
        self._armed = False
        self._setpoint, self._velocity = np.zeros(len(spec.joints)), np.zeros(len(spec.joints))
        self._target, self._heard_s = self._setpoint, -np.inf
        self._lock = threading.Lock()  # over what `arm`, `disarm`, `write` and the thread change
        self._moves = False  # whether set-points are sent: until it is at rest, after it was disarmed
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ros2_control", daemon=True)

    @staticmethod
    def device(controller: str, **_: object) -> str:
        """Which one these options mean, see `hardware.drivers.device_of`."""
        return controller.strip("/")

    def connect(self) -> None:
        """Find the controller and wait for what is measured; moves nothing. DriverError in one line."""
        if not rclpy.ok():
            self._context = rclpy.Context()
            rclpy.init(args=[], context=self._context)
        name = "phalanx_" + "_".join(self._name.strip("/").split("/"))
        node = Node(name, context=self._context, use_global_arguments=False, start_parameter_services=False)
        self._node = node
        try:
            self._controller = Controller(node, self._name, self._joints, self._cycle_s, self._connect_s)
            self._measured = Mailbox(node, JointState, self._topic, qos.SENSOR, raw=True)
            self._converter = JointConverter(self._joints)
            until_s = time.monotonic() + self._connect_s
            while not np.isfinite(self._measured_s):
                if time.monotonic() > until_s:
                    raise DriverError(self._garbage or f"nothing on {self._topic} within {self._connect_s:g} s")
                time.sleep(0.01)
                self._hear()
        except DriverError:
            self.stop()
            raise
        self._thread.start()

    def arm(self) -> None:
        """Set-points go out, the first of which is where the joints are, or where the last one has come to."""
        self._hear()
        self.disarm()
        self._fault = self.read_status().fault
        jumped_s, jump = self._jumped
        beyond = out_of_range(self._joints, self._state.joint_pos, self._low, self._high)
        self._fault = self._fault or beyond or (jump if time.monotonic() < jumped_s + STEADY_S else "")
        if self._fault:
            return
        with self._lock:
            if not self._moves:  # else it brakes still, ahead of the joints: its controller would see it jump back
                self._setpoint, self._velocity = self._state.joint_pos.astype(float), np.zeros_like(self._velocity)
            self._target, self._armed, self._moves = self._setpoint, True, True

    def disarm(self) -> None:
        """The set-point brakes, and no more go out: the controller holds the last one."""
        with self._lock:
            self._armed, self._fault, self._away_since_s = False, "", np.inf

    def read(self) -> RobotState:
        self._hear()
        self._state.age = np.float32(max(0.0, time.monotonic() - self._measured_s))
        return self._state

    def read_firmware(self) -> str:
        """Of the hardware it says nothing; which controller takes the set-points, and where."""
        return f"ros2_control: set-points go to {self._controller.topic}"

    def read_status(self) -> DeviceStatus:
        """What hinders it now; or else what took it from us, until its shield has heard of that."""
        now_s = time.monotonic()
        if now_s > self._look_s + LOOK_S:
            self._look_s, self._hindrance = now_s, self._controller.hindrance()
        fault = self._silence(now_s) or self._hindrance or self._away(now_s)
        with self._lock:
            if fault and self._armed:
                self._armed, self._fault = False, fault
            return DeviceStatus(self._armed, fault or self._fault)

    def write(self, command: ActuatorCommand) -> ActuatorCommand:
        if not np.isfinite(command.target).all():
            raise ValueError(f"target {command.target}: every number must be finite")
        target = np.clip(command.target, self._low, self._high)
        with self._lock:
            self._target, self._heard_s = target.astype(float), time.monotonic()
        return ActuatorCommand(target)

    def stop(self) -> None:
        """Bring the joints to rest, and leave."""
        self.disarm()
        until_s = time.monotonic() + STOP_S
        while self._thread.is_alive() and self._moves and time.monotonic() < until_s:
            time.sleep(self._cycle_s)
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        node, self._node = self._node, None
        if node is not None:
            node.destroy_node()
        if self._context is not None:
            self._context.try_shutdown()

    def _hear(self) -> None:
        """The newest of `joint_states`; messages of other joints, or without velocities, are none."""
        if self._node is None:
            return
        for message, arrived_ns in self._measured.drain():
            now_s = time.monotonic() - min(max(1e-9 * (time.time_ns() - arrived_ns), 0.0), LONGEST_WAIT_S)
            try:
                stamp_ns = self._converter.read(message, self._next)
            except MessageError as error:
                self._garbage = f"{self._topic}: {str(error).removeprefix('joint_states: ')}"
                continue
            known = np.isfinite(self._next.joint_pos) & np.isfinite(self._next.joint_vel)
            if not known.all():
                self._garbage = f"{self._topic}: {self._joints[int(known.argmin())]} is measured as no finite number"
                continue
            if stamp_ns == self._stamp_ns:
                continue
            places, elapsed_s = (self._state.joint_pos, self._next.joint_pos), now_s - self._came_s
            if np.isfinite(elapsed_s) and (jump := measured_jump(self._joints, *places, self._max_velocity, elapsed_s)):
                self._jumped = now_s, jump
            self._state, self._next = self._next, self._state
            self._garbage, self._came_s, self._stamp_ns = "", now_s, stamp_ns
            self._measured_s = self._clock.packet(1e-9 * stamp_ns, now_s)

    def _silence(self, now_s: float) -> str:
        if now_s - self._measured_s < SILENT_S:
            return ""
        if now_s - self._came_s < SILENT_S:
            return f"{self._topic} is stamped {now_s - self._measured_s:.1f} s late: was its clock set?"
        why = f" ({self._garbage})" if self._garbage else ""
        return f"{self._topic} says nothing new any more{why}"

    def _away(self, now_s: float) -> str:
        """Of a joint that does not follow: its controller is not active, or its hardware has stopped."""
        with self._lock:
            away = np.abs(self._state.joint_pos - self._setpoint) if self._armed else np.zeros(1)
        if away.max() < AWAY_RAD:
            self._away_since_s = np.inf
        elif now_s - (since_s := min(self._away_since_s, now_s)) > AWAY_S:
            return f"{self._joints[int(away.argmax())]} does not follow: is {self._name} active?"
        else:
            self._away_since_s = since_s
        return ""

    def _run(self) -> None:
        for _ in beats(self._cycle_s, self._ended):
            with self._lock:
                if not self._moves:
                    continue
                at_rest = not self._armed or time.monotonic() > self._heard_s + COAST_S
                target = self._setpoint if at_rest else self._target
                self._setpoint, self._velocity = next_setpoint(
                    self._setpoint, self._velocity, target, *self._drive, self._cycle_s
                )
                self._moves = self._armed or bool(np.abs(self._velocity).max() > REST_RAD_S)
                self._controller.send(self._setpoint)
