"""Learning curves of runs that differ in nothing but their seed, with intervals over the seeds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np

from hardware.names import nearest
from policies.checkpoint import CheckpointError
from policies.records import find_runs, read_record
from policies.training.progress import read_progress

POINTS = 100  # of a curve
RESAMPLES = 2000  # of the bootstrap
OF, ELSE = "success_rate", "mean_return"  # what is compared, and where no run has had it yet
HIGH_RATE = 0.9  # whose first time is looked for where nothing else is asked


@dataclass(frozen=True)
class Run:
    """A training run as far as it has come."""

    folder: Path
    settings: Mapping[str, Any]  # all that decides what it comes to, but the seed
    seed: int
    rows: Sequence[Mapping[str, float]]  # of its progress.csv


@dataclass(frozen=True)
class Curve:
    """Runs that differ in their seed. `middle` is the interquartile mean, its interval holds at 95 %; None of one."""

    label: str  # settings that other curves have otherwise
    folders: list[str]
    seeds: list[int]
    agent_steps: list[float]  # (T,)
    middle: list[float]  # (T,)
    low: list[float] | None  # (T,)
    high: list[float] | None  # (T,)
    best: list[float]  # of every seed
    reached_after: list[float | None]  # agent steps until every seed came to the value; empty where none is looked for
    wall_s: list[float]  # of every seed


@dataclass(frozen=True)
class Comparison:
    """Curves of one number."""

    of: str  # a column of progress.csv
    reach: float | None  # the value of it whose first time is looked for
    curves: list[Curve]

    def as_data(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def read_runs(paths: Iterable[Path]) -> list[Run]:
    """The runs in folders, each that of a run or of several; ValueError where there is none."""
    found: list[Run] = []
    for folder in find_runs(paths):
        run = read_record(folder, ("algo", "algorithm", "network", "seed"))
        found.append(Run(folder, _settings(run), run["seed"], read_progress(folder)))
    return found


def compare(runs: Sequence[Run], of: str | None = None, reach: float | None = None) -> Comparison:
    """A curve for each group of runs with the same settings, in the order of `runs`.

    `of` is success, or the return where there is none yet, when not given; `reach` 0.9 of a rate, none of another
    number. CheckpointError for a number that no run has, and for one seed twice: an
    interval over seeds would take one training for two.
    """
    columns = {name: None for run in runs for row in run.rows for name in row}
    of = of or (OF if any(row.get(OF, 0.0) > 0.0 for run in runs for row in run.rows) else ELSE)
    if of not in columns:
        known = ", ".join(columns) or "no numbers yet"
        raise CheckpointError(f"no run has {of!r}; there are {known}{nearest(of, columns)}")
    reach = HIGH_RATE if reach is None and "rate" in of else reach
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if any(isfinite(row.get(of, nan)) for row in run.rows):
            members = groups.setdefault(json.dumps(run.settings, sort_keys=True), [])
            if twin := next((other for other in members if other.seed == run.seed), None):
                both = f"{twin.folder} and {run.folder} have the same settings and seed {run.seed}"
                far = " and ".join(f"{int(each.rows[-1]['agent_steps']):,}" for each in (twin, run))
                why = "an interval over seeds counts a seed once"
                raise CheckpointError(f"{both} ({far} agent steps): {why}; leave one of them out")
            members.append(run)
    differ = _differing([members[0].settings for members in groups.values()])
    curves = [_curve(_label(members[0].settings, differ), members, of, reach) for members in groups.values()]
    return Comparison(of, reach, curves)


def has_numbers(runs: Iterable[Run]) -> bool:
    """Whether any episode has ended in any of the runs."""
    return any(ELSE in row for run in runs for row in run.rows)


def _first(steps: np.ndarray, values: np.ndarray, reach: float) -> float | None:
    """After how many of `steps` (T,) the first of `values` (T,) is at least `reach`."""
    return next((float(step) for step, value in zip(steps, values, strict=True) if value >= reach), None)


def _curve(label: str, runs: Sequence[Run], of: str, reach: float | None) -> Curve:
    points = [[(row["agent_steps"], row[of]) for row in run.rows if isfinite(row.get(of, nan))] for run in runs]
    each = [np.array(pairs).T for pairs in points]
    begin, end = max(steps[0] for steps, _ in each), min(steps[-1] for steps, _ in each)
    grid = np.linspace(min(begin, end), end, POINTS)
    values = np.stack([np.interp(grid, steps, value) for steps, value in each])  # (S, T)
    low, high = interval(values) if len(runs) > 1 else (None, None)
    after = [] if reach is None else [_first(steps, value, reach) for steps, value in each]
    return Curve(
        label=label,
        folders=[str(run.folder) for run in runs],
        seeds=[run.seed for run in runs],
        agent_steps=grid.tolist(),
        middle=middle(values).tolist(),
        low=None if low is None else low.tolist(),
        high=None if high is None else high.tolist(),
        best=[float(value.max()) for _, value in each],
        reached_after=after,
        wall_s=[_wall_s(run, end) for run in runs],
    )


def _wall_s(run: Run, agent_steps: float) -> float:
    """How long a run took until `agent_steps`, s."""
    done, wall_s = zip(*[(row["agent_steps"], row["wall_s"]) for row in run.rows], strict=True)
    return float(np.interp(agent_steps, done, wall_s))


def middle(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Interquartile mean over an axis: of the middle half, of up to three values of all (arXiv 2108.13264)."""
    from scipy.stats import trim_mean  # takes half a second to import

    return np.asarray(trim_mean(values, 0.25, axis=axis))


def interval(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """95 % interval (T,), (T,) of the `middle` of values (S, T): percentiles of a bootstrap over the seeds."""
    from scipy.stats import bootstrap

    found = bootstrap((values,), middle, axis=0, n_resamples=RESAMPLES, method="percentile", rng=0)
    return found.confidence_interval.low, found.confidence_interval.high


def _settings(run: Mapping[str, Any]) -> dict[str, Any]:
    """What decides what a run comes to, by the names of the options; those of groups that are alike once."""
    found = {name.replace("_", "-"): run.get(name) for name in ("task", "algo", "num_envs", "robots", "shield")}
    found |= {
        "shards": run.get("shards", 1),
        "start-from": run.get("start_from"),
        "engine": run.get("machine", {}).get("engine"),
    }
    found |= {f"task.{path}": value for path, value in run.get("task_changes", {}).items()}
    for part, prefix in (("algorithm", run["algo"]), ("network", "network")):
        for group, values in run[part].items():
            of = f"{group}/" if len(run[part]) > 1 else ""
            found |= {f"{of}{prefix}.{name.replace('_', '-')}": value for name, value in values.items()}
    return found


def _differing(all_settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of what tells settings apart; what only another algorithm or task has goes without saying."""
    differ = []
    for name in {name: None for settings in all_settings for name in settings}:
        kinds = {(s["task"], s["algo"]) for s in all_settings if name in s}
        alike = [s for s in all_settings if name.startswith("task.") or (s["task"], s["algo"]) in kinds]
        if any(s.get(name) != alike[0].get(name) for s in alike):
            differ.append(name)
    return differ


def _label(settings: Mapping[str, Any], differ: Sequence[str]) -> str:
    last = [name.rpartition(".")[2] for name in differ]
    short = [end if last.count(end) == 1 else name for name, end in zip(differ, last, strict=True)]
    named = zip(short, differ, strict=True)
    return " ".join(f"{word}={settings[name]}" for word, name in named if name in settings) or str(settings["task"])
