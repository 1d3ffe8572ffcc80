"""`phalanx operate`: what a person asks of robots, from a terminal of their own."""

import subprocess
import sys
import time

import pytest
from command import phalanx
from patience import patience
from places import ZOO

pytest.importorskip("rclpy")
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from rclpy.executors import SingleThreadedExecutor
from ros_rig import Rig, standing
from std_srvs.srv import Trigger

from hardware import load_robot
from ros_nodes.lifecycle.bring_up import CONFIGURE
from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.processes import free_domain_id, ros_environment
from ros_nodes.messages.diagnostics import ShieldMode
from ros_nodes.messages.local_orders import LocalOrders, Outcome
from ros_nodes.operation import operate
from ros_nodes.operation.ask import ANSWER_S
from ros_nodes.operation.operate import _takes_goal

pytestmark = pytest.mark.ros
HOVER = ZOO / "hover.onnx"


def test_robots_are_armed_started_sent_to_a_goal_and_landed(tmp_path):
    around = {"surroundings": '{"scene": {"keep_out": [{"name": "desk", "low": [-1, 1, 0], "high": [1, 2, 2]}]}}'}
    starts = [[0.0, 0.0, 0.02, 0.0], [2.0, 0.0, 0.02, 0.0]]
    with Rig(tmp_path, starts=starts, bundle=HOVER, parameters={"/cf1/shield": around}) as rig:
        rig.start("simulated_robots", "cf1/policy", "cf1/shield", "cf2/shield", armed=False)
        domain = ("--domain", str(rig.node.context.get_domain_id()))

        def begin(*arguments: str) -> subprocess.Popen:
            command = [sys.executable, "-m", "phalanx", "operate", *arguments, *domain]
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def answer(process: subprocess.Popen) -> tuple[int, str]:
            said = process.communicate(timeout=patience(30))[0]
            return process.returncode, unhurried(said)

        def operate(*arguments: str) -> tuple[int, str]:
            return answer(begin(*arguments))

        rig.node.create_client(Trigger, "/cf7/shield/arm")  # of a robot that is gone
        rig.node.create_subscription(PoseStamped, "/cf2/goal", lambda message: None, 1)  # as a recorder has
        to_nobody, no_policy = begin("arm"), begin("goal", "cf2", "--at", "0", "0", "1")  # they wait for seconds
        no_robot = begin("goal", "cf22", "--at", "0", "0", "1")
        assert operate("start", "cf1") == (1, "cf1: start: the robot is DISARMED; arm it first\n")
        waited = begin("goal", "cf22", "--at", "0", "0", "1")
        assert answer(to_nobody) == (2, "phalanx: arm to whom: there are cf1, cf2\n")
        assert answer(no_policy) == (1, "cf2: no policy listens for a goal\n")
        wait = "where it is being deployed, wait until `phalanx deploy` says that robots can be armed"
        who = f"there is no such robot: there are cf1, cf2; {wait}; did you mean 'cf2'?\n"
        assert answer(no_robot) == (1, f"cf22: {who}")
        said = waited.communicate(timeout=patience(30))[0]
        assert "phalanx: goal: waiting for discovery of " in said and "the shield of cf22" in said
        rig.ask("cf1", "arm")
        rig.ask("cf1", "land")
        rig.watch_until("cf1", lambda: rig.authority("cf1") == "DISARMED", 10.0)
        already = "cf1: disarm: already DISARMED\ncf2: disarm: already DISARMED\n"
        reset = begin("reset", "cf1")
        assert operate("disarm", "cf1", "cf2") == (0, already)
        assert answer(reset) == (0, "cf1: reset: nothing to reset: the robot is DISARMED\n")
        assert operate("arm", "cf1", "cf2") == (0, "cf1: arm\ncf2: arm\n")
        code, said = operate("goal", "cf1", "--at", "9", "0", "1")
        assert code == 1 and said.startswith("cf1: goal: [9.0, 0.0, 1.0] is outside the fence of its shield, [-")
        inside = "cf1: goal: [0.0, 1.5, 1.0] is inside desk, which its shield keeps out of\n"
        assert operate("goal", "cf1", "--at", "0", "1.5", "1") == (1, inside)
        code, said = operate("goal", "cf1", "--at", "2.7", "0", "1")  # inside it, and more than the policy takes
        assert code == 1 and said.startswith("cf1: goal refused: ") and "goal_pos: [2.7, 0.0, 1.0] m" in said
        kept = "cf1: goal: kept for its start: the robot is ARMED\n"
        assert operate("goal", "cf1", "--at", "0.2", "0", "1.3") == (0, kept)
        turned = operate("goal", "cf1", "--at", "0.2", "0", "1.3", "--quat", "1", "0", "0", "0")
        no_quat = "cf1: goal: its policy takes goal_pos, and no orientation; give it without --quat\n"
        assert turned == (1, no_quat), "it was ignored without a word"
        start = begin("start", "cf1", "cf22")
        rig.watch_until("cf1", lambda: rig.state("cf1")[0].base_pos[2] > 1.2, 15.0)
        assert answer(start) == (1, f"cf1: start\ncf22: {who}")
        assert operate("goal", "cf1", "--at", "0.3", "0", "1.3") == (0, "cf1: goal\n")
        said = "phalanx: land: --at is ignored: only a goal has one\ncf1: land\ncf2: land\n"
        assert operate("land", "--at", "0", "0") == (0, said), "a landing is refused for no option"
        rig.watch_until("cf1", lambda: rig.authority("cf1") == "DISARMED", 15.0)
        assert operate("estop") == (0, "cf1: estop\ncf2: estop\n")
        assert rig.authority("cf1") == rig.authority("cf2") == "STOPPED"
        stopped = "cf1: goal: the robot is STOPPED (emergency stop)\n"
        assert operate("goal", "cf1", "--at", "0.3", "0", "1.3") == (1, stopped)


