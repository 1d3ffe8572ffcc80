"""One real robot: what its driver measures becomes `odom` and `joint_states`, and `command` goes to its actuators.

`sent` is what the device got after its own limits, with the stamp of the measurement behind it.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import JointState

from deploy.shield.authority import State
from hardware import load_robot
from hardware.drivers import CutsMotors, Driver, HasBattery, HasStatus, ReportsPlant, load_driver, unmeasured_by
from hardware.types import DeviceStatus, RobotState
from ros_nodes.lifecycle.host import run_node
from ros_nodes.lifecycle.lifecycle_node import LoopEnded, ThreadNode
from ros_nodes.lifecycle.loop import Deadlines
from ros_nodes.lifecycle.parameters import NEVER, declare, declare_base_pose, declare_trusted_keys
from ros_nodes.messages import qos
from ros_nodes.messages.battery import BatteryPublisher
from ros_nodes.messages.conversion import MessageError, base_frame, empty_state
from ros_nodes.messages.device import DevicePublisher
from ros_nodes.messages.diagnostics import driver_status
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.messages.measurements import Measurements
from ros_nodes.messages.names import DRIVER_STATUS
from ros_nodes.messages.own_shield import COMMAND, own_shield
from ros_nodes.messages.shield_says import ShieldSays
from ros_nodes.messages.subscriptions import place
from ros_nodes.messages.transforms import declare_tf_hz, make_transforms

NS = 1_000_000_000
SILENT = (State.DISARMED.name, State.FAULT.name)  # in which a shield may have nothing to say
STOOD = 0.5  # of the silence that stops a robot: a loop that wakes so much later has stood still
OBEYED = tuple(state.name for state in (State.ARMED, State.STARTING, State.POLICY, State.LANDING))


class DriverNode(ThreadNode):
    """Publishes measurements at the robot's sensor rate and obeys `command`.

    Without commands it stops the robot, unless its shield said that it is disarmed. A driver that can arm its device
    does so when the shield does. It belongs into the shield's process, see `host`.
    """

    def __init__(self, namespace: str = "") -> None:
        super().__init__("driver", namespace)
        self._driver: Driver | None = None
        self._read_status: Callable[[], DeviceStatus] | None = None
        self._shield_state = ""  # as the shield said last
        self._on_feet = False

    def read_parameters(self) -> None:
        own = self.get_namespace().strip("/")
        self._name = declare(self, "robot_name", own, "Name of this robot: its namespace and tf prefix.")
        self._robot_type = declare(self, "robot_type", "crazyflie", "Robot specification by name.", may_be_set=NEVER)
        self._path = declare(self, "driver", "", "Class of the driver: package.module:Class.", may_be_set=NEVER)
        text = "Policy file (.onnx) that is flown: for whose plant the robot has to be, where its driver reports one."
        self._bundle = declare(self, "bundle", "", text)
        self._trusted_keys = declare_trusted_keys(self)
        self._options = declare(self, "options", "{}", "Options of the driver, a JSON object.")
        self._command_timeout_s = declare(
            self, "command_timeout_s", 0.5, "The robot is stopped when no command has come for so long, s.", 0.05, 2.0
        )
        self._base_pose = declare_base_pose(self)
        self._tf_hz = declare_tf_hz(self)

    def configure(self) -> None:
        spec = load_robot(self._robot_type)
        self._on_feet = not (spec.flight or spec.fixed_base)
        options = json.loads(self._options)
        if not isinstance(options, dict):
            raise ValueError(f"parameter 'options' is {self._options!r}: expected a JSON object")
        self._driver = load_driver(self._path, spec, **options)
        self._driver.connect()
        plant = dict(self._driver.read_plant()) if isinstance(self._driver, ReportsPlant) else {}
        fingerprint = ""
        if self._bundle:
            from deploy.runtime.compatibility import check_driver  # onnxruntime: only where needed

            fingerprint = check_driver(self._bundle, plant, self._trusted_keys, unmeasured_by(self._driver))
        self._about = driver_status(self._name, spec, fingerprint, self.clock.now_ns())
        self._own_status = self.advertise(DiagnosticArray, DRIVER_STATUS, qos.LATCHED)
        self._period_s = 1 / spec.sensor_hz
        self._bolted: RobotState | None = None
        if spec.fixed_base:
            self._bolted = empty_state(len(spec.joints))
            place(self._bolted, *self._base_pose)
        self._measurements = Measurements(self, spec, self._name, make_transforms(self, self._tf_hz))
        self._battery = BatteryPublisher(self) if isinstance(self._driver, HasBattery) else None
        self._read_status = self._driver.read_status if isinstance(self._driver, HasStatus) else None
        self._device = DevicePublisher(self, self._name)
        # Beside its shield it obeys that alone, and no one else on `command` or `status`.
        self._here = own_shield(self, "shield")
        self._commands = self._here or self.subscribe(JointState, COMMAND, qos.COMMANDS_IN, raw=True)
        self._shield = None if self._here else ShieldSays(self)
        self._sent = self.advertise(JointState, "sent", qos.SENSOR)
        self._converter = CommandConverter(spec.channels, base_frame(self._name))

    def needed(self) -> str:
        """While its shield has the robot, the shield would command nothing; one on its feet would fall in FAULT too."""
        kept = OBEYED + ((State.FAULT.name,) if self._on_feet else ())
        has_it = self.is_active and self._shield_state in kept and not self.failed
        return "the shield has the robot: land it first, or stop it" if has_it else ""

    def run(self, stopped: threading.Event) -> None:
        driver = self._driver
        assert driver is not None
        self._own_status.publish(self._about)
        deadlines = Deadlines(self._period_s, self.clock)
        self._shield_state = ""
        # Whether the device is to move: a stop leaves that as it was. None before the shield has said anything.
        self._is_armed: bool | None = None
        heard_ns: int | None = None
        silence_ns, slept_ns, excused = round(self._command_timeout_s * NS), self.clock.now_ns(), False
        while (tick := deadlines.wait(stopped)) is not None:
            now_ns = tick.woke_ns
            if self._here:
                self._here.lateness.note(now_ns * 1e-9, (now_ns - slept_ns) * 1e-9 - self._period_s)
            # Its process stood still, and it did not listen: that is excused once, or a slow one would never stop.
            if heard_ns and not excused and now_ns - slept_ns > STOOD * silence_ns:
                heard_ns, excused = heard_ns + now_ns - slept_ns, True
            heard_ns = heard_ns and min(heard_ns, now_ns)  # /clock may begin again: then silence counts from there
            if self._follow_shield(driver) or self._obey(driver):
                heard_ns, excused = now_ns, False
            elif self._is_armed is not False and heard_ns and now_ns - heard_ns > silence_ns:
                silent = f"no command for {self._command_timeout_s:g} s"
                self.get_logger().error(f"{self._name}: {silent}: the driver stops the robot")  # before: it takes time
                self._device.update(DeviceStatus(bool(self._is_armed), f"{silent}: its driver stops it"), now_ns)
                driver.stop()
                raise LoopEnded(f"{self._name}: {silent}: the robot was stopped")
            state = driver.read()
            if self._bolted is not None:  # where policy and shield have it: a driver does not know the world
                state = replace(self._bolted, joint_pos=state.joint_pos, joint_vel=state.joint_vel, age=state.age)
            self._measurements.publish(state, self.clock.now_ns() - round(float(state.age) * NS))
            if self._battery is not None and isinstance(driver, HasBattery) and self._battery.due(now_ns):
                self._battery.publish(driver.read_battery(), now_ns)
            if self._read_status is not None:
                status = self._read_status()
                if self._device.update(status, now_ns):
                    self.get_logger().error(f"{self._name}: {status.fault}")
            slept_ns = self.clock.now_ns()

    def _follow_shield(self, driver: Driver) -> bool:
        """Arm, disarm and cut the device with the shield; True where it was armed now.

        A person arms it: never a stop, nor a driver that began while its shield had the robot.
        """
        state = self._hear_shield()
        silent = (*SILENT, State.STOPPED.name) if getattr(driver, "stops_disarmed", False) else SILENT
        if state == State.STOPPED.name != self._shield_state and isinstance(driver, CutsMotors):
            driver.cut()
        self._shield_state = state or self._shield_state
        if state not in (*silent, *OBEYED) or (state == State.FAULT.name and self._is_kept_up()):
            return False
        before, self._is_armed = self._is_armed, state not in silent
        if self._is_armed is before:
            return False
        if not self._is_armed:
            driver.disarm()
        elif before is False:
            driver.arm()
        return self._is_armed

    def _is_kept_up(self) -> bool:
        """Whether it is on its feet, by commands that its device obeys: disarmed it would fall."""
        return self._on_feet and bool(self._is_armed) and (self._read_status is None or self._read_status().armed)

    def _hear_shield(self) -> str:
        """Its state, by name; empty for nothing new."""
        if self._here:
            return self._here.state
        said = self._shield.take() if self._shield else None
        return said.state if said else ""

    def _obey(self, driver: Driver) -> bool:
        """Pass the newest command on; garbage, and what a stranger says, counts as silence."""
        newest = None
        for taken in self._commands.drain():
            try:
                command, stamp_ns = self._converter.read(taken[0])
                self._measurements.refuse(stamp_ns, self._commands.publishers)
                if not np.isfinite(command.target).all():
                    raise MessageError("command has numbers that are not finite")
            except MessageError as error:
                self.get_logger().warning(str(error), throttle_duration_sec=1.0)
            else:
                newest = command, stamp_ns
        if newest is None:
            return False
        self._sent.publish(self._converter.write(driver.write(newest[0]), newest[1]))
        return True

    def health(self) -> tuple[bytes, str, dict[str, str]]:
        return super().health() if self._read_status is None else self._device.health()

    def _release(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.stop()
        super()._release()


def main() -> int:
    """Run the node."""
    run_node(DriverNode)


if __name__ == "__main__":
    raise SystemExit(main())
