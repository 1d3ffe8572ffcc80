"""`phalanx_node NAME`, or `python -m ros_nodes NAME`: run a node, in the interpreter that phalanx is installed in.

`ros2 run` and launch files come here through the files in ros_nodes/executables.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

from ros_nodes.lifecycle.fork_server import NODE_ENVIRONMENT

PLAN = "launch_plan"  # what a launch file is to start


def main() -> int:
    """Run the node that the first argument names; 2 where there is none."""
    names = ["host", *sorted(path.stem for path in (Path(__file__).parent / "nodes").glob("*_node.py"))]
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in (*names, PLAN):
        print(f"error: node {name!r}: choose from {', '.join(names)}", file=sys.stderr)
        return 2
    os.environ.update(NODE_ENVIRONMENT)  # before anything that computes is imported
    sys.argv = sys.argv[1:]
    room = "mission" if name == PLAN else "nodes"
    code: int = import_module(f"ros_nodes.{room}.{name}").main()
    return code


if __name__ == "__main__":
    sys.exit(main())
