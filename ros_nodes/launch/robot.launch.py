"""One robot: its policy, its shield and its driver, each a process of its own, in the robot's namespace.

ros2 launch phalanx robot.launch.py robot_name:=cf1 team:="[cf1, cf2]" bundle:=/path/to/policy.onnx
"""

import sys
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import Condition, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration, NotEqualsSubstitution

CONFIG = Path(get_package_share_directory("phalanx")) / "config" / "team.yaml"
BUNDLE = ("-p", ["bundle:=", LaunchConfiguration("bundle")])
BASE_POSE = ("-p", ["base_pose:=", LaunchConfiguration("base_pose")])


def generate_launch_description() -> LaunchDescription:
    """Both nodes come up unconfigured; the mission node, or `ros2 lifecycle set`, takes them from there."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("robot_name", description="Namespace and tf prefix of the robot."),
            DeclareLaunchArgument("team", description="Names of all robots, as a YAML list."),
            DeclareLaunchArgument("bundle", description="Policy file (.onnx)."),
            DeclareLaunchArgument("robot_type", default_value="crazyflie", description="Robot specification by name."),
            DeclareLaunchArgument(
                "base_pose", default_value="[0.0, 0.0, 0.0, 0.0]", description="Of a fixed base: x, y, z m and yaw rad."
            ),
            DeclareLaunchArgument("params", default_value=str(CONFIG), description="Parameter file."),
            DeclareLaunchArgument(
                "driver", default_value="", description="Driver class, module:Class; empty for none."
            ),
            DeclareLaunchArgument("options", default_value="{}", description="Options of the driver, a JSON object."),
            _node("shield_node", *BUNDLE, *BASE_POSE),
            _node("policy_node", *BUNDLE, *BASE_POSE),
            _node(
                "driver_node",
                *BASE_POSE,
                "-p",
                ["driver:=", LaunchConfiguration("driver")],
                "-p",
                ["options:='", LaunchConfiguration("options"), "'"],
                condition=IfCondition(NotEqualsSubstitution(LaunchConfiguration("driver"), "")),
            ),
        ]
    )


def _node(module: str, *more: object, condition: Condition | None = None) -> ExecuteProcess:
    """`python -m` rather than an installed executable: the same call that `phalanx deploy` makes."""
    return ExecuteProcess(
        cmd=[
            sys.executable,
            "-m",
            f"ros_nodes.{module}",
            "--ros-args",
            "--params-file",
            LaunchConfiguration("params"),
            "-r",
            ["__ns:=/", LaunchConfiguration("robot_name")],
            "-p",
            ["team:=", LaunchConfiguration("team")],
            "-p",
            ["robot_type:=", LaunchConfiguration("robot_type")],
            *more,
        ],
        condition=condition,
        output="screen",
    )
