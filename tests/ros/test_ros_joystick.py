"""A joystick moves a robot while its enabling button is held, and stops it always."""

import time

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
import rclpy
from geometry_msgs.msg import PoseStamped, TwistStamped
from ros_rig import Rig
from sensor_msgs.msg import Joy

from ros_nodes.lifecycle.bring_up import ACTIVATE, CLEAN_UP, CONFIGURE, DEACTIVATE, BringUpError
from ros_nodes.lifecycle.polling import Mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.joystick import Joystick

AXES, SCALE = [1, 0, 4, 3], [0.5, 0.5, 0.3, 0.8]
BUTTONS = {"enable": 4, "estop": 1, "land": 0, "arm": 7, "reset": -1}
STICK = [0.0, 1.0, 0.0, -0.5, 0.0]  # forward, and a turn to the right


def pressed(*numbers):
    return [int(number in numbers) for number in range(8)]


def test_sticks_count_only_while_the_enabling_button_is_held():
    joystick = Joystick(AXES, SCALE, BUTTONS)
    assert joystick.read(STICK, pressed()).velocity is None
    np.testing.assert_allclose(joystick.read(STICK, pressed(4)).velocity, [0.5, 0.0, 0.0, -0.4])
    np.testing.assert_allclose(joystick.read([9.0, np.nan], pressed(4)).velocity, [0.0, 0.5, 0.0, 0.0])
    np.testing.assert_allclose(joystick.read([-np.inf, np.inf], pressed(4)).velocity, np.zeros(4))


def test_a_button_asks_once_and_only_stop_and_landing_need_no_enabling_button():
    joystick = Joystick(AXES, SCALE, BUTTONS)
    assert joystick.read(STICK, pressed(1)).asks == ()  # held since before: it was not pressed now
    assert joystick.read(STICK, pressed()).asks == ()
    assert joystick.read(STICK, pressed(0, 1, 7)).asks == ("estop", "land")
    assert joystick.read(STICK, pressed(0, 1, 7)).asks == ()
    assert joystick.read(STICK, pressed(4)).asks == ()
    assert joystick.read(STICK, pressed(4, 7)).asks == ("arm",)
    assert joystick.read(STICK, []).asks == ()


def watch(box, duration_s, act=lambda: None):
    """All messages of `duration_s`, with `act` called at 50 Hz."""
    found, until = [], time.monotonic() + duration_s
    while time.monotonic() < until:
        act()
        while (taken := box.take()) is not None:
            found.append(taken[0])
        time.sleep(0.02)
    return found


@pytest.mark.ros
def test_a_joystick_sends_velocities_stands_still_when_let_go_or_silent_and_stops_its_robot(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]]) as team:
        team.start("simulated_robots", "cf1/shield", "cf1/joystick")
        joy = team.node.create_publisher(Joy, "/cf1/joy", 10)
        box = Mailbox(team.node, TwistStamped, "/cf1/cmd_vel", qos.recording(100, latched=False))

        def hold(*numbers):
            return lambda: joy.publish(Joy(axes=STICK, buttons=pressed(*numbers)))

        assert watch(box, 1.0, hold()) == []
        moving = watch(box, 1.5, hold(4))
        assert len(moving) > 10 and {m.header.frame_id for m in moving} == {"cf1/base_link"}
        assert (moving[-1].twist.linear.x, moving[-1].twist.angular.z) == (0.5, -0.4)
        let_go = watch(box, 1.0, hold())
        assert let_go and (let_go[-1].twist.linear.x, let_go[-1].twist.angular.z) == (0.0, 0.0)
        watch(box, 0.5, hold(4))
        silent = watch(box, 2.0)
        assert silent[-1].twist.linear.x == 0.0 and len(silent) < 20
        watch(box, 0.5, hold())
        until = time.monotonic() + patience(10.0)
        joy.publish(Joy(axes=STICK, buttons=pressed(1)))
        while team.mode("cf1") != "ESTOP":
            assert time.monotonic() < until, team.node.shields
            watch(box, 0.1)


@pytest.mark.ros
def test_a_goal_moves_from_where_the_robot_is(tmp_path):
    parameters = {"/cf1/joystick": {"mode": "goal"}}
    with Rig(tmp_path, starts=[[0.5, -0.5, 1.0, 0.0]], parameters=parameters) as team:
        team.start("simulated_robots", "cf1/joystick")
        joy = team.node.create_publisher(Joy, "/cf1/joy", 10)
        box = Mailbox(team.node, PoseStamped, "/cf1/goal", qos.recording(100, latched=False))
        goals = watch(box, 3.0, lambda: joy.publish(Joy(axes=STICK, buttons=pressed(4))))
        places = np.array([(g.pose.position.x, g.pose.position.y, g.pose.position.z) for g in goals])
        assert goals[0].header.frame_id == "world"
        np.testing.assert_allclose(places[0], [0.5, -0.5, 1.0], atol=0.1)
        assert 0.5 < places[-1, 0] - places[0, 0] < 1.6  # half a metre a second
        np.testing.assert_allclose(places[:, 1], places[0, 1])
        let_go = watch(box, 0.5, lambda: joy.publish(Joy(axes=STICK, buttons=pressed())))
        here = team.state("cf1")[0].base_pos  # it stands there all the time: no shield, no policy
        place = let_go[-1].pose.position
        np.testing.assert_allclose((place.x, place.y, place.z), here, atol=0.1)
        other = team.node.create_publisher(Joy, "/cf1/joy", 10)
        watch(box, 0.5)
        both = watch(box, 0.5, lambda: [each.publish(Joy(axes=STICK, buttons=pressed(4))) for each in (joy, other)])
        assert not both
        team.node.destroy_publisher(other)
        second = rclpy.create_node("joystick", namespace="/cf1", context=team.node.context)
        for transition in (DEACTIVATE, CLEAN_UP):
            team.transition(transition, "cf1/joystick")
        with pytest.raises(BringUpError, match="/cf1/joystick refused to configure"):
            team.transition(CONFIGURE, "cf1/joystick")
        with pytest.raises(BringUpError, match="/cf1/joystick refused to activate"):
            team.transition(ACTIVATE, "cf1/joystick")
        said = team.processes.log_of("cf1_joystick").read_text()
        assert "another joystick steers cf1 already: end it first" in said
        assert f"transition {ACTIVATE} is not possible while unconfigured" in said and "Traceback" not in said
        second.destroy_node()
