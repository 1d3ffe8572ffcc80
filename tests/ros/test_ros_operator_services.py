"""What people ask of a shield: a stop is lost neither to a reset of the same moment nor to the end of a process."""

import os
import threading
import time
from collections.abc import Callable

import pytest

pytest.importorskip("rclpy")
from patience import patience
from rclpy.impl.rcutils_logger import RcutilsLogger
from rclpy.node import Node
from std_srvs.srv import Trigger

from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.executor import LastingExecutor
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.lifecycle.stop_file import StopFile, stops_elsewhere
from ros_nodes.messages.local_orders import Outcome, ask_here
from ros_nodes.messages.operator_services import QUEUED_S, STOOD_S, STOP_RULES_S, OperatorServices


@pytest.fixture
def node():
    domain_id = free_domain_id()
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        node = Node("shield", context=context)
        yield node
        node.destroy_node()


def call(services: OperatorServices, name: str) -> threading.Thread:
    """Ask as a service call would, in a thread of its own; the response is its `response`."""
    response = Trigger.Response()
    thread = threading.Thread(target=services._serve, args=(name, Trigger.Request(), response))
    thread.response = response
    thread.start()
    return thread


@pytest.mark.parametrize("order", [("estop", "reset"), ("reset", "estop")])
def test_a_stop_wins_over_a_reset_of_the_same_cycle_in_either_order(node, order):
    done, kept = [], []
    services = OperatorServices(node, lambda: True, kept.append)
    calls = [call(services, name) for name in order]
    time.sleep(0.1)
    services.serve(lambda name: done.append(name) or Outcome(True))
    for thread in calls:
        thread.join()
    assert done == ["estop"] and len(kept) == 1
    answers = {name: thread.response for name, thread in zip(order, calls, strict=True)}
    assert answers["estop"].success and not answers["reset"].success
    services.close()


def test_what_was_sent_before_a_stop_and_comes_after_it_is_not_done(node):
    """Each service has a queue of its own, and their calls say not when they were sent."""
    services, done = OperatorServices(node, lambda: True, lambda reason: ""), []

    def answered(name: str) -> Trigger.Response:
        thread = call(services, name)
        while thread.is_alive():
            services.serve(lambda name: done.append(name) or Outcome(True))
            time.sleep(0.002)
        return thread.response

    assert answered("estop").success
    until = time.monotonic() + 2 * STOP_RULES_S
    while time.monotonic() < until:  # one after the other, as they are taken from a queue
        for name in ("reset", "arm", "start"):
            response = answered(name)
            assert not response.success and response.message == f"{name}: stopped; ask again"
    assert done == ["estop"]
    time.sleep(2 * QUEUED_S)
    assert answered("reset").success and done == ["estop", "reset"]
    services.close()


def test_a_stop_in_the_queue_of_its_service_comes_before_all_that_waits_in_others(node):
    """As after a process stood still; which queue an executor looks at first is its own affair."""
    executor, done = LastingExecutor(context=node.context), []
    services = OperatorServices(node, lambda: True, lambda reason: "")
    clients = {name: node.create_client(Trigger, f"shield/{name}") for name in ("reset", "arm", "start", "estop")}
    assert all(client.wait_for_service(patience(5.0)) for client in clients.values())
    answers = {name: client.call_async(Trigger.Request()) for name, client in clients.items()}
    time.sleep(0.3)
    executor.add_node(node)
    ended = threading.Event()

    def serve() -> None:
        while not ended.wait(0.002):
            services.serve(lambda name: done.append(name) or Outcome(True))

    thread = threading.Thread(target=serve)
    thread.start()
    until = time.monotonic() + patience(5.0)
    while not all(answer.done() for answer in answers.values()) and time.monotonic() < until:
        executor.spin_once(0.1)
    ended.set()
    thread.join()
    executor.shutdown()
    assert done == ["estop"] and [name for name, answer in answers.items() if answer.result().success] == ["estop"]
    services.close()


