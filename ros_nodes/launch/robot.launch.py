"""One robot: its policy, its shield and its driver, each a process of its own, in the robot's namespace.

ros2 launch phalanx robot.launch.py robot_name:=cf1 team:="[cf1, cf2]" bundle:=/path/to/policy.onnx
"""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction
from launch.substitutions import LaunchConfiguration

from hardware import robot_names
from ros_nodes.lifecycle.processes import NODE_ENVIRONMENT, node_command
from ros_nodes.mission.launch_arguments import names_in, pose_in, robot_for

CONFIG = Path(get_package_share_directory("phalanx")) / "config" / "team.yaml"
ARGUMENTS = (
    DeclareLaunchArgument("robot_name", description="Namespace and tf prefix of the robot."),
    DeclareLaunchArgument("team", description="Names of all robots: [cf1, cf2]."),
    DeclareLaunchArgument("bundle", description="Policy file (.onnx)."),
    DeclareLaunchArgument(
        "robot_type", default_value="", choices=["", *robot_names()], description="Empty for what the policy is for."
    ),
    DeclareLaunchArgument(
        "base_pose", default_value="[0, 0, 0, 0]", description="Where a fixed base stands: x, y, z m and yaw rad."
    ),
    DeclareLaunchArgument("params", default_value=str(CONFIG), description="Parameter file."),
    DeclareLaunchArgument("driver", default_value="", description="Driver class, module:Class; empty for none."),
    DeclareLaunchArgument("options", default_value="{}", description="Options of the driver, a JSON object."),
)


def generate_launch_description() -> LaunchDescription:
    """The nodes come up unconfigured; an operator, such as `ros2 lifecycle set`, takes them from there."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=_robot)])


def _robot(context: LaunchContext) -> list[ExecuteProcess]:
    given = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in ARGUMENTS}
    bundle, name = given["bundle"], given["robot_name"]
    robot = [f"robot_type:={robot_for(bundle, given['robot_type'])}", f"base_pose:={pose_in(given['base_pose'])}"]
    policy = [*robot, f"team:=[{', '.join(names_in(given['team']))}]", f"bundle:={Path(bundle).resolve()}"]
    nodes = {"shield": policy, "policy": policy}
    if given["driver"]:
        nodes["driver"] = [*robot, f"driver:={given['driver']}", f"options:='{given['options']}'"]
    return [
        ExecuteProcess(
            cmd=node_command(f"{node}_node", [given["params"]], name, parameters),
            name=f"{name} {node}",
            additional_env=NODE_ENVIRONMENT,
            output="screen",
        )
        for node, parameters in nodes.items()
    ]
