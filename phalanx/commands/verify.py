"""`phalanx verify`: may this policy file fly?"""

from pathlib import Path
from typing import Annotated

import tyro

from hardware.ranges import check_range
from phalanx.console import err, out, print_json
from phalanx.folders import check_run
from phalanx.options import Count, Counts, Names, RunFlag, check_robots
from phalanx.progress import make_progress
from phalanx.verification.records import check_replaced, parts_of, renew_records, write_records
from phalanx.verification.verdict import (
    actuators_in_words,
    cannot_show,
    figures_of,
    gate_in_words,
    next_step,
    team_in_words,
    too_few_starts,
    warn_of_unstated,
    why_no_parity,
    why_not_shown,
)


def verify(
    files: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE|RUN...")],
    run: RunFlag = None,
    episodes: Count = None,
    robots: Counts = (),
    margins: bool = False,
    only: Names = (),
    margin_episodes: Count = None,
    overlay: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None,
    record: bool = False,
    replace: bool = False,
    renew: bool = False,
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    json: bool = False,
) -> int:
    """Say whether a policy file may fly, or the files of a team with several groups, one for each.

    Replays the probes, compares simulation and file over whole episodes, flies held-out starts; exits 1 when refused.
    Of success the lower end of its 95 % interval counts: what the starts have shown, not what they happened to give. So
    few that even without a failure they could not show what the task asks for leave it "not shown", which exits 1 too.
    With --margins it says fly, fly with care or do not fly. Verified files exit 0 also where care is advised; Ctrl-C
    prints the margins that are known and exits 130.

    Args:
        files: Policy file; for a task with several groups that of each, flown together. Or the folder of a training
            run, whose best policies are first written there as files, or its last ones where none was best yet.
        run: Training run that it came from; parity is then measured against the torch controller.
        episodes: Held-out starts for each team size, with and without shield; 256 when not given, or as many as the
            success that the task asks for takes to be shown.
        robots: Team sizes to fly beside the one that was trained; as the task says when not given.
        margins: Push gains, delays, mass, noise and all else that may differ, one at a time, until success falls below
            what the task asks for: how much room there is to what was trained, and to what hardware shows.
        only: With --margins, push only these, by name, such as "total delay", or fly under these other physics, such as
            "half the time step"; all when none is given.
        margin_episodes: With --margins, episodes for each value that is pushed; 64 when not given.
        record: Write all that was found into the policy file, in the place of an older record: robots may require it,
            `inspect` prints it. A signature goes, since it was for the file without: sign after this. A record of more
            starts, or of more margins, is kept, and nothing is flown.
        replace: With --record, replace also a record of more starts or more margins.
        renew: Fly nothing: write into each file the advice that the margins of its record come to with what is known of
            hardware today, and into the JSON of that record beside it. A signature goes.
        overlay: Fly the one robot that `phalanx identify` found, within its intervals; refused where the policy was not
            trained for it.
        markdown: Write the margins of the records beside this document into it, over what stands there between its
            marks; takes no policy file.
        json: Print every figure as JSON on stdout.
    """
    check_robots(*robots)
    if (only or margin_episodes is not None) and not margins:
        given = f"--only {only[0]}" if only else f"--margin-episodes {margin_episodes}"
        raise ValueError(f"{given}: chooses what --margins pushes; give that too; see phalanx verify --help")
    if replace and not record:
        raise ValueError("--replace: says what --record may replace; give that too; see phalanx verify --help")
    from deploy.bundle.verification import MOST_EPISODES

    check_range("episodes", episodes, 1, MOST_EPISODES)
    check_range("margin-episodes", margin_episodes, 1, MOST_EPISODES)
    if markdown is not None:
        return _write(markdown, files)
    if not files:
        raise ValueError("which policy file? such as zoo/swarm-swap.onnx; see phalanx verify --help")
    if renew:
        if margins or record or run is not None:
            raise ValueError("--renew: flies nothing; give it without --margins, --record and --run")
        renew_records(files)
        return 0
    if runs := [file for file in files if file.is_dir()]:
        if len(files) > 1 or run is not None:
            raise ValueError(f"{runs[0]} is a training run, which has the policies of its whole team: give it alone")
        run, files = _files_of(runs[0])
    from deploy.bundle import load_bundle

    if run is not None:
        check_run(run)
    bundles = {file: load_bundle(file) for file in files}  # a bad file is answered before torch is loaded
    contracts = [bundle.contract for bundle in bundles.values()]
    for file, bundle in bundles.items():
        warn_of_unstated(file, bundle)
    from policies.evaluation.margins import MarginCfg, plan_margins
    from policies.evaluation.verify import VerifyCfg, starts_of, too_few_asked
    from policies.evaluation.verify import verify as check

    cfg = VerifyCfg(num_worlds=episodes, teams=robots or None, overlay=overlay)
    pushed = MarginCfg(margin_episodes or MarginCfg.episodes, only=only) if margins else None
    if record and not replace:
        check_replaced(bundles, starts_of(contracts[0], cfg), pushed)
    if few := too_few_asked(contracts[0], cfg):  # before minutes of flight
        said = f"{cannot_show(starts_of(contracts[0], cfg), *few)}; this ends as not shown at best"
        err.print(f"[yellow]warning:[/] {said}", soft_wrap=True)
    if pushed:
        from policies.evaluation.flight_advice import advise

        measure = plan_margins(list(bundles.values()), pushed)  # a wrong name is answered before minutes of flight
    with make_progress() as progress:
        bar = progress.add_task("verify", total=1.0, note="")
        verdict = check(files, cfg, run, lambda share, what: progress.update(bar, completed=share, note=what))
        progress.update(bar, completed=1.0, note="")
        if pushed:
            bar = progress.add_task("margins", total=1.0, note="")
            found = measure(lambda share, note: progress.update(bar, completed=share, note=note))
            verdict |= {"margins": found, "flight": advise(verdict["gates"], found, contracts, parts_of(verdict))}
    if json:
        print_json(verdict)
    else:
        _show(verdict)
    if margins and not verdict["margins"]["complete"]:
        kept = "; nothing was recorded" if record else ""
        raise KeyboardInterrupt(f"interrupted; the margins that are known are above{kept}")
    if record:  # after the verdict was said: a file that cannot be written loses nothing else
        write_records(bundles, verdict)
    return 0 if verdict["verdict"] == "verified" else 1


