"""Somebody else speaks on the topics of a robot that flies."""

import time

import pytest
from patience import patience

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from ros_rig import Rig
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.operator_services import CALLS

pytestmark = pytest.mark.ros


def status(state: str) -> DiagnosticArray:
    values = [KeyValue(key="state", value=state), KeyValue(key="mode", value="NOMINAL")]
    return DiagnosticArray(status=[DiagnosticStatus(values=values)])


def test_a_stranger_on_status_switches_no_requests_off_or_on_and_keeps_a_robot_from_being_armed(pd_bundle, tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], bundle=pd_bundle) as team:
        team.start("simulated_robots", "cf1/shield", "cf1/policy")
        team.fly("cf1", 1.5)
        stranger = team.node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
        requests = Mailbox(team.node, JointState, "/cf1/requested", qos.recording(500, latched=False), raw=True)

        def heard(state: str) -> int:
            team.watch("cf1", 0.3)
            while requests.take() is not None:
                pass
            team.watch("cf1", 1.0, lambda _: stranger.publish(status(state)))
            count = 0
            while requests.take() is not None:
                count += 1
            return count

        assert heard("DISARMED") > 40
        assert "status has 2 publishers where one is due" in team.processes.log_of("cf1_policy").read_text()
        team.node.destroy_publisher(stranger)
        team.watch("cf1", 0.7)
        team.ask("cf1", "land")
        team.watch("cf1", 5.0)
        assert team.authority("cf1") == "DISARMED"
        stranger = team.node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
        assert heard("POLICY") == 0
        assert "status has 2 publishers where one is due" in team.asked("cf1", "arm")
        team.node.destroy_publisher(stranger)
        team.ask("cf1", "arm")


def test_each_of_a_hundred_calls_at_once_is_answered(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 0.05, 0.0]]) as team:
        team.start("simulated_robots", "cf1/shield", armed=False)
        # The queue of who calls has to be as long: it is that of the answers, and of calls that were lost on their way.
        client = team.node.create_client(Trigger, "/cf1/shield/land", qos_profile=CALLS)
        assert client.wait_for_service(patience(10.0))
        calls = [client.call_async(Trigger.Request()) for _ in range(100)]
        until = time.monotonic() + patience(15.0)
        while not all(call.done() for call in calls) and time.monotonic() < until:
            team.executor.spin_once(timeout_sec=0.1)
        assert sum(call.done() for call in calls) == 100
