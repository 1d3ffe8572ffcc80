"""`phalanx calibrate`: what a driver has to know of the one robot that is there."""

from inspect import signature
from pathlib import Path
from typing import Annotated

import tyro

from phalanx.console import err, make_progress, out

OPTION = "thrust_scale"


def calibrate(
    team: Annotated[Path, tyro.conf.Positional],
    robot: Annotated[str, tyro.conf.Positional],
    seconds: float = 5.0,
    write: bool = False,
    domain: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None,
) -> int:
    """Measure the thrust of a drone that hovers by its policy, deployed from a team file; moves nothing itself.

    Prints what was measured and the option of its driver that follows from it; exits 2 for what cannot be.

    Args:
        team: The team file that it is deployed from.
        robot: Its name.
        seconds: How long it is listened to, from 2 to 60.
        write: Write the option into the team file, for the next deployment.
        domain: ROS domain; by default ROS_DOMAIN_ID.
    """
    from hardware import load_robot
    from hardware.drivers import driver_class
    from phalanx.calibration import hover_thrust, new_scale, write_option
    from ros_nodes.lifecycle.processes import end_process
    from ros_nodes.mission.hover_log import listen
    from ros_nodes.mission.team_file import load_team

    if not 2.0 <= seconds <= 60.0:
        raise ValueError(f"--seconds {seconds:g}: expected 2 to 60")
    given = load_team(team)
    (name,) = given.pick([robot])
    member = next(each for each in given.robots if each.name == name)
    if not member.driver or OPTION not in signature(driver_class(member.driver)).parameters:
        raise ValueError(f"{robot}: its driver, {member.driver or 'none'}, takes no {OPTION}: nothing to calibrate")
    spec, before = load_robot(member.type), float(member.options.get(OPTION, 1.0))
    with make_progress() as progress:
        bar = progress.add_task(f"listening to {robot}", total=seconds)
        log = listen(robot, spec, seconds, domain, lambda now_s: progress.update(bar, completed=now_s))
    try:
        sent_n, carried_n = hover_thrust(log, spec.mass_kg)
        scale = new_scale(before, sent_n, carried_n)
        if write:
            write_option(team, robot, OPTION, scale)
    except ValueError as error:
        err.print(f"phalanx: {robot}: {error}", markup=False, soft_wrap=True)
        end_process(2)
    out.print(f"hover              {sent_n:.3f} N were sent, {carried_n:.3f} N carry {1e3 * spec.mass_kg:.1f} g")
    out.print(f"airframe           {100 * carried_n / sent_n:.1f} % of the thrust that is asked for")
    out.print(f"battery            {log.voltage_v:.2f} V; with another one, or an old one, measure again", markup=False)
    where = f"written to {team}" if write else f"to be written into the options of {robot}"
    out.print(f"{OPTION}       {before:g} -> {scale:g}, {where}", markup=False, soft_wrap=True)
    end_process(0)
