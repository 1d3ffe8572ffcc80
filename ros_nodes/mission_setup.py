"""What a mission needs of a policy, and what its nodes need to be told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deploy.contract import CommandSpec, Contract
from ros_nodes.commands import own_topics
from ros_nodes.mission import Mission, yaw_of


def check_mission(contract: Contract, mission: Mission) -> None:
    """ValueError for a mission that asks for what the policy refuses, or lacks an object that it looks at."""
    specs = {command.name: command for command in contract.commands}
    for order in mission.orders:
        for name, values in order.commands.items():
            if name not in specs:
                known = ", ".join(specs) or "no commands"
                raise ValueError(f"the mission asks for {name!r}; the policy takes: {known}")
            for robot, value in enumerate(np.asarray(values, np.float32)):
                _check_value(specs[name], value, mission.names[robot])
    for name in contract.objects:
        if name not in mission.objects:
            raise ValueError(f"the policy looks at {name!r}, which the mission has not")


def _check_value(spec: CommandSpec, value: np.ndarray, robot: str) -> None:
    low, high = np.array(spec.low, np.float32), np.array(spec.high, np.float32)
    if value.shape != low.shape or not ((value >= low) & (value <= high)).all():
        asked = f"the mission asks {robot} for {spec.name} = {value.round(3).tolist()}"
        raise ValueError(f"{asked}; the policy was trained for {list(spec.low)} to {list(spec.high)}")


def team_parameters(mission: Mission, bundle: Path, out: Path, shield: Mapping[str, Any]) -> dict[str, Any]:
    """The parameter file of a mission's nodes, beyond what config/team.yaml says; JSON is YAML.

    `shield` are the fields of the shield's parameters. The simulated robots find the mission in `out`/plan.json.
    """
    team, series = {"team": list(mission.names)}, {"series_dir": str(out / "series")}
    robot = {**team, **series, "robot_type": mission.robot}
    limits = {f"shield.{name}": list(v) if isinstance(v, tuple) else v for name, v in shield.items()}
    noise = {f"noise.{name}": float(value) for name, value in mission.noise.items()}
    record = {
        "bag": str(out / "bag"),
        "joints": bool(mission.joint_pos.shape[1]),
        "objects": list(mission.objects) or [""],
        "commands": own_topics(mission.command_names) or [""],
    }
    nodes: dict[str, dict[str, Any]] = {
        "/**/policy": {**robot, "bundle": str(bundle)},
        "/**/shield": {**robot, **limits},
        "/simulated_robots": {**series, **noise, "mission": str(out / "plan.json"), "seed": mission.seed},
        "/recorder": {**team, **record},
    }
    for name, pose in zip(mission.names, mission.base_pose, strict=True):
        nodes |= {f"/{name}/{node}": {"base_pose": yaw_of(pose)} for node in ("policy", "shield")}
    return {node: {"ros__parameters": values} for node, values in nodes.items()}