def test_a_goal_for_a_policy_that_takes_a_velocity_says_at_once_how_it_is_commanded(tmp_path):
    with Rig(tmp_path, mission=standing([[0.0, 0.0, 0.0, 0.0]], load_robot("g1")), bundle=ZOO / "velocity.onnx") as rig:
        rig.start("simulated_robots", "g1_1/policy", "g1_1/shield", armed=False)
        began_s = time.monotonic()
        done = phalanx(
            "operate", "goal", "g1_1", "--domain", str(rig.node.context.get_domain_id()), "--at", "1", "0", "0"
        )
        took_s = time.monotonic() - began_s
    how = "ros2 topic pub -r 10 /g1_1/cmd_vel geometry_msgs/msg/TwistStamped '{twist: {linear: {x: 0.3}}}'"
    said = f"g1_1: goal: its policy takes velocity, and no goal; as long as it is to move: {how}, or a joystick"
    assert done.returncode == 1 and said in done.stdout + done.stderr, done
    assert took_s < patience(8.0), "it waited 12 s for one that listens"


def test_an_arm_has_no_fence_and_gets_no_goal_in_what_its_shield_keeps_out_of(tmp_path):
    around = {"surroundings": '{"scene": {"obstacles": [{"name": "lamp", "pose": [0.4, 0, 0.4, 0], "radius": 0.1}]}}'}
    mission = standing([[0.0, 0.0, 0.0, 0.0]], load_robot("panda"))
    with Rig(tmp_path, mission=mission, bundle=ZOO / "reach.onnx", parameters={"/panda_1/shield": around}) as rig:
        rig.start("simulated_robots", "panda_1/policy", "panda_1/shield", armed=False)
        domain = str(rig.node.context.get_domain_id())
        goal = ["goal", "panda_1", "--domain", domain, "--quat", "0", "1", "0", "0", "--at"]
        inside, beside = phalanx("operate", *goal, "0.4", "0", "0.45"), phalanx("operate", *goal, "0.4", "0.2", "0.4")
    assert (inside.returncode, beside.returncode) == (1, 0), (inside, beside)
    assert "goal: [0.4, 0.0, 0.45] is inside lamp, which its shield keeps out of" in inside.stderr


