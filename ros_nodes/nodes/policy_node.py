"""One robot's policy: measurements and peers in, requested actuator commands out, on absolute deadlines."""

import threading
from functools import partial

from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import JointState

from deploy.runtime import PolicyRuntime
from deploy.runtime.swap import SwapRuntime
from deploy.shield.authority import ASKS_THE_POLICY
from hardware import load_robot
from ros_nodes.lifecycle.host import run_node
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.loop import Deadlines
from ros_nodes.lifecycle.parameters import (
    declare,
    declare_base_pose,
    declare_series_dir,
    declare_team,
    declare_trusted_keys,
)
from ros_nodes.lifecycle.peer_clocks import peer_clocks
from ros_nodes.lifecycle.polling import Waiter
from ros_nodes.messages import qos
from ros_nodes.messages.commands import CommandInbox
from ros_nodes.messages.conversion import base_frame
from ros_nodes.messages.diagnostics import POLICY_STATUS, policy_status, read_status
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.messages.policy_swap import declare_next_bundle, serve_swaps
from ros_nodes.messages.subscriptions import ObjectTable, OwnState, PeerTable

SERIES = ("time_s", "period_error_us", "skipped", "work_us", "state_age_ms")
SERIES_CAPACITY = 200_000
PHASE_SAMPLES = 40  # measurements from which the delay of the sensor is learnt
GRACE_NS = 8_000_000  # a cycle waits this long for its own measurement, rather than use one that is a period older
ASKING = tuple(state.name for state in ASKS_THE_POLICY)


