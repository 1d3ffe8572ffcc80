"""What launch files are told is checked before anything starts, and what they start comes up, flies and ends."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from patience import patience
from places import ZOO

pytest.importorskip("rclpy")
from ros_rig import standing

from ros_nodes.lifecycle.bring_up import CONFIGURE, BringUp
from ros_nodes.lifecycle.processes import ProcessError, Processes, free_domain_id, ros_environment
from ros_nodes.mission.deploy import CONFIG, operator
from ros_nodes.mission.launch_arguments import mission_for, names_in, seed_in
from ros_nodes.plans.mission import Order, load_mission, save_mission
from ros_nodes.plans.prepare import PARAMETERS, PLAN, prepare

HOVER, REACH = str(ZOO / "hover.onnx"), str(ZOO / "reach.onnx")
GOAL = np.array([0.4, 0.2, 1.2])


def test_lists_are_read_with_brackets_and_without():
    assert names_in("[cf1, 'cf2']") == names_in("cf1,cf2") == ["cf1", "cf2"]
    assert seed_in("12") == 12


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (names_in, "[cf1, 2f]", "only:="),
        (names_in, "", "only:="),
        (names_in, "[größe]", "only:="),
        (names_in, "[cf1, cf1]", "each once"),
        (seed_in, "-1", "seed:=-1"),
        (seed_in, "1.5", "seed:=1.5"),
    ],
)
def test_an_argument_that_cannot_be_is_named(read, text, says):
    with pytest.raises(ValueError, match=says):
        read(text)


def test_a_mission_needs_a_policy_for_every_robot(tmp_path):
    assert {member.bundle for member in mission_for(HOVER, "", 3, 0).team} == {HOVER}
    with pytest.raises(ValueError, match="cf1 has no policy: give bundle:="):
        mission_for("", "", 3, 0)
    with pytest.raises(ValueError, match="no such file"):
        mission_for("nowhere.onnx", "", 3, 0)
    with pytest.raises(ValueError, match="'panda', only drones swap places: give mission:="):
        mission_for(REACH, "", 1, 0)
    named = mission_for(HOVER, "", 2, 0)
    save_mission(named, tmp_path / "plan.json")
    assert [member.bundle for member in mission_for("", str(tmp_path / "plan.json"), 4, 0).team] == [HOVER, HOVER]


def test_the_folder_of_an_earlier_run_is_refused_with_what_to_do(tmp_path):
    mission, out = mission_for(HOVER, "", 2, 0), tmp_path / "out"
    prepare(mission, out)
    prepare(mission, out)  # nothing has run there yet
    (out / "logs").mkdir()
    with pytest.raises(ValueError, match=f"{out}/logs exists already: .*; give a new one, or remove {out} first"):
        prepare(mission, out)


@pytest.fixture
def installed(tmp_path):
    """A prefix as an install leaves it: executables for `ros2 run`, and what they call."""
    shutil.copytree(ZOO.parent / "ros_nodes" / "executables", tmp_path / "lib" / "phalanx")
    script = tmp_path / "bin" / "phalanx_node"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom ros_nodes.__main__ import main\nsys.exit(main())\n")
    script.chmod(0o755)
    return tmp_path / "lib" / "phalanx"


def run(*command):
    own = os.environ | ros_environment(free_domain_id())  # another team may be up in the one without a number
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, cwd="/", env=own, timeout=patience(60)
    )


@pytest.mark.slow
def test_a_launch_file_learns_from_the_install_what_to_start(installed, tmp_path):
    """The Python of `ros2 launch` need not have phalanx, so it asks an executable."""
    done = plan(installed, tmp_path, bundle=HOVER, robots="2")
    nodes = json.loads(done.stdout)
    assert names_of(nodes) == ["/cf1/shield", "/cf2/shield", "cf1/policy cf2/policy", "/simulated_robots", "/mission"]
    assert all((installed / node["executable"]).exists() for node in nodes)
    assert all(Path(file).is_file() for node in nodes for file in node["parameters"] if isinstance(file, str))
    wrong = plan(installed, tmp_path, bundle=HOVER, robots="99")
    assert (wrong.returncode, wrong.stderr) == (2, "robots:=99: expected 1 to 16\n")


def plan(installed, folder, **given):
    """The answer to a launch file with these arguments."""
    defaults = {"robots": "4", "seed": "0", "simulated": "true", "log_dir": folder / "log"}
    names = ("team", "only", "bundle", "mission", "out")
    return run(
        installed / "launch_plan", *(f"{k}:={v}" for k, v in {**dict.fromkeys(names, ""), **defaults, **given}.items())
    )


def names_of(nodes):
    return [
        f"{node['namespace'].rstrip('/')}/{node['name']}" if "name" in node else " ".join(node["arguments"])
        for node in nodes
    ]


TEAM = f"""
robots:
  - {{name: cf1, bundle: {HOVER}, driver: "mujoco_driver:MujocoDriver", options: {{log: x}}, shield: {{ramp_s: 0.2}}}}
  - {{name: cf2, bundle: {HOVER}, base_pose: [1, 0, 0.1, 0]}}
  - {{name: cf3, bundle: {HOVER}, base_pose: [2, 0, 0.1, 0]}}
