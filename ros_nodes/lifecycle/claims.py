"""Names of nodes that are taken on this computer, known at once and without the network.

Discovery needs a second, and more where the machine is busy or an announcement is lost. The kernel's own names of
sockets need none, and are free again when a process ends, however it went. Linux only; elsewhere nothing is claimed.
"""

import hashlib
import socket
import sys
from collections.abc import Sequence


def claim_name(domain: int, node: str) -> socket.socket | None:
    """Hold the full name `node` in ROS domain `domain` until the socket is closed; None where it is taken."""
    if sys.platform != "linux":
        return None
    digest = hashlib.sha256(f"{domain}/{node.strip('/')}".encode()).hexdigest()  # a name of the kernel has 107 bytes
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0phalanx/{digest}")
    except OSError:
        held.close()
        return None
    return held


def taken_names(domain: int, nodes: Sequence[str]) -> list[str]:
    """Those of `nodes` that a process on this computer has claimed."""
    taken = []
    for node in nodes if sys.platform == "linux" else ():
        held = claim_name(domain, node)
        if held is None:
            taken.append(node)
        else:
            held.close()
    return taken
