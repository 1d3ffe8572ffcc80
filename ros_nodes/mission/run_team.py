"""The nodes of a team file as processes of this program, where there is no `ros2 launch`."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from time import sleep

from ros_nodes.lifecycle.processes import ProcessError, Processes
from ros_nodes.lifecycle.transport import transport_settings
from ros_nodes.mission.deploy import CONFIG
from ros_nodes.mission.launch_plan import Node, plan
from ros_nodes.mission.prepare import PARAMETERS

WATCH_S = 0.1
LANDING_S = 30.0  # for a shield that brings its robot down before it ends


def run_team(file: Path, out: Path, watch: Callable[[], None] = lambda: None) -> None:
    """Start the nodes of the team file and watch them until Ctrl-C; then shields end first, all others after them.

    ROS is that of the environment: domain, discovery range, middleware. `watch` is called again and again, and may
    raise. TeamError for a bad file; ProcessError for a process that ends by itself, after which all are ended.
    """
    nodes = plan({"team": str(file), "only": "", "out": str(out)})
    with Processes([CONFIG, out / PARAMETERS], out / "logs", transport_settings(os.environ)) as processes:
        names = [_start(processes, node) for node in nodes]
        try:
            while True:
                processes.check()
                watch()
                sleep(WATCH_S)
        except (KeyboardInterrupt, ProcessError):
            for name in names:
                if "shield" in name:
                    processes.end(name, LANDING_S, signal.SIGINT)
            raise


def _start(processes: Processes, node: Node) -> str:
    """Start a node of a plan; returns the name of its process, which is that of its log too."""
    if carried := node.get("arguments"):
        name = f"{carried[0].replace('/', '_')}_host"
        processes.start_host(name, carried)
        return name
    namespace, module = node["namespace"].strip("/"), node["executable"]
    name = f"{namespace}_{module.removesuffix('_node')}".strip("_")
    own = [values for values in node["parameters"] if not isinstance(values, str)]
    parameters = [f"{key}:={json.dumps(value)}" for values in own for key, value in values.items()]
    processes.start(name, module, namespace, parameters)
    return name
