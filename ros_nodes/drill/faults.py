"""The rows of a drill: a fault each, when it strikes, and what must come of it."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import nan
from resource import RLIMIT_FSIZE, prlimit

from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from hardware import load_robot
from ros_nodes.drill.flight import (
    ARMED,
    GROUND,
    LANDING,
    OTHER,
    OWN,
    PEER,
    POLICY,
    REQUESTED,
    STARTING,
    STRUCK,
    Flight,
    Parameters,
)
from ros_nodes.drill.relay import Way, changed, delay, duplicates, loss, reordering, silence, unchanged
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import WORLD_FRAME, base_frame
from ros_nodes.messages.diagnostics import driver_status
from ros_nodes.messages.names import DRIVER_STATUS
from ros_nodes.plans.mission import Mission

WITHIN_PERIODS = 8  # five until the shield acts, one of its own, and two for the machine
LASTING_S = 2.0
POLICY_FILE = "policy.onnx"  # that the struck robot flies, in the folder of the row
START_S = 25.0  # for a start that is given up, and the landing after it

Strike = Callable[[Flight], None]


@dataclass(frozen=True, slots=True)
class Row:
    """A fault, and what must come of it."""

    name: str
    strike: Strike
    ends: tuple[str, ...]  # states of the struck robot that are right in the end
    within: int | None = WITHIN_PERIODS  # control periods in which its shield has to take it; None where it need not
    phase: str = POLICY  # in which it strikes
    patience_s: float = 8.0  # until it has ended
    says: str = ""  # what a reason, a refusal or the end of a process has to name
    through: Mapping[str, Way] = field(default_factory=dict)  # topics that pass through the drill, and how at first
    edit: Callable[[Parameters, str], None] = lambda parameters, name: None

    @property
    def must(self) -> str:
        """What must come of it, in words."""
        held = "" if self.within is None else f", held within {self.within} periods"
        return " or ".join(self.ends) + held

    def strikes(self, mission: Mission) -> bool:
        """Whether the robots of a mission can have this fault: only drones start and land for long, and have peers."""
        flies = [load_robot(member.robot).flight is not None for member in mission.team[: OTHER + 1]]
        needs = [*[True] * (self.phase in (STARTING, LANDING)), *[True] * (2 * (PEER in self.through))]
        return len(flies) >= len(needs) and all(flies[: len(needs)])

    @property
    def title(self) -> str:
        """The name, with the phase where it is not that of the policy's turn."""
        return self.name if self.phase in (POLICY, GROUND) else f"{self.name}, {self.phase}"


def _signal(node: str, number: int) -> Strike:
    return lambda flight: flight.signal(flight.process(node), number)


def _kill(node: str) -> Strike:
    return _signal(node, signal.SIGKILL)


def _freeze(node: str, duration_s: float) -> Strike:
    def strike(flight: Flight) -> None:
        name = flight.process(node)
        flight.signal(name, signal.SIGSTOP)
        flight.watch(duration_s)
        flight.signal(name, signal.SIGCONT)

    return strike


def _way(topic: str, way: Way, duration_s: float = LASTING_S) -> Strike:
    def strike(flight: Flight) -> None:
        flight.relays[topic].way = way
        flight.watch(duration_s)
        flight.relays[topic].way = unchanged

    return strike


def _stranger(topic: str) -> Strike:
    """Somebody else asks for, or commands, as much as there is, at 50 Hz."""

    def strike(flight: Flight) -> None:
        spec = load_robot(flight.mission.team[STRUCK].robot)
        publisher = flight.node.create_publisher(JointState, f"/{flight.name}/{topic}", qos.COMMAND_IN)
        message = JointState(name=list(spec.channel_names))
        message.effort = message.position = message.velocity = list(spec.command_high)

        def send() -> None:
            message.header.stamp = flight.node.get_clock().now().to_msg()
            publisher.publish(message)

        flight.watch(LASTING_S, send)
        flight.node.destroy_publisher(publisher)

    return strike


