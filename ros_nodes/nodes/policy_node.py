"""One robot's policy: measurements and peers in, requested actuator commands out, on absolute deadlines."""

import time
from collections.abc import Generator, Sequence
from functools import partial
from math import inf

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from sensor_msgs.msg import JointState

from deploy.bundle.verification import UNVERIFIED
from deploy.contract.tensor_specs import sees_correction
from deploy.runtime import PolicyRuntime
from deploy.runtime.swap import SwapRuntime
from deploy.shield.authority import ASKS_THE_POLICY, State
from hardware import load_robot
from ros_nodes.lifecycle.host import run_node
from ros_nodes.lifecycle.lifecycle_node import TurnNode
from ros_nodes.lifecycle.loop import Deadlines
from ros_nodes.lifecycle.parameters import (
    NEVER,
    declare,
    declare_base_pose,
    declare_requires,
    declare_series_dir,
    declare_team,
    declare_trusted_keys,
)
from ros_nodes.lifecycle.peer_clocks import peer_clocks
from ros_nodes.lifecycle.turns import Cycles, Wait
from ros_nodes.messages import qos
from ros_nodes.messages.commands import Command, CommandInbox
from ros_nodes.messages.conversion import base_frame
from ros_nodes.messages.corrections import Corrections
from ros_nodes.messages.diagnostics import AWAITS, FINGERPRINT, HEARD, REFUSED, SWAP, TAKES, policy_status
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.messages.names import POLICY_STATUS
from ros_nodes.messages.policy_swap import declare_next_bundle, serve_swaps
from ros_nodes.messages.shield_says import ShieldSays
from ros_nodes.messages.subscriptions import ObjectTable, OwnState, PeerTable

SERIES = ("time_s", "period_error_us", "skipped", "work_us", "state_age_ms")
SERIES_CAPACITY = 200_000
PHASE_SAMPLES = 40  # measurements from which the delay of the sensor is learnt
PATIENCE_NS = 100_000_000  # between two looks for the first measurement
GRACE = 0.4  # of a period: a cycle waits so long for its own measurement, rather than use an older one
LOOK_NS = 40_000_000  # between two looks at what the shield and operators say
HEARD_NS = 200_000_000  # between two words that a goal came
SAY_NS = 500_000_000  # between two reasons why it requests nothing
TELL_S = 1.0  # between two words that it is there, by which a shield knows before it arms
ASKING = tuple(state.name for state in ASKS_THE_POLICY)
STOPPED = State.STOPPED.name


