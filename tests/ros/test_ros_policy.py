"""The policy node: what it refuses, and what a mission with real processes leaves behind."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace
from node_processes import node_processes
from patience import patience
from places import ROOT

pytest.importorskip("rclpy")
from bundle_fixture import GATE
from pd_bundle import ROBOT, TELLS, pd_contract, save_bundle_that_tells, save_pd_bundle
from ros_rig import PERIOD_S, Rig
from sensor_msgs.msg import JointState

from deploy.bundle import load_bundle
from deploy.bundle.file import add_record
from deploy.bundle.signature import add_signature, key_text, public_bytes
from phalanx.commands.report import report
from ros_nodes.lifecycle.bring_up import ACTIVATE, CLEAN_UP, CONFIGURE, DEACTIVATE, BringUpError
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.mission.deploy import DeployError, run_swap

pytestmark = pytest.mark.ros


@pytest.fixture(scope="module")
def flown(pd_bundle, tmp_path_factory):
    """One mission of two robots; the first one's policy is killed."""
    out = tmp_path_factory.mktemp("mission")
    progress = []
    result = run_swap(
        pd_bundle, out, robots=2, duration_s=11.0, kill_after_s=4.0, seed=3, on_progress=lambda p: progress.append(p)
    )
    return result, out, progress


@pytest.mark.alone
def test_a_killed_policy_becomes_a_fallback_within_seven_periods_and_lands(flown):
    result, _, _ = flown
    assert 0 < result["kill_to_fallback_ms"] < 7 * PERIOD_S * 1e3
    assert result["landed_safely"] is True
    assert result["shield"]["violations"] == 0


def test_the_page_of_a_mission_is_written_again_from_its_folder(flown, capsys):
    """A page that a full disk did not take was lost."""
    _, out, _ = flown
    assert report(out) == 0
    assert capsys.readouterr().out == f"{out / 'report.html'}\n"
    page = (out / "report.html").read_text()
    assert "<title>swarm-swap: 2 crazyflie in ROS 2</title>" in page and "policy of cf1 killed" in page


@pytest.mark.alone
def test_commands_are_fresh_and_on_time(flown):
    result, _, _ = flown
    assert result["control_hz"] == pytest.approx(50.0, rel=0.02)
    assert result["sensor_to_command_ms"]["p50"] < 1e3 * PERIOD_S
    assert result["missed_cycles"] < 0.02 * result["cycles"]


@pytest.mark.alone
def test_the_mission_tells_how_it_goes(flown):
    result, out, progress = flown
    assert [p["phase"] for p in progress if p["phase"] != "mission"] == ["start", "bring-up", "landing", "evaluate"]
    assert [p["event"] for p in progress if p.get("event")] == ["goals", "goals", "policy of cf1 killed"]
    last = [p for p in progress if p["phase"] == "mission"][-1]
    assert np.isfinite(last["positions"]).all() and last["modes"][0] in ("LAND", "OFF")
    assert result["landed"] and [e["to"] for e in result["events"] if e["robot"] == "cf2" and e["from"] != e["to"]][
        -2:
    ] == ["LANDING", "DISARMED"]
    assert json.loads((out / "result.json").read_text()) == result and result["task"] == "swarm-swap"
    assert not (out / "mission.json").exists(), "a result has one name, however it was deployed"
    with np.load(out / "flight.npz") as flight:
        assert flight["pos"].shape == (len(flight["t"]), 2, 3)
        assert len(flight["latency_ms"]) > 500 and len(flight["period_error_us"]) > 500
        assert [e["kind"] for e in json.loads(str(flight["events"]))].count("kill") == 1


@pytest.mark.alone
def test_the_bag_is_read_by_rosbags_and_by_mcap(flown):
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory
    from rosbags.highlevel import AnyReader

    _, out, _ = flown
    with AnyReader([out / "bag"]) as bag:
        counts = {connection.topic: connection.msgcount for connection in bag.connections}
        connection = next(c for c in bag.connections if c.topic == "/cf2/command")
        stamps = [bag.deserialize(raw, connection.msgtype).header.stamp.sec for _, _, raw in bag.messages([connection])]
    assert len(stamps) == counts["/cf2/command"] > 500
    assert counts["/cf1/odom"] > 1000 and counts["/ground_truth"] > 400
    assert counts["/cf1/requested"] < counts["/cf2/requested"]
    assert counts["/cf1/goal"] == 2 and counts["/cf1/status"] > 10
    with next((out / "bag").glob("*.mcap")).open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        _, _, _, message = next(reader.iter_decoded_messages(topics=["/cf1/odom"]))
    assert message.header.frame_id == "world" and message.child_frame_id == "cf1/base_link"


