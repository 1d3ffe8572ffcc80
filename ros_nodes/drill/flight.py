"""The flight of a drill: a simulated team on this machine, one robot of which is struck in a phase of its flight."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import JointState

from hardware import load_robot
from ros_nodes.drill.relay import Relay, Way
from ros_nodes.lifecycle.bring_up import BringUp, node_names
from ros_nodes.lifecycle.clock import machine_clock
from ros_nodes.lifecycle.processes import Processes, free_domain_id, ros_environment
from ros_nodes.messages import qos
from ros_nodes.mission.deploy import BRING_UP_S, CONFIG, operator
from ros_nodes.operation.arming import ASK_AGAIN_S, arm, first_orders
from ros_nodes.operation.operator import MissionNode
from ros_nodes.plans.mission import Member, Mission
from ros_nodes.plans.placement import place_team
from ros_nodes.plans.prepare import PARAMETERS, prepare
from ros_nodes.plans.team import Team

STRUCK, OTHER = 0, 1  # rows of the robot that the fault is for, and of its neighbour
GROUND, ARMED, STARTING, POLICY, LANDING = "GROUND", "ARMED", "STARTING", "POLICY", "LANDING"  # phases
INTO_S = 0.5  # of a start or a landing before the fault
CALM_S, SILENT_S, STEP_S = 1.0, 1.5, 10.0
REQUESTED, OWN, PEER = "requested", "odom", "peer"  # topics that may pass through the drill

Parameters = dict[str, dict[str, Any]]  # of the nodes, by name


@dataclass
class Flight:
    """A team whose policies hold it where it is."""

    mission: Mission
    processes: Processes
    node: MissionNode
    executor: SingleThreadedExecutor
    out: Path
    relays: Mapping[str, Relay]
    refusals: list[str] = field(default_factory=list)  # of the struck robot's shield, where it was to refuse

    @property
    def name(self) -> str:
        """The struck robot."""
        return self.mission.names[STRUCK]

    @property
    def others(self) -> list[str]:
        """All other robots."""
        return list(self.mission.names[OTHER:])

    def process(self, node: str) -> str:
        """The process of the struck robot's `node`, "policy" or "shield"; of any other what it is called."""
        return self.processes.process_of(f"{self.name}/{node}") if node in ("policy", "shield") else node

    def state(self, robot: int = STRUCK) -> str:
        """What the robot's shield said last; SILENT where it says nothing any more."""
        shield = self.node.shields[robot]
        return "SILENT" if machine_clock().now_ns() - shield.time_ns > SILENT_S * 1e9 else shield.state

    def watch(self, duration_s: float, act: Callable[[], None] = lambda: None) -> None:
        """Let time pass; `act` is called at 50 Hz."""
        until = time.monotonic() + duration_s
        while time.monotonic() < until:
            act()
            self.node.update()
            self.executor.spin_once(timeout_sec=0.02)

    def signal(self, process: str, number: int) -> None:
        """Send a signal to one of the processes."""
        os.kill(self.processes.pid(process), number)

    def fly(self, robots: Sequence[str]) -> None:
        """Hand `robots` to their policies. ArmError."""
        arm(self.node, self.executor, self.processes.check, robots)

    def step(self, what: str, state: str) -> None:
        """Have the struck robot's shield `arm`, `start` or `land`, until it is in `state`; TimeoutError."""
        until = time.monotonic() + STEP_S
        while self.state() != state:
            if time.monotonic() > until:
                why = self.node.refusals.get(self.name, "")
                raise TimeoutError(f"{self.name}: not {state} within {STEP_S:g} s of {what}: {why}")
            self.node.ask(self.name, what)
            self.watch(ASK_AGAIN_S if what == "arm" else INTO_S)

    def ask_in_vain(self, what: str, duration_s: float) -> None:
        """Ask the struck robot's shield again and again, and keep why it refuses."""
        until = time.monotonic() + duration_s
        while time.monotonic() < until:
            self.node.ask(self.name, what)
            self.watch(ASK_AGAIN_S)
            self.refusals.append(self.node.refusals.get(self.name, ""))

    def bring_to(self, phase: str) -> None:
        """All in flight, the struck robot in `phase` of its own."""
        if phase == GROUND:
            return
        self.fly(self.mission.names if phase in (POLICY, LANDING) else self.others)
        if phase in (POLICY, LANDING):
            self.watch(CALM_S)
        else:
            self.step("arm", ARMED)
        if phase in (STARTING, LANDING):
            self.step("start" if phase == STARTING else "land", phase)


