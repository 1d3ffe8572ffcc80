"""What the nodes of a team would refuse, found before any of them starts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from deploy.bundle import load_bundle
from deploy.contract import Contract
from deploy.contract.groups import group_and_number
from deploy.runtime.compatibility import check_measured, check_robot
from deploy.shield import JointShieldParams, ShieldParams, owned_params
from deploy.shield.joints.capsules import link_rows
from hardware import RobotSpec, load_robot
from hardware.drivers import check_options, device_of, driver_class, unmeasured_by, usual_robot
from hardware.overlay import SUFFIX
from ros_nodes.messages.battery import check_charges
from ros_nodes.messages.conversion import MOST_M
from ros_nodes.plans.course import check_goals
from ros_nodes.plans.starts import check_starts
from ros_nodes.plans.team import Robot, Team, absolute

LEAST_HEIGHT = 0.5  # of that in its home pose, below which a robot on legs would begin in the ground


def check_robots(team: Team, folder: Path) -> tuple[Robot, ...]:
    """Those of `team` with type, group and the path of their policy, which is relative to `folder`.

    ValueError, one line with key, robot and what is allowed, for what their nodes would refuse.
    """
    checked = [_checked(robot, team, folder, f"robots[{number}]") for number, robot in enumerate(team.robots)]
    robots, limits = (tuple(each) for each in zip(*checked, strict=True))
    _check_devices(robots)
    if not team.mission:  # which has starts of its own
        check_starts(robots, limits, team.scene)
    for number, robot in enumerate(robots):
        _check_landing(robot, robots, f"robots[{number}].lands_on of {robot.name}")
    return robots


def _checked(robot: Robot, team: Team, folder: Path, where: str) -> tuple[Robot, ShieldParams | JointShieldParams]:
    """`robot` with its type, its group and the path of its policy, and its shield's parameters."""
    bundle, key = absolute(robot.bundle, folder), "bundle"
    try:
        contract = load_bundle(bundle, team.trusted_keys, team.requires).contract
        key = "driver"
        usual = usual_robot(driver_class(robot.driver)) if robot.driver else ""
        key = "type"
        kind = absolute(robot.type, folder) if robot.type.endswith(SUFFIX) else robot.type
        spec = load_robot(kind or usual or contract.robot.name)
        key = "type" if robot.type else "bundle"
        check_robot(contract, spec, bundle)
        key = "group"
        group, _ = group_and_number(contract.group or spec.name)
        if robot.group not in ("", group):
            raise ValueError(f"{robot.group!r}; {bundle} is for {group!r}")
        key = "shield"
        params = owned_params(spec, contract.shield, team.limits()[robot.name])
        key = "goals"
        _check_course(robot, contract, params, team, bundle)
        key = "battery"
        check_charges(**team.charges(robot))
        key = "driver"
        if robot.driver:
            _check_measured(contract, unmeasured_by(driver_class(robot.driver)), team, bundle)
            key = "options"
            check_options(robot.driver, robot.options)
            device_of(robot.driver, robot.options)  # which knows addresses that cannot be
            _check_port(robot)
        key = "base_pose"
        _check_place(robot.base_pose, spec)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}.{key} of {robot.name}: {error}") from error
    return msgspec.structs.replace(robot, bundle=bundle, type=kind or spec.name, group=group), params


def _check_port(robot: Robot) -> None:
    """ValueError for a UDP address of PX4 without a port, which pymavlink refuses later."""
    link = str(robot.options.get("link", "")) if robot.driver == "px4" else ""
    kind, _, place = link.partition(":")
    if kind.startswith("udp") and ":" not in place:
        raise ValueError(f"link {link}: at which port? Such as {kind}:{place or '0.0.0.0'}:14540")


def _check_course(
    robot: Robot, contract: Contract, params: ShieldParams | JointShieldParams, team: Team, bundle: str
) -> None:
    """ValueError for goals that its policy does not take, or at which its shield does not let it come."""
    if robot.within_m is not None and not robot.goals:
        raise ValueError(f"none, so within_m = {robot.within_m:g} is of no goal: give goals, or leave it out")
    if robot.goals and (takes := [command.name for command in contract.commands]) != ["goal_pos"]:
        taken = " and ".join(takes) or "no commands"
        raise ValueError(f"{bundle} takes {taken}; a course is for a policy that takes goal_pos alone")
    check_goals(robot.goals, params, team.scene.of(robot.name))


def _check_place(base_pose: tuple[float, float, float, float] | None, spec: RobotSpec) -> None:
    """ValueError for x, y, z m and yaw rad, world, at which a robot of `spec` cannot begin."""
    if base_pose is None:
        return
    if not np.isfinite(base_pose).all():
        raise ValueError(f"{list(base_pose)}: every number must be finite")
    if far := [number for number in base_pose[:3] if abs(number) > MOST_M]:
        raise ValueError(f"{far[0]:g}: every number must be from {-MOST_M:g} to {MOST_M:g}")
    if abs(base_pose[3]) > 2.0 * np.pi:
        raise ValueError(f"yaw = {base_pose[3]:g}: in rad, from -6.28 to 6.28")
    legs = not (spec.flight or spec.fixed_base)
    if legs and base_pose[2] < (least := LEAST_HEIGHT * spec.home_height_m):
        stands = f"its base is {spec.home_height_m:.3g} m above what it stands on"
        raise ValueError(f"z = {base_pose[2]:g}: at least {least:.2g} m; {stands}")


def _check_measured(contract: Contract, unmeasured: Sequence[str], team: Team, bundle: str) -> None:
    """ValueError where policy, scene or team mates need what the driver of a robot does not measure."""
    check_measured(contract, unmeasured, bundle)
    if "base_pos" not in unmeasured:
        return
    if team.scene.names:
        raise ValueError(f"does not measure base_pos, which its shield needs for {team.scene.names[0]!r} of the scene")
    if len(team.robots) > 1:
        raise ValueError(f"does not measure base_pos, which team mates need; there are {len(team.robots)} robots")


def _check_devices(robots: Sequence[Robot]) -> None:
    """ValueError where two robots are one device, which would have two commanders."""
    owners: dict[tuple[Any, str], str] = {}
    for robot in robots:
        device = device_of(robot.driver, robot.options) if robot.driver else ""
        key = device and driver_class(robot.driver), device
        if device and (other := owners.setdefault(key, robot.name)) != robot.name:
            raise ValueError(
                f"robots: {other} and {robot.name} are one device ({robot.driver}, {device}); each has its own"
            )


def _check_landing(robot: Robot, team: Sequence[Robot], where: str) -> None:
    """ValueError where it lands on what is no arm of the team."""
    arms = [other.name for other in team if other is not robot and link_rows(load_robot(other.type)) is not None]
    if robot.lands_on and robot.lands_on not in arms:
        raise ValueError(f"{where}: {robot.lands_on!r} is no arm of the team: choose from {', '.join(arms) or 'none'}")