def _other_place(flight: Flight) -> None:
    """Somebody else says that the robot is 5 m away, as often as its own sensor."""
    name, (x, y, z) = flight.name, flight.node.positions[STRUCK].tolist()
    publisher = flight.node.create_publisher(Odometry, f"/{name}/odom", qos.MEASURED)
    message = Odometry(child_frame_id=base_frame(name))
    message.header.frame_id = WORLD_FRAME
    message.pose.pose.position.x, message.pose.pose.position.y, message.pose.pose.position.z = x + 5.0, y, z

    def send() -> None:
        message.header.stamp = flight.node.get_clock().now().to_msg()
        publisher.publish(message)

    flight.watch(LASTING_S, send)
    flight.node.destroy_publisher(publisher)


def _fill_disk(flight: Flight) -> None:
    """No file of recorder, policy and shield may grow any more."""
    for node in ("recorder", "policy", "shield"):
        prlimit(flight.processes.pid(flight.process(node)), RLIMIT_FSIZE, (1, 1))


def _replace_bundle(flight: Flight) -> None:
    flight.out.joinpath(POLICY_FILE).write_bytes(b"something else")


def _another_file(parameters: Parameters, name: str) -> None:
    parameters[f"/{name}/shield"]["fingerprint"] = "0" * 64


def _ask_to_arm(flight: Flight) -> None:
    flight.fly(flight.others)
    flight.ask_in_vain("arm", LASTING_S)


def _another_version(flight: Flight) -> None:
    """A driver says what it would of a robot type that has grown since."""
    spec = load_robot(flight.mission.team[STRUCK].robot)
    publisher = flight.node.create_publisher(DiagnosticArray, f"/{flight.name}/{DRIVER_STATUS}", qos.LATCHED)
    grown, now_ns = replace(spec, radius_m=2 * spec.radius_m), flight.node.get_clock().now().nanoseconds
    publisher.publish(driver_status(flight.name, grown, "", now_ns))
    _ask_to_arm(flight)
    flight.node.destroy_publisher(publisher)


def _hear_late(flight: Flight) -> None:
    """Its neighbour flies; it must not be armed before it has heard of it."""
    _ask_to_arm(flight)
    flight.relays[PEER].way = unchanged
    flight.watch(0.5)
    flight.fly([flight.name])


def _no_numbers(message: JointState) -> None:
    message.effort = message.position = message.velocity = [nan] * len(message.name)


def _too_short(message: JointState) -> None:
    message.effort, message.position, message.velocity = message.effort[1:], message.position[1:], message.velocity[1:]


def _other_names(message: JointState) -> None:
    message.name = [f"{name}_" for name in message.name]


def _late_requests() -> tuple[Row, ...]:
    asked = {REQUESTED: unchanged}
    period_s = 0.02
    return (
        Row("requests are no numbers", _way(REQUESTED, changed(JointState, _no_numbers)), ("FAULT",), through=asked),
        Row("requests too short", _way(REQUESTED, changed(JointState, _too_short)), ("FAULT",), through=asked),
        Row(
            "requests for other channels", _way(REQUESTED, changed(JointState, _other_names)), ("FAULT",), through=asked
        ),
        Row("30 % of requests lost", _way(REQUESTED, loss(0.3)), ("POLICY",), None, through=asked),
        Row("requests 200 ms late", _way(REQUESTED, delay(0.2)), ("FAULT",), through=asked),
        Row("requests come twice", _way(REQUESTED, duplicates), ("POLICY",), None, through=asked),
        Row(
            "requests out of order", _way(REQUESTED, reordering(0.3, 2.5 * period_s)), ("POLICY",), None, through=asked
        ),
    )


def _late_odometry() -> tuple[Row, ...]:
    own = {OWN: unchanged}
    return (
        Row("odometry silent for 0.2 s", _way(OWN, silence, 0.2), ("POLICY",), through=own),
        Row("odometry silent for 2 s", _way(OWN, silence), ("FAULT",), through=own),
        Row("30 % of odometry lost", _way(OWN, loss(0.3)), ("POLICY",), None, through=own),
        Row("odometry 200 ms late", _way(OWN, delay(0.2)), ("FAULT",), through=own),
        Row("odometry comes twice", _way(OWN, duplicates), ("POLICY",), None, through=own),
        Row("odometry out of order", _way(OWN, reordering(0.3, 0.025)), ("POLICY",), None, through=own),
    )


