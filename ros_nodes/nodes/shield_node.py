"""One robot's shield, in another process than the policy: every command passes it, also when the policy is silent."""

import time
from functools import partial

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.duration import Duration
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from deploy.shield import Shield
from deploy.shield.authority import AT_REST, GIVEN_UP_S, Authority, Change, State
from deploy.shield.drone.params import ShieldParams
from deploy.shield.fallback import StartCfg
from hardware import load_robot
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand
from hardware.urdf import make_urdf
from ros_nodes.lifecycle.clock import SenderClock
from ros_nodes.lifecycle.host import run_node
from ros_nodes.lifecycle.lateness import Lateness
from ros_nodes.lifecycle.lifecycle_node import TurnNode
from ros_nodes.lifecycle.parameters import NEVER, declare, declare_series_dir, declare_trusted_keys
from ros_nodes.lifecycle.turns import Cycles, Wait
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import MessageError, base_frame
from ros_nodes.messages.delays import Delays
from ros_nodes.messages.diagnostics import ShieldStatus
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.messages.operate_action import Standing
from ros_nodes.messages.own_shield import COMMAND, own_shield
from ros_nodes.messages.shield_inputs import ShieldInputs, declare_inputs
from ros_nodes.nodes.shield_limits import declare_limits, limits_of_bundle
from ros_nodes.nodes.shield_orders import TROUBLE, ShieldOrders

SERIES = ("time_s", "mode", "margin", "intervention", "request_age_ms", "work_us", "arrived")
SERIES_CAPACITY = 200_000
MISSING_AFTER = 1.25  # periods after the last request at which the next one counts as missing
SLOW_S = 0.1  # what is said now and then is heard so often, by all robots of a process at the same moment
JUST_NS = 100_000  # later than a bound: ages are floating-point seconds
SPARE = 0.25  # of a period more that a request may be old which was late itself: holds of a busy machine stay rare
FLOOD = 0.4  # of a period: requests that follow faster are left for the next cycle


