"""Orders to shields of this computer: a stop waits neither for the middleware nor for imports."""

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

import pytest
from loaded import loaded_after
from places import ROOT

from phalanx.order import _Progress, read_order
from ros_nodes.messages import local_orders
from ros_nodes.messages.local_orders import LocalOrders, Outcome, ask_here, robots_here

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names of sockets that the kernel keeps")


@pytest.fixture
def domain():
    return random.randrange(10**6, 10**7)  # none that any robot of this computer is in


def test_a_stop_reaches_the_robots_that_are_here_and_each_answers_for_itself(domain):
    asked = []
    cf1 = LocalOrders(domain, "cf1", lambda what, sent_s: asked.append(("cf1", what)) or Outcome(True))
    refused = Outcome(False, "estop: not active")
    cf2 = LocalOrders(domain, "cf2", lambda what, sent_s: asked.append(("cf2", what)) or refused)
    other = LocalOrders(domain + 1, "cf3", lambda what, sent_s: asked.append(("cf3", what)) or Outcome(True))
    assert robots_here(domain) == ["cf1", "cf2"]
    answers = ask_here("estop", ["cf1", "cf2", "cf3"], domain, 5.0)
    assert answers == {"cf1": Outcome(True), "cf2": Outcome(False, "estop: not active")}
    assert sorted(asked) == [("cf1", "estop"), ("cf2", "estop")]
    for orders in (cf1, cf2, other):
        orders.close()
    assert robots_here(domain) == [] and ask_here("estop", ["cf1"], domain, 5.0) == {}
    LocalOrders(domain, "cf1", lambda what, sent_s: Outcome(True)).close()  # the name is free


def test_where_the_kernel_keeps_no_such_names_a_shield_serves_by_its_services_alone(domain, monkeypatch):
    monkeypatch.setattr(local_orders, "ON_LINUX", False)
    monkeypatch.delattr(socket, "SO_PASSCRED")  # Linux only
    orders = LocalOrders(domain, "cf1", lambda what, sent_s: Outcome(True))
    assert not orders.is_open and ask_here("estop", ["cf1"], domain, 5.0) == {}
    orders.close()


def test_who_waits_no_longer_gets_nothing_done_but_a_stop(domain):
    asked = []
    orders = LocalOrders(domain, "cf1", lambda what, sent_s: asked.append(what) or Outcome(True))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as late:
        late.bind("")
        late.settimeout(5.0)
        for rubbish in (b"\xff", b"[]", b'{"what": "arm"}'):
            late.sendto(rubbish, f"\0ph/{domain}/cf1")
        for what in ("arm", "estop"):
            late.sendto(json.dumps({"what": what, "until_s": time.monotonic() - 1.0}).encode(), f"\0ph/{domain}/cf1")
        assert json.loads(late.recv(4096)) == ["estop", True, ""]
    assert asked == ["estop"]
    orders.close()


def test_a_robot_that_does_not_answer_costs_its_time_and_not_that_of_others(domain):
    silent = LocalOrders(domain, "cf1", lambda what, sent_s: time.sleep(1.0) or Outcome(True))
    quick = LocalOrders(domain, "cf2", lambda what, sent_s: Outcome(True))
    assert ask_here("estop", ["cf1", "cf2"], domain, 0.5) == {"cf2": Outcome(True)}
    silent.close()
    quick.close()


@pytest.mark.parametrize(
    "rubbish", [b"", b"[" * 4000, b'{"what": "arm", "until_s": 1%s}' % (b"0" * 400)], ids=["empty", "nested", "huge"]
)
def test_no_datagram_ends_the_receiving_of_orders(domain, rubbish):
    orders = LocalOrders(domain, "cf1", lambda what, sent_s: Outcome(True))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(rubbish, f"\0ph/{domain}/cf1")
        assert ask_here("estop", ["cf1"], domain, 5.0) == {"cf1": Outcome(True)}
    orders.close()


