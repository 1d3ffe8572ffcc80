"""The nodes that a launch file starts, as JSON. `ros2 launch` runs in the system's Python, which need not have phalanx.

A node is what launch_ros takes, and its kind: "lifecycle", "node", or "last", with which the launch ends.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ros_nodes.lifecycle.bring_up import node_names
from ros_nodes.mission.deploy import CONFIG
from ros_nodes.mission.launch_arguments import mission_for, names_in, robots_in, seed_in
from ros_nodes.operation.monitor import monitoring
from ros_nodes.plans.placement import join_links, place_team
from ros_nodes.plans.prepare import PARAMETERS, prepare
from ros_nodes.plans.team import Hosts
from ros_nodes.plans.team_file import load_team
from ros_nodes.plans.team_mission import team_mission

NOT_UP = "not_up.json"  # of a run: the nodes that are not up, once its operator has brought up what it could

Node = dict[str, Any]


def main() -> int:
    """Print the nodes for the launch arguments "name:=value" of the command line; 2, and one line, for bad ones."""
    given = dict(argument.split(":=", 1) for argument in sys.argv[1:])
    try:
        with monitoring() as monitor:
            print(json.dumps(plan(given, monitor.refuse_taken)))
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def plan(given: Mapping[str, str], check: Callable[[list[str]], None] = lambda nodes: None) -> list[Node]:
    """The nodes of a team, each with its parameter files, which are written; `given` as in team.launch.py.

    `check` gets the names of all lifecycle nodes before anything is written, and may raise.
    """
    out = Path(given["out"] or given["log_dir"]).resolve()
    team = load_team(given["team"]) if given["team"] else None
    if team:
        mission = team_mission(team)
        here = team.pick(names_in(given["only"]) if given["only"] else [])
        drivers = [name for name in here if name not in team.simulated]
        simulated, recorded = len(drivers) < len(here), bool(given["out"]) and team.recorder
    else:
        mission = mission_for(given["bundle"], given["mission"], robots_in(given["robots"]), seed_in(given["seed"]))
        here, drivers = mission.names, []
        simulated, recorded = given["simulated"] == "true", bool(given["out"])
    hosts, namespace = team.hosts if team else Hosts(), team.namespace if team else ""
    check([node for stage in node_names(here, simulated, recorded, drivers, namespace) for node in stage])
    prepare(mission, out, team, here)
    most = len(here)
    policies, shields = (count and min(count, most) for count in (hosts.policies, hosts.shields))
    carried = place_team(here, policies, shields, apart=drivers)
    carried = join_links(carried, team.links() if team else {})
    for nodes_of in carried.values():  # a driver is in the process of its shield, which has the last word
        nodes_of += [f"{name}/driver" for name in drivers if f"{name}/shield" in nodes_of]
    files = [str(CONFIG), str(out / PARAMETERS)]
    nodes = [_process(names, files) for names in carried.values()]
    nodes += [_node("simulated_robots", namespace, files)] * simulated
    nodes += [_node("recorder", namespace, files)] * recorded
    switches = {"simulated": simulated, "recorded": recorded, "drivers": drivers or [""]}
    switches["not_up"] = str(out / NOT_UP)
    # Robots that are real fly on without it: their shields look after them.
    kind = "last" if simulated and not drivers else "node"
    return [*nodes, _node("operator", namespace, [*files, switches]) | {"kind": kind, "name": "mission"}]


def _process(names: Sequence[str], files: Sequence[str]) -> Node:
    """A process that carries robots' nodes, each "robot/kind", and is started again when it dies."""
    if len(names) == 1:
        robot, _, kind = names[0].partition("/")
        return _node(kind, robot, files) | {"respawn": True}
    return {"kind": "node", "executable": "host", "arguments": names, "parameters": files, "respawn": True}


def _node(name: str, namespace: str, parameters: Sequence[str | Mapping[str, Any]]) -> Node:
    return {
        "kind": "lifecycle",
        "executable": f"{name}_node",
        "namespace": f"/{namespace}",
        "name": name,
        "parameters": parameters,
    }
