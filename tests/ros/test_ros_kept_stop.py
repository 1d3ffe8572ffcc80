"""`phalanx deploy` of a team file says which robot a person has stopped before."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from patience import patience

pytest.importorskip("rclpy")
pytest.importorskip("cflib")
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment

pytestmark = pytest.mark.ros


def test_a_stop_that_is_kept_of_a_real_robot_is_named_before_anything_starts(pd_bundle, tmp_path):
    """The other has none: it was that of a simulated robot of this name."""
    shutil.copy(pd_bundle, tmp_path / "pd.onnx")
    link = {"driver": "crazyflie", "options": {"uri": "udp://127.0.0.1:1", "connect_s": 0.5}}
    robots = [
        {"name": name, "bundle": "pd.onnx", "base_pose": [x, 0, 0, 0]} for name, x in (("cf1", 0.0), ("cf2", 2.0))
    ]
    (tmp_path / "team.yaml").write_text(json.dumps({"robots": [robots[0] | link, robots[1]], "recorder": False}))
    (tmp_path / "phalanx").mkdir()
    domain = free_domain_id()
    for name, where, when in (("cf1", domain, "12:00"), ("cf2", domain, "12:00"), ("cf1", domain - 1, "11:00")):
        (tmp_path / "phalanx" / f"{name}@{where}.stopped").write_text(f"a person, {when}\n")
    command = [sys.executable, "-m", "phalanx", "deploy", str(tmp_path / "team.yaml"), "--out", str(tmp_path / "out")]
    environment = os.environ | ros_environment(domain) | {"XDG_STATE_HOME": str(tmp_path), "COLUMNS": "80"}
    environment["PYTHONUNBUFFERED"] = "1"
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=patience(60.0)
    )
    said = "cf1 is STOPPED still (a person, 12:00); once it is up: phalanx operate reset cf1"
    assert done.returncode == 1 and said in done.stdout.splitlines(), done.stdout
    assert done.stdout.index(said) < done.stdout.index("at Ctrl-C cf1 and cf2 land; logs are in"), done.stdout
    other = f"a robot of this name is STOPPED still in ROS domain {domain - 1} (a person, 11:00): is it this one?"
    assert f"warning: cf1: {other}" in done.stdout.splitlines(), done.stdout
    assert "cf2 is STOPPED" not in done.stdout
