"""A driver whose robot is in MuJoCo, stepped in real time whenever it is asked something."""

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from ros_rig import standing

from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Battery, RobotState
from ros_nodes.simulation.simulated_team import SimulatedTeam

STEP_S = 0.002


class MujocoDriver:
    """`log` gets a line when the robot is stopped, and `log`.acts how often it was armed and disarmed before."""

    def __init__(self, spec: RobotSpec, log: str):
        height_m = spec.home_height_m if spec.joints else 1.0
        self._team = SimulatedTeam(standing([[0.0, 0.0, height_m, 0.0]], spec), STEP_S)
        self._spec, self._log = spec, Path(log)
        self._now_s: float | None = None
        self._acts: list[str] = []

    def connect(self) -> None:
        self._now_s = time.monotonic()

    def arm(self) -> None:
        self._act("armed")

    def disarm(self) -> None:
        self._act("disarmed")

    def _act(self, what: str) -> None:
        self._acts.append(what)
        self._log.with_suffix(".acts").write_text(", ".join(self._acts))

    def read(self) -> RobotState:
        self._catch_up()
        return self._team.robots[0].measure()

    def write(self, command: ActuatorCommand) -> ActuatorCommand:
        self._catch_up()
        target = np.clip(command.target, self._spec.command_low, self._spec.command_high)
        self._team.robots[0].receive(target, self._now_s)
        return ActuatorCommand(target)

    def stop(self) -> None:
        if self._now_s is not None:
            self._log.write_text(f"{', '.join(self._acts)}; stopped at {self._team.true_poses()[0, 2]:.3f} m")
        self._now_s = None

    def _catch_up(self) -> None:
        while self._now_s < time.monotonic():
            self._now_s += STEP_S
            self._team.step(self._now_s)


class BatteryDriver(MujocoDriver):
    """Its battery is half empty."""

    def read_battery(self) -> Battery:
        return Battery(0.5, 3.7)


class PlantDriver(MujocoDriver):
    """It reports what its model has, but for what its option `changed` says."""

    def __init__(self, spec: RobotSpec, log: str, changed: Mapping[str, float] | None = None):
        super().__init__(spec, log)
        self._changed = dict(changed or {})

    def read_plant(self) -> Mapping[str, float]:
        return self._team.robots[0].plant() | self._changed
