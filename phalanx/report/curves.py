"""Learning curves as a picture."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.evaluation.curves import Curve

KINDS = (".png", ".svg", ".pdf")


def check_kind(path: Path) -> None:
    """ValueError for a picture of a kind that cannot be drawn."""
    if path.suffix not in KINDS:
        raise ValueError(f"out = {path}: cannot draw {path.suffix or 'that'!r}; known: {', '.join(KINDS)}")


def draw_curves(path: Path, of: str, curves: Sequence["Curve"]) -> None:
    """Draw every curve with its interval over agent steps."""
    from matplotlib.figure import Figure  # no window, and no global state as pyplot has

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot(xlabel="agent steps", ylabel=of.replace("_", " "))
    for curve in curves:
        seeds = f"{len(curve.seeds)} seed{'s' * (len(curve.seeds) > 1)}"
        label = fill(f"{curve.label} ({seeds})", 60)  # a longer line leaves the picture
        (line,) = axes.plot(curve.agent_steps, curve.middle, label=label)
        if curve.low is not None and curve.high is not None:
            axes.fill_between(curve.agent_steps, curve.low, curve.high, color=line.get_color(), alpha=0.2, linewidth=0)
    if "rate" in of:
        axes.set_ylim(-0.02, 1.02)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="best")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