class PolicyNode(TurnNode):
    """Runs one bundle for one robot; publishes `requested`."""

    def __init__(self, namespace: str = "") -> None:
        super().__init__("policy", namespace)

    def read_parameters(self) -> None:
        self.robot_name, self._peer_names = declare_team(self)
        self._robot_type = declare(self, "robot_type", "crazyflie", "Robot specification by name.", may_be_set=NEVER)
        self._bundle = declare(self, "bundle", "", "Policy file (.onnx) to fly.")
        self._trusted_keys, self._requires = declare_trusted_keys(self), declare_requires(self)
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
        warn, keys = self.get_logger().warning, self._trusted_keys
        load = partial(PolicyRuntime.load, robot=spec, trusted=keys, warn=warn, requires=self._requires)
        peer_clocks(self.hub, self.clock, self.robot_name)  # so that its computer is asked, where it has no shield
        runtime = load(self._bundle)
        if runtime.verification is None:
            warn(f"{self._bundle}: {UNVERIFIED}")
        self._runtime = SwapRuntime(runtime, self._bundle, self._tell)
        serve_swaps(self, self._runtime, load)
        contract = self._runtime.contract
        self._period_s, self._sensor_ns = contract.control_dt_s, round(1e9 / spec.sensor_hz)
        self._state = OwnState(self, spec, self._base_pose)
        self._peers = PeerTable(self, self._peer_names)
        self._objects = ObjectTable(self, contract.objects)
        self._inbox = CommandInbox(
            self,
            contract.commands,
            self._runtime.check_command,
            spec,
            self.robot_name,
            self._velocity_timeout_s,
            self._base_pose,
        )
        self._corrections = Corrections(self, spec) if sees_correction(contract) else None
        self._converter = CommandConverter(spec.channels, base_frame(self.robot_name))
        self._publisher = self.advertise(JointState, "requested", qos.COMMAND_OUT)
        self._shield = ShieldSays(self)
        self._waits, self._swap, self._said_ns = "", "", 0  # why it requests nothing, the last of a swap
        self._refused = ""  # of commands
        self._goal_ns = self._heard_ns = 0  # stamp of the last goal, and when it was said that it came
        self._looked_ns = 0  # at what others say
        self._spoke_s = -inf  # when it said last that it is there, monotonic
        self._said: DiagnosticArray | None = None  # then
        self._command: Command = {}
        self._asked_by = ""  # the state in which the shield asks for requests; empty while it does not
        self._was_stopped = False  # by a person, when the shield was last heard
        self._own_status = self.advertise(DiagnosticArray, POLICY_STATUS, qos.LATCHED)
        self._series = self.series(self._series_dir, SERIES, SERIES_CAPACITY)
        self.get_logger().info(f"{self._bundle}: self-test passed, task {contract.task!r}, {1 / self._period_s:g} Hz")

    def health(self) -> tuple[bytes, str, dict[str, str]]:
        """A warning while two steer the robot, or while it waits for something."""
        reasons = [self._inbox.warning, self._waits, self._inbox.refused] if self.is_active else []
        why = "; ".join(filter(None, reasons))
        return DiagnosticStatus.WARN if why else DiagnosticStatus.OK, why, {}

    def cycles(self) -> Cycles:
        self._runtime.reset()
        yield from self._await_objects()
        first_ns, first_stamp_ns = yield from self._first_measurement()
        self._inbox.start(self._state.state, self._objects.objects)
        self._asked_by = ""
        deadlines = Deadlines(self._period_s, self.clock, first_ns)
        last_woke_ns = 0
        while True:
            deadline_ns = deadlines.due()
            yield Wait((), deadline_ns)
            tick = deadlines.begin(deadline_ns)
            yield from self._cycle(first_stamp_ns + deadline_ns - first_ns)
            if self._series and last_woke_ns:
                period_error_us = (tick.woke_ns - last_woke_ns - deadlines.period_ns * (1 + tick.skipped)) * 1e-3
                work_us = (self.clock.now_ns() - tick.woke_ns) * 1e-3
                age_ms = float(self._state.state.age) * 1e3
                self._series.add(tick.woke_ns * 1e-9, period_error_us, tick.skipped, work_us, age_ms)
            last_woke_ns = tick.woke_ns

    def _cycle(self, due_ns: int) -> Cycles:
        """One cycle, for the measurement that is stamped about `due_ns` or the last one before it."""
        now_ns = self.clock.now_ns()
        self._state.update(now_ns)
        if not 0 <= now_ns - self._looked_ns < LOOK_NS:
            self._looked_ns = now_ns
            self._hear_shield()
            self._hear_operators(now_ns)
        if not self._asked_by:
            # One that was killed is counted for long: until then the policy would not hear that it is asked.
            self._wait_for(self._shield.doubled)
            self._tell_now_and_then()
            return
        until_ns, before_ns = now_ns + round(GRACE * 1e9 * self._period_s), due_ns - self._sensor_ns // 2
        arrived = True
        while arrived and self._state.stamp_ns < before_ns:
            arrived = yield Wait(self._state.mailboxes, until_ns)
            now_ns = self.clock.now_ns()
            self._state.update(now_ns)
        self._request(now_ns)

    def _request(self, now_ns: int) -> None:
        """Answer the measurement that was taken at `now_ns`."""
        if not -self._period_s <= self._state.state.age <= self._max_age_s:
            return  # no current state: the shield handles silence
        peers, objects = self._peers.update(now_ns), self._objects.update(now_ns)
        awaited, unseen = self._inbox.awaited, self._objects.not_current(self._max_object_age_s, self._period_s)
        if awaited or unseen:
            command_on = f"waiting for operator command on {', '.join(awaited)}"
            command_on += f"; {self._inbox.unreachable}" if self._inbox.unreachable else ""
            self._wait_for(command_on if awaited else f"no current message of objects: {', '.join(unseen)}")
            return
        correction = self._corrections.take(now_ns) if self._corrections else None
        try:
            step = self._runtime.step(self._state.state, peers, self._command, objects, correction)
        except ValueError as error:
            self._wait_for(str(error))
            return
        self._wait_for("")
        self._publisher.publish(self._converter.write(step.requested, self._state.stamp_ns))
        if self._corrections:
            self._corrections.request(step.requested, self._state.stamp_ns)

    def _hear_shield(self) -> None:
        """Whether the shield wants requests; where it has begun to, the policy begins where the robot is."""
        if (shield := self._shield.take()) is None:
            return
        state = shield.state
        self._runtime.shield_says(shield.policy_flies, f"{shield.label}: {shield.reason}")
        asked_by = state if state in ASKING else ""
        if asked_by and asked_by != self._asked_by:
            self._runtime.reset()
            self._inbox.start(self._state.state, self._objects.objects)
        elif (self._asked_by and not asked_by) or (state == STOPPED and not self._was_stopped):
            self._inbox.forget()  # what was asked for before an emergency stop, too, where it has not begun yet
        self._asked_by, self._was_stopped = asked_by, state == STOPPED

    def _hear_operators(self, now_ns: int) -> None:
        self._command = self._inbox.update(now_ns)
        is_new = self._goal_ns != self._inbox.goal_ns and abs(now_ns - self._heard_ns) > HEARD_NS
        if self._refused != self._inbox.refused or is_new:
            self._refused, self._goal_ns, self._heard_ns = self._inbox.refused, self._inbox.goal_ns, now_ns
            self._tell()

    def _tell_now_and_then(self) -> None:
        """What it said last, once more, while nothing is asked of it: in flight that would cost other policies time."""
        if self._said and time.monotonic() - self._spoke_s > TELL_S:
            self._spoke_s = time.monotonic()
            self._own_status.publish(self._said)

    def _wait_for(self, what: str) -> None:
        """Say why it requests nothing; an empty string where it may."""
        if what:
            self.get_logger().warning(what, throttle_duration_sec=5.0)
        if what == self._waits:
            return
        now_ns = self.clock.now_ns()
        if not (what and self._waits) or abs(now_ns - self._said_ns) > SAY_NS:
            self._waits, self._said_ns = what, now_ns
            self._tell()

    def _tell(self, swap: str = "") -> None:
        """Say on `policy/status` which file flies, and what has become of a swap."""
        if swap:
            self.get_logger().info(swap)
            self._swap = swap
        runtime = self._runtime
        about = {
            FINGERPRINT: runtime.fingerprint,
            "task": runtime.contract.task,
            "bundle": runtime.file,
            TAKES: ", ".join(command.name for command in runtime.contract.commands),
            AWAITS: ", ".join(self._inbox.awaited),
            SWAP: self._swap,
            REFUSED: self._refused,
            HEARD: str(self._goal_ns),
        }
        self._spoke_s = time.monotonic()
        self._said = policy_status(self.robot_name, self._waits, about, self.clock.now_ns())
        self._own_status.publish(self._said)

    def _await_objects(self) -> Cycles:
        """Wait until every object that the policy observes has been received."""
        while True:
            now_ns = self.clock.now_ns()
            self._objects.update(now_ns)
            unseen = self._objects.not_current(self._max_object_age_s, self._period_s)
            if not unseen:
                self._waits = ""
                return
            self._wait_for(f"no current message of objects: {', '.join(unseen)}")
            self._tell_now_and_then()
            yield Wait((), now_ns + round(self._period_s * 1e9))

    def _first_measurement(self) -> Generator[Wait, bool, tuple[int, int]]:
        """When the measurement of the first cycle is here at the earliest, and its stamp, ns.

        Later cycles are as long after it: each begins when its measurement can be here, and works as soon as it is.
        """
        self._state.update(self.clock.now_ns())  # messages from the queue have no known delay
        lags_ns: list[int] = []
        while len(lags_ns) < PHASE_SAMPLES:
            yield Wait(self._state.mailboxes, self.clock.now_ns() + PATIENCE_NS)
            now_ns = self.clock.now_ns()
            if self._state.update(now_ns):
                lags_ns.append(now_ns - self._state.stamp_ns)
                if len(lags_ns) == 1:  # it hears its robot, which may be armed while the rest is learnt
                    self._tell()
        stamp_ns, period_ns = self._state.stamp_ns, round(self._period_s * 1e9)
        phase_ns = (
            control_phase(self.robot_name, self._peer_names) * period_ns // self._sensor_ns // 2 * self._sensor_ns
        )
        stamp_ns -= (stamp_ns - phase_ns) % period_ns // self._sensor_ns * self._sensor_ns
        return stamp_ns + min(lags_ns), stamp_ns


def control_phase(robot: str, peers: Sequence[str]) -> int:
    """In which half of a period a robot is controlled, 0 or 1: what there is to do at one moment fills cores.

    Every second robot, as their shields share processes where the team file says nothing else; see `Turns` for what is
    saved by them.
    """
    team = sorted([robot, *peers], key=lambda name: (len(name), name))  # robot10 comes after robot9
    return team.index(robot) % 2


def main() -> int:
    """Run the node."""
    run_node(PolicyNode)


if __name__ == "__main__":
    raise SystemExit(main())