def _files_of(folder: Path) -> tuple[Path, tuple[Path, ...]]:
    """The checkpoint of a run that counts, and its policies as files."""
    check_run(folder)
    from policies.checkpoint import BEST, FILE
    from policies.export.export import export_beside

    checkpoint = folder / (BEST if (folder / BEST).exists() else FILE)
    with err.status("policy files ..."):
        return checkpoint, tuple(export_beside(checkpoint))


def _write(document: Path, files: tuple[Path, ...]) -> int:
    """Margins of records into a document."""
    if files:
        raise ValueError("--markdown FILE takes no policy file: it lists the records beside FILE")
    from functools import partial

    from phalanx.documents.markdown import write_parts
    from phalanx.verification.margins import write_margins

    write_parts(document, partial(write_margins, document))
    return 0


def _show(verdict: dict) -> None:
    from policies.evaluation.flight_advice import beyond_curves

    for size, team in verdict["teams"].items():
        low, high = team["shielded_success_interval"]
        success, collided = ((team[f"{what}_rate"], team[f"shielded_{what}_rate"]) for what in ("success", "collision"))
        interval = f"({100 * low:.1f} to {100 * high:.1f})"
        out.print(
            f"{team_in_words(int(size))}   success {_percent(success[0])} bare, {_percent(success[1])} shielded "
            f"{interval}   collisions {_percent(collided[0])} bare, {_percent(collided[1])} shielded"
        )
    files = list(parts_of(verdict).values())
    out.print(f"{verdict['episodes']} held-out starts for each; parity is between {files[0]['parity']['between']}")
    for file in files:
        for line in actuators_in_words(file):
            out.print(line, markup=False)
        if why := beyond_curves(file["actuators"]):
            out.print(f"[yellow]care[/]  torque-speed curve: {why}")
    for gate in verdict["gates"]:
        mark = "[green]pass[/]" if gate["passed"] else "[red]fail[/]"
        out.print(f"{mark}  {gate_in_words(gate):<36} {figures_of(gate)}")
        team = verdict["teams"].get(gate["name"].removeprefix("shielded_success_"), {})
        if not gate["passed"] and team.get("shielded_success_rate", 0.0) > gate["limit"]:
            out.print(f"      {why_not_shown(verdict)}")
        if not gate["passed"] and gate["name"].startswith("slots"):
            out.print("      what stands in a slot without a peer reaches the output: the file breaks its contract")
        if not gate["passed"] and gate["name"].startswith("parity"):
            file = verdict.get("files", {}).get(gate["name"].removeprefix("parity_"), files[0])
            out.print(f"      {why_no_parity(file['parity'])}")
    if "margins" in verdict:
        from phalanx.verification.margins import show_advice, show_margins

        show_margins(verdict["margins"])
        show_advice(verdict["flight"])
    colour, said = ("green" if verdict["verdict"] == "verified" else "red"), verdict["verdict"]
    if too_few_starts(verdict):  # nothing is known against it
        colour, said = "yellow", "not shown"
    out.print(f"[{colour}]{said}[/]  {'  '.join(file['bundle'] for file in files)}")
    if verdict["verdict"] != "verified":
        out.print(f"next: {next_step(verdict, [file['bundle'] for file in files])}", markup=False)


def _percent(rate: float) -> str:
    return f"{100 * rate:5.1f} %"
