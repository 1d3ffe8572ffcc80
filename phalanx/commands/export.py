"""`phalanx export`: from a training run to one policy file."""

from phalanx.console import err, out, print_json
from phalanx.options import OutFile, RunFolder


def export(run: RunFolder, out_file: OutFile = None, json: bool = False) -> int:
    """Write the policy of a training run as one file.

    It carries its contract and its probes, and is loaded again and checked before this command ends.

    Args:
        run: Folder of a training run, or a checkpoint file.
        out_file: Policy file to write; policy.onnx in the folder when not given.
        json: Print one JSON object on stdout.
    """
    from deploy.bundle import load_bundle
    from policies.checkpoint import load_checkpoint

    load_checkpoint(run)  # a wrong folder is answered before the exporter is loaded
    from policies.export import export_policy

    target = out_file or (run if run.is_dir() else run.parent) / "policy.onnx"
    with err.status("exporting ..."):
        path = export_policy(run, target)
    fingerprint = load_bundle(path).fingerprint
    if json:
        print_json({"file": str(path), "fingerprint": fingerprint, "bytes": path.stat().st_size})
    else:
        out.print(f"{path}  {path.stat().st_size / 1024:.0f} kB  fingerprint {fingerprint[:16]}...")
        out.print(f"next: phalanx verify {path} --run {run}")
    return 0
