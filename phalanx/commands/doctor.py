"""`phalanx doctor`: is this installation able to train and to fly?"""

from dataclasses import asdict

from rich.markup import escape

from phalanx.console import err, out, print_json
from phalanx.options import Json

MARK = {"ok": "[green]ok  [/]", "warn": "[yellow]warn[/]", "fail": "[red]fail[/]"}


def doctor(json: Json = False) -> int:
    """Check this installation and this machine.

    Versions, package names, ROS 2 over real DDS, how punctual the machine is; exits 1 when something is broken.
    """
    from phalanx.doctor import examine

    with err.status("examining (three seconds) ..."):
        checks = examine()
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
