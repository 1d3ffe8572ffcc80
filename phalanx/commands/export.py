"""`phalanx export`: from a training run to one policy file, or one for each group or robot."""

from pathlib import Path
from typing import Annotated

import tyro

from phalanx.commands.sign import load_key, sign_files
from phalanx.console import err, out, print_json
from phalanx.folders import check_files_out, check_policies_out, check_run, fingerprints
from phalanx.options import Json, KeyFile, OutFile, RunFolder
from phalanx.progress import make_progress


def export(
    run: RunFolder,
    out_file: OutFile = None,
    group: Annotated[str | None, tyro.conf.arg(metavar="GROUP", help_behavior_hint="")] = None,
    best: bool = False,
    accept_task_change: bool = False,
    sign_key: KeyFile = None,
    json: Json = False,
) -> int:
    """Write the policy of a training run as one file, or one for each group of its task.

    Robots that share no policy, see --network.independent of `phalanx train`, have a file each.

    A file carries its contract and its probes, and is checked before it is written.

    Args:
        run: Folder of a training run, or a checkpoint file.
        out_file: Policy file to write; policy.onnx in the folder when not given. For several files the folder for
            TASK-GROUP.onnx; that of the run when not given.
        group: The one to write, of several, such as arm or crazyflie-robot-2.
        best: Take the policies that did best in training, by the success of the last whole episode in every world,
            and not the last ones.
        accept_task_change: Go on although the task is no longer what was trained; the file is for the task of today.
        sign_key: Private key to sign with, see `phalanx sign`; not signed when not given.
    """
    check_run(run)
    key = load_key(sign_key) if sign_key else None
    folder = run if run.is_dir() else run.parent
    check_files_out(folder, group, out_file)
    with make_progress() as progress:
        bar = progress.add_task("export", total=None, note="")
        progress.update(bar, note="libraries")
        from policies.checkpoint import BEST, CheckpointError, load_checkpoint

        if best:
            run = folder / BEST
            if not run.exists():
                raise CheckpointError(
                    f"no {run}: its worlds have not all ended an episode yet; train longer, or without --best"
                )
        content = load_checkpoint(run)
        groups = list(content["policies"])  # a wrong folder is answered before the exporter is loaded
        from policies.export.export import STAGES, export_policy, export_team

        whole = group is None and len(groups) > 1
        check_policies_out(out_file, folder=whole)
        progress.update(bar, total=len(STAGES) * (len(groups) if whole else 1), completed=-1, note=STAGES[0])

        def say(what: str) -> None:
            progress.update(bar, advance=1, note=what)

        if whole:
            there = out_file or folder
            before = fingerprints(there / f"{content['run']['task']}-{each}.onnx" for each in groups)
            paths = export_team(run, there, accept_change=accept_task_change, on_progress=say)
        else:
            file = out_file or folder / f"{group or 'policy'}.onnx"
            before = fingerprints([file])
            paths = [export_policy(run, file, None, group or "", accept_task_change, on_progress=say)]
        if key:
            sign_files(paths, key)
        say("")
    rows = [_row(path) for path in paths]
    for row in rows:
        if (old := before.get(Path(row["file"]), row["fingerprint"])) != row["fingerprint"]:
            err.print(f"replaced {row['file']}, which was fingerprint {old[:16]}...", markup=False, soft_wrap=True)
    if json:
        print_json(rows[0] if len(rows) == 1 else {"files": rows})
        return 0
    for row in rows:
        out.print(f"{row['file']}  {row['bytes'] / 1024:.0f} kB  fingerprint {row['fingerprint'][:16]}...")
    out.print(f"next: phalanx verify {' '.join(row['file'] for row in rows)} --run {run}")
    return 0


def _row(path: Path) -> dict:
    from deploy.bundle import load_bundle

    return {"file": str(path), "fingerprint": load_bundle(path).fingerprint, "bytes": path.stat().st_size}
