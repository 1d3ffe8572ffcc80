"""The runs of a sweep: every combination of what is asked for, as arguments of a command."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import exp, log

RANGE = re.compile(r"(?P<low>[-+.\de]+?)\.\.(?P<high>[-+.\de]+)")
WIDE = 10.0  # ends that differ by more, and are positive, are the ends of a range of magnitudes
DIGITS = 4  # of numbers that are drawn

Options = Sequence[tuple[str, tuple[str, ...]]]  # --name, and its values; none of a flag


def split_options(args: Sequence[str], own: Sequence[str]) -> tuple[list[str], list[tuple[str, tuple[str, ...]]]]:
    """Arguments for the options `own`, and all others by name with their values."""
    mine: list[str] = []
    others: list[tuple[str, tuple[str, ...]]] = []
    to_own = True  # what follows belongs to
    for arg in (part for word in args for part in (word.split("=", 1) if word.startswith("--") else [word])):
        if arg.startswith("--"):
            to_own = arg in own
            if not to_own:
                others.append((arg, ()))
        if to_own or arg == "-h":
            mine.append(arg)
        elif not arg.startswith("--"):
            name, values = others[-1]
            others[-1] = name, (*values, arg)
    return mine, others


def make_runs(
    subjects: Mapping[str, str],
    options: Options,
    seeds: int | None,
    samples: int | None,
    first_seed: int = 0,
    takes_fractions: Callable[[str], bool] = lambda name: False,
) -> dict[str, list[str]]:
    """Arguments of a command by the name of the run, for every subject, value, sample and seed.

    `subjects` are what the command takes without an option's name, as {"task": "hover,reach"}. A value is one, several
    as 1,2,3, or a range as 1e-4..1e-2, from which `samples` are drawn for all ranges together: whole numbers between
    whole ends, but of an option that `takes_fractions`. Of several algorithms each run has the options of its own.
    ValueError for ranges without samples, samples without ranges,
    an option that is given twice, and runs that would be the same.
    """
    names = [name.replace("_", "-") for name, _ in options]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ValueError(f"{twice} is given twice")
    fixed = {name: values for name, values in options if not _varies(name, values, seeds)}
    grid: dict[str, list[str]] = {name: words.split(",") for name, words in subjects.items()}
    ranges: dict[str, tuple[float, float, bool]] = {}
    for name, values in options:
        if not _varies(name, values, seeds):
            continue
        if match := RANGE.fullmatch(values[0]):
            low, high, whole = _range(name, match["low"], match["high"])
            ranges[name] = low, high, whole and not takes_fractions(name)
        else:
            grid[name] = values[0].split(",")
            if len(set(grid[name])) < len(grid[name]):
                raise ValueError(f"{name} {values[0]}: a value is there twice")
    if seeds is not None:
        begin = grid.get("--seed", [str(first_seed)])
        if len(begin) > 1:
            raise ValueError(f"--seed {','.join(begin)} --seeds {seeds}: give one of them, or one seed to begin with")
        grid["--seed"] = [str(_whole("--seed", begin[0]) + i) for i in range(seeds)]
    if bool(ranges) != (samples is not None):
        which = next(iter(ranges), "")
        raise ValueError(f"{which}: a range needs --samples" if ranges else f"--samples {samples}: there is no range")
    drawn = _draw(ranges, samples or 1)
    if (different := len({tuple(sample.values()) for sample in drawn})) < len(drawn):
        what = " ".join(f"{name} {low:g}..{high:g}" for name, (low, high, _) in ranges.items())
        raise ValueError(f"{what}: {different} different ones of --samples {samples}; give fewer, or all as 1,2,3")
    runs: dict[str, list[str]] = {}
    for sample in drawn:
        for values in product(*grid.values()):
            point = dict(zip(grid, values, strict=True)) | sample
            others = [f"--{algo}." for algo in grid.get("--algo", []) if algo != point["--algo"]]
            point = {name: value for name, value in point.items() if not name.startswith((*others,))}
            runs[_name(point, grid | {key: ["", ""] for key in ranges})] = [
                *(point[name] for name in subjects),
                *(word for name, value in point.items() if name not in subjects for word in (name, value)),
                *(word for name, given in fixed.items() if not name.startswith((*others,)) for word in (name, *given)),
            ]
    return runs


def varied_in(runs: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str]]:
    """What tells runs apart, by run: of the options, and of the subjects, those whose values differ; "" of none."""
    found: dict[str, dict[str, str]] = {}
    for run, args in runs.items():
        first = next((i for i, word in enumerate(args) if word.startswith("--")), len(args))
        subjects = {f"subject {i + 1}" if first > 1 else "subject": word for i, word in enumerate(args[:first])}
        options = {name.lstrip("-"): " ".join(values) for name, values in split_options(args[first:], ())[1]}
        found[run] = subjects | options
    names = dict.fromkeys(name for values in found.values() for name in values)
    differ = [name for name in names if len({values.get(name, "") for values in found.values()}) > 1]
    return {run: {name: values.get(name, "") for name in differ} for run, values in found.items()}


def _varies(name: str, values: tuple[str, ...], seeds: int | None) -> bool:
    one = values[0] if len(values) == 1 else ""
    return "," in one or RANGE.fullmatch(one) is not None or (name == "--seed" and seeds is not None)


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name}: cannot read {text!r}, wanted INT") from None


def _range(name: str, low: str, high: str) -> tuple[float, float, bool]:
    """Ends of a range, and whether it is one of whole numbers."""
    try:
        ends = float(low), float(high)
    except ValueError:
        raise ValueError(f"{name} {low}..{high}: wanted two numbers, such as 1e-4..1e-2") from None
    if not ends[0] < ends[1]:
        raise ValueError(f"{name} {low}..{high}: the first number must be less than the second")
    return *ends, low.lstrip("-").isdigit() and high.lstrip("-").isdigit()


def _draw(ranges: Mapping[str, tuple[float, float, bool]], samples: int) -> list[dict[str, str]]:
    """Values for every range, spread evenly (Halton), the same each time; over magnitudes where ends are far apart."""
    if not ranges:
        return [{}]
    from scipy.stats.qmc import Halton

    def value(share: float, low: float, high: float, whole: bool) -> str:
        wide = low > 0.0 and high / low >= WIDE
        x = exp(log(low) + share * (log(high) - log(low))) if wide else low + share * (high - low)
        return str(round(x)) if whole else f"{x:.{DIGITS}g}"

    shares = Halton(len(ranges), rng=0).random(samples)
    return [{n: value(s, *ends) for s, (n, ends) in zip(row, ranges.items(), strict=True)} for row in shares]


def _name(point: Mapping[str, str], grid: Mapping[str, Sequence[str]]) -> str:
    """A folder's name of what differs between the runs, such as learning-rate=0.0003_seed=1."""
    parts = [f"{name.rpartition('.')[2].lstrip('-')}={value}" for name, value in point.items() if len(grid[name]) > 1]
    return re.sub(r"[^\w=.+-]+", "-", "_".join(parts) or next(iter(point.values()))).strip("-")
