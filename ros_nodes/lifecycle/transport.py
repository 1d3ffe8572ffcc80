"""How messages travel between our processes: by UDP, on one machine too, and never through shared memory.

In Fast DDS's shared memory every reader has a port with a lock that its writers take. A process that is killed while it
holds one makes all others that write to that port wait for one or two seconds: a policy that dies so stops the driver
and the shield of its robot, in a few of a hundred kills. A killed process leaves its memory behind, too.
"""

import os
from collections.abc import Mapping
from pathlib import Path

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
PROFILES = "FASTRTPS_DEFAULT_PROFILES_FILE"
TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"
LOCALHOST_ONLY = "ROS_LOCALHOST_ONLY"  # the older switch; where it is set it overrides the range
LOOPBACK = Path(__file__).parents[1] / "config" / "loopback.xml"


def transport_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that keep Fast DDS from shared memory, for a process with this environment.

    Empty where the user chose another middleware, a profile or transports of their own. The discovery range `LOCALHOST`
    adds shared memory in any case; a profile with the same range takes its place.
    """
    own = (PROFILES, TRANSPORTS, "FASTDDS_DEFAULT_PROFILES_FILE")
    fast_dds = environment.get("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp").startswith("rmw_fastrtps")
    if not fast_dds or any(environment.get(name) for name in own):
        return {}
    # ROS takes a range that it does not know for that of this machine.
    wide = environment.get(RANGE, "") in ("", "SUBNET", "SYSTEM_DEFAULT", "OFF")
    if environment.get(LOCALHOST_ONLY) == "1" or not wide:
        return {RANGE: "SYSTEM_DEFAULT", PROFILES: str(LOOPBACK)}
    return {TRANSPORTS: "UDPv4"}


def avoid_shared_memory() -> None:
    """Set them for this process; to be called before `rclpy.init`."""
    settings = transport_settings(os.environ)
    if PROFILES in settings:
        os.environ.pop(LOCALHOST_ONLY, None)
    os.environ.update(settings)
