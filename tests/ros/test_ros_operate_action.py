"""The action of a shield's orders, built by CMake as a workspace builds it: feedback on the way, and how it ended."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import patience
from places import ROOT

pytest.importorskip("rclpy")
pytest.importorskip("ament_package", reason="builds an interface package: see the extra dev")
from ros_rig import SPEC, Rig
from test_ros_shield import Requests

from deploy.shield.authority import STANDING, State
from ros_nodes.lifecycle import fork_server
from ros_nodes.messages.operate_action import how_it_ended

pytestmark = pytest.mark.ros
CLIENT = """
import json, sys, rclpy
from rclpy.action import ActionClient
from rclpy.node import Node
from phalanx_interfaces.action import Operate

rclpy.init()
node, said = Node("client"), []
client = ActionClient(node, Operate, "/cf1/shield/operate")
assert client.wait_for_server(20)

def until(future):
    rclpy.spin_until_future_complete(node, future, timeout_sec=40)
    return future.result()

def hear(message):
    said.append(message.feedback.state)
    if said[-1] == sys.argv[2]:
        goal_handle.cancel_goal_async()

for order in sys.argv[1].split(","):
    said.clear()
    goal_handle = until(client.send_goal_async(Operate.Goal(order=order), hear))
    ended = until(goal_handle.get_result_async())
    result = ended.result
    print(json.dumps([order, said, ended.status, result.success, result.message]), flush=True)
"""
SUCCEEDED, CANCELED, ABORTED = 4, 5, 6  # of action_msgs/GoalStatus


@pytest.fixture(scope="module")
def interfaces(tmp_path_factory) -> Path:
    """Where `phalanx_interfaces` is installed."""
    folder, prefix = tmp_path_factory.mktemp("interfaces"), Path(sys.prefix)
    installed = folder / "install"
    own = os.environ | {"AMENT_PREFIX_PATH": str(prefix), "CMAKE_PREFIX_PATH": str(prefix), "PYTHONPATH": ""}
    own |= {"PATH": f"{prefix / 'bin'}:{own['PATH']}", "LD_LIBRARY_PATH": str(prefix / "lib")}
    options = ["-DBUILD_TESTING=OFF", f"-DCMAKE_INSTALL_PREFIX={installed}", f"-DPython3_EXECUTABLE={sys.executable}"]
    # The wheels name a folder of the machine that built them, over which CMake complains after it has written all.
    subprocess.run(["cmake", "-S", ROOT / "interfaces", "-B", folder, *options], capture_output=True, env=own)
    for command in (["--build", folder, "-j2"], ["--install", folder]):
        built = subprocess.run(["cmake", *command], capture_output=True, text=True, env=own, timeout=patience(200))
        assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    return installed


@pytest.fixture
def finds_type(interfaces, monkeypatch):
    """Processes find it, as in a shell that has sourced its workspace's setup: also those that are forked."""
    monkeypatch.setattr(fork_server, "_server", None)  # one that began before has looked for it in vain
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    places = {"PYTHONPATH": f"lib/{python}/site-packages", "LD_LIBRARY_PATH": "lib", "AMENT_PREFIX_PATH": ""}
    for name, place in places.items():
        monkeypatch.setenv(name, f"{interfaces / place}:{os.environ.get(name, '')}".rstrip(":"))


def operate(rig: Rig, orders: str, act, cancel_at: str = "never") -> dict[str, tuple]:
    """What a client hears of each order, while `act` is done each period: feedback, status, success, message."""
    command = [sys.executable, "-c", CLIENT, orders, cancel_at]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | rig.environment)
    rig.watch_until("cf1", lambda: client.poll() is not None, 60.0, act)
    assert client.returncode == 0
    return {order: tuple(heard) for order, *heard in map(json.loads, client.stdout)}


def test_an_order_tells_its_states_until_the_robot_is_there(finds_type, tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, SPEC.home_height_m, 0.0]]) as rig:
        rig.start("simulated_robots", "cf1/shield", armed=False)
        requests = Requests(rig)
        came = operate(rig, "start,arm,start,jump,land,disarm", lambda t: requests.good())
        assert came["jump"][1:3] == (ABORTED, False) and "jump: not one of arm" in came["jump"][3]
        assert came["arm"][0][-1] == "ARMED" and came["arm"][1:] == (SUCCEEDED, True, "")
        assert came["start"][0][-2:] == ["STARTING", "POLICY"]
        assert came["start"][1:] == (SUCCEEDED, True, "POLICY: started")
        assert came["land"][0][-2:] == ["LANDING", "DISARMED"]
        assert came["land"][1:] == (SUCCEEDED, True, "DISARMED: at rest")
        assert came["disarm"][2] and came["disarm"][3] == "already DISARMED"
        assert rig.state("cf1")[0].base_pos[2] < 0.05
        came = operate(rig, "start", lambda t: requests.good())
        assert came["start"][1:3] == (ABORTED, False) and "the robot is DISARMED" in came["start"][3]
        came = operate(rig, "arm,start", lambda t: requests.good(), cancel_at="STARTING")
        assert came["start"][1:] == (CANCELED, False, "canceled: held where it is")
        assert operate(rig, "hold", lambda t: requests.good())["hold"][3] == "already ARMED"


@pytest.mark.parametrize(
    ("order", "state", "reason", "done"),
    [
        ("start", State.STARTING, "on the way", None),
        ("start", State.ARMED, "held on request", False),
        ("start", State.LANDING, "no state", False),
        ("land", State.ARMED, STANDING, True),  # a humanoid
        ("land", State.ARMED, "landing ended on request", False),
        ("land", State.FAULT, "no state", False),
        ("land", State.STOPPED, "emergency stop", False),
    ],
)
def test_an_order_that_others_undo_has_failed_with_their_reason(order, state, reason, done):
    outcome = how_it_ended(order, "", state, reason)
    assert (outcome.done if outcome else None) is done
    assert outcome is None or reason in outcome.said