def test_the_start_of_an_arm_without_a_goal_says_that_it_is_held_until_one_comes_and_how_to_give_it(tmp_path):
    mission = standing([[0.0, 0.0, 0.0, 0.0]], load_robot("panda"))
    with Rig(tmp_path, mission=mission, bundle=ZOO / "reach.onnx") as rig:
        rig.start("simulated_robots", "panda_1/policy", "panda_1/shield", armed=False)
        domain = ["--domain", str(rig.node.context.get_domain_id())]

        def started() -> str:
            for order in ("arm", "start"):
                done = phalanx("operate", order, "panda_1", *domain)
                assert done.returncode == 0, done
            return done.stdout

        order = "phalanx operate goal panda_1 --at X Y Z --quat W X Y Z"
        assert started() == f"panda_1: start: it is held until a goal comes: {order}\n"
        for what in (["hold"], ["disarm"], ["goal", "--at", "0.4", "0.2", "0.4", "--quat", "0", "1", "0", "0"]):
            assert phalanx("operate", what[0], "panda_1", *what[1:], *domain).returncode == 0, what
        assert started() == "panda_1: start\n"


@pytest.mark.parametrize(
    ("state", "comes_of_it"),
    [
        ("DISARMED", (True, "kept for its start: the robot is DISARMED")),
        ("POLICY", (True, "")),
        ("LANDING", (False, "goal: the robot is LANDING (battery at 5 %)")),
        ("FAULT", (False, "goal: the robot is FAULT (battery at 5 %)")),
        ("?", (False, "its shield is not heard")),
    ],
)
def test_what_comes_of_a_goal_is_said_by_the_state_of_the_robot(state, comes_of_it):
    assert _takes_goal(True, ShieldMode("LAND", "battery at 5 %", state=state)) == comes_of_it


def unhurried(said: str) -> str:
    """What an order says without that it waits, which depends on how busy this machine is."""
    lines = said.splitlines(keepends=True)
    return "".join(line for line in lines if not (line.startswith("phalanx: ") and ": waiting for " in line))


def test_who_asks_before_the_robot_can_be_armed_is_told_what_to_wait_for(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 0.02, 0.0]], bundle=HOVER) as rig:
        domain = str(rig.node.context.get_domain_id())

        def operate(*arguments: str) -> str:
            done = phalanx("operate", *arguments, "--domain", domain)
            assert done.returncode == 1
            return unhurried(done.stdout + done.stderr)

        wait = "wait until `phalanx deploy` says that robots can be armed"
        assert operate("arm", "cf1") == (
            f"cf1: there is no such robot: none is heard in ROS domain {domain} (--domain names another); "
            f"where it is being deployed, {wait}\n"
        )
        rig.processes.start("cf1_shield", "shield_node", namespace="cf1")
        rig.transition(CONFIGURE, "cf1/shield")
        for order in ("arm", "start"):
            said = operate(order, "cf1")
            assert said.startswith(
                f"cf1: {order}: the shield is not active; while its team is brought up it waits for "
            )
            assert "the robot's driver, or its simulation" in said and said.endswith(f"{wait}\n")


@pytest.mark.skipif(sys.platform != "linux", reason="who is on this computer is known on Linux")
@pytest.mark.parametrize(("order", "robot"), [("estop", "r7"), ("start", "r7"), ("estop", "")])
def test_an_order_in_another_ros_domain_than_its_robots_names_both(order, robot):
    domain, other = free_domain_id(), 231
    orders = LocalOrders(other, "r7", lambda what, sent_s: Outcome(True, ""))
    try:
        done = phalanx("operate", order, *filter(None, [robot]), "--domain", str(domain))
    finally:
        orders.close()
    waits = next(line for line in done.stderr.splitlines() if "in ROS domain" in line)
    assert waits.startswith(f"phalanx: {order}: waiting for ")
    assert f"in ROS domain {domain}; " in waits and f"r7 is in {other} on this computer: --domain {other}" in waits, (
        waits
    )
    assert done.returncode != 0


