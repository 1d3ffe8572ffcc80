"""`phalanx calibrate`: what a driver has to know of the one robot that is there."""

from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from phalanx import interrupt
from phalanx.console import err, out
from phalanx.options import Domain
from phalanx.progress import make_progress

if TYPE_CHECKING:
    from ros_nodes.plans.team import Robot

OPTION = "thrust_scale"
Pose = Literal["hanging", "standing"]
Degrees = tuple[float, float]


def calibrate(
    team: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TEAM_FILE")],
    robot: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ROBOT")],
    seconds: float = 5.0,
    write: bool = False,
    domain: Domain = None,
    pose: Pose = "hanging",
    imu: Annotated[Degrees | None, tyro.conf.arg(metavar="ROLL PITCH", help_behavior_hint="")] = None,
) -> int:
    """Measure the thrust of a drone that hovers, or check joint zeros and IMU of a G1 at rest; moves nothing itself.

    A drone hovers by its policy, deployed from a team file; printed is the option of its driver that follows. A G1 is
    not deployed, and its joints are limp; exits 1 where something of it is out of bounds, and 2 for what cannot be.

    Args:
        team: The team file that the robot is deployed from.
        robot: Its name in that file.
        seconds: How long it is listened to, from 2 to 60.
        write: Write a drone's option into the team file, for the next deployment.
        pose: Of a G1, in its gantry: hanging with its pelvis level, or with both feet flat on the ground, side by side.
        imu: Degrees by which its IMU is tilted, as was found when it hung; needed standing.
    """
    from hardware.drivers import Listens, driver_class
    from ros_nodes.plans.team_file import load_team

    if not 2.0 <= seconds <= 60.0:
        raise ValueError(f"--seconds {seconds:g}: expected 2 to 60")
    given = load_team(team)
    (name,) = given.pick([robot])
    member = next(each for each in given.robots if each.name == name)
    driver = driver_class(member.driver) if member.driver else None
    if driver is not None and issubclass(driver, Listens):
        if write:
            raise ValueError(f"--write: {robot} has no option that follows from it; what is wrong is put right there")
        return _check(member, seconds, domain, pose, imu)
    if driver is None or OPTION not in signature(driver).parameters:
        raise ValueError(f"{robot}: its driver, {member.driver or 'none'}, takes no {OPTION}: nothing to calibrate")
    _hover(team, member, seconds, write, domain)
    return 0


def _check(robot: "Robot", seconds: float, domain: int | None, pose: Pose, imu: Degrees | None) -> int:
    """Of a humanoid, by listening to it."""
    import numpy as np

    from hardware import load_robot
    from hardware.drivers import Listens, load_driver
    from phalanx.calibration.posture import check_posture
    from phalanx.commands.doctor import report
    from ros_nodes.lifecycle.claims import taken_names
    from ros_nodes.lifecycle.domain import given_domain

    if imu is not None and not np.isfinite(imu).all():
        raise ValueError(f"--imu {imu[0]:g} {imu[1]:g}: every number must be finite")
    if pose == "standing" and imu is None:
        raise ValueError("--pose standing needs --imu ROLL PITCH, degrees: what the same command said when it hung")
    where = given_domain() if domain is None else domain
    if taken_names(where, [f"/{robot.name}/{node}" for node in ("shield", "driver")]):
        raise ValueError(f"{robot.name} is deployed on this computer, and drives hide a wrong zero: end that first")
    spec = load_robot(robot.type)
    driver = load_driver(robot.driver, spec, **robot.options)
    assert isinstance(driver, Listens)
    with make_progress() as progress:
        bar = progress.add_task(f"listening to {robot.name}", total=seconds)
        measured = driver.listen(seconds, lambda now_s: progress.update(bar, completed=now_s))
    return report(check_posture(spec, pose, measured, np.radians(imu or (0.0, 0.0)), seconds), json=False)


def _hover(team: Path, robot: "Robot", seconds: float, write: bool, domain: int | None) -> None:
    """Of a drone, from its messages; ends the process."""
    from hardware import load_robot
    from phalanx.calibration.thrust import hover_thrust, new_scale, write_option
    from ros_nodes.lifecycle.context import end_process
    from ros_nodes.operation.hover_log import listen

    spec, before = load_robot(robot.type), float(robot.options.get(OPTION, 1.0))
    with interrupt.leaving_all_open(), make_progress() as progress:
        bar = progress.add_task(f"listening to {robot.name}", total=seconds)
        log = listen(robot.name, spec, seconds, domain, lambda now_s: progress.update(bar, completed=now_s))
    try:
        sent_n, carried_n = hover_thrust(log, spec.mass_kg)
        scale = new_scale(before, sent_n, carried_n)
        if write:
            write_option(team, robot.name, OPTION, scale)
    except ValueError as error:
        err.print(f"phalanx: {robot.name}: {error}", markup=False, soft_wrap=True)
        end_process(2)
    out.print(f"hover              {sent_n:.3f} N were sent, {carried_n:.3f} N carry {1e3 * spec.mass_kg:.1f} g")
    out.print(f"airframe           {100 * carried_n / sent_n:.1f} % of the thrust that is asked for")
    out.print(f"battery            {log.voltage_v:.2f} V; with another one, or an old one, measure again", markup=False)
    where = f"written to {team}" if write else f"to be written into the options of {robot.name}"
    out.print(f"{OPTION}       {before:g} -> {scale:g}, {where}", markup=False, soft_wrap=True)
    end_process(0)
