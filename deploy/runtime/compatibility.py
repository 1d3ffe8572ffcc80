"""Whether a policy was made for the robot that it is about to drive."""

from collections.abc import Callable, Collection, Iterable, Mapping
from math import isclose
from typing import Any

from deploy.bundle import BundleError, load_bundle
from deploy.contract import Contract
from deploy.contract.plant import allowed_values
from hardware.names import nearest
from hardware.plant import DELAYS, JOINT_UNITS, control_interface, plant_of
from hardware.spec import RobotSpec

UNSTATED = (
    "states no plant, as files did before: gains, effort and velocity limits, armature, friction, home pose, mass and "
    "the ranges that it was trained for are not compared with this robot; export it again"
)
TRAINED_FOR_IT = "take a policy that was trained for this robot as it is, or state its own numbers in an overlay"
OF_DRIVES = ("stiffness", "damping")  # of a joint
Warn = Callable[[str], Any]


def silent(text: str) -> None:
    """Where what a file does not state was said already."""


class RobotMismatchError(BundleError):
    """The policy is for another robot; the message says what differs."""


def check_robot(contract: Contract, spec: RobotSpec, name: str = "policy", warn: Warn = silent) -> None:
    """Raise RobotMismatchError about `name` unless it is for a robot like this one.

    Robot, joints, channels, command limits and control rate have to agree, and the plant has to be in the ranges that
    the policy was trained for; `warn` hears of a file that does not state it.
    """
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
    if contract.plant is None:
        warn(f"{name}: {UNSTATED}")
        return
    if contract.plant.control_interface != (takes := control_interface(spec)):
        raise RobotMismatchError(f"{name}: commands {contract.plant.control_interface}, this robot takes {takes}")
    found, stated = plant_of(spec), allowed_values(contract.plant, contract.robot.mass_kg)
    if missing := [field for field in stated if field not in found and field not in DELAYS]:
        raise RobotMismatchError(f"{name}: is for a robot with {missing[0]}, this robot has none")
    own_loop = not any("rate_loop" in field for field in stated)  # then the firmware's is none of the policy's
    if unstated := [field for field in found if field not in stated and not ("rate_loop" in field and own_loop)]:
        raise RobotMismatchError(f"{name}: does not state {unstated[0]}, which this robot has")
    check_plant(contract, {field: found[field] for field in stated if field in found}, name, todo=TRAINED_FOR_IT)


def check_plant(
    contract: Contract, found: Mapping[str, float], name: str = "policy", who: str = "this robot", todo: str = ""
) -> None:
    """Raise RobotMismatchError about `name` for what is `found`, named as in `hardware.plant`, beyond what was trained.

    `who` has it, and what is `todo` about it; names that the contract does not know are refused too.
    """
    if contract.plant is None:
        return
    allowed = allowed_values(contract.plant, contract.robot.mass_kg)
    wrong = []
    for field, value in found.items():
        if field not in allowed:
            raise RobotMismatchError(
                f"{name}: {who} has {field!r}, which the file does not state{nearest(field, allowed)}"
            )
        low, high = allowed[field]
        if not low <= value <= high:
            what, unit = _in_words(field, contract)
            wrong.append(f"is for {what} from {low:.5g} to {high:.5g}{unit and f' {unit}'}, {who} has {value:.5g}")
    if wrong:
        more = f" ({len(wrong) - 1} more differ)" if wrong[1:] else ""
        raise RobotMismatchError(f"{name}: {wrong[0]}{more}{todo and f': {todo}'}")


def _in_words(field: str, contract: Contract) -> tuple[str, str]:
    """A number of the plant and its unit, which is empty where its name ends in it."""
    joint, _, quantity = field.rpartition(".")
    if joint not in contract.robot.joint_names:
        return field, ""
    slides = any(channel.name == joint and channel.unit == "m" for channel in contract.robot.channels)
    return f"{'drive ' * (quantity in OF_DRIVES)}{quantity} of {joint}", JOINT_UNITS[quantity][slides]


def check_driver(
    file: str, plant: Mapping[str, float], trusted: Iterable[str] = (), unmeasured: Collection[str] = ()
) -> str:
    """The fingerprint of `file`; BundleError where its policy was not trained for the `plant` that a driver reports.

    And where it needs one of the fields of RobotState that are `unmeasured`.
    """
    bundle = load_bundle(file, trusted)
    check_measured(bundle.contract, unmeasured, file)
    check_plant(bundle.contract, plant, file, "its driver")
    return bundle.fingerprint


def lacks_firmware(contract: Contract) -> str:
    """Why a real drone's rate loop may not fly the policy as it was trained; empty where nothing speaks against it."""
    flight = contract.plant.flight if contract.plant is not None else {}
    if not flight or any(name.startswith("rate_loop") for name in flight):
        return ""
    return "was trained with the rate loop of the robot's model, not of its firmware: a real one may not fly by it"


def check_measured(contract: Contract, unmeasured: Collection[str], name: str = "policy") -> None:
    """Raise RobotMismatchError about `name` where an input of it is among the `unmeasured` fields of RobotState."""
    if lacks := [tensor.name for tensor in contract.inputs if tensor.name in unmeasured]:
        raise RobotMismatchError(f"{name}: needs {' and '.join(lacks)}, which its driver does not measure")
