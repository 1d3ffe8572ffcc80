"""`phalanx verify`: may this policy file fly?"""

from pathlib import Path
from typing import Annotated

import tyro

from phalanx.console import make_progress, out, print_json
from phalanx.options import PolicyFile

SIGNS = {">=": "at least", "<=": "at most"}


def verify(
    file: PolicyFile,
    run: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None,
    episodes: int = 256,
    teams: Annotated[tuple[int, ...], tyro.conf.arg(metavar="INT...")] = (),
    json: bool = False,
) -> int:
    """Say whether a policy file may fly.

    Replays the probes, compares simulation and file over whole episodes, flies held-out starts; exits 1 when refused.

    Args:
        file: Policy file.
        run: Training run that it came from; parity is then measured against the torch controller.
        episodes: Held-out starts for each team size, with and without shield.
        teams: Team sizes to fly beside the one that was trained; as the task says when not given.
        json: Print every figure as JSON on stdout.
    """
    from deploy.bundle import load_bundle

    bundle = load_bundle(file)  # a bad file is answered before torch is loaded
    from policies.verify import VerifyCfg, team_sizes
    from policies.verify import verify as check

    cfg = VerifyCfg(num_worlds=episodes, teams=teams or None)
    with make_progress() as progress:
        bar = progress.add_task("verify", total=2 + 2 * len(team_sizes(bundle.contract, cfg)), completed=-1, note="")
        verdict = check(
            file,
            cfg,
            run,
            lambda what: progress.update(bar, advance=1, note=what),
        )
    if json:
        print_json(verdict)
    else:
        _show(verdict)
    return 0 if verdict["verdict"] == "verified" else 1


def _show(verdict: dict) -> None:
    for size, team in verdict["teams"].items():
        out.print(
            f"{size} robots   success {_percent(team['success_rate'])} bare, {_percent(team['shielded_success_rate'])} "
            f"shielded   collisions {_percent(team['collision_rate'])} bare, "
            f"{_percent(team['shielded_collision_rate'])} shielded"
        )
    out.print(f"{verdict['episodes']} held-out starts for each; parity is between {verdict['parity']['between']}")
    for gate in verdict["gates"]:
        mark = "[green]pass[/]" if gate["passed"] else "[red]fail[/]"
        out.print(f"{mark}  {gate['name']:<24} {gate['value']:.3g}, {SIGNS[gate['sign']]} {gate['limit']:g}")
    colour = "green" if verdict["verdict"] == "verified" else "red"
    out.print(f"[{colour}]{verdict['verdict']}[/]  {verdict['bundle']}")


def _percent(rate: float) -> str:
    return f"{100 * rate:5.1f} %"