@pytest.mark.ros  # by the wall clock: not where tests wait for whole seconds until they run
def test_what_was_sent_before_a_stop_is_not_done_however_late_it_comes(node):
    """As where a socket was full, and the middleware sends it again seconds later; or where a process stood still."""
    executor, done = LastingExecutor(context=node.context), list[str]()
    services = OperatorServices(node, lambda: True, lambda reason: "")
    client = node.create_client(Trigger, "shield/reset")
    assert client.wait_for_service(patience(5.0))

    def act() -> None:
        services.serve(lambda name: done.append(name) or Outcome(True))

    def answered(late_s: float, before: Callable[[], object] = lambda: None) -> str:
        answer = client.call_async(Trigger.Request())
        before()
        time.sleep(late_s)
        executor.add_node(node)
        until = time.monotonic() + patience(5.0)
        spinning = threading.Thread(target=lambda: [executor.spin_once(0.02) for _ in range(1000) if not answer.done()])
        spinning.start()
        while not answer.done() and time.monotonic() < until:
            act()
            time.sleep(0.002)
        spinning.join()
        act()  # what was refused at once may have been answered before anything was done
        executor.remove_node(node)
        return "" if answer.result().success else answer.result().message

    act()
    assert answered(0.0) == "" and done == ["reset"]
    assert "sent before the stop" in answered(2 * STOP_RULES_S, lambda: services.order("estop", time.monotonic()))
    assert done == ["reset", "estop"]
    assert answered(0.0) == ""
    assert "while the process stood still" in answered(1.2 * STOOD_S), "no one looked meanwhile"
    assert answered(0.0) == "" and done == ["reset", "estop", "reset", "reset"]
    client = node.create_client(Trigger, "shield/land")
    assert client.wait_for_service(patience(5.0))
    assert answered(1.2 * STOOD_S) == "" and done[-1] == "land", "what brings it to rest is done however old it is"
    executor.shutdown()
    services.close()


@pytest.mark.parametrize("by_s", [-30.0, 30.0])
def test_a_clock_that_is_set_after_a_stop_refuses_no_order(node, monkeypatch, by_s):
    services, real_ns, done = OperatorServices(node, lambda: True, lambda reason: ""), time.time_ns, []
    services.order("estop", time.monotonic())
    services.serve(lambda name: Outcome(True))
    time.sleep(STOP_RULES_S)
    monkeypatch.setattr("time.time_ns", lambda: real_ns() + round(by_s * 1e9))
    response, sent_ns = Trigger.Response(), time.time_ns()
    thread = threading.Thread(target=services._serve, args=("reset", Trigger.Request(), response, sent_ns))
    thread.start()
    while thread.is_alive():
        services.serve(lambda name: done.append(name) or Outcome(True))
        time.sleep(0.002)
    assert response.success and done == ["reset"], response.message
    services.close()


def test_an_order_of_this_computer_that_was_sent_before_a_stop_is_not_done(node):
    """It may have waited for longer than a stop rules, while the process stood still twice."""
    services = OperatorServices(node, lambda: True, lambda reason: "")
    sent_s = time.monotonic()
    services.order("estop", time.monotonic())
    time.sleep(2 * STOP_RULES_S)
    assert "sent before the stop" in services.order("start", sent_s).result().said
    services.close()


def test_a_stop_that_cannot_be_kept_is_answered_with_why(node):
    services = OperatorServices(node, lambda: True, lambda reason: "it is not kept: disk full")
    thread = call(services, "estop")
    time.sleep(0.1)
    services.serve(lambda name: Outcome(True))
    thread.join()
    assert thread.response.success and thread.response.message == "it is not kept: disk full"
    services.close()


def test_a_reset_sees_a_stop_that_comes_while_it_is_done(node):
    kept, seen = [], []
    services = OperatorServices(node, lambda: True, kept.append)
    resets = call(services, "reset")
    time.sleep(0.1)

    def act(name: str) -> Outcome:
        seen.append((name, services.stop_waits))
        if name == "reset":
            services.order("estop", time.monotonic())
            seen.append((name, services.stop_waits))
        return Outcome(True)

    services.serve(act)
    resets.join()
    services.serve(act)
    assert kept and seen == [("reset", False), ("reset", True), ("estop", False)]
    services.close()


def test_a_stop_is_kept_also_where_no_node_serves_and_the_caller_hears_so(node):
    kept = []
    services = OperatorServices(node, lambda: False, kept.append)
    thread = call(services, "estop")
    thread.join()
    assert kept and not thread.response.success and "not active" in thread.response.message
    services.close()


