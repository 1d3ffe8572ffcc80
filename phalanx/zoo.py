"""The policies that ship with the source tree, and their measured success."""

from pathlib import Path
from typing import Any

from sim.tasks import load_task

ZOO = Path(__file__).resolve().parents[1] / "zoo"  # of this source tree; an installed package brings none


def shipped_files(task: str) -> list[Path]:
    """Where the policy files of `task` belong, one for each group, whether or not they are there."""
    cfg = load_task(task)
    names = [cfg.name] if len(cfg.groups) == 1 else [f"{cfg.name}-{group}" for group in cfg.groups]
    return [ZOO / f"{name}.onnx" for name in names]


def shipped_figure(task: str) -> dict[str, Any] | None:
    """What is known of the policies of `task`: their paths, and with a fitting record their success, bare and shielded.

    The record zoo/TASK.json is what `phalanx verify FILE... --json` printed; one of other files counts for nothing.
    """
    files = shipped_files(task)
    if not all(file.exists() for file in files):
        return None
    figure: dict[str, Any] = {"files": [f"zoo/{file.name}" for file in files]}
    from deploy.bundle import load_bundle
    from phalanx.verification.verdict import verification

    bundles = [load_bundle(file) for file in files]
    measured, *others = (verification(file, bundle) for file, bundle in zip(files, bundles, strict=True))
    if measured and all(other == measured for other in others):
        trained = str(bundles[0].contract.team.trained_with)
        size = trained if trained in measured["teams"] else next(iter(measured["teams"]))
        team = measured["teams"][size]
        names = ("success_rate", "success_interval", "shielded_success_rate", "shielded_success_interval")
        figure |= {"episodes": measured["episodes"], "num_agents": int(size), **{name: team[name] for name in names}}
    return figure


def figure_in_words(figure: dict[str, Any] | None, num_agents: int) -> str:
    """A figure as a cell of a table; of a team of another size than `num_agents` with that size."""
    if figure is None:
        return ""
    if "success_rate" not in figure:
        return ", ".join(figure["files"])
    of = "" if figure["num_agents"] == num_agents else f"{figure['num_agents']} robots: "
    return f"{of}{100 * figure['success_rate']:.1f} %, shielded {100 * figure['shielded_success_rate']:.1f} %"