def as_another_user(code, *values, keep=()):
    """Start `code`, which has `values`, in a process of a user who has nothing to say here; `keep`: open files."""
    if os.getuid() != 0:
        pytest.skip("only root may be somebody else")
    begin = "import json, os, socket, sys\nfrom ros_nodes.messages.local_orders import ask_here\nos.setuid(65534)\n"
    command = [sys.executable, "-c", begin + code, *map(str, values)]
    return subprocess.Popen(command, cwd=ROOT, pass_fds=keep, stdout=subprocess.PIPE)


def test_another_user_of_the_computer_gives_no_orders(domain):
    asked = []
    orders = LocalOrders(domain, "cf1", lambda what, sent_s: asked.append(what) or Outcome(True))
    assert as_another_user("assert not ask_here('arm', ['cf1'], int(sys.argv[1]), 0.2)", domain).wait() == 0
    assert ask_here("land", ["cf1"], domain, 5.0) == {"cf1": Outcome(True)} and asked == ["land"]
    orders.close()


def test_another_user_who_took_a_robots_name_answers_no_stop_in_its_place(domain):
    answer = (
        "taken = socket.socket(fileno=int(sys.argv[1]))\nprint(flush=True)\n_, asker = taken.recvfrom(4096)\n"
        "taken.sendto(json.dumps(['estop', True, '']).encode(), asker)"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as taken:
        taken.bind(f"\0ph/{domain}/cf1")
        assert not LocalOrders(domain, "cf1", lambda what, sent_s: Outcome(True)).is_open
        stranger = as_another_user(answer, taken.fileno(), keep=(taken.fileno(),))
        assert ask_here("estop", ["cf1"], domain, 1.0) == {}
        assert stranger.wait() == 0


def test_who_does_not_read_his_answers_keeps_no_stop_of_others_waiting(domain):
    orders = LocalOrders(domain, "cf1", lambda what, sent_s: Outcome(True))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as silent:
        silent.bind("")
        silent.settimeout(1.0)
        for _ in range(1000):  # more answers than any queue has
            try:
                silent.sendto(b'{"what": "estop"}', f"\0ph/{domain}/cf1")
            except TimeoutError:
                break
        assert ask_here("estop", ["cf1"], domain, 5.0) == {"cf1": Outcome(True)}
    orders.close()


def test_who_sends_more_orders_than_a_shield_can_do_keeps_no_stop_waiting_and_none_from_before_it_is_done(domain):
    asked: list[str] = []
    orders = LocalOrders(domain, "cf1", lambda what, sent_s: time.sleep(0.02) or asked.append(what) or Outcome(True))
    flood = (
        "import json, socket, sys, time\nown = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "order = json.dumps({'what': 'hold', 'until_s': time.monotonic() + 60}).encode()\n"
        "while True:\n    own.sendto(order, f'\\0ph/{sys.argv[1]}/cf1')"
    )
    sender = subprocess.Popen([sys.executable, "-c", flood, str(domain)], stderr=subprocess.DEVNULL)
    try:
        give_up_s = time.monotonic() + 30.0
        while len(asked) < 5:
            assert time.monotonic() < give_up_s
            time.sleep(0.01)
        begun_s = time.monotonic()
        assert ask_here("estop", ["cf1"], domain, 5.0) == {"cf1": Outcome(True)}
        assert time.monotonic() - begun_s < 1.0 and asked.count("estop") == 1
    finally:
        sender.kill()
        sender.wait()
        orders.close()


def test_an_order_says_when_it_was_sent_however_late_it_is_read(domain):
    sent_s: dict[str, float] = {}

    def serve(what: str, at_s: float) -> Outcome:
        sent_s[what] = at_s
        time.sleep(0.5 if what == "arm" else 0.0)  # the next one waits meanwhile
        return Outcome(True)

    orders = LocalOrders(domain, "cf1", serve)
    first = threading.Thread(target=ask_here, args=("arm", ["cf1"], domain, 5.0))
    first.start()
    while "arm" not in sent_s:
        time.sleep(0.01)
    asked_s = time.monotonic()
    assert ask_here("start", ["cf1"], domain, 5.0) == {"cf1": Outcome(True)}
    first.join()
    assert asked_s <= sent_s["start"] < asked_s + 0.3
    orders.close()


def test_what_was_asked_before_a_stop_is_refused_after_it(domain):
    asked, begun, go_on = [], threading.Event(), threading.Event()

    def serve(what: str, sent_s: float) -> Outcome:
        asked.append(what)
        begun.set()
        go_on.wait(5.0)
        return Outcome(True)

    orders = LocalOrders(domain, "cf1", serve)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as person:
        person.bind("")
        person.settimeout(5.0)
        for what in ("land", "reset", "arm", "estop"):
            order = {"what": what, "until_s": time.monotonic() + 5.0}
            person.sendto(json.dumps(order).encode(), f"\0ph/{domain}/cf1")
            assert begun.wait(5.0)
        go_on.set()
        answers = [json.loads(person.recv(4096)) for _ in range(4)]
    assert asked == ["land", "estop"]
    refused = {what: said for what, done, said in answers if not done}
    assert refused == {"reset": "reset: stopped", "arm": "arm: stopped"}
    orders.close()


def test_a_socket_of_another_program_whose_name_is_no_text_hides_no_robot(domain):
    orders = LocalOrders(domain, "cf1", lambda what, sent_s: Outcome(True))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(f"\0{domain}".encode() + b"\xe9")
        assert robots_here(domain) == ["cf1"]
    orders.close()


def test_an_order_to_a_robot_that_is_here_imports_neither_middleware_nor_numbers_nor_argument_library():
    code = """
import os
from phalanx.cli import main
from ros_nodes.messages.local_orders import LocalOrders, Outcome
os.environ["ROS_DOMAIN_ID"] = "232"
orders = LocalOrders(232, f"cf{os.getpid()}", lambda what, sent_s: Outcome(what == "estop"))
try:
    main(["operate", "estop", f"cf{os.getpid()}"])
except SystemExit as end:
    assert not end.code
"""
    said = loaded_after(code, ("rclpy", "numpy", "tyro", "rich"))
    assert said[1:] == ["estop"], "the answer, and no module"


@pytest.mark.parametrize(
    ("arguments", "is_plain"),
    [
        (["operate", "estop"], True),
        (["operate", "land", "cf1", "cf2", "--domain", "7"], True),
        (["operate", "estop", "--domain", "-7"], False),
        (["operate", "estop", "--domain"], False),
        (["operate", "estop", "--domain", "7", "cf1"], False),
        (["operate", "estop", "--help"], False),
        (["operate", "goal", "cf1", "--at", "0", "0", "1"], False),
        (["operate", "halt"], False),
        (["monitor", "estop"], False),
    ],
)
def test_what_is_not_plain_is_left_to_the_argument_library(arguments, is_plain):
    assert (read_order(arguments) is not None) is is_plain


def test_the_ros_domain_is_named_once_nothing_is_found_in_it_and_not_while_libraries_are_loaded(monkeypatch, capsys):
    monkeypatch.setattr("phalanx.order.SILENT_S", 0.2)
    progress = _Progress("arm", "in ROS domain 3; deploy says in which its robots are")
    time.sleep(0.3)
    progress.waits_for("discovery of cf1")
    time.sleep(0.6)
    progress.waits_for("the answer of cf1")
    time.sleep(0.3)
    progress.end()
    assert capsys.readouterr().err.splitlines() == [
        "phalanx: arm: waiting for ROS 2 to be loaded",
        "phalanx: arm: waiting for discovery of cf1 in ROS domain 3; deploy says in which its robots are",
        "phalanx: arm: waiting for the answer of cf1",
    ]
