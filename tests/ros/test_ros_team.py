"""`phalanx deploy TEAM.yaml`: a robot behind its driver and a simulated one come up together, and end when asked."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from patience import patience
from places import ROOT

pytest.importorskip("rclpy")
from nav_msgs.msg import Odometry

from phalanx.commands.deploy import up_in_words
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages import qos
from ros_nodes.mission.deploy import operator

pytestmark = pytest.mark.ros
COMMAND = [sys.executable, "-m", "phalanx", "deploy"]


def test_a_real_and_a_simulated_robot_come_up_and_the_real_one_is_stopped_at_the_end(tmp_path):
    hover, log = ROOT / "zoo" / "hover.onnx", tmp_path / "stopped"
    (tmp_path / "team.yaml").write_text(
        f"""
        robots:
          - {{name: cf1, bundle: {hover}, driver: "mujoco_driver:MujocoDriver", options: {{log: {log}}}}}
          - {{name: cf2, bundle: {hover}, base_pose: [2, 0, 1, 0]}}
        namespace: fleet
        """
    )
    domain = free_domain_id()
    ros = ros_environment(domain)
    (tmp_path / "phalanx").mkdir()
    (tmp_path / "phalanx" / f"cf1@{domain}.stopped").write_text("a person, 12:00\n")
    environment = os.environ | ros | {"XDG_STATE_HOME": str(tmp_path)}
    environment |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    command = [*COMMAND, str(tmp_path / "team.yaml"), "--out", str(tmp_path / "out")]
    deploy = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        with operator(["cf1", "cf2"], domain, ros) as (node, executor):
            boxes = [Mailbox(node, Odometry, f"/{name}/odom", qos.SENSOR) for name in ("cf1", "cf2")]
            heard, names, until = set(), [], time.monotonic() + patience(60.0)
            while len(heard) < 2 or "?" in node.modes or ("simulated_robots", "/fleet") not in names:
                assert deploy.poll() is None, deploy.stderr.read()
                assert time.monotonic() < until, (heard, node.modes, names)
                executor.spin_once(timeout_sec=0.05)
                node.update()
                heard |= {number for number, box in enumerate(boxes) if box.take()}
                names = node.get_node_names_and_namespaces()
            assert deploy.stdout.readline().startswith(
                f"team of {tmp_path / 'team.yaml'} in ROS domain {domain}: at Ctrl-C "
            )
            says = r"cf2 can be armed, [\d.]+ s after .*: phalanx operate arm NAME; cf1 is STOPPED, .*"
            assert re.fullmatch(says, said := deploy.stdout.readline().strip()), said
            assert said.endswith("before it is armed: phalanx operate reset cf1")
    finally:
        deploy.send_signal(signal.SIGINT)
        code = deploy.wait(patience(60.0))
    assert code == 0
    assert 0.0 < json.loads((tmp_path / "out" / "result.json").read_text())["armable_after_s"] < patience(30.0)
    assert log.exists(), "the driver did not stop its robot"


def test_who_can_be_armed_is_said_by_name_only_where_a_robot_is_stopped():
    assert up_in_words(["a", "b"], [], 3.14) == "robots can be armed, 3.1 s after their nodes were started"
    assert up_in_words(["a"], ["a"], 3.0).startswith("no robot can be armed, 3.0 s")


def test_what_is_wrong_with_a_team_file_is_one_line(tmp_path):
    (tmp_path / "team.yaml").write_text("robots: [{name: cf1, bundle: none.onnx}]")
    done = subprocess.run([*COMMAND, str(tmp_path / "team.yaml")], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "team.yaml: robots[0].bundle of cf1" in done.stderr
