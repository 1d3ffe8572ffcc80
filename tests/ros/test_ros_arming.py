"""Arming a team: what counts as a policy that flies its robot."""

import time
from types import SimpleNamespace

import pytest
from operated import OperatedStand

pytest.importorskip("rclpy")
from hardware import load_robot
from ros_nodes.messages.diagnostics import ShieldMode
from ros_nodes.nodes.operator_node import _arm
from ros_nodes.nodes.shield_orders import ShieldOrders
from ros_nodes.operation import arming
from ros_nodes.operation.arming import STEADY_S, arm


class Asked:
    """Two robots whose shields say that their policies fly them."""

    def __init__(self):
        self.team, self.refusals, self.said = ["cf1", "cf2"], {}, list[str]()
        self.shields = [ShieldMode("NOMINAL", state="POLICY")] * 2

    def update(self) -> None:
        """Nothing changes."""

    def ask(self, robot: str, what: str) -> None:
        """Nothing comes of it."""

    def get_logger(self) -> "Asked":
        return self

    def error(self, text: str) -> None:
        self.said.append(text)

    def spin_once(self, timeout_sec: float) -> None:
        time.sleep(timeout_sec)


def test_a_time_without_a_look_is_no_steady_flight():
    """As when this process is stopped by SIGSTOP: the robots may have been anywhere."""
    asked, stopped_until_s = Asked(), []

    def watch() -> None:
        if not stopped_until_s:
            time.sleep(1.5 * STEADY_S)
            stopped_until_s.append(time.monotonic())

    arm(asked, asked, watch)
    assert time.monotonic() - stopped_until_s[0] > 0.95 * STEADY_S


def test_an_operator_says_what_is_missing_and_goes_on_when_it_is_there(monkeypatch):
    monkeypatch.setattr(arming, "ARM_S", 0.2)
    flies, asked = ShieldMode("NOMINAL", state="POLICY"), Asked()
    waits = ShieldMode("HOLD", "waiting for operator command on /cf2/goal", state="STARTING")
    asked.shields = [flies, waits]

    def watch() -> None:
        if len(asked.said) == 2:
            asked.shields = [flies, flies]

    _arm(asked, asked, watch)
    why = "cf2: its policy did not get it within 0.2 s (STARTING: waiting for operator command on /cf2/goal)"
    assert asked.said == [why, why]
    asked.shields = [flies, ShieldMode("ESTOP", "emergency stop", state="STOPPED")]
    _arm(asked, asked, lambda: None)
    assert asked.said[2:] == ["cf2 is STOPPED: emergency stop; a person arms and starts it again"]


@pytest.mark.parametrize(("state", "reason"), [("LANDING", "on request"), ("ARMED", "held on request")])
def test_a_robot_that_a_person_landed_or_held_is_left_to_them_while_another_waits(state, reason):
    asked, orders = Asked(), []
    asked.ask = lambda robot, what: orders.append((robot, what))
    asked.shields = [ShieldMode("LAND", reason, state=state), ShieldMode("OFF", "no state yet", state="DISARMED")]

    def watch() -> None:
        if ("cf2", "arm") in orders:
            asked.shields = [asked.shields[0], ShieldMode("NOMINAL", state="POLICY")]

    _arm(asked, asked, watch)
    assert ("cf2", "arm") in orders and not [order for order in orders if order[0] == "cf1"]
    assert asked.said == [f"cf1 is {state}: {reason}; a person arms and starts it again"]


def test_a_robot_that_lands_in_trouble_is_reset_when_it_is_down(monkeypatch):
    """In the air it would be held where its trouble lasts, and be landed again at once."""
    monkeypatch.setattr(arming, "STEADY_S", 0.05)
    monkeypatch.setattr(arming, "ASK_AGAIN_S", 0.05)
    asked, orders, looks = Asked(), [], []
    after = {"reset": "DISARMED", "arm": "ARMED", "start": "POLICY"}

    def ask(robot: str, what: str) -> None:
        orders.append((robot, what))
        asked.shields = [asked.shields[0], ShieldMode("NOMINAL", state=after[what])]

    def watch() -> None:
        looks.append(list(orders))
        if len(looks) == 10:
            asked.shields = [asked.shields[0], ShieldMode("OFF", "no request", state="FAULT")]

    asked.ask = ask
    asked.shields = [asked.shields[0], ShieldMode("LAND", "no request", state="LANDING")]
    arm(asked, asked, watch)
    assert looks[9] == [] and orders == [("cf2", "reset"), ("cf2", "arm"), ("cf2", "start")]


def test_a_robot_is_stopped_before_its_stop_is_written_down():
    """By a second signal: a disk may be slow, or hang."""
    done = []
    ShieldOrders.stop(SimpleNamespace(_asks=SimpleNamespace(ask=done.append), _keep_stop=done.append))
    assert done == ["estop", "emergency stop by a second signal"]


def test_a_robot_that_falls_again_and_again_is_left_to_a_person(monkeypatch):
    """Also where the robot is ready to be reset less often than this process gives up and begins again."""
    monkeypatch.setattr(arming, "STEADY_S", 0.05)
    monkeypatch.setattr(arming, "ARM_S", 0.2)
    asked, orders = Asked(), []
    after = {"arm": "ARMED", "start": "FAULT", "reset": "DISARMED"}

    def ask(robot: str, what: str) -> None:
        orders.append(what)
        asked.shields = [asked.shields[0], ShieldMode("DAMP", "tilted by 1.4 rad", state=after[what])]

    asked.ask = ask
    asked.shields = [ShieldMode("NOMINAL", state="POLICY"), ShieldMode("OFF", state="DISARMED")]
    _arm(asked, asked, lambda: None)
    assert orders.count("reset") == arming.RESETS
    assert asked.said[-1] == "cf2 lost its policy 11 times: tilted by 1.4 rad; a person arms and starts it again"
    assert len(asked.said) > 1, "it never began again"


def test_an_arm_that_a_person_parked_is_not_armed_again_by_itself():
    """It is parked within two control periods: an operator's node sees no more than that it is DISARMED."""
    arm = OperatedStand(load_robot("ur5e")).run(0.1)
    arm.authority.arm()
    arm.run(0.3)
    arm.authority.ask("land", arm.now_s)
    arm.run(1.0)
    assert (arm.authority.state.name, arm.authority.reason) in arming.BY_A_PERSON
