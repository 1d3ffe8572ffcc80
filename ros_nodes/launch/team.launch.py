"""A team: policy and shield of every robot, simulated robots and a bag when asked for, brought up in order.

ros2 launch phalanx team.launch.py bundle:=/path/to/policy.onnx robots:=4 simulated:=true bag:=flight
"""

import sys
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from ros_nodes.mission import plan_swap

SHARE = Path(get_package_share_directory("phalanx"))
CONFIG = SHARE / "config" / "team.yaml"


def generate_launch_description() -> LaunchDescription:
    """Robots are called cf1, cf2, ...; simulated ones start on a circle and their goals are opposite."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", description="Policy file (.onnx)."),
            DeclareLaunchArgument("robots", default_value="4", description="How many robots."),
            DeclareLaunchArgument("simulated", default_value="true", description="Simulate the robots: true or false."),
            DeclareLaunchArgument("bag", default_value="", description="Folder of a new bag; empty for none."),
            DeclareLaunchArgument("seed", default_value="0", description="Decides starts, goals and sensor noise."),
            OpaqueFunction(function=_team),
        ]
    )


def _team(context: LaunchContext) -> list:
    def value(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    mission = plan_swap(int(value("robots")), 18.0, None, int(value("seed")))
    team = f"[{', '.join(mission.names)}]"
    actions: list = [
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(str(SHARE / "launch" / "robot.launch.py")),
            launch_arguments={"robot_name": name, "team": team, "bundle": value("bundle")}.items(),
        )
        for name in mission.names
    ]
    simulated = value("simulated") == "true"
    if simulated:
        starts = [float(x) for x in mission.starts.ravel()]
        actions.append(_node("simulated_robots_node", team=team, starts=starts, seed=value("seed")))
    if value("bag"):
        actions.append(_node("recorder_node", team=team, bag=value("bag")))
    goals = [float(x) for x in mission.legs[0].goals.ravel()] if simulated else [0.0]
    recorded = str(bool(value("bag"))).lower()
    actions.append(_node("mission_node", team=team, goals=goals, simulated=str(simulated).lower(), recorded=recorded))
    return actions


def _node(module: str, **parameters: object) -> ExecuteProcess:
    command = [sys.executable, "-m", f"ros_nodes.{module}", "--ros-args", "--params-file", str(CONFIG)]
    for name, value in parameters.items():
        command += ["-p", f"{name}:={value}"]
    return ExecuteProcess(cmd=command, output="screen")