@pytest.mark.alone
def test_a_folder_that_holds_a_mission_is_not_written_over(flown, pd_bundle):
    with pytest.raises(ValueError, match="exists already"):
        run_swap(pd_bundle, flown[1], robots=2)


def test_a_bundle_for_another_robot_is_refused_in_one_line(tmp_path):
    contract = pd_contract()
    foreign = tmp_path / "foreign.onnx"
    save_pd_bundle(foreign, replace(contract, robot=replace(contract.robot, name="hexacopter")))
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], bundle=foreign) as rig:
        rig.processes.start("cf1_policy", "policy_node", namespace="cf1")
        with pytest.raises(BringUpError, match="/cf1/policy refused to configure"):
            rig.transition(CONFIGURE, "cf1/policy")
        rig.processes.check()  # refused, not crashed
        line = rig.processes.last_line("cf1_policy")
    assert "hexacopter" in line and "crazyflie" in line


def test_only_a_file_signed_with_a_trusted_key_is_flown(pd_bundle, tmp_path):
    mine, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    loaded, file = load_bundle(pd_bundle), tmp_path / "signed.onnx"
    file.write_bytes(add_signature(loaded.model_bytes, other))
    key, other_key = (key_text(public_bytes(private)) for private in (mine, other))
    given = {"trusted_keys": [key], "bundle": str(file)}
    nodes = {"/**/policy": given, "/**/shield": given}
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], bundle=file, parameters=nodes) as rig:
        for node in ("policy", "shield"):
            rig.processes.start(f"cf1_{node}", f"{node}_node", namespace="cf1")
            with pytest.raises(BringUpError, match=f"/cf1/{node} refused to configure"):
                rig.transition(CONFIGURE, f"cf1/{node}")
            assert f"{file}: is signed by {other_key}, which is not trusted" in rig.processes.last_line(f"cf1_{node}")
        file.write_bytes(add_signature(loaded.model_bytes, mine))
        rig.transition(CONFIGURE, "cf1/policy", "cf1/shield")


def test_only_a_file_that_was_verified_is_flown_where_that_is_required(pd_bundle, tmp_path):
    loaded, file = load_bundle(pd_bundle), tmp_path / "recorded.onnx"
    known = {"gates": [GATE], "verified_at_utc": "2026-01-02T03:04:05+00:00", "versions": {}, "episodes": 256}
    flight = {"advice": "do not fly", "reasons": [{"name": "success", "why": "0.5, must be >= 0.9"}]}
    good = add_record(loaded, {"verdict": "verified", **known})
    margins = {"episodes": 64, "only": []}
    bad = add_record(loaded, {"verdict": "verified", "flight": flight, "margins": margins, **known})
    given = {"/**/policy": {"requires": "verified", "bundle": str(file)}}
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], bundle=file, parameters=given) as rig:
        rig.processes.start("cf1_policy", "policy_node", namespace="cf1")
        for data, says in (
            (loaded.model_bytes, "carries no record of its verification"),
            (bad, "its verification says 'do not fly' (success: 0.5, must be >= 0.9); required: verified or"),
            (good.replace(b'"episodes":256', b'"episodes":999'), "the record of its verification was changed"),
        ):
            file.write_bytes(data)
            with pytest.raises(BringUpError, match="/cf1/policy refused to configure"):
                rig.transition(CONFIGURE, "cf1/policy")
            assert f"{file}: {says}" in rig.processes.last_line("cf1_policy")
        file.write_bytes(good)
        rig.transition(CONFIGURE, "cf1/policy")


