"""A team, or the part of it that this computer carries: policies, shields, drivers or simulated robots, brought up.

ros2 launch phalanx team.launch.py team:=team.yaml                                      # all of it
ros2 launch phalanx team.launch.py team:=team.yaml only:="[cf1]"                        # on the computer of one robot
ros2 launch phalanx team.launch.py bundle:=/path/to/policy.onnx robots:=4 out:=flight   # simulated drones

It runs in the Python of `ros2`, and needs nothing of phalanx there: which nodes to start says phalanx's own.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from ament_index_python.packages import get_package_prefix
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch.logging import launch_config
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import LifecycleNode, Node

LANDING_S = "40"
ARGUMENTS = (
    DeclareLaunchArgument("team", default_value="", description="Team file (.yaml); empty for what follows."),
    DeclareLaunchArgument("only", default_value="", description="Robots of the team file to start; empty for all."),
    DeclareLaunchArgument(
        "bundle", default_value="", description="Policy file (.onnx) of all robots; empty for those of the mission."
    ),
    DeclareLaunchArgument(
        "mission",
        default_value="",
        description="Mission file, such as the plan.json of `phalanx deploy`; empty for drones that swap places.",
    ),
    DeclareLaunchArgument("robots", default_value="4", description="How many drones swap places."),
    DeclareLaunchArgument("seed", default_value="0", description="Decides where they start and where they go."),
    DeclareLaunchArgument(
        "simulated", default_value="true", choices=["true", "false"], description="Whether the robots are simulated."
    ),
    DeclareLaunchArgument(
        "out", default_value="", description="New folder for a bag, time series and parameters; empty for no bag."
    ),
)


def generate_launch_description() -> LaunchDescription:
    """The nodes of `phalanx deploy`, with the same parameter files; nodes that die are started and brought up again."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=_team)])


def _team(context: LaunchContext) -> list[Node]:
    given = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in ARGUMENTS}
    given["log_dir"] = launch_config.log_dir
    plan = Path(get_package_prefix("phalanx")) / "lib" / "phalanx" / "launch_plan"
    done = subprocess.run(
        [plan, *(f"{name}:={value}" for name, value in given.items())], capture_output=True, text=True
    )
    if done.returncode:
        raise ValueError(done.stderr.strip().rpartition("\n")[2])
    return [_node(**node) for node in json.loads(done.stdout)]


def _node(kind: str, **node: Any) -> Node:
    # After Ctrl-C robots land first; launch's own five seconds would stop them in the air.
    node |= {"package": "phalanx", "output": "screen", "sigterm_timeout": LANDING_S, "sigkill_timeout": "10"}
    if "respawn" in node:
        node["respawn_delay"] = 1.0
    if kind == "last":  # the launch goes down when it ends
        return Node(on_exit=_end, **node)
    return LifecycleNode(**node) if kind == "lifecycle" else Node(**node)


def _end(event: ProcessExited, context: LaunchContext) -> list[Shutdown]:
    return [] if context.is_shutdown else [Shutdown(reason="the mission has ended")]
