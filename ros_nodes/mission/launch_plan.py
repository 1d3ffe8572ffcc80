"""The nodes that a launch file starts, as JSON. `ros2 launch` runs in the system's Python, which need not have phalanx.

A node is {executable, namespace, name, parameters: [file or {name: value}], last: whether the launch ends with it}.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ros_nodes.mission.deploy import CONFIG
from ros_nodes.mission.launch_arguments import mission_for, robots_in, seed_in
from ros_nodes.mission.prepare import PARAMETERS, prepare

Node = dict[str, Any]


def main() -> int:
    """Print the nodes for the launch arguments "name:=value" of the command line; 2, and one line, for bad ones."""
    given = dict(argument.split(":=", 1) for argument in sys.argv[1:])
    try:
        print(json.dumps(plan(given)))
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def plan(given: Mapping[str, str]) -> list[Node]:
    """The nodes of a team, each with its parameter files, which are written; `given` as in team.launch.py."""
    mission = mission_for(given["bundle"], given["mission"], robots_in(given["robots"]), seed_in(given["seed"]))
    out = Path(given["out"] or given["log_dir"]).resolve()
    prepare(mission, out)
    files = [str(CONFIG), str(out / PARAMETERS)]
    simulated, recorded = given["simulated"] == "true", bool(given["out"])
    nodes = [_node(node, name, files) for name in mission.names for node in ("shield", "policy")]
    nodes += [_node("simulated_robots", "", files)] * simulated + [_node("recorder", "", files)] * recorded
    # Robots that are real fly on when the mission is over: their shields look after them.
    operator = _node("operator", "", [*files, {"simulated": simulated, "recorded": recorded}])
    return [*nodes, operator | {"name": "mission", "last": simulated}]


def _node(name: str, namespace: str, parameters: Sequence[str | Mapping[str, Any]]) -> Node:
    return {
        "executable": f"{name}_node",
        "namespace": f"/{namespace}",
        "name": name,
        "parameters": parameters,
        "last": False,
    }
