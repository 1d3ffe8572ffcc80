"""A team on this machine: policy and shield of every robot, brought up in order, and by default the robots themselves.

ros2 launch phalanx team.launch.py bundle:=/path/to/policy.onnx robots:=4 out:=flight
"""

import sys
from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, Shutdown
from launch.logging import launch_config
from launch.substitutions import LaunchConfiguration

from ros_nodes.lifecycle.processes import NODE_ENVIRONMENT
from ros_nodes.mission.launch_arguments import mission_for, seed_in
from ros_nodes.mission.mission import LARGEST_TEAM
from ros_nodes.mission.prepare import PARAMETERS, prepare

CONFIG = Path(get_package_share_directory("phalanx")) / "config" / "team.yaml"
ARGUMENTS = (
    DeclareLaunchArgument(
        "bundle", default_value="", description="Policy file (.onnx) of all robots; empty for those of the mission."
    ),
    DeclareLaunchArgument(
        "mission",
        default_value="",
        description="Mission file, such as the plan.json of `phalanx deploy`; empty for drones that swap places.",
    ),
    DeclareLaunchArgument(
        "robots",
        default_value="4",
        choices=[str(count) for count in range(1, LARGEST_TEAM + 1)],
        description="How many drones swap places.",
    ),
    DeclareLaunchArgument("seed", default_value="0", description="Decides where they start and where they go."),
    DeclareLaunchArgument(
        "simulated", default_value="true", choices=["true", "false"], description="Whether the robots are simulated."
    ),
    DeclareLaunchArgument(
        "out", default_value="", description="New folder for a bag, time series and parameters; empty for no bag."
    ),
)


def generate_launch_description() -> LaunchDescription:
    """The nodes of `phalanx deploy`, with the same parameter files."""
    return LaunchDescription([*ARGUMENTS, OpaqueFunction(function=_team)])


def _team(context: LaunchContext) -> list[ExecuteProcess]:
    told = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in ARGUMENTS}
    mission = mission_for(told["bundle"], told["mission"], int(told["robots"]), seed_in(told["seed"]))
    out = Path(told["out"] or launch_config.log_dir).resolve()
    prepare(mission, out)
    simulated, recorded = told["simulated"] == "true", bool(told["out"])
    nodes = [_node(out, node, name) for name in mission.names for node in ("shield", "policy")]
    if simulated:
        nodes.append(_node(out, "simulated_robots"))
    if recorded:
        nodes.append(_node(out, "recorder"))
    switches = [f"simulated:={str(simulated).lower()}", f"recorded:={str(recorded).lower()}"]
    # It goes on when the mission is over. Robots that are real fly on without it: their shields look after them.
    ended = Shutdown(reason="the operator's node has ended") if simulated else None
    return [*nodes, _node(out, "operator", parameters=switches, on_exit=ended)]


def _node(
    out: Path, node: str, robot: str = "", parameters: list[str] | None = None, on_exit: Shutdown | None = None
) -> ExecuteProcess:
    """`python -m` rather than an installed executable: the same call that `phalanx deploy` makes."""
    command = [sys.executable, "-m", f"ros_nodes.nodes.{node}_node", "--ros-args"]
    for file in (CONFIG, out / PARAMETERS):
        command += ["--params-file", str(file)]
    if robot:
        command += ["-r", f"__ns:=/{robot}"]
    for parameter in parameters or []:
        command += ["-p", parameter]
    return ExecuteProcess(
        cmd=command,
        name=f"{robot} {node}".strip(),
        additional_env=NODE_ENVIRONMENT,
        output="screen",
        on_exit=on_exit,
    )
