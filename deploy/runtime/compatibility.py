"""Whether a policy was made for the robot that it is about to drive."""

from math import isclose

from deploy.bundle import BundleError
from deploy.contract import Contract
from hardware.spec import RobotSpec


class RobotMismatchError(BundleError):
    """The policy is for another robot; the message says what differs."""


def check_robot(contract: Contract, spec: RobotSpec, name: str = "policy") -> None:
    """Raise RobotMismatchError about `name` unless robot, joints, channels, command limits and control rate agree."""
    robot = contract.robot
    for what, policy, machine in (
        ("robot", robot.name, spec.name),
        ("kind", robot.kind, spec.kind),
        ("joint names", list(robot.joint_names), list(spec.joint_names)),
        ("channel names", [c.name for c in robot.channels], list(spec.channel_names)),
        ("channel units", [c.unit for c in robot.channels], [c.unit for c in spec.channels]),
    ):
        if policy != machine:
            raise RobotMismatchError(f"{name}: is for {what} {policy!r}, this robot has {machine!r}")
    if not isclose(contract.control_dt_s * spec.control_hz, 1.0, rel_tol=1e-6):
        rate = f"{1 / contract.control_dt_s:g} Hz, this robot runs at {spec.control_hz:g} Hz"
        raise RobotMismatchError(f"{name}: is for a control rate of {rate}")
    for mine, its in zip(robot.channels, spec.channels, strict=True):
        if mine.low < its.low or mine.high > its.high:
            limits = f"[{mine.low:g}, {mine.high:g}] {mine.unit}, this robot allows [{its.low:g}, {its.high:g}]"
            raise RobotMismatchError(f"{name}: may ask channel {mine.name!r} for {limits}")
