"""Messages and types mean the same thing on both sides."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

pytest.importorskip("rclpy")
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from hardware import load_robot
from hardware.types import ActuatorCommand, ObjectState, RobotState
from ros_nodes.messages.conversion import (
    MessageError,
    OdometryWriter,
    _motion_of,
    base_frame,
    empty_object,
    empty_state,
    read_motion,
    read_object,
    read_odometry,
    set_stamp,
    stamp_ns,
    world_motion,
)
from ros_nodes.messages.joints import CommandConverter, JointConverter
from ros_nodes.messages.layout import JointLayout

SPEC = load_robot("crazyflie")
ROTATION = Rotation.from_euler("ZYX", [0.7, -0.4, 0.2])
VELOCITY_W = np.array([0.3, -1.2, 0.5])


def make_state() -> RobotState:
    x, y, z, w = ROTATION.as_quat()
    velocity_b = ROTATION.inv().apply(VELOCITY_W)
    return RobotState(
        np.empty(0), np.empty(0), np.array([1.0, 2.0, 3.0]), np.array([w, x, y, z]), velocity_b,
        np.array([0.1, 0.2, 0.3]), np.zeros(()),
    )  # fmt: skip


def decoded(serialised: bytes) -> Odometry:
    return deserialize_message(serialised, Odometry)


def test_odometry_carries_xyzw_world_pose_and_a_twist_in_the_child_frame():
    message = decoded(OdometryWriter(base_frame("cf7")).base(make_state(), 12_000_000_345))
    q, v = message.pose.pose.orientation, message.twist.twist.linear
    assert (message.header.frame_id, message.child_frame_id) == ("world", "cf7/base_link")
    np.testing.assert_allclose([q.x, q.y, q.z, q.w], ROTATION.as_quat())
    np.testing.assert_allclose(ROTATION.apply([v.x, v.y, v.z]), VELOCITY_W)
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (12, 345)


def test_odometry_round_trip_is_exact_in_float32():
    state, read = make_state(), empty_state(0)
    assert read_odometry(read_motion(OdometryWriter(base_frame("cf1")).base(state, 99)), read) == 99
    for name in ("base_pos", "base_quat", "base_lin_vel", "base_ang_vel"):
        np.testing.assert_array_equal(getattr(read, name), getattr(state, name).astype(np.float32))


@pytest.mark.parametrize("seed", range(20))
def test_a_serialised_odometry_is_read_as_the_middleware_reads_it(seed):
    rng = np.random.default_rng(seed)
    writer = OdometryWriter("ä" * rng.integers(0, 3) + "b" * rng.integers(0, 20))
    message = decoded(writer.base(make_state(), int(rng.integers(0, 2**31 * 10**9))))
    message.header.frame_id = "w" * rng.integers(0, 20)
    message.pose.covariance, message.twist.covariance = rng.normal(size=36), rng.normal(size=36)
    serialised = serialize_message(message)
    motion, made = read_motion(serialised), deserialize_message(serialised, Odometry)
    assert motion == _motion_of(made) and motion.frame == made.child_frame_id
    for length in range(2, len(serialised) - 300, 7):
        with pytest.raises(MessageError, match=f"odometry of {length} bytes"):
            read_motion(serialised[:length])


@pytest.mark.parametrize("serialised", [b"", b"\0", b"\0\1\0\0", b"\0\0\0\0" + b"\1" * 20, b"\0\1\0\0" + b"\xff" * 900])
def test_bytes_that_are_no_odometry_are_refused_by_name(serialised):
    with pytest.raises(MessageError, match=f"odometry of {len(serialised)} bytes"):
        read_motion(serialised)


def test_what_has_no_stamp_is_refused():
    with pytest.raises(MessageError, match="'cube' has no stamp"):
        read_motion(serialize_message(Odometry(child_frame_id="cube")))
    with pytest.raises(MessageError, match="no stamp"):
        JointConverter([]).read(serialize_message(JointState()), empty_state(0))


def test_a_peer_is_heard_with_its_velocity_in_the_world():
    pos, velocity = world_motion(read_motion(OdometryWriter(base_frame("cf2")).base(make_state(), 5)))
    np.testing.assert_allclose(pos, [1, 2, 3])
    np.testing.assert_allclose(velocity, VELOCITY_W, rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_peer_that_is_not_finite_is_not_heard(bad):
    message = decoded(OdometryWriter(base_frame("cf2")).base(make_state(), 5))
    message.twist.twist.linear.y = bad
    with pytest.raises(MessageError, match="cf2/base_link"):
        world_motion(read_motion(serialize_message(message)))


def test_commands_travel_in_the_field_of_their_unit():
    target = np.array([0.4, 1.0, -2.0, 3.0], np.float32)
    serialised = CommandConverter(SPEC.channels).write(ActuatorCommand(target), 7)
    message = deserialize_message(serialised, JointState)
    assert list(message.name) == ["thrust", "roll_rate", "pitch_rate", "yaw_rate"]
    assert message.effort[0] == np.float32(0.4) and list(message.velocity[1:]) == [1.0, -2.0, 3.0]
    assert np.isnan(message.effort[1:]).all() and np.isnan(message.velocity[0]) and len(message.position) == 0
    command, stamp = CommandConverter(SPEC.channels).read(serialised)
    np.testing.assert_array_equal(command.target, target)
    assert stamp == 7


def test_channels_are_found_by_name_not_by_place():
    message = JointState(
        name=["yaw_rate", "thrust", "pitch_rate", "roll_rate"],
        velocity=[3.0, 0.0, 2.0, 1.0],
        effort=[0.0, 0.4, 0.0, 0.0],
    )
    command, _ = CommandConverter(SPEC.channels).read(serialize_message(message))
    np.testing.assert_allclose(command.target, [0.4, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("names", "length", "says"),
    [
        ([], 0, "channels none; expected thrust"),
        (["thrust", "roll_rate", "pitch_rate", "rudder"], 4, "rudder"),
        (["thrust", "thrust", "pitch_rate", "yaw_rate"], 4, "thrust, thrust"),
        (list(SPEC.channel_names), 3, "has 3 entries for 4 channels"),
        (list(SPEC.channel_names), 0, "has 0 entries for 4 channels"),
    ],
)
def test_what_cannot_be_a_command_is_refused_with_a_reason(names, length, says):
    message = JointState(name=names, effort=[0.4] * length, velocity=[0.0] * length)
    with pytest.raises(MessageError, match=says):
        CommandConverter(SPEC.channels).read(serialize_message(message))


def test_stamps_keep_every_nanosecond():
    message = JointState()
    for time_ns in (0, 1, 999_999_999, 1_795_209_633_967_774_185):
        set_stamp(message.header.stamp, time_ns)
        assert stamp_ns(message.header.stamp) == time_ns


def test_joints_travel_by_name_and_further_ones_do_no_harm():
    converter, state = JointConverter(["turn", "lift"]), empty_state(2)
    message = JointState(name=["mirror", "lift", "turn"], position=[9.0, 0.2, 0.1], velocity=[9.0, 2.0, 1.0])
    set_stamp(message.header.stamp, 7)
    assert converter.read(serialize_message(message), state) == 7
    np.testing.assert_allclose([state.joint_pos, state.joint_vel], [[0.1, 0.2], [1.0, 2.0]])
    serialised = converter.write(state, 8)
    written = deserialize_message(serialised, JointState)
    assert list(written.name) == ["turn", "lift"] and stamp_ns(written.header.stamp) == 8
    again = empty_state(2)
    converter.read(serialised, again)
    np.testing.assert_array_equal(again.joint_pos, state.joint_pos)
    np.testing.assert_array_equal(again.joint_vel, state.joint_vel)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (JointState(name=["turn"], position=[0.1], velocity=[1.0]), "joint_states: lift missing"),
        (JointState(name=["turn", "lift"], position=[0.1], velocity=[1.0, 2.0]), "1 positions, 2 velocities, 2 names"),
        (JointState(name=["turn", "lift"], position=[0.1, 0.2]), "2 positions, 0 velocities, 2 names"),
    ],
)
def test_joints_that_are_not_all_there_leave_the_state_as_it_was(message, says):
    state = empty_state(2)
    with pytest.raises(MessageError, match=says):
        JointConverter(["turn", "lift"]).read(serialize_message(message), state)
    assert np.isnan(state.joint_pos).all()


def test_an_object_travels_like_a_base():
    state, read = make_state(), empty_object()
    cube = ObjectState(state.base_pos, state.base_quat, state.base_lin_vel, state.base_ang_vel, 0)
    message = decoded(OdometryWriter("cube").object(cube, 11))
    assert (message.header.frame_id, message.child_frame_id) == ("world", "cube")
    assert read_object(read_motion(serialize_message(message)), read) == 11
    np.testing.assert_array_equal(read.pos, state.base_pos.astype(np.float32))
    np.testing.assert_array_equal(read.quat, state.base_quat.astype(np.float32))
    v = message.twist.twist.linear
    np.testing.assert_allclose(ROTATION.apply([v.x, v.y, v.z]), VELOCITY_W)


@pytest.mark.parametrize("seed", range(20))
def test_joints_are_read_as_the_middleware_reads_them_whatever_was_written_before(seed):
    rng = np.random.default_rng(seed)
    converter, state = JointConverter(["turn", "lift"]), empty_state(2)
    for _ in range(6):
        names = list(rng.permutation(["turn", "lift", "ä" * rng.integers(1, 4), "mirror"][: rng.integers(2, 5)]))
        efforts = [0.0] * int(rng.integers(0, 3))
        message = JointState(name=names, position=rng.normal(size=len(names)), velocity=rng.normal(size=len(names)))
        message.effort, message.header.frame_id = efforts, "f" * int(rng.integers(0, 9))
        set_stamp(message.header.stamp, int(rng.integers(1, 2**31 * 10**9)))
        serialised = serialize_message(message)
        for length in rng.integers(0, JointLayout(serialised).end, 5):
            with pytest.raises(MessageError):
                converter.read(serialised[:length], state)
        assert converter.read(serialised, state) == stamp_ns(message.header.stamp)
        for index, name in enumerate(["turn", "lift"]):
            assert state.joint_pos[index] == np.float32(message.position[names.index(name)])
            assert state.joint_vel[index] == np.float32(message.velocity[names.index(name)])


@pytest.mark.parametrize("serialised", [b"", b"\0", b"\0\1\0\0", b"\0\0\0\0" + b"\1" * 20, b"\0\1\0\0" + b"\xff" * 900])
def test_bytes_that_are_no_joint_state_are_refused(serialised):
    with pytest.raises(MessageError):
        JointConverter(["turn"]).read(serialised, empty_state(1))
    with pytest.raises(MessageError):
        CommandConverter(SPEC.channels).read(serialised)


def test_a_slide_is_commanded_by_position():
    panda = load_robot("panda")
    target = np.linspace(0.0, 0.7, len(panda.channels), dtype=np.float32)
    serialised = CommandConverter(panda.channels).write(ActuatorCommand(target), 1)
    message = deserialize_message(serialised, JointState)
    assert dict(zip(message.name, message.position, strict=True))["finger"] == target[-1]
    assert not len(message.velocity) and not len(message.effort)
    np.testing.assert_array_equal(CommandConverter(panda.channels).read(serialised)[0].target, target)
