"""`phalanx demo`: the whole way, end to end."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro

from phalanx.console import err, out, print_json

EXPECTED_S = {"train": 80.0, "export": 6.0, "verify": 40.0, "fly": 36.0, "report": 1.0}  # two idle cores


def demo(
    quick: bool = False,
    seed: int = 0,
    out_dir: Annotated[Path, tyro.conf.arg(name="out", metavar="FOLDER")] = Path("runs/demo"),
    json: bool = False,
) -> int:
    """The whole way: train four Crazyflies, export, verify, fly them in ROS 2, report.

    They learn to cross each other's way; in flight one policy is killed. Exits 1 and names the gate when one is missed.

    Args:
        quick: In a fraction of the time: a training too short to succeed, everything else real.
        seed: Of training, starts and flight.
        out_dir: Where policy, bag, result.json and report.html go; an earlier demo there is replaced.
        json: Print result.json on stdout as well.
    """
    from phalanx.demo.display import Display
    from phalanx.demo.stages import DemoCfg, quick_changes, run_demo
    from phalanx.report.incidents import failure_lines
    from ros_nodes.mission.deploy import DeployError

    cfg = DemoCfg(out=out_dir, seed=seed)
    if quick:
        cfg = replace(cfg, **quick_changes())
    with Display(EXPECTED_S | ({"train": cfg.train_s, "verify": 12.0} if quick else {})) as display:
        try:
            result = run_demo(cfg, display)
        except KeyboardInterrupt:
            trained = "what it has trained is there: phalanx verify"
            go_on_by = "its training goes on by: phalanx train --resume" if display.now == "train" else trained
            raise KeyboardInterrupt(f"interrupted; a demo begins again, {go_on_by} {out_dir / 'train'}") from None
        except DeployError as error:
            err.print(f"phalanx: flight: {error}; logs are in {out_dir / 'ros' / 'logs'}", markup=False)
            return 1
    if json:
        print_json(result)
    for gate in result["gates"]:
        passed = "[yellow]warn[/]" if gate["warning"] else "[green]pass[/]"
        mark = passed if gate["passed"] else "[red]fail[/]"
        because = f" ({gate['cause']})" if gate["cause"] else ""
        err.print(f"{mark}  {gate['name']:<62} {gate['value']:>22}   wanted {gate['wanted']}{because}")
    failed = [gate["name"] for gate in result["gates"] if not gate["passed"]]
    for line in failure_lines(result["failures"]) if failed else ():  # a short training reaches no goals, need not
        err.print(f"      {line}", markup=False)
    warned = sum(gate["warning"] for gate in result["gates"])
    passed = f"all gates passed{f', {warned} with a warning' if warned else ''}"
    err.print(f"\n{'failed: ' + '; '.join(failed) if failed else passed}  ({result['wall_s']:.0f} s)")
    if failed:
        err.print(f"its policy flies again by: phalanx deploy {out_dir / 'policy.onnx'} --seed {seed}", markup=False)
    if not json:
        out.print(str(out_dir / "report.html"))
    return 1 if failed else 0
