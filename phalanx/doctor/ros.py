"""Does ROS 2 import, and do messages really travel over DDS between two nodes on this machine?"""

import os
import statistics
from collections.abc import Callable

from phalanx.doctor.check import Check

SLOW_MS = 5.0  # a quarter of a 50 Hz control period


def ros_checks() -> list[Check]:
    """One check for the import and one for a round trip over loopback."""
    try:
        from ros_nodes.messages.loopback import round_trips_ms
    except ImportError as error:
        hint = "pip install 'phalanx[ros]', or source a system ROS 2 (Jazzy)"
        return [Check("ros", "import", "warn", str(error), hint)]
    settings = f"domain {os.environ.get('ROS_DOMAIN_ID', '0')}, {os.environ.get('RMW_IMPLEMENTATION', 'default rmw')}"
    return [Check("ros", "import", "ok", settings), _loopback(round_trips_ms)]


def _loopback(round_trips_ms: Callable[..., list[float]]) -> Check:
    try:
        times = sorted(round_trips_ms(count=100, timeout_s=5.0))
    except (RuntimeError, TimeoutError) as error:
        hint = "nodes speak UDP on the loopback interface: check firewall, container and ROS_DOMAIN_ID"
        return Check("ros", "dds round trip", "fail", str(error), hint)
    p50, p99 = statistics.median(times), times[int(0.99 * (len(times) - 1))]
    found = f"{p50:.2f} ms median, {p99:.2f} ms p99"
    slow = "the machine is busy, or DDS goes through a slow network interface"
    return Check("ros", "dds round trip", *(("warn", found, slow) if p99 > SLOW_MS else ("ok", found)))