@contextmanager
def team_in_flight(
    mission: Mission,
    out: Path,
    team: Team | None = None,
    phase: str = POLICY,
    through: Mapping[str, Way] | None = None,
    edit: Callable[[Parameters, str], None] = lambda parameters, name: None,
) -> Iterator[Flight]:
    """The team, its struck robot in `phase`. BringUpError, ArmError, TimeoutError.

    The topics `through` pass through this process, each in the way that is named; `edit` changes the parameters of the
    nodes, given the struck robot's name.
    """
    prepare(mission, out, team, mission.names)
    parameters = json.loads((out / PARAMETERS).read_text())
    edit({node: values["ros__parameters"] for node, values in parameters.items()}, mission.names[STRUCK])
    (out / PARAMETERS).write_text(json.dumps(parameters, indent=1))
    through, domain_id = through or {}, free_domain_id()
    environment, remaps = ros_environment(domain_id), _remaps(mission.team, through)
    with (
        Processes([CONFIG, out / PARAMETERS], out / "logs", environment) as processes,
        operator(mission.names, domain_id, environment, mission.command_names) as (node, executor),
        ExitStack() as stack,
    ):
        relays = {topic: _relay(node, mission.team, topic, way) for topic, way in through.items()}
        for relay in relays.values():
            stack.callback(relay.close)
        processes.start("recorder", "recorder_node")
        processes.start("simulated_robots", "simulated_robots_node", remaps=remaps.get("simulated_robots", []))
        for name, nodes in place_team(mission.names, own_policy=mission.names[STRUCK]).items():
            carried = [remap for node_name in nodes for remap in remaps.get(node_name, [])]
            processes.start_host(name, nodes, carried)
        flight = Flight(mission, processes, node, executor, out, relays)
        watch = first_orders(mission, node, processes.check)
        BringUp(node, executor).up(node_names(mission.names, True, True), BRING_UP_S, watch)
        flight.bring_to(phase)
        yield flight


def simulated(team: Team) -> Team:
    """The team with simulated robots only."""
    robots = tuple(msgspec.structs.replace(robot, driver="", options={}) for robot in team.robots)
    return msgspec.structs.replace(team, robots=robots, namespace="")


def _topics(team: Sequence[Member], topic: str) -> tuple[type, str, str]:
    """Type of a topic that passes through the drill, what the drill hears, and what it says."""
    own, peer = f"/{team[STRUCK].name}", f"/{team[OTHER % len(team)].name}"
    measured = (JointState, "joint_states") if load_robot(team[STRUCK].robot).fixed_base else (Odometry, "odom")
    return {
        REQUESTED: (JointState, f"{own}/requested_sent", f"{own}/requested"),
        OWN: (measured[0], f"{own}/{measured[1]}_sent", f"{own}/{measured[1]}"),
        PEER: (Odometry, f"{peer}/odom", f"{peer}/odom_heard"),
    }[topic]


def _remaps(team: Sequence[Member], through: Mapping[str, Way]) -> dict[str, list[str]]:
    """By process or node, "topic:=other": who sends to the drill, or hears it, in place of the topic itself."""
    found: dict[str, list[str]] = {}
    for topic in through:
        _, heard, said = _topics(team, topic)
        own, sent, hears = team[STRUCK].name, f"{said}:={heard}", f"{heard}:={said}"
        nodes = {
            REQUESTED: {f"{own}/policy": sent},
            OWN: {"simulated_robots": sent},
            PEER: {f"{own}/shield": hears, f"{own}/policy": hears},
        }[topic]
        for node, remap in nodes.items():
            found.setdefault(node, []).append(remap)
    return found


def _relay(node: MissionNode, team: Sequence[Member], topic: str, way: Way) -> Relay:
    kind, heard, said = _topics(team, topic)
    profile = qos.COMMAND_OUT if topic == REQUESTED else qos.MEASURED
    return Relay(node, kind, heard, said, profile, way)
