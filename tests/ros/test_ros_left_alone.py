"""What would leave a robot alone in flight is refused, and who may fly it is looked at again when a policy starts."""

import time

import pytest
from patience import patience

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from pd_bundle import PdPolicy, pd_contract, save_pd_bundle
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.serialization import serialize_message
from ros_rig import Rig
from sensor_msgs.msg import JointState
from test_ros_shield import Requests

from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.executor import LastingExecutor
from ros_nodes.lifecycle.polling import DurableMailbox, Mailbox
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages import qos
from ros_nodes.operation.operator import MissionNode
from ros_nodes.operation.robot_monitor import RobotMonitor

pytestmark = pytest.mark.ros
SIMULATED_TIME = Parameter("use_sim_time", value=True).to_parameter_msg()


def test_a_shield_is_neither_shut_down_nor_given_another_clock_in_flight(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]]) as rig:
        rig.start("simulated_robots", "cf1/shield")
        requests = Requests(rig)

        def answer(kind, service: str, request):
            client = rig.node.create_client(kind, f"/cf1/shield/{service}")
            assert client.wait_for_service(patience(5.0))
            future = client.call_async(request)

            def wait(_: float) -> None:
                requests.good()
                rig.executor.spin_once(timeout_sec=0.0)

            rig.watch_until("cf1", future.done, 5.0, wait)
            return future.result()

        assert rig.fly("cf1", 1.5, lambda t: requests.good())
        for transition in (Transition(id=Transition.TRANSITION_ACTIVE_SHUTDOWN), Transition(label="shutdown")):
            assert not answer(ChangeState, "change_state", ChangeState.Request(transition=transition)).success
        request = SetParameters.Request(parameters=[SIMULATED_TIME])
        (result,) = answer(SetParameters, "set_parameters", request).results
        assert not result.successful and "use_sim_time is read at configure" in result.reason
        assert rig.fly("cf1", 0.5, lambda t: requests.good())
        rig.ask("cf1", "estop")
        rig.watch("cf1", 0.5)
        ended = ChangeState.Request(transition=Transition(label="shutdown"))
        assert answer(ChangeState, "change_state", ended).success


def test_a_topic_that_is_flooded_does_not_hold_the_loop_that_reads_it(monkeypatch):
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node = Node("reader", context=context)
        info = {"publication_sequence_number": 1, "source_timestamp": 1, "received_timestamp": 1}
        for kind in (Mailbox, DurableMailbox):
            mailbox = kind(node, JointState, "command", qos.COMMANDS_IN)
            monkeypatch.setattr(mailbox, "_take", lambda subscription: (serialize_message(JointState()), info))
            assert 0 < len(list(mailbox.drain())) <= qos.COMMANDS_IN.depth
            monkeypatch.setattr(mailbox, "_take", lambda subscription: (b"", info))
            assert list(mailbox.drain()) == []
        node.destroy_node()


@pytest.mark.parametrize("kind", ["operator", "monitor"])
def test_a_flood_of_a_status_holds_neither_operator_nor_monitor(kind, monkeypatch):
    """Each read on for as long as there was something, and did nothing else."""
    domain_id, taken = free_domain_id(), []
    info = {"publication_sequence_number": 1, "source_timestamp": 1, "received_timestamp": 1}

    def flood(mailbox, subscription):
        taken.append(mailbox.topic)
        assert len(taken) <= 2 * qos.HISTORY.depth, "it reads on and on"
        return serialize_message(DiagnosticArray()), info

    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node = MissionNode(["cf1"], context=context)
        robot = RobotMonitor(node, "cf1")
        monkeypatch.setattr(Mailbox, "_take", flood)
        monkeypatch.setattr(node._odometry["cf1"], "_take", lambda subscription: None)
        node.update() if kind == "operator" else robot.poll(time.time_ns())
        assert taken
        node.destroy_node()


def test_no_message_ends_an_operator_or_takes_its_clock_away(capfd):
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node, other = MissionNode(["cf1"], context=context), Node("stranger", context=context)
        executor = LastingExecutor(context=context)
        executor.add_node(node)
        executor.add_node(other)
        client = other.create_client(SetParameters, "/mission/set_parameters")
        assert client.wait_for_service(patience(5.0))
        wrong = ParameterMessage(name="team", value=ParameterValue(type=200))  # rclpy raises in its own callback
        client.call_async(SetParameters.Request(parameters=[wrong]))
        future = client.call_async(SetParameters.Request(parameters=[SIMULATED_TIME]))
        until = time.monotonic() + patience(5.0)
        while not future.done() and time.monotonic() < until:
            executor.spin_once(0.1)
        (result,) = future.result().results
        assert not result.successful and "use_sim_time" in result.reason
        assert "200 is not a valid" in capfd.readouterr().err
        executor.shutdown()
        other.destroy_node()
        node.destroy_node()


def test_a_policy_with_another_file_than_its_shield_was_set_up_for_is_not_started_after_a_hold(tmp_path):
    old = save_pd_bundle(tmp_path / "old.onnx", pd_contract())
    new = save_pd_bundle(tmp_path / "new.onnx", policy=PdPolicy(speed=0.4))
    given = {"/**/shield": {"fingerprint": old}}
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], bundle=tmp_path / "old.onnx", parameters=given) as rig:
        rig.start("simulated_robots", "cf1/shield", "cf1/policy", armed=False)
        rig.ask("cf1", "arm")
        rig.ask("cf1", "start")
        rig.watch_until("cf1", lambda: rig.authority("cf1") == "POLICY", 10.0)
        rig.ask("cf1", "hold")
        rig.processes.end("cf1_policy")
        (tmp_path / "new.onnx").replace(tmp_path / "old.onnx")
        rig.start("cf1/policy")
        rig.watch("cf1", 1.0)
        assert f"start: the policy flies file {new[:12]}" in rig.asked("cf1", "start")
        assert rig.authority("cf1") == "ARMED"
