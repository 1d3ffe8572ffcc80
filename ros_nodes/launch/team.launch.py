"""A team: policy and shield of every robot, simulated robots and a bag when asked for, brought up in order.

ros2 launch phalanx team.launch.py bundle:=/path/to/policy.onnx mission:=plan.json simulated:=true bag:=flight
"""

import sys
import tempfile
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from ros_nodes.mission import load_mission, plan_swap, save_mission, yaw_of

SHARE = Path(get_package_share_directory("phalanx"))
CONFIG = SHARE / "config" / "team.yaml"


def generate_launch_description() -> LaunchDescription:
    """Without a mission file, as `phalanx deploy` leaves one behind, Crazyflies cf1, cf2, ... swap places."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("bundle", description="Policy file (.onnx)."),
            DeclareLaunchArgument("mission", default_value="", description="Mission file (.json); empty for the swap."),
            DeclareLaunchArgument("robots", default_value="4", description="How many robots, without a mission file."),
            DeclareLaunchArgument("simulated", default_value="true", description="Simulate the robots: true or false."),
            DeclareLaunchArgument("bag", default_value="", description="Folder of a new bag; empty for none."),
            DeclareLaunchArgument("seed", default_value="0", description="Decides starts, goals and sensor noise."),
            OpaqueFunction(function=_team),
        ]
    )


def _team(context: LaunchContext) -> list:
    def value(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    path = value("mission")
    if path:
        mission = load_mission(path)
    else:
        mission = plan_swap(int(value("robots")), 18.0, None, int(value("seed")))
        path = str(Path(tempfile.mkdtemp()) / "plan.json")
        save_mission(mission, Path(path))
    team = f"[{', '.join(mission.names)}]"
    actions: list = [
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(str(SHARE / "launch" / "robot.launch.py")),
            launch_arguments={
                "robot_name": name,
                "robot_type": mission.robot,
                "base_pose": str(yaw_of(pose)),
                "team": team,
                "bundle": value("bundle"),
            }.items(),
        )
        for name, pose in zip(mission.names, mission.base_pose, strict=True)
    ]
    simulated = value("simulated") == "true"
    if simulated:
        actions.append(_node("simulated_robots_node", mission=path, seed=value("seed")))
    if value("bag"):
        joints = str(bool(mission.joint_pos.shape[1])).lower()
        objects = f"[{', '.join(mission.objects)}]" if mission.objects else "['']"
        actions.append(_node("recorder_node", team=team, bag=value("bag"), joints=joints, objects=objects))
    switches = {"simulated": str(simulated).lower(), "recorded": str(bool(value("bag"))).lower()}
    actions.append(_node("mission_node", team=team, mission=path, **switches))
    return actions


def _node(module: str, **parameters: object) -> ExecuteProcess:
    command = [sys.executable, "-m", f"ros_nodes.{module}", "--ros-args", "--params-file", str(CONFIG)]
    for name, value in parameters.items():
        command += ["-p", f"{name}:={value}"]
    return ExecuteProcess(cmd=command, output="screen")