shield: {{ramp_s: 0.4}}
hosts: {{policies: 1, shields: 1}}
namespace: fleet
"""


@pytest.mark.slow
def test_a_team_file_says_who_is_real_who_shares_a_process_and_what_is_here(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ZOO.parent), str(ZOO.parent / "tests")]))
    (tmp_path / "team.yaml").write_text(TEAM)
    nodes = json.loads(plan(installed, tmp_path, team=tmp_path / "team.yaml", out=tmp_path / "all").stdout)
    assert names_of(nodes) == [
        *("cf1/shield cf2/shield cf3/shield cf1/driver", "cf1/policy cf2/policy cf3/policy"),
        *("/fleet/simulated_robots", "/fleet/recorder", "/fleet/mission"),
    ]
    assert [node["kind"] for node in nodes] == ["node", "node", *["lifecycle"] * 2, "node"]  # real robots fly on
    assert all(node.get("respawn") for node in nodes[:2])
    values = {k: v["ros__parameters"] for k, v in json.loads((tmp_path / "all" / PARAMETERS).read_text()).items()}
    assert [values[f"/{name}/shield"]["shield.ramp_s"] for name in ("cf1", "cf2")] == [0.2, 0.4]
    assert values["/cf1/driver"]["driver"] == "mujoco_driver:MujocoDriver"
    assert load_mission(values["/fleet/simulated_robots"]["mission"]).names == ("cf2", "cf3")

    alone = json.loads(
        plan(installed, tmp_path, team=tmp_path / "team.yaml", only="[cf2]", out=tmp_path / "one").stdout
    )
    assert names_of(alone)[:3] == ["/cf2/shield", "/cf2/policy", "/fleet/simulated_robots"]
    values = {k: v["ros__parameters"] for k, v in json.loads((tmp_path / "one" / PARAMETERS).read_text()).items()}
    assert values["/cf2/policy"]["team"] == ["cf1", "cf2", "cf3"]  # the others are its peers
    assert values["/fleet/mission"]["team"] == ["cf2"]
    wrong = plan(installed, tmp_path, team=tmp_path / "team.yaml", only="cf7")
    assert wrong.stderr == "robot 'cf7' is not in the team: choose from cf1, cf2, cf3; did you mean 'cf3'?\n"


@pytest.mark.ros
def test_an_executable_of_the_install_is_its_node(installed):
    environment = os.environ | ros_environment(free_domain_id())
    command = [installed / "shield_node", "--ros-args", "-r", "__ns:=/cf1"]
    node = subprocess.Popen(command, env=environment, cwd="/")
    try:
        with operator(["cf1"], int(environment["ROS_DOMAIN_ID"]), environment) as (operating, executor):
            BringUp(operating, executor).transition(["/cf1/shield"], CONFIGURE, 30.0)
    finally:
        node.send_signal(signal.SIGINT)
        assert node.wait(patience(10.0)) == 0


def test_a_node_that_is_none_is_answered_with_those_that_are(installed):
    done = run(installed.parents[1] / "bin" / "phalanx_node", "cup_node")
    assert done.returncode == 2
    assert done.stderr.startswith("error: node 'cup_node': choose from host, driver_node, echo_node, ")


@pytest.fixture
def flight(tmp_path):
    """A drone that is to fly to GOAL, prepared as the launch file does, and the means to start its nodes."""
    orders = (Order(0.0, {"cf1": {"goal_pos": GOAL}}),)
    mission = standing([[0.0, 0.0, 1.0, 0.0]], orders=orders)
    mission = replace(mission, team=tuple(replace(member, bundle=HOVER) for member in mission.team))
    prepare(mission, tmp_path / "out")
    environment = ros_environment(free_domain_id())
    files = [CONFIG, tmp_path / "out" / PARAMETERS]
    with Processes(files, tmp_path / "logs", environment) as processes:
        yield processes, environment


def end_of(processes, timeout_s):
    """How the first process to end has ended."""
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        try:
            processes.check()
        except ProcessError as error:
            return str(error)
        time.sleep(0.02)
    raise AssertionError("all of them go on")


def wait_until_said(processes, words):
    """Until the operator has logged `words`."""
    until = time.monotonic() + patience(30.0)
    while words not in (said := processes.log_of("operator").read_text()):
        processes.check()
        assert time.monotonic() < until, said
        time.sleep(0.1)


@pytest.mark.ros
def test_a_launched_team_comes_up_goes_where_its_mission_says_and_ends_on_ctrl_c(flight):
    processes, environment = flight
    processes.start("recorder", "recorder_node")
    processes.start("robots", "simulated_robots_node")
    processes.start("shield", "shield_node", namespace="cf1")
    processes.start("policy", "policy_node", namespace="cf1")
    processes.start("operator", "operator_node")
    with operator(["cf1"], int(environment["ROS_DOMAIN_ID"]), environment) as (node, executor):
        until = time.monotonic() + patience(40.0)
        while not np.linalg.norm(node.positions[0] - GOAL) < 0.1:
            processes.check()
            executor.spin_once(timeout_sec=0.02)
            node.update()
            assert time.monotonic() < until, node.modes
    wait_until_said(processes, "the mission begins")  # a goal is sent before that
    processes.kill("policy")
    processes.start("policy", "policy_node", namespace="cf1")  # as a launch file does
    wait_until_said(processes, "/cf1/policy has restarted: it is up again")
    for _ in range(2):  # a terminal and a launcher may both say it
        os.kill(processes.pid("operator"), signal.SIGINT)
    assert end_of(processes, 5.0).startswith("operator ended with code 0")


@pytest.mark.ros
def test_an_operator_whose_team_does_not_come_up_names_the_node_and_ends(flight, tmp_path):
    processes, _ = flight
    impatient = '{"/mission": {"ros__parameters": {"team": ["cf1"], "bring_up_timeout_s": 1.0, "mission": "%s"}}}'
    (tmp_path / "out" / PARAMETERS).write_text(impatient % (tmp_path / "out" / PLAN))
    processes.start("operator", "operator_node")
    end = end_of(processes, 20.0)
    assert end.startswith("operator ended with code 1: [FATAL]")
    assert "node /simulated_robots did not configure within 1 s" in end
