"""No process of ours uses Fast DDS's shared memory, in which one that is killed stops the others for seconds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy")
from ros_rig import Rig

from ros_nodes.lifecycle.processes import free_domain_id
from ros_nodes.lifecycle.transport import transport_settings

NODE = """
from ros_nodes.lifecycle.transport import avoid_shared_memory
avoid_shared_memory()
import rclpy
rclpy.init()
node = rclpy.create_node("alone")  # the last node takes the middleware with it
print(open("/proc/self/maps").read())
"""


def shared_memory(maps: str) -> list[str]:
    assert "libfastrtps" in maps
    return [line for line in maps.splitlines() if "/dev/shm/" in line and "fastrtps" in line]


@pytest.mark.ros
@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"},
        {"ROS_AUTOMATIC_DISCOVERY_RANGE": "localhost"},  # which ROS takes for LOCALHOST, as all that it does not know
        {"ROS_LOCALHOST_ONLY": "1"},
    ],
)
def test_a_node_started_by_hand_has_no_shared_memory(chosen):
    environment = os.environ | {"ROS_DOMAIN_ID": str(free_domain_id())} | chosen
    done = subprocess.run([sys.executable, "-c", NODE], env=environment, capture_output=True, text=True, check=True)
    assert shared_memory(done.stdout) == []


@pytest.mark.ros
def test_nodes_of_a_mission_have_none_either_and_run_on_when_one_is_killed(tmp_path):
    with Rig(tmp_path, [[0.0, 0.0, 0.0, 0.0]]) as rig:
        rig.start("simulated_robots", "cf1/shield")
        for name in ("simulated_robots", "cf1_shield"):
            assert shared_memory(Path(f"/proc/{rig.processes.pid(name)}/maps").read_text()) == []
        rig.processes.kill("cf1_shield")
        begin_ns = rig.state("cf1")[1]
        rig.watch("cf1", 0.5)
        assert rig.state("cf1")[1] > begin_ns


@pytest.mark.parametrize(
    "chosen",
    [
        {"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"},
        {"FASTRTPS_DEFAULT_PROFILES_FILE": "mine.xml"},
        {"FASTDDS_BUILTIN_TRANSPORTS": "LARGE_DATA"},
    ],
)
def test_a_choice_of_the_user_stays(chosen):
    assert transport_settings({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"} | chosen) == {}
