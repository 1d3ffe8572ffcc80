"""One robot's shield, in a process of its own: every command passes it, also when the policy is silent."""

import threading
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from deploy.shield import Context, make_shield_params
from deploy.shield.supervisor import Mode, Shield
from hardware import load_robot
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand
from ros_nodes.lifecycle.clock import SenderClock
from ros_nodes.lifecycle.host import run_node
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.parameters import declare, declare_base_pose, declare_series_dir, declare_team
from ros_nodes.lifecycle.polling import Waiter
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import MessageError, base_frame
from ros_nodes.messages.diagnostics import ShieldStatus
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.messages.subscriptions import OwnState, PeerTable
from ros_nodes.nodes.emergency_stop import RESET, STOP, EmergencyStop

SERIES = ("time_s", "mode", "margin", "intervention", "request_age_ms", "work_us", "arrived")
SERIES_CAPACITY = 200_000
MISSING_AFTER = 1.25  # periods after the last request at which the next one counts as missing
FLOOD = 0.4  # of a period: requests that follow faster are left for the next cycle


class ShieldNode(ManagedNode):
    """Filters `requested` into `command`; services `shield/reset` and `shield/estop`, diagnostics on `status`."""

    def __init__(self, namespace: str = "") -> None:
        super().__init__("shield", namespace)
        self.robot_name, self._peer_names = declare_team(self)
        self._robot_type = declare(self, "robot_type", "crazyflie", "Robot specification by name.")
        self._bundle = declare(self, "bundle", "", "Policy file (.onnx) whose limits hold by default; empty for none.")
        self._status_hz = declare(
            self, "status_hz", 2.0, "Rate of `status`, Hz; a new mode is published at once.", low=0.1, high=50.0
        )
        self._series_dir = declare_series_dir(self)
        self._base_pose = declare_base_pose(self)
        self._emergency_stop = EmergencyStop()
        self.create_service(Trigger, "shield/reset", self._on_reset)
        self.create_service(Trigger, "shield/estop", self._on_estop)

    def configure(self) -> None:
        spec = load_robot(self._robot_type)
        self._params = self._declare_shield_params(spec)
        self._shield, self._spec = Shield(self._params, spec), spec
        self._state = OwnState(self, spec, self._base_pose)
        self._peers = PeerTable(self, self._peer_names)
        self._requested = self.subscribe(JointState, "requested", qos.COMMAND_IN)
        self._sender = SenderClock(self.clock)
        self._converter = CommandConverter(spec.channels, base_frame(self.robot_name))
        self._publisher = self.advertise(JointState, "command", qos.command_out(self._params.control_dt_s))
        self._status_publisher = self.advertise(DiagnosticArray, "status", qos.LATCHED)
        self._status = ShieldStatus(self.robot_name, 1 / self._status_hz)
        self._series = self.series(self._series_dir, SERIES, SERIES_CAPACITY)

    def run(self, stopped: threading.Event) -> None:
        period_ns, clock = round(self._params.control_dt_s * 1e9), self.clock
        waiter = Waiter(self, [self._requested])
        self._shield.reset()
        if self._emergency_stop.restart():  # a stop outlives deactivation: only a reset ends it
            self._shield.estop()
        self._request: ActuatorCommand | None = None
        self._request_ns = 0
        flood_ns, missing_ns = round(FLOOD * period_ns), round(MISSING_AFTER * period_ns)
        deadline_ns, earliest_ns = clock.now_ns() + period_ns, 0
        while clock.sleep_until(earliest_ns, stopped):
            arrived = clock.wait(waiter, deadline_ns, stopped) and self._take_request()
            now_ns = clock.now_ns()
            if not arrived and now_ns < deadline_ns:
                continue
            self._step(now_ns, arrived)
            earliest_ns = now_ns + flood_ns
            # A missed request moves the deadline by exactly one period: commands keep their rhythm without a policy.
            deadline_ns = now_ns + missing_ns if arrived else max(deadline_ns + period_ns, earliest_ns)

    def _take_request(self) -> bool:
        """Read a request that can be one; garbage counts as silence."""
        taken = self._requested.take()
        if taken is None:
            return False
        try:
            request, stamp_ns = self._converter.read(taken[0])
        except MessageError as error:
            self._status.reject(str(error))
            return False
        now_ns = self.clock.now_ns()
        stamp_ns = self._sender.to_own(stamp_ns, now_ns)
        if stamp_ns > now_ns + round(self._params.control_dt_s * 1e9):
            self._status.reject("request stamped in the future")
            return False
        self._request, self._request_ns = request, stamp_ns
        return True

    def _step(self, now_ns: int, arrived: bool) -> None:
        now_s = now_ns * 1e-9
        self._state.update(now_ns)
        peers = self._peers.update(now_ns)
        self._serve_services()
        if not self._state.stamp_ns:
            return  # no measurement yet: no command may be based on nothing
        age_s = (now_ns - self._request_ns) * 1e-9
        command, report = self._shield.step(now_s, Context(self._state.state, peers), self._request, age_s)
        stamp_ns = self._request_ns if arrived else self._state.stamp_ns
        if report.mode is not Mode.OFF or not self._spec.joints:  # OFF does not know where the joints are
            self._publisher.publish(self._converter.write(command, stamp_ns))
        if self._status.update(now_s, report, age_s):
            self._status_publisher.publish(self._status.message(now_ns))
        if self._series:
            work_us = (self.clock.now_ns() - now_ns) * 1e-3
            self._series.add(
                now_s, report.mode.value, report.margin, report.intervention, age_s * 1e3, work_us, arrived
            )

    def _serve_services(self) -> None:
        """Services run in the executor's thread, the shield in this one."""
        request = self._emergency_stop.take()
        if request == RESET:
            self._shield.reset()
            self._request = None
        elif request == STOP:
            self._shield.estop()

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._loop is not None:
            self._emergency_stop.request(RESET)
        return self._answer("reset", response)

    def _on_estop(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._emergency_stop.request(STOP)  # also while inactive: then it is stopped from its first cycle on
        return self._answer("estop", response)

    def _answer(self, what: str, response: Trigger.Response) -> Trigger.Response:
        """Success means that the shield is active: otherwise nothing holds the robot, and a person has to know."""
        response.success = self._loop is not None
        response.message = f"{what}: next cycle" if response.success else f"{what}: the shield is not active"
        return response

    def _declare_shield_params(self, spec: RobotSpec) -> Any:
        """Every field is a ROS parameter `shield.<field>`: by default that of the policy file, else of the spec."""
        defaults = make_shield_params(spec, **self._limits_of_bundle(spec))
        values = {}
        for field in fields(defaults):
            default = getattr(defaults, field.name)
            value = list(default) if isinstance(default, tuple) else default
            name = f"shield.{field.name}"
            if not self.has_parameter(name):
                declare(self, name, value, f"{type(defaults).__name__}.{field.name}, see deploy/shield.")
            given = self.get_parameter(name).value
            values[field.name] = tuple(given) if isinstance(default, tuple) else given
        return make_shield_params(spec, **values)

    def _limits_of_bundle(self, spec: RobotSpec) -> Mapping[str, Any]:
        """What the policy was trained behind; BundleError, a ValueError, for a file that is not for this robot."""
        if not self._bundle:
            return {}
        from deploy.bundle import load_bundle  # here, for a shield without a file needs no onnxruntime
        from deploy.runtime.compatibility import check_robot

        contract = load_bundle(self._bundle).contract
        check_robot(contract, spec, self._bundle)
        return contract.shield


def main() -> int:
    """Run the node."""
    return run_node(ShieldNode)


if __name__ == "__main__":
    raise SystemExit(main())
