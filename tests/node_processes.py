"""Processes of nodes, as the system lists them."""

from pathlib import Path


def node_processes(*marks: str) -> list[str]:
    """Processes of nodes whose command line holds all `marks`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_text()
            except OSError:
                continue  # it ended meanwhile
            if all(mark in command for mark in (*marks, "ros_nodes.", "--ros-args")):
                found.append(entry.name)
    return found
