"""Some nodes of a team as real processes over real DDS, with the test in place of those that it leaves out."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from deploy.shield import make_shield_params
from hardware import load_robot
from hardware.types import ActuatorCommand
from ros_nodes import qos
from ros_nodes.bringup import ACTIVATE, CONFIGURE, BringUp
from ros_nodes.conversion import CommandConverter, empty_state, read_odometry
from ros_nodes.deploy import CONFIG, operator
from ros_nodes.mission_node import MissionNode
from ros_nodes.polling import Mailbox
from ros_nodes.processes import Processes, free_domain_id, ros_environment

SPEC = load_robot("crazyflie")
PERIOD_S = 1 / SPEC.control_hz
HOVER = np.array([SPEC.flight.hover_thrust_n, 0.0, 0.0, 0.0], np.float32)


class Rig:
    """`starts` (N, 4) of simulated robots cf1, cf2, ...; a context manager."""

    def __init__(
        self,
        folder: Path,
        starts: list[list[float]],
        bundle: Path | None = None,
        team: list[str] | None = None,
        parameters: dict[str, dict] | None = None,
    ):
        self.names = [f"cf{i + 1}" for i in range(len(starts))]
        team = team or self.names
        self.params = make_shield_params(SPEC)
        values = {
            "/**/policy": {"team": team, "bundle": str(bundle)},
            "/**/shield": {"team": team, "series_dir": str(folder / "series")},
            "/simulated_robots": {
                "team": self.names,
                "starts": [float(x) for start in starts for x in start],
                "series_dir": str(folder / "series"),
            },
        } | (parameters or {})
        file = folder / "params.yaml"
        file.write_text(json.dumps({node: {"ros__parameters": v} for node, v in values.items()}))
        domain_id = free_domain_id()
        environment = ros_environment(domain_id)
        self.processes = Processes([CONFIG, file], folder / "logs", environment)
        self._operator = operator(team, domain_id, environment)
        self.series = folder / "series"

    def __enter__(self) -> "Rig":
        self.node: MissionNode
        self.node, self.executor = self._operator.__enter__()
        self._driver = BringUp(self.node, self.executor)
        self.commands = {
            name: Mailbox(self.node, JointState, f"/{name}/command", qos.COMMAND_IN) for name in self.names
        }
        self.odometry = {name: Mailbox(self.node, Odometry, f"/{name}/odom", qos.SENSOR) for name in self.names}
        return self

    def __exit__(self, *error: object) -> None:
        self.processes.close()
        self._operator.__exit__(None, None, None)

    def start(self, *names: str) -> None:
        """Start "simulated_robots", "cf1/shield", "cf1/policy" ... and bring each up in the order given."""
        for name in names:
            namespace, _, node = name.rpartition("/")
            self.processes.start(name.replace("/", "_"), f"{node}_node", namespace=namespace)
        self.transition(CONFIGURE, *names)
        for name in names:
            self.transition(ACTIVATE, name)

    def transition(self, transition: int, *names: str) -> None:
        self._driver.transition([f"/{name}" for name in names], transition, 15.0, self.processes.check)

    def publisher(self, robot: str):
        """Publishes requests as a policy would, or as none should."""
        return self.node.create_publisher(JointState, f"/{robot}/requested", qos.COMMAND_IN)

    def state(self, robot: str):
        """The newest measured state of `robot`, and its stamp."""
        until = time.monotonic() + 2.0
        while (taken := self.odometry[robot].take()) is None:
            assert time.monotonic() < until, f"no odometry of {robot}"
            time.sleep(0.002)
        state = empty_state(0)
        return state, read_odometry(taken[0], state)

    def watch(
        self, robot: str, duration_s: float, act: Callable[[float], None] = lambda t: None
    ) -> list[ActuatorCommand]:
        """Commands of `robot`'s shield for `duration_s`; `act(t)` is called once a control period."""
        converter, commands = CommandConverter(SPEC.channels), []
        begin, cycle = time.monotonic(), 0
        while (now := time.monotonic() - begin) < duration_s:
            if now >= cycle * PERIOD_S:
                cycle += 1
                act(now)
            while (taken := self.commands[robot].take()) is not None:
                commands.append(converter.read(taken[0])[0])
            time.sleep(0.001)
        return commands

    def mode(self, robot: str) -> str:
        """The shield's mode as it last said on `status`."""
        self.node.look()
        return self.node.modes[self.node.team.index(robot)]
