"""Universal Robots UR5e with a bare flange: six joints, each a position servo."""

from math import pi
from pathlib import Path

from hardware.spec import Joint, RobotSpec, joint_positions

# Columns: name, low, high, home, velocity, acceleration, effort, stiffness, damping, armature, friction.
# Home is the elbow up and the flange looking down, 0.49 m in front of the base.
_JOINTS = (
    Joint("shoulder_pan_joint", -2 * pi, 2 * pi, 0.0, pi, 8.0, 150.0, 5000.0, 240.0, 0.605721456, 1.0),
    Joint("shoulder_lift_joint", -2 * pi, 2 * pi, -pi / 2, pi, 8.0, 150.0, 5000.0, 280.0, 0.605721456, 1.0),
    Joint("elbow_joint", -pi, pi, pi / 2, pi, 8.0, 150.0, 5000.0, 170.0, 0.605721456, 1.0),
    Joint("wrist_1_joint", -2 * pi, 2 * pi, -pi / 2, pi, 8.0, 28.0, 2000.0, 43.0, 0.205544064, 0.3),
    Joint("wrist_2_joint", -2 * pi, 2 * pi, -pi / 2, pi, 8.0, 28.0, 2000.0, 41.0, 0.205544064, 0.3),
    Joint("wrist_3_joint", -2 * pi, 2 * pi, 0.0, pi, 8.0, 28.0, 2000.0, 41.0, 0.205544064, 0.3),
)

_UR_DH = "Universal Robots, 'DH parameters for calculations of kinematics and dynamics'"
_UR_ROS = "Universal_Robots_ROS2_Description (Universal Robots), config/ur5e"
_DATA_SHEET = "UR5e data sheet"

SPEC = RobotSpec(
    name="ur5e",
    kind="manipulator",
    mjcf=Path(__file__).with_name("ur5e.xml"),
    base_body="base",
    joints=_JOINTS,
    channels=joint_positions(_JOINTS),
    mass_kg=20.6,
    radius_m=1.21,
    control_hz=50.0,
    sensor_hz=500.0,
    fallback="hold",
    fixed_base=True,
    payload_kg=3.0,
    frames={"tool": "tool"},
    sources={
        "payload": f"{_DATA_SHEET}: 5 kg; less, so that what brakes it is counted on with a margin",
        "kinematics": f"{_UR_DH}; base axes as in ROS (REP-103), the table's frame turned by 180 degrees about z",
        "mass, centre of mass of the links": _UR_DH,
        "inertia of the links": f"{_UR_ROS}/physical_parameters.yaml",
        "mass of the base": f"{_DATA_SHEET}: 20.6 kg in all, less the links; its inertia never acts",
        "position, velocity limits": f"{_DATA_SHEET}: +-360 degrees and 180 degrees/s",
        "position limit of the elbow": f"{_UR_ROS}/joint_limits.yaml: +-180 degrees, then the upper arm is in the way",
        "torque limits": "Universal Robots, 'Max. joint torques': 150 N m, 28 N m in the wrist",
        "acceleration limits": "not published; what all joints can brake with at once, from full speed in any pose, "
        "gravity included, without payload, 10.9, less a quarter",
        "armature": "not published; an estimate, that of the Panda's drives of the same size and gear (see panda)",
        "friction": "not published; an estimate of what is left after the controller's compensation: a fifth (ur_msgs, "
        "FrictionModelParameters: Coulomb scale 0.8) of about 5 and 1.5 N m",
        "stiffness": "not published; an estimate from the Panda's documented one: scaled by torque in the arm, "
        "the same in the wrist",
        "damping": "not published; damping ratio 1 at the geometric mean of the inertia at home and outstretched",
        "reach": "sum of the lengths of the Denavit-Hartenberg table: an upper bound",
        "sensor rate": "UR real-time data exchange (RTDE) of the e-Series: 500 Hz",
    },
)
