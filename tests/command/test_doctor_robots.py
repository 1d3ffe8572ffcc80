"""The doctor looks at the real robots of a team file: what works, what does not and what to do, and none is armed."""

import json
from pathlib import Path

import pytest
from places import ZOO
from test_cli import here

pytest.importorskip("cflib")
pytest.importorskip("rclpy")
from emulated import Emulated

from deploy.bundle import load_bundle
from deploy.runtime.compatibility import lacks_firmware
from ros_nodes.lifecycle.claims import claim_name
from ros_nodes.lifecycle.processes import free_domain_id

HOVER = str(ZOO / "hover.onnx")
pytestmark = [pytest.mark.slow, pytest.mark.real_time]


@pytest.fixture(autouse=True)
def no_stops_of_others(tmp_path, monkeypatch):
    """A person's stops outlive what they stopped, also on the computer of who tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def examined(file, *options) -> tuple[int, dict[tuple[str, str], dict[str, str]]]:
    done = here("doctor", str(file), *options, "--json")
    return done.returncode, {(check["group"], check["name"]): check for check in json.loads(done.stdout)["checks"]}


def team(folder, **ports):
    """A team file of Crazyflies at these ports, and one simulated."""
    drones = [
        {
            "name": name,
            "bundle": HOVER,
            "driver": "crazyflie",
            "options": {"uri": f"udp://127.0.0.1:{port}", "connect_s": 3},
        }
        for name, port in ports.items()
    ]
    (folder / "team.yaml").write_text(json.dumps({"robots": [*drones, {"name": "sim", "bundle": HOVER}]}))
    return folder / "team.yaml"


def test_what_is_wrong_with_a_robot_is_found_without_arming_it(tmp_path):
    with Emulated("crazyflie") as device:
        file = team(tmp_path, cf1=device.port, cf2=1)
        for _ in range(3):  # a busy machine is a slow link, which is a fault
            code, well = examined(file, "--robots", "cf1")
            if code == 0:
                break
        assert code == 0 and {well["cf1", name]["status"] for name in ("link", "battery", "device")} == {"ok"}, well
        assert well["cf1", "firmware"]["found"] == "protocol version 12"
        assert {name for group, name in well if group == "this computer"} == {"priority of nodes", "load"}
        assert {name for group, name in well if group == "cf1"} == {
            "link",
            "firmware",
            "plant",
            "rate",
            "age",
            "estimate",
            "battery",
            "device",
        }
        assert well["cf1", "battery"]["found"].startswith("90 %") and "Hz of 100, " in well["cf1", "rate"]["found"]
        device.order(charge=0.1, sigma_m=0.5, delay_s=0.12)
        code, ill = examined(file)
        assert code == 1
        broken = {name: check for (robot, name), check in ill.items() if robot == "cf1" and check["status"] == "fail"}
        assert set(broken) == {"battery", "device", "age"}, ill
        assert "below 20 %" in broken["battery"]["hint"] and "0.50 m" in broken["device"]["found"]
        assert ill["cf2", "link"]["status"] == "fail" and "udp://127.0.0.1:1" in ill["cf2", "link"]["found"]
        assert not device.order()["info"] & 0b10 and not device.order()["setpoints"]


def test_a_firmware_that_is_newer_than_the_driver_is_a_warning_and_no_fault(tmp_path):
    with Emulated("crazyflie", "--version", "13") as device:
        _, said = examined(team(tmp_path, cf1=device.port), "--robots", "cf1")
    firmware = said["cf1", "firmware"]
    assert firmware["status"] == "warn" and said["cf1", "link"]["status"] == "ok"
    assert firmware["found"] == "protocol version 13, newer than 12, for which this driver was written"


def test_a_stop_that_is_kept_and_an_option_that_cannot_be_are_named_and_are_no_fault_of_the_link(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "phalanx").mkdir()
    (tmp_path / "phalanx" / "cf1.stopped").write_text("a person, 12:00\n")
    robot = {"name": "cf1", "bundle": HOVER, "driver": "crazyflie", "options": {"uri": "usb://0", "thrust_scale": 9}}
    (tmp_path / "team.yaml").write_text(json.dumps({"robots": [robot]}))
    code, found = examined(tmp_path / "team.yaml")
    assert code == 1 and ("cf1", "link") not in found
    assert found["cf1", "stop"]["found"] == "stopped still: a person, 12:00"
    assert found["cf1", "stop"]["hint"] == "phalanx operate reset cf1, when it is deployed"
    assert found["cf1", "options"]["found"] == "thrust_scale is 9: expected 0.5 to 1.5"


def test_a_robot_that_is_deployed_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domain := free_domain_id()))
    with claim_name(domain, "/cf1/shield"):
        done = here("doctor", str(team(tmp_path, cf1=1)))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "cf1 is deployed on this computer" in done.stderr


def test_a_policy_that_does_not_know_the_firmwares_loop_is_named(tmp_path):
    zoo = Path(HOVER).parent
    said = {
        name: lacks_firmware(load_bundle(zoo / f"{name}.onnx").contract) for name in ("hover", "swarm-swap", "reach")
    }
    assert said["hover"] == said["reach"] == "" and "not of its firmware" in said["swarm-swap"]


def test_a_team_without_devices_or_such_a_name_is_refused_in_one_line(tmp_path):
    for arguments, says in (
        ([str(team(tmp_path))], "no driver, so simulated"),
        ([str(team(tmp_path)), "--robots", "cf9"], "robot 'cf9' is not in the team: choose from sim"),
        (["--robots", "cf9"], "a team file, which is missing"),
    ):
        done = here("doctor", *arguments)
        assert done.returncode == 2 and says in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
