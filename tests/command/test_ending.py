"""What `phalanx deploy` says of Ctrl-C fits each kind of robot."""

from hardware import load_robot
from phalanx.ending import promise, stopping, stops, waits

SPECS = {"cf1": load_robot("crazyflie"), "ur": load_robot("ur5e"), "g1": load_robot("g1")}


def test_drones_land_arms_brake_and_humanoids_stand_until_a_person_disarms_them():
    assert promise(SPECS, ()) == "cf1 lands, ur brakes and is held, g1 stands until it is disarmed"
    said = waits(SPECS, (), 30.0, 10.0).split("; ")
    assert said[:2] == ["cf1 lands, for 30 s at most", "ur brakes and is held, for 30 s at most"]
    assert "phalanx operate disarm g1" in said[2] and "not heard for 10 s" in said[2] and "30 s" not in said[2]
    for name, wrong in (("ur", "land"), ("g1", "land"), ("cf1", "disarm")):
        assert wrong not in waits({name: SPECS[name]}, (), 30.0, 10.0)
    assert waits({"g1": SPECS["g1"]}, ("g1",), 30.0, 10.0) == "g1 stands, for 30 s at most"


def test_another_ctrl_c_is_said_to_drop_drones_and_humanoids():
    said = stops(SPECS)
    assert said == "cf1 falls, if in the air, ur brakes at once, g1 goes limp, and falls if nothing carries it"


def test_many_robots_are_counted():
    assert promise({f"cf{i}": SPECS["cf1"] for i in range(8)}, ()) == "8 drones land"
    assert promise({"a": SPECS["ur"], "b": SPECS["ur"]}, ()) == "a and b brake and are held"


def test_of_a_robot_that_neither_ctrl_c_moves_nothing_is_promised():
    """A G1 that was never connected was said to stand, and to go limp and fall."""
    left = {"g1": "not armed", "cf1": "flown in mode POSCTL by its remote control"}
    said = stopping(SPECS, (), left, 30.0, 10.0)
    assert said == (
        "; ur brakes and is held, for 30 s at most; g1 is not armed; cf1 is flown in mode POSCTL by its remote control"
        "; Ctrl-C again is an emergency stop: ur brakes at once"
    )
    assert stopping(SPECS, (), dict.fromkeys(SPECS, "not armed"), 30.0, 10.0) == "; cf1 and ur and g1 are not armed"