def test_a_stop_by_the_kernel_does_what_the_service_does_until_the_node_is_closed(node):
    kept, domain_id = [], node.context.get_domain_id()
    services = OperatorServices(node, lambda: False, kept.append)
    (outcome,) = ask_here("estop", [""], domain_id, 5.0).values()
    assert kept and not outcome.done and "not active" in outcome.said
    assert "halt: not one of arm," in ask_here("halt", [""], domain_id, 5.0)[""].said
    services.close()
    assert ask_here("estop", [""], domain_id, 5.0) == {}


def test_a_shield_whose_name_is_taken_says_that_its_orders_come_by_services_only(node, monkeypatch):
    first, said = OperatorServices(node, lambda: False, print), []
    other = Node("shield", namespace="cf1", context=node.context)
    monkeypatch.setattr(RcutilsLogger, "warning", lambda self, text: said.append((self.name, text)))
    OperatorServices(other, lambda: False, print).close()
    assert not said
    second = Node("shield", context=node.context)
    services = OperatorServices(second, lambda: False, print)
    ((who, what),) = said
    assert who == "shield" and "taken by another program, and come by services only" in what
    for each in (services, first):
        each.close()
    for each in (other, second):
        each.destroy_node()


def test_who_is_not_served_in_time_hears_of_it_and_it_is_not_done_later_but_for_a_stop(node):
    services, done = OperatorServices(node, lambda: True, print), []
    for name in ("arm", "estop"):
        thread = call(services, name)
        thread.join()
        assert not thread.response.success and "did not answer" in thread.response.message
        services.serve(lambda name: done.append(name) or Outcome(True))
    assert done == ["estop"]
    services.close()


def test_a_stop_file_outlives_its_process_until_it_is_cleared(tmp_path):
    assert StopFile(str(tmp_path), "cf1", 75).read() == ""
    StopFile(str(tmp_path), "cf1", 75).write("a person, 12:00")
    assert StopFile(str(tmp_path), "cf1", 75).read() == "a person, 12:00"
    assert StopFile(str(tmp_path), "cf2", 75).read() == ""
    (tmp_path / "cf1@75.stopped").write_bytes(b"\xff\x00")
    assert StopFile(str(tmp_path), "cf1", 75).read() == "\ufffd", "a damaged file is a stop"
    (tmp_path / "cf1@75.stopped").write_bytes(b"\x00" * 5_000_000)
    assert StopFile(str(tmp_path), "cf1", 75).read() == "emergency stop"
    StopFile(str(tmp_path), "cf1", 75).clear()
    assert StopFile(str(tmp_path), "cf1", 75).read() == ""
    (tmp_path / "cf1@75.stopped").symlink_to(tmp_path / "gone")
    assert "leads nowhere" in StopFile(str(tmp_path), "cf1", 75).read()
    os.mkfifo(tmp_path / "cf2@75.stopped")
    with pytest.raises(OSError):
        StopFile(str(tmp_path), "cf2", 75).write("it would wait for who reads")
    assert "cf2@75.stopped is no file" in StopFile(str(tmp_path), "cf2", 75).read()


def test_a_reset_in_one_ros_domain_leaves_the_stop_of_the_robot_of_this_name_in_another(tmp_path):
    ours, other = (StopFile(str(tmp_path), "cf1", domain) for domain in (75, 76))
    ours.write("a person")
    assert not other.read(), "it was not stopped"
    other.write("another person")
    other.clear()
    assert ours.read() == "a person" and not other.read()
    assert stops_elsewhere(str(tmp_path), "cf1", 76) == {75: "a person"}
    assert stops_elsewhere(str(tmp_path), "cf1", 75) == stops_elsewhere(str(tmp_path), "cf", 76) == {}


def test_a_stop_that_was_kept_without_its_ros_domain_holds_in_all_until_a_reset(tmp_path):
    (tmp_path / "cf1.stopped").write_text("a person\n")
    stops = [StopFile(str(tmp_path), "cf1", domain) for domain in (75, 76)]
    assert [stop.read() for stop in stops] == ["a person"] * 2
    stops[0].clear()
    assert [stop.read() for stop in stops] == [""] * 2


def test_a_stop_is_kept_also_where_its_folder_has_been_taken_away(tmp_path):
    stop = StopFile(str(tmp_path / "stops"), "cf1", 75)
    (tmp_path / "stops").rmdir()
    stop.write("a person")
    assert stop.read() == "a person"


def test_a_folder_that_cannot_keep_a_stop_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        StopFile(str(tmp_path / "file"), "cf1", 75)
