"""`phalanx doctor`: is this installation able to train and to fly, and are the robots of a team able to?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from phalanx.console import err, out, print_json
from phalanx.doctor.check import Check
from phalanx.options import Json, Names

TeamFile = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[TEAM.yaml]", help_behavior_hint="")]

MARK = {"ok": "[green]ok  [/]", "warn": "[yellow]warn[/]", "fail": "[red]fail[/]"}


def doctor(team: TeamFile = None, robots: Names = (), json: Json = False) -> int:
    """Check this installation and this machine, or the real robots of a team file.

    Versions, package names, ROS 2 over real DDS, how punctual the machine is. Of robots, three seconds each: link,
    permissions, firmware, rate and age of measurements, estimate, battery, what the device says of itself, and whether
    it is what its policy was trained for. No robot is armed; none may be deployed meanwhile. Exits 1 when something is
    broken.

    Args:
        team: Team file (.yaml).
        robots: Those to look at; all that have a driver when none is named.
    """
    if robots and team is None:
        raise ValueError(f"--robots {' '.join(robots)}: names robots of a team file, which is missing")
    if team is None:
        from phalanx.doctor import examine

        with err.status("examining (three seconds) ..."):
            return report(examine(), json)
    from phalanx.doctor.robots import robot_checks
    from ros_nodes.plans.team_file import load_team

    with err.status("reading the team file ...") as status:
        return report(
            robot_checks(load_team(team), robots, lambda name: status.update(f"{name}: connecting ...")), json
        )


def report(checks: list[Check], json: bool) -> int:
    """Print them; 1 where one is broken."""
    broken = [check for check in checks if check.status == "fail"]
    if json:
        print_json({"healthy": not broken, "checks": [asdict(check) for check in checks]})
        return 1 if broken else 0
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            out.print(f"\n[bold]{group}[/]")
        out.print(f"  {MARK[check.status]} {check.name:<22} {escape(check.found)}")
        if check.hint:
            out.print(f"       [dim]-> {escape(check.hint)}[/]")
    warned = sum(check.status == "warn" for check in checks)
    out.print(f"\n{len(checks)} checks, {len(broken)} broken, {warned} with a warning")
    return 1 if broken else 0