class ShieldNode(TurnNode):
    """Filters `requested` into `command`; services `shield/arm` ... say who has the robot, `status` tells it.

    Activation moves nothing: see `deploy.shield.authority`.
    """

    def __init__(self, namespace: str = "") -> None:
        super().__init__("shield", namespace)
        self._orders = ShieldOrders(self, self.robot_name, self._stop_dir, self._standing)
        self._authority: Authority | None = None
        self._inputs: ShieldInputs | None = None

    def _standing(self) -> Standing | None:
        authority = self._authority
        return None if authority is None else (authority.state, authority.reason)

    def read_parameters(self) -> None:
        self._given = declare_inputs(self)
        self.robot_name = self._given.robot
        text = "Robot specification by name."  # limits are declared for it
        self._robot_type = declare(self, "robot_type", "crazyflie", text, may_be_set=NEVER)
        self._bundle = declare(self, "bundle", "", "Policy file (.onnx) whose limits hold by default; empty for none.")
        text = "Fingerprint of the policy file to be flown; by default that of `bundle`."
        self._fingerprint = declare(self, "fingerprint", "", text)
        self._trusted_keys = declare_trusted_keys(self)
        self._status_hz = declare(
            self, "status_hz", 2.0, "Rate of `status`, Hz; a new mode is published at once.", low=0.1, high=50.0
        )
        self._start = StartCfg(
            declare(self, "take_off_m", 1.0, "Height above the ground to which a drone takes off, m.", 0.2, 50.0),
            declare(self, "home_first", False, "Whether an arm moves to its home pose before its policy begins."),
        )
        text = "Folder in which a person's stop is kept; by default phalanx in the user's state folder."
        self._stop_dir = declare(self, "stop_dir", "", text, may_be_set=NEVER)
        self._series_dir = declare_series_dir(self)

    def configure(self) -> None:
        spec = load_robot(self._robot_type)
        if not self._bundle and self._trusted_keys and not self._fingerprint:
            raise ValueError("trusted_keys: a bundle or a fingerprint is needed to know the policy file by")
        limits, fingerprint = limits_of_bundle(self._bundle, spec, self._trusted_keys, self.get_logger().warning)
        self._fingerprint = self._fingerprint or fingerprint
        self._params = declare_limits(self, spec, limits)
        self._spec = spec
        self._requested = self.subscribe(JointState, "requested", qos.COMMAND_IN, raw=True)
        self._inputs = ShieldInputs(self, spec, self._params, self._given, self._fingerprint, self._requested)
        self._sender = SenderClock(self.clock)
        self._converter = CommandConverter(spec.channels, base_frame(self.robot_name))
        self._publisher = self.advertise(JointState, COMMAND, qos.COMMAND_OUT)
        self._driver = own_shield(self, "driver")
        self._lateness = self._driver.lateness if self._driver else Lateness()
        self._status_publisher = self.advertise(DiagnosticArray, "status", qos.HISTORY)
        # Its last word says how it ended; a process that is gone sends nothing again.
        self.on_release(partial(self._status_publisher.wait_for_all_acked, Duration(seconds=qos.ACKED_S)))
        self._description_publisher = self.advertise(String, "robot_description", qos.LATCHED)
        self._description = self._describe(spec)
        keeps_m = self._params.separation_m if isinstance(self._params, ShieldParams) else 0.0
        self._status = ShieldStatus(self.robot_name, 1 / self._status_hz, keeps_m, self._params.act_s)
        self._delays = Delays(self._params.act_s)
        self._series = self.series(self._series_dir, SERIES, SERIES_CAPACITY)

    def needed(self) -> str:
        """While the robot is armed it would be left alone."""
        if self._authority is None or self._authority.rests:
            return ""
        state = self._authority.state
        return f"the robot is {state.name}: {'disarm' if state is State.FAULT else 'land'} it first, or stop it"

    def wind_down(self) -> bool:
        """Land, and end when the robot is at rest. A humanoid stands then: disarm it, or stop it by a second signal.

        One of which nothing is heard any more is given up: its driver stops it as far as that is heard.
        """
        authority = self._authority
        if authority is None or authority.rests:
            return True
        if authority.is_given_up:
            said = f"{self.robot_name}: given up, for nothing was heard of it for {GIVEN_UP_S:g} s"
            self.get_logger().error(said, once=True)
            return True
        self._orders.wind_down()
        return False

    def stop_robot(self) -> None:
        self._orders.stop()

    def destroy_node(self) -> None:
        self._orders.close()
        super().destroy_node()

    def cycles(self) -> Cycles:
        assert self._inputs is not None
        authority = self._authority = Authority(Shield(self._params, self._spec), self._start, self._tell, self._late)
        if reason := self._orders.kept_stop():  # a stop outlives every process: only a reset ends it
            authority.estop(reason)
        if self._description:
            self._description_publisher.publish(String(data=self._description))
        self._request: ActuatorCommand | None = None
        self._request_ns = self._stamp_ns = 0  # stamps of the last request and of the last command
        self._slow, self._strangers = -1.0, ""  # in which period of `SLOW_S` it was heard last
        try:
            yield from self._filter(authority, self._inputs)
        finally:
            self._authority = None
            self._orders.drop()
            if self._driver:
                self._driver.state = ""

    def _filter(self, authority: Authority, inputs: ShieldInputs) -> Cycles:
        """A step for every request, and for every one that is missing."""
        period_ns, clock = round(self._params.control_dt_s * 1e9), self.clock
        flood_ns, missing_ns = round(FLOOD * period_ns), round(MISSING_AFTER * period_ns)
        act_ns, spare_ns = round(self._params.act_s * 1e9), round(SPARE * period_ns)
        deadline_ns, earliest_ns, replaced_ns = clock.now_ns() + period_ns, 0, 0
        while True:
            is_there = yield Wait([self._requested], deadline_ns)
            if clock.until_s(earliest_ns) > 0:
                yield Wait((), earliest_ns)
            arrived = is_there and self._take_request()
            now_ns = clock.now_ns()
            if not arrived and 0 < deadline_ns - now_ns <= missing_ns:  # further ahead: /clock began again
                continue
            self._lateness.note(now_ns * 1e-9, (now_ns - max(deadline_ns, earliest_ns)) * 1e-9)
            self._step(authority, inputs, now_ns, arrived)
            earliest_ns = now_ns + flood_ns
            # A missed request moves the deadline by exactly one period: commands keep their rhythm without it.
            missed_ns = min(max(deadline_ns + period_ns, earliest_ns), now_ns + period_ns)
            deadline_ns = now_ns + missing_ns if arrived else missed_ns
            if arrived:  # a policy that dies now is replaced within `act_s`
                late_ns = min(max(now_ns - self._request_ns - spare_ns, 0), spare_ns)
                replaced_ns = self._request_ns + act_ns + JUST_NS + late_ns
            if now_ns < replaced_ns < deadline_ns and inputs.measured_ns > self._request_ns:
                deadline_ns = replaced_ns

    def _describe(self, spec: RobotSpec) -> str:
        """The robot as URDF; empty, and logged, where its MJCF has what URDF has not."""
        try:
            return make_urdf(spec)
        except ValueError as error:
            self.get_logger().warning(f"no robot_description: {error}")
            return ""

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
        if self._strangers:
            self._status.reject(self._strangers)
            return False
        self._request, self._request_ns = request, stamp_ns
        return True

    def _step(self, authority: Authority, inputs: ShieldInputs, now_ns: int, arrived: bool) -> None:
        now_s, began_s = now_ns * 1e-9, time.monotonic()
        context = inputs.context(now_ns)
        self._orders.serve(authority, inputs, now_s)
        age_s = (now_ns - self._request_ns) * 1e-9
        self._watch_delays(authority.state, now_s, inputs.age_s, age_s)
        command, report = authority.step(now_s, context, self._request, age_s)
        if command is not None:
            stamp_ns = (self._request_ns if arrived else inputs.measured_ns) or now_ns
            # A request that comes after it was missed rests on an older measurement than the command in its place did.
            self._stamp_ns = max(stamp_ns, min(self._stamp_ns, now_ns))
            message = self._converter.write(command, self._stamp_ns)
            if self._driver:
                self._driver.put(message, began_s)
            self._publisher.publish(message)
        if self._driver:
            self._driver.state = authority.state.name
        if self._status.update(now_s, authority.state, authority.reason, report, age_s, inputs.age_s):
            self._status_publisher.publish(self._status.message(now_ns, *inputs.heard()))
        if self._series:
            work_us = (self.clock.now_ns() - now_ns) * 1e-3
            self._series.add(
                now_s, report.mode.value, report.margin, report.intervention, age_s * 1e3, work_us, arrived
            )
        if self._slow != (slow := now_s // SLOW_S):
            self._slow = slow
            strangers, waits = inputs.hear_slow(now_s)
            authority.policy_waits, authority.device_waits = strangers or waits, inputs.device_waits()
            if trouble := inputs.lasting_trouble():
                authority.come_down(now_s, trouble)
            if left := authority.left():
                self._status.note(left)
                self.get_logger().error(f"{self.robot_name}: {left}")
            if self._strangers != strangers:
                self._strangers = strangers
                self.get_logger().warning(strangers or "every topic has one publisher again")

    def _watch_delays(self, state: State, now_s: float, measured_age_s: float, request_age_s: float) -> None:
        if state in AT_REST:
            self._delays.forget()
            return
        awaited_s = request_age_s if state is State.POLICY else None
        for delay in self._delays.update(now_s, measured_age_s, awaited_s):
            self._status.note(delay)
            self.get_logger().warning(f"{self.robot_name}: {delay}")

    def _late(self) -> str:
        return self._lateness.says(self.clock.now_ns() * 1e-9)

    def health(self) -> tuple[bytes, str, dict[str, str]]:
        """The level of `status`, or a warning of a battery that is low or a clock that differs; charge and clocks."""
        warnings, values = self._inputs.health() if self._inputs else ([], {})
        level, message, summary = self._status.summary() if self.is_active else (DiagnosticStatus.OK, "", {})
        if level == DiagnosticStatus.OK and warnings:
            level, message = DiagnosticStatus.WARN, ""
        return level, "; ".join(filter(None, [message, *warnings])), values | summary

    def _tell(self, change: Change) -> None:
        text = f"{self.robot_name}: {change.before.name} -> {change.after.name}: {change.reason}"
        if change.after in TROUBLE:
            self.get_logger().warning(text)
        else:
            self.get_logger().info(text)


def main() -> int:
    """Run the node."""
    run_node(ShieldNode)


if __name__ == "__main__":
    raise SystemExit(main())