def test_a_node_goes_through_its_life_twice(pd_bundle, tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], bundle=pd_bundle) as rig:
        rig.start("simulated_robots", "cf1/shield", "cf1/policy")
        rig.watch("cf1", 1.5)
        assert rig.mode("cf1") in ("NOMINAL", "FILTERED")
        rig.ask("cf1", "land")
        rig.watch_until("cf1", lambda: rig.authority("cf1") == "DISARMED", 4.0)
        for transition in (DEACTIVATE, CLEAN_UP):
            rig.transition(transition, "cf1/policy", "cf1/shield")
        rig.watch("cf1", 0.1)  # what was on its way
        assert rig.watch("cf1", 0.3) == []
        for transition in (CONFIGURE, ACTIVATE):
            rig.transition(transition, "cf1/shield", "cf1/policy")
        rig.restart("cf1")
        rig.watch("cf1", 3.5)  # it takes off
        assert len(rig.watch("cf1", 1.5)) > 50
        assert rig.mode("cf1") in ("NOMINAL", "FILTERED")
        assert len(rig.node.get_publishers_info_by_topic("/cf1/command")) == 1


def test_a_policy_that_looks_at_it_is_shown_what_its_shield_changed(tmp_path):
    file = tmp_path / "tells.onnx"
    save_bundle_that_tells(file)
    under = {"/**/shield": {"shield.geofence_high": [3.0, 3.0, 1.2]}}
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], bundle=file, parameters=under) as rig:
        rig.start("simulated_robots", "cf1/shield", "cf1/policy")
        rig.fly("cf1", 2.0)
        converter, heard = CommandConverter(ROBOT.channels), {"requested": {}, "command": {}}
        boxes = {t: Mailbox(rig.node, JointState, f"/cf1/{t}", qos.COMMANDS_IN, raw=True) for t in heard}

        def listen(t: float) -> None:
            for topic, box in boxes.items():
                for message, _ in box.drain():
                    command, stamp_ns = converter.read(message)
                    heard[topic][stamp_ns] = command.target

        rig.watch("cf1", 3.0, listen)
    asked, sent = heard["requested"], heard["command"]
    pairs = [(now, after) for now, after in itertools.pairwise(sorted(asked)) if now in sent]
    shown = np.array([asked[after][3] / TELLS for _, after in pairs])
    changed = np.array([(sent[now] - asked[now])[0] for now, _ in pairs])
    assert len(pairs) > 100 and (np.abs(changed) > 0.01).mean() > 0.5, "its ceiling held it"
    right, nothing = np.isclose(shown, changed, atol=1e-6), shown == 0.0
    assert (right | nothing).all() and right.mean() > 0.8, "an answer that is late counts as none"


def test_a_missing_bundle_is_one_line_and_starts_nothing(tmp_path):
    with pytest.raises(ValueError, match="no such file"):
        run_swap(tmp_path / "none.onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_children_die_with_a_parent_that_is_killed(pd_bundle, tmp_path):
    out = str(tmp_path / "out")
    code = f"from ros_nodes.mission.deploy import run_swap; run_swap({str(pd_bundle)!r}, {out!r}, robots=1)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=tmp_path) as parent:
        until = time.monotonic() + patience(60.0)
        while len(mine := node_processes(str(tmp_path))) < 4:
            assert time.monotonic() < until and parent.poll() is None
            time.sleep(0.1)
        time.sleep(0.5)
        parent.send_signal(signal.SIGKILL)
    until = time.monotonic() + patience(20.0)  # a busy machine takes its time to end them
    while any(Path(f"/proc/{pid}").exists() for pid in mine):
        assert time.monotonic() < until, node_processes(str(tmp_path))
        time.sleep(0.1)


def test_a_process_that_dies_unasked_ends_the_mission_and_is_named(pd_bundle, tmp_path):
    def sabotage(progress: dict) -> None:
        if progress.get("t_s", 0.0) > 0.5:
            for pid in node_processes(str(tmp_path), "cf1/shield"):  # other teams may fly beside this one
                os.kill(int(pid), signal.SIGKILL)

    with pytest.raises(DeployError, match="cf1_shield ended with code -9") as died:
        run_swap(pd_bundle, tmp_path / "out", robots=1, kill_after_s=None, on_progress=sabotage)
    assert [(e["robot"], e["to"]) for e in died.value.events][:2] == [("cf1", "DISARMED"), ("cf1", "ARMED")]
    assert not node_processes(str(tmp_path))