def _at_each_phase() -> tuple[Row, ...]:
    kill, freeze = "killed", f"frozen for {LASTING_S:g} s"
    return (
        Row(f"policy {kill}", _kill("policy"), ("ARMED",), None, ARMED),
        Row(f"policy {kill}", _kill("policy"), ("FAULT",), None, STARTING, START_S),
        Row(f"policy {kill}", _kill("policy"), ("FAULT",)),
        Row(f"policy {kill}", _kill("policy"), ("DISARMED",), None, LANDING),
        Row("policy frozen for 0.2 s", _freeze("policy", 0.2), ("POLICY",)),
        Row(f"policy {freeze}", _freeze("policy", LASTING_S), ("ARMED",), None, ARMED),
        Row(f"policy {freeze}", _freeze("policy", LASTING_S), ("POLICY",), None, STARTING),
        Row(f"policy {freeze}", _freeze("policy", LASTING_S), ("FAULT",)),
        Row(f"policy {freeze}", _freeze("policy", LASTING_S), ("DISARMED",), None, LANDING),
        Row(f"shield {kill}", _kill("shield"), ("SILENT",), None, ARMED),
        Row(f"shield {kill}", _kill("shield"), ("SILENT",), None, STARTING),
        Row(f"shield {kill}", _kill("shield"), ("SILENT",), None),
        Row(f"shield {kill}", _kill("shield"), ("SILENT",), None, LANDING),
        Row("shield frozen for 0.2 s", _freeze("shield", 0.2), ("POLICY",), WITHIN_PERIODS + 10),
        Row(f"shield {freeze}", _freeze("shield", LASTING_S), ("ARMED", "FAULT"), None, ARMED),
        Row(f"shield {freeze}", _freeze("shield", LASTING_S), ("FAULT",), None, STARTING),
        Row(f"shield {freeze}", _freeze("shield", LASTING_S), ("FAULT",), None),
        Row(f"shield {freeze}", _freeze("shield", LASTING_S), ("DISARMED", "FAULT"), None, LANDING),
        Row("simulated robots frozen for 0.3 s", _freeze("simulated_robots", 0.3), ("POLICY",), None),
    )


def _dead_recorder() -> tuple[Row, ...]:
    ends = {ARMED: "ARMED", STARTING: "POLICY", POLICY: "POLICY", LANDING: "DISARMED"}
    strike, says = _kill("recorder"), "recorder ended"
    return tuple(Row("recorder killed", strike, (end,), None, phase, START_S, says) for phase, end in ends.items())


ROWS = (
    *_at_each_phase(),
    Row("shield interrupted", _signal("shield", signal.SIGINT), ("DISARMED", "SILENT")),
    Row("emergency stop", lambda flight: flight.node.ask(flight.name, "estop"), ("STOPPED",)),
    Row("second policy", _stranger("requested"), ("FAULT",), WITHIN_PERIODS + 8),
    Row("stranger's commands", _stranger("command"), ("POLICY",), None),
    Row("stranger's odometry", _other_place, ("FAULT",), WITHIN_PERIODS + 8),
    *_late_requests(),
    *_late_odometry(),
    Row("peer silent for 0.3 s", _way(PEER, silence, 0.3), ("POLICY",), None, through={PEER: unchanged}),
    Row("peer silent for 2 s", _way(PEER, silence), ("FAULT",), None, says="silent", through={PEER: unchanged}),
    Row("late peer", _hear_late, ("POLICY",), None, GROUND, says="never heard of", through={PEER: silence}),
    Row(
        "policy of another file",
        _ask_to_arm,
        ("DISARMED",),
        None,
        GROUND,
        says="the policy flies file",
        edit=_another_file,
    ),
    Row("policy file replaced", _replace_bundle, ("POLICY",), None),
    Row("driver of another version", _another_version, ("DISARMED",), None, GROUND, says="the driver's robot type is"),
    *_dead_recorder(),
    Row("recorder frozen for 2 s", _freeze("recorder", LASTING_S), ("POLICY",), None),
    Row("disk full", _fill_disk, ("POLICY",), None, patience_s=START_S, says="recorder ended"),
)