def test_a_robot_that_does_not_answer_delays_the_stop_of_no_other():
    domain_id, asked_s = free_domain_id(), []
    with quiet_context(domain_id, ros_environment(domain_id)) as context:
        executor = SingleThreadedExecutor(context=context)
        dead, alive = (rclpy.create_node(name, context=context) for name in ("dead", "alive"))
        executor.add_node(alive)  # the other one has no server

        def stop(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            asked_s.append(time.monotonic())
            response.success = True
            return response

        for node, robot in ((dead, "cf1"), (alive, "cf2")):
            for what in ("arm", "estop"):
                node.create_service(Trigger, f"/{robot}/shield/{what}", stop)
        dead.create_publisher(DiagnosticArray, "/cf3/policy/status", 1)  # the process of its shield hangs
        command = [sys.executable, "-m", "phalanx", "operate", "estop", "--domain", str(domain_id)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            until_s = time.monotonic() + patience(30)
            while process.poll() is None and time.monotonic() < until_s:
                executor.spin_once(timeout_sec=0.1)
            end_s, said = time.monotonic(), process.stdout.read()
        for node in (dead, alive):
            node.destroy_node()
    assert "phalanx: estop: waiting for the answer of cf1" in said
    assert unhurried(said) == "cf1: no answer\ncf2: estop\ncf3: its shield is not heard\n"
    assert len(asked_s) == 1 and end_s - asked_s[0] > 0.5 * ANSWER_S, "it waited for the one that does not answer"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("goal", "cf1"), "a goal needs --at X Y Z"),
        (("arm", "cf1", "--at", "0", "0", "1"), "a goal needs --at X Y Z"),
        (("goal", "cf1", "--at", "nan", "0", "1"), "every number must be finite"),
        (("goal", "arm", "--at", "0", "0", "1", "--quat", "1", "1", "0", "0"), "of length 1, not 1.41"),
        (("arm", "cf1", "--quat", "1", "0", "0", "0"), "--quat is how a goal is turned: it needs --at X Y Z"),
        (("arm", "a__b"), "a name is letters, digits and single _"),
        (("arm", "1cf"), "a name is letters, digits and single _"),
        (("arm", "a" * 250), "a name is letters, digits and single _, a letter first, 100 at most"),
        (("land", "--domain", "500"), "ROS domain 500: expected 0 to"),
        (("land", "--goal", "0"), "unknown option --goal"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(arguments, message, capsys):
    from phalanx.cli import main

    with pytest.raises(SystemExit, match="2"):
        main(["operate", *arguments])
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "done"),
    [
        ("land cf1 --at 0 0 1 cf2", "land cf1 cf2"),
        ("land --domain 5 --at -1e3 .5", "land --domain 5"),
        ("estop cf1 --at=0 0 1 --quat 1", "estop cf1"),
        ("hold inf --quat nan", "hold inf nan"),  # a robot may be called so
        ("goal cf1 --at 0 0 1", "goal cf1 --at 0 0 1"),
        ("arm cf1 --at 0 0 1", "arm cf1 --at 0 0 1"),
    ],
)
def test_what_only_a_goal_has_is_ignored_where_a_robot_is_to_stop_and_nowhere_else(typed, done, capsys):
    from phalanx.order import ignore_goal

    assert ignore_goal(["operate", *typed.split()]) == ["operate", *done.split()]
    assert bool(capsys.readouterr().err) is (typed != done)


def test_in_the_graph_who_gives_a_goal_is_called_as_the_command():
    node, _ = operate._node(["cf1"], free_domain_id())
    assert node.get_fully_qualified_name() == "/operate"
    operate._LEFT_OPEN.close()


@pytest.mark.parametrize("order", [["arm", "ghost"], ["goal", "ghost", "--at", "0", "0", "1"], ["estop"]])
def test_ctrl_c_while_robots_are_looked_for_is_one_line(order):
    """Also where the middleware is up: what it leaves open would add a traceback of its destructors."""
    module, name = ("operate", "_node") if "goal" in order else ("ask", "open_node")
    press = (
        f"import os, signal\nfrom ros_nodes.operation import {module}\n"
        "from phalanx.cli import main\n"
        f"begin = {module}.{name}\n"
        "def node(*given):\n    begin(*given)\n    os.kill(os.getpid(), signal.SIGINT)\n"
        f"{module}.{name} = node\nmain(['operate', *{order!r}])"
    )
    done = subprocess.run([sys.executable, "-c", press], capture_output=True, text=True, timeout=patience(30.0))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "phalanx: interrupted\n")
