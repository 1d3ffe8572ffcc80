"""Several nodes in one process: `python -m ros_nodes.nodes.host cf1/policy cf2/policy --ros-args ...`.

Names, parameters, services and series are those that each node has in a process of its own.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

from ros_nodes.lifecycle.host import run_nodes
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.messages.names import is_name

KINDS = {"policy": "policy_node.PolicyNode", "shield": "shield_node.ShieldNode", "driver": "driver_node.DriverNode"}


def make_node(name: str) -> Callable[[], ManagedNode]:
    """Makes the node "namespace/kind"; ValueError for a name that is not one."""
    namespace, _, kind = name.partition("/")
    if not is_name(namespace) or kind not in KINDS:
        raise ValueError(f"node {name!r}: expected namespace/kind, the kind one of {', '.join(KINDS)}")
    module, _, node = KINDS[kind].partition(".")
    return partial(getattr(import_module(f"ros_nodes.nodes.{module}"), node), namespace)


def main() -> int:
    """Run the nodes that the command line names."""
    arguments = sys.argv[1:]
    names = arguments[: arguments.index("--ros-args")] if "--ros-args" in arguments else arguments
    try:
        if not names or len(set(names)) < len(names):
            raise ValueError(f"nodes {' '.join(names) or '(none)'}: expected namespace/kind, each once")
        nodes = {name: make_node(name) for name in names}
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    run_nodes(nodes)


if __name__ == "__main__":
    raise SystemExit(main())
