"""Some nodes of a team as real processes over real DDS, with the test in place of those that it leaves out."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from nav_msgs.msg import Odometry
from patience import patience
from sensor_msgs.msg import JointState

from deploy.shield import make_shield_params
from hardware import load_robot
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand
from ros_nodes.lifecycle.bring_up import BringUp
from ros_nodes.lifecycle.lifecycle_node import ThreadNode
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.lifecycle.processes import Processes, free_domain_id, ros_environment
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import empty_state, read_motion, read_odometry
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.mission.deploy import CONFIG, operator
from ros_nodes.operation.operator import MissionNode
from ros_nodes.plans.mission import Member, Mission, save_mission, team_names, yaw_of

if TYPE_CHECKING:
    from sim.task import TaskCfg

SPEC = load_robot("crazyflie")
PERIOD_S = 1 / SPEC.control_hz
GROUNDED = ("DISARMED", "ARMED", "FAULT")
HOVER = np.array([SPEC.flight.hover_thrust_n, 0.0, 0.0, 0.0], np.float32)


def standing(starts: list[list[float]], *specs: RobotSpec, **changes: Any) -> Mission:
    """Robots, by default Crazyflies, that stand at `starts` (N, 4) x, y, z m and yaw rad and are asked for nothing.

    They are in their home pose. One specification serves all, or each has its own.
    """
    specs = (specs or (SPEC,)) * (len(starts) if len(specs) < 2 else 1)
    names = team_names([spec.name for spec in specs])
    mission = Mission(
        team=tuple(
            Member(
                name,
                spec.name,
                spec.name,
                np.array([x, y, z, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]),
                np.array(spec.home),
            )
            for name, spec, (x, y, z, yaw) in zip(names, specs, starts, strict=True)
        ),
        orders=(),
        duration_s=10.0,
        checks_s=(10.0,),
        hold_s=1.0,
    )
    return replace(mission, **changes)


class IdleNode(ThreadNode):
    """Listens for a test, and does nothing by itself."""

    def configure(self) -> None: ...

    def run(self, stopped: threading.Event) -> None:
        stopped.wait()


class Rig:
    """The simulated robots of a mission, by default Crazyflies cf1, ... at `starts` (N, 4); a context manager."""

    def __init__(
        self,
        folder: Path,
        starts: list[list[float]] | None = None,
        bundle: Path | None = None,
        team: list[str] | None = None,
        parameters: dict[str, dict] | None = None,
        mission: Mission | None = None,
        commands: list[str] | None = None,
    ):
        mission = mission or standing(starts)
        self.specs = {member.name: load_robot(member.robot) for member in mission.team}
        self.names = list(mission.names)
        self.spec = self.specs[self.names[0]]
        team = team or self.names
        self.params = make_shield_params(self.spec)
        save_mission(mission, folder / "plan.json")
        values = {
            "/**/policy": {"team": team, "bundle": str(bundle)},
            "/**/shield": {"team": team, "series_dir": str(folder / "series"), "stop_dir": str(folder / "stops")},
            "/simulated_robots": {"mission": str(folder / "plan.json"), "series_dir": str(folder / "series")},
        }
        for member in mission.team:
            robot = {"robot_type": member.robot, "base_pose": yaw_of(member.base_pose)}
            values |= {f"/{member.name}/{node}": robot for node in ("policy", "shield", "driver")}
        for node, more in (parameters or {}).items():
            values[node] = values.get(node, {}) | more
        file = folder / "params.yaml"
        file.write_text(json.dumps({node: {"ros__parameters": v} for node, v in values.items()}))
        domain_id = free_domain_id()
        environment = self.environment = ros_environment(domain_id)
        self.processes = Processes([CONFIG, file], folder / "logs", environment)
        self._operator = operator(team, domain_id, environment, commands or ["goal_pos"])
        self.series = folder / "series"
        self.stamps_ns: list[int] = []  # of the commands that were watched

    def __enter__(self) -> "Rig":
        self.node: MissionNode
        self.node, self.executor = self._operator.__enter__()
        self._driver = BringUp(self.node, self.executor)
        self.commands = {
            name: Mailbox(self.node, JointState, f"/{name}/command", qos.COMMAND_IN, raw=True) for name in self.names
        }
        self.odometry = {
            name: Mailbox(self.node, Odometry, f"/{name}/odom", qos.SENSOR, raw=True) for name in self.names
        }
        return self

    def __exit__(self, *error: object) -> None:
        self.processes.close()
        self._operator.__exit__(None, None, None)

    def start(self, *names: str, armed: bool = True) -> None:
        """Start "simulated_robots", "cf1/shield", "cf1/policy" ... and bring each up in the order given.

        Robots whose shields come up are `armed`, and waiting for a policy.
        """
        for name in names:
            namespace, _, node = name.rpartition("/")
            self.processes.start(name.replace("/", "_"), f"{node}_node", namespace=namespace)
        self._driver.up([[f"/{name}"] for name in names], 60.0, self.processes.check)
        for name in names:
            if name.endswith("/shield") and armed:
                self.ask(name.removesuffix("/shield"), "arm")
                self.ask(name.removesuffix("/shield"), "start")

    def ask(self, robot: str, what: str, within_s: float = 10.0) -> None:
        """Have the shield of `robot` `arm`, `start`, `land` ...; it may refuse for a while."""
        assert not (refused := self.asked(robot, what, within_s)), refused

    def asked(self, robot: str, what: str, within_s: float = 0.0, act: Callable[[float], None] = lambda t: None) -> str:
        """Why the shield of `robot` refuses `what`, for longer than `within_s`; or an empty string.

        `act(t)` is called meanwhile, at least once a control period: what a shield listens to may not fall silent.
        """
        until = time.monotonic() + within_s
        while True:
            self.node.refusals.pop(robot, None)
            self.node.ask(robot, what)
            give_up = time.monotonic() + patience(5.0)
            while robot not in self.node.refusals:
                assert time.monotonic() < give_up, f"{robot}: no answer to {what}"
                act(0.0)
                self.executor.spin_once(timeout_sec=PERIOD_S)
            if not self.node.refusals[robot] or time.monotonic() > until:
                return self.node.refusals[robot]
            self.watch(robot, 0.05, act)

    def transition(self, transition: int, *names: str) -> None:
        self._driver.transition([f"/{name}" for name in names], transition, 60.0, self.processes.check)

    def publisher(self, robot: str):
        """Publishes requests as a policy would, or as none should."""
        return self.node.create_publisher(JointState, f"/{robot}/requested", qos.COMMAND_IN)

    def state(self, robot: str):
        """The newest measured state of `robot`, and its stamp."""
        until = time.monotonic() + patience(2.0)
        while (taken := self.odometry[robot].take()) is None:
            assert time.monotonic() < until, f"no odometry of {robot}"
            time.sleep(0.002)
        state = empty_state(0)
        return state, read_odometry(read_motion(taken[0]), state)

    def watch(
        self, robot: str, duration_s: float, act: Callable[[float], None] = lambda t: None
    ) -> list[ActuatorCommand]:
        """Commands of `robot`'s shield for `duration_s`; `act(t)` is called once a control period."""
        converter, commands = CommandConverter(self.specs[robot].channels), []
        begin, cycle = time.monotonic(), 0
        while (now := time.monotonic() - begin) < duration_s:
            if now >= cycle * PERIOD_S:
                cycle += 1
                act(now)
            while (taken := self.commands[robot].take()) is not None:
                command, stamp_ns = converter.read(taken[0])
                commands.append(command)
                self.stamps_ns.append(stamp_ns)
            time.sleep(0.001)
        return commands

    def watch_until(
        self, robot: str, happens: Callable[[], bool], within_s: float, act: Callable[[float], None] = lambda t: None
    ) -> None:
        """`watch` until `happens`, no longer than `within_s` of a quiet machine."""
        until = time.monotonic() + patience(within_s)
        while not happens():
            assert time.monotonic() < until, f"{robot}: {self.node.shields}"
            self.watch(robot, 0.1, act)

    def fly_until(
        self, robot: str, happens: Callable[[], bool], within_s: float, act: Callable[[float], None] = lambda t: None
    ) -> None:
        """`watch_until`, while robots that this machine was too busy for, and were landed, are started again."""

        def happens_in_flight() -> bool:
            for name, said in zip(self.node.team, self.node.shields, strict=True):
                if said.state in GROUNDED:
                    print(name, said)
                    self.restart(name, act)
            return happens()

        self.watch_until(robot, happens_in_flight, within_s, act)

    def kept_from(self, what: str, robot: str) -> bool:
        """Whether the shield of `robot` has given `what`, an obstacle or a person, as the reason of what it does."""
        self.node.update()
        return any(said.reason.startswith(what) for said in self.node.changes[robot])

    def has_said(self, robot: str, what: str) -> bool:
        """Whether a reason that the shield of `robot` has given contains `what`."""
        self.node.update()
        return any(what in said.reason for said in self.node.changes[robot])

    def fly(
        self, robot: str, duration_s: float, act: Callable[[float], None] = lambda t: None
    ) -> list[ActuatorCommand]:
        """`watch`, after which the policy flies; a shield that tripped because this machine is busy is reset."""
        for _ in range(4):
            commands = self.watch(robot, duration_s, act)
            if self.mode(robot) in ("NOMINAL", "FILTERED"):
                return commands
            self.restart(robot, act)
        raise AssertionError(f"{robot}: {self.node.modes}, {self.node.shields}")

    def arrive(self, robot: str, is_there: Callable[[], bool]) -> None:
        """Until its policy has brought `robot` there."""
        self.fly_until(robot, lambda: self.authority(robot) == "POLICY" and is_there(), 60.0)

    def sent_ages_ms(self, robot: str, duration_s: float, act: Callable[[float], None] = lambda t: None) -> np.ndarray:
        """How old what `robot` measured was when what follows from it had been sent, ms, for so long.

        `act(t)` is called once a control period.
        """
        sent, ages_ms = Mailbox(self.node, JointState, f"/{robot}/sent", qos.SENSOR), []
        begin_s, cycle = time.monotonic(), 0
        while (now_s := time.monotonic() - begin_s) < duration_s:
            if now_s >= cycle * PERIOD_S:
                cycle += 1
                act(now_s)
            if (taken := sent.take()) is not None:
                ages_ms.append(age_ms(self.node, taken[0]))
            time.sleep(0.001)
        sent.close()
        return np.array(ages_ms)

    def restart(self, robot: str, act: Callable[[float], None] = lambda t: None) -> None:
        """Acknowledge whatever happened to `robot`, arm it and start its policy, which one late message may refuse."""
        self.asked(robot, "reset", act=act)
        for what in ("arm", "start"):
            self.asked(robot, what, 2.0, act)
        self.watch(robot, 0.2, act)

    def authority(self, robot: str) -> str:
        """Who has `robot`, as its shield last said on `status`."""
        self.node.update()
        return self.node.shields[self.node.team.index(robot)].state

    def mode(self, robot: str) -> str:
        """The shield's mode as it last said on `status`."""
        self.node.update()
        return self.node.modes[self.node.team.index(robot)]


def age_ms(node: MissionNode, message: JointState) -> float:
    """How old the measurement is that `message` follows from, ms."""
    stamp = message.header.stamp
    return (node.get_clock().now().nanoseconds - stamp.sec * 10**9 - stamp.nanosec) * 1e-6


def drawn_poses(task: "TaskCfg", count: int) -> list[dict[str, np.ndarray]]:
    """Goals of an arm's only group as its task draws them: position in m and quaternion wxyz, by command."""
    import torch

    from sim.task import Draw

    draw = Draw(torch.Generator().manual_seed(7), count, 1, torch.ones(count))
    command = task.starts(draw)[task.group_name].command
    goals = zip(command["goal_pos"][:, 0].numpy(), command["goal_quat"][:, 0].numpy(), strict=True)
    return [{"goal_pos": pos, "goal_quat": quat} for pos, quat in goals]
