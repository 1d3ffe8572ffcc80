"""A team on this machine: policy and shield of every robot, brought up in order, and by default the robots themselves.

ros2 launch phalanx team.launch.py bundle:=/path/to/policy.onnx robots:=4 out:=flight
"""

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction, Shutdown
from launch.logging import launch_config
from launch.substitutions import LaunchConfiguration

from ros_nodes.lifecycle.processes import NODE_ENVIRONMENT, node_command
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
    given = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in ARGUMENTS}
    mission = mission_for(given["bundle"], given["mission"], int(given["robots"]), seed_in(given["seed"]))
    out = Path(given["out"] or launch_config.log_dir).resolve()
    prepare(mission, out)
    simulated, recorded = given["simulated"] == "true", bool(given["out"])
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
    return ExecuteProcess(
        cmd=node_command(f"{node}_node", [CONFIG, out / PARAMETERS], robot, parameters or []),
        name=f"{robot} {node}".strip(),
        additional_env=NODE_ENVIRONMENT,
        output="screen",
        on_exit=on_exit,
    )