class PolicyNode(ManagedNode):
    """Runs one bundle for one robot; publishes `requested`."""

    def __init__(self, namespace: str = "") -> None:
        super().__init__("policy", namespace)

    def read_parameters(self) -> None:
        self.robot_name, self._peer_names = declare_team(self)
        self._robot_type = declare(self, "robot_type", "crazyflie", "Robot specification by name.")
        self._bundle = declare(self, "bundle", "", "Policy file (.onnx) to fly.")
        self._trusted_keys = declare_trusted_keys(self)
        self._series_dir = declare_series_dir(self)
        self._max_age_s = declare(
            self,
            "max_state_age_s",
            0.1,
            "No request is made from a measurement older than this, s, nor from one of the future.",
            low=0.01,
            high=2.0,
        )
        text = "No request is made while the last message of an object that the policy observes is older than this, s."
        self._max_object_age_s = declare(self, "max_object_age_s", 0.5, text, low=0.01, high=10.0)
        text = "A velocity on `cmd_vel` holds for this long, s; then the robot is commanded to stand still."
        self._velocity_timeout_s = declare(self, "cmd_vel_timeout_s", 0.5, text, low=0.05, high=10.0)
        self._base_pose = declare_base_pose(self)
        declare_next_bundle(self)

    def configure(self) -> None:
        spec = load_robot(self._robot_type)
        load = partial(PolicyRuntime.load, robot=spec, trusted=self._trusted_keys)
        peer_clocks(self.hub, self.clock)  # so that its computer is asked, where it has no shield
        self._runtime = SwapRuntime(load(self._bundle), self._bundle, self._tell)
        serve_swaps(self, self._runtime, load)
        contract = self._runtime.contract
        self._period_s, self._sensor_ns = contract.control_dt_s, round(1e9 / spec.sensor_hz)
        self._state = OwnState(self, spec, self._base_pose)
        self._waiter = Waiter(self, self._state.mailboxes)
        self._peers = PeerTable(self, self._peer_names)
        self._objects = ObjectTable(self, contract.objects)
        self._inbox = CommandInbox(
            self, contract.commands, self._runtime.check_command, spec, self.robot_name, self._velocity_timeout_s
        )
        self._converter = CommandConverter(spec.channels, base_frame(self.robot_name))
        self._publisher = self.advertise(JointState, "requested", qos.command_out(self._period_s))
        self._shield_status = self.subscribe(DiagnosticArray, "status", qos.LATCHED)
        self._asked_by = ""  # the state in which the shield asks for requests; empty while it does not
        self._own_status = self.advertise(DiagnosticArray, POLICY_STATUS, qos.LATCHED)
        self._series = self.series(self._series_dir, SERIES, SERIES_CAPACITY)
        self.get_logger().info(f"{self._bundle}: self-test passed, task {contract.task!r}, {1 / self._period_s:g} Hz")

    def run(self, stopped: threading.Event) -> None:
        self._runtime.reset()
        self._await_objects(stopped)
        first = self._first_measurement(stopped)
        if first is None:
            return
        first_ns, first_stamp_ns = first
        self._inbox.start(self._state.state, self._objects.objects)
        self._asked_by = ""
        self._tell()
        deadlines = Deadlines(self._period_s, self.clock, first_ns)
        last_woke_ns = 0
        while (tick := deadlines.wait(stopped)) is not None:
            self._step(first_stamp_ns + tick.deadline_ns - first_ns, stopped)
            if self._series and last_woke_ns:
                period_error_us = (tick.woke_ns - last_woke_ns - deadlines.period_ns * (1 + tick.skipped)) * 1e-3
                work_us = (self.clock.now_ns() - tick.woke_ns) * 1e-3
                age_ms = float(self._state.state.age) * 1e3
                self._series.add(tick.woke_ns * 1e-9, period_error_us, tick.skipped, work_us, age_ms)
            last_woke_ns = tick.woke_ns

    def _step(self, due_ns: int, stopped: threading.Event) -> None:
        """One cycle, for the measurement that is stamped about `due_ns` or the last one before it."""
        now_ns = self.clock.now_ns()
        self._state.update(now_ns)
        until_ns, before_ns = now_ns + GRACE_NS, due_ns - self._sensor_ns // 2
        while self._state.stamp_ns < before_ns and self.clock.wait(self._waiter, until_ns, stopped):
            now_ns = self.clock.now_ns()
            self._state.update(now_ns)
        is_asked, command = self._is_asked(), self._inbox.update(now_ns)
        if not is_asked:
            return
        if not -self._period_s <= self._state.state.age <= self._max_age_s:
            return  # no current state: the shield handles silence
        if awaited := self._inbox.awaited:
            self.get_logger().info(f"waiting for operator command on {', '.join(awaited)}", throttle_duration_sec=5.0)
            return
        peers, objects = self._peers.update(now_ns), self._objects.update(now_ns)
        if unseen := self._objects.not_current(self._max_object_age_s, self._period_s):
            self.get_logger().error(f"no current message of objects: {', '.join(unseen)}", throttle_duration_sec=1.0)
            return
        try:
            step = self._runtime.step(self._state.state, peers, command, objects)
        except ValueError as error:
            self.get_logger().error(str(error), throttle_duration_sec=1.0)
            return
        self._publisher.publish(self._converter.write(step.requested, self._state.stamp_ns))

    def _is_asked(self) -> bool:
        """Whether the shield wants requests; where it has begun to, the policy begins anew, from where the robot is."""
        if (taken := self._shield_status.take()) is not None:
            shield = read_status(taken[0])
            state = shield.state
            self._runtime.shield_says(shield.policy_flies, f"{shield.label}: {shield.reason}")
            asked_by = state if state in ASKING else ""
            if asked_by and asked_by != self._asked_by:
                self._runtime.reset()
                self._inbox.start(self._state.state, self._objects.objects)
            elif self._asked_by and not asked_by:
                self._inbox.forget()
            self._asked_by = asked_by
        return bool(self._asked_by)

    def _tell(self, swap: str = "") -> None:
        """Say on `policy/status` which file flies, and what has become of a swap."""
        if swap:
            self.get_logger().info(swap)
        about = {"task": self._runtime.contract.task, "bundle": self._runtime.file, "swap": swap}
        self._own_status.publish(policy_status(self.robot_name, self._runtime.fingerprint, about, self.clock.now_ns()))

    def _await_objects(self, stopped: threading.Event) -> None:
        """Wait until every object that the policy observes has been received."""
        while not stopped.is_set():
            self._objects.update(self.clock.now_ns())
            unseen = self._objects.not_current(self._max_object_age_s, self._period_s)
            if not unseen:
                return
            self.get_logger().error(f"no current message of objects: {', '.join(unseen)}", throttle_duration_sec=5.0)
            stopped.wait(self._period_s)

    def _first_measurement(self, stopped: threading.Event) -> tuple[int, int] | None:
        """When the measurement of the first cycle is here at the earliest, and its stamp, ns.

        Later cycles are as long after it: each begins when its measurement can be here, and works as soon as it is.
        """
        self._state.update(self.clock.now_ns())  # messages from the queue have no known delay
        lags_ns: list[int] = []
        while len(lags_ns) < PHASE_SAMPLES:
            if stopped.is_set():
                return None
            if self._waiter.wait(0.1) and self._state.update(self.clock.now_ns()):
                lags_ns.append(self.clock.now_ns() - self._state.stamp_ns)
        return self._state.stamp_ns + min(lags_ns), self._state.stamp_ns


def main() -> int:
    """Run the node."""
    return run_node(PolicyNode)


if __name__ == "__main__":
    raise SystemExit(main())
