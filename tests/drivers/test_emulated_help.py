"""Emulated devices, as a person starts them: what they are and take is said, and then nothing is started."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from places import TESTS

OPTIONS = {  # one of each device's, and what it needs that may not be installed here
    "crazyflie": ("--start", "mujoco"),
    "crazyradio": ("--starts", "mujoco"),
    "franka": ("--help", "franky_sim"),
    "px4": ("--client", "pymavlink"),
    "px4_mavsdk": ("--help", "mavsdk"),
    "ros2_control": ("--prefix", "rclpy"),
    "unitree_g1": ("--mode-machine", "mujoco"),
    "ur": ("--host", "mujoco"),
}


def test_each_emulated_device_that_can_be_started_is_asked_for_help():
    files = {file.stem for file in (TESTS / "devices").glob("*.py") if "__main__" in file.read_text()}
    assert files == set(OPTIONS)


@pytest.mark.parametrize("device", OPTIONS)
def test_an_emulated_device_says_what_it_takes_and_does_not_start(device):
    option, needs = OPTIONS[device]
    if find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    asked = subprocess.run(
        [sys.executable, "-m", f"devices.{device}", "--help"],
        capture_output=True,
        text=True,
        cwd=TESTS,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])},
        stdin=subprocess.PIPE,
        timeout=120,
    )
    assert asked.returncode == 0 and asked.stdout.startswith("usage:") and option in asked.stdout, asked
    assert "lines of JSON" in asked.stdout or "line of JSON" in asked.stdout, "how it is given orders"


@pytest.mark.skipif(find_spec("franky_sim") is not None, reason="franky-sim is installed here")
def test_that_of_the_franka_says_in_one_line_which_environment_it_needs():
    asked = subprocess.run(
        [sys.executable, "-m", "devices.franka", "--help"], capture_output=True, text=True, cwd=TESTS
    )
    assert asked.returncode == 1 and asked.stderr.count("\n") == 1 and "make franky-sim" in asked.stderr
