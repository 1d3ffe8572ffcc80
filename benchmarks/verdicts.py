"""Whether what `phalanx verify --margins` says of policies is what they then do on plants that it does not push.

The policies of the zoo for four cheap tasks, the same with planted defects, and other files, as they are. Of a file
with a record that has margins these are taken. Others are verified, their margins only in the numbers in which the
withheld plants differ; one that 64 starts show to be worse than its task asks for is refused by them. Then each flies
under three withheld plants. It holds there where the episodes do not refute `KEPT` of the success that its task asks
for.

A plant is expected to hold unless the advice is not to fly, or one of its numbers is as far out as the margins fell.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.defects import defects, save_edited
from benchmarks.turns import Progress, kept
from deploy.bundle import Bundle, load_bundle
from deploy.bundle.verification import NOT, REFUSED
from phalanx.options import OutFolder
from phalanx.verification.verdict import verification
from policies.evaluation.corners import corners, trained_numbers
from policies.evaluation.evaluate import evaluate, load_team, make_policy_runner
from policies.evaluation.flight_advice import advise
from policies.evaluation.margins import CORNER, MarginCfg, fly_plants, plan_margins, refuted
from policies.evaluation.policy_runner import TeamRunner
from policies.evaluation.verify import VerifyCfg, verify
from policies.threads import single_threaded_torch
from sim.conditions import Condition, Terms, Variant
from sim.perturbations import perturbations
from sim.task import TaskCfg
from sim.tasks import load_task
from sim.terms import EventTerm

ZOO = Path(__file__).parent.parent / "zoo"
SPOILT = ("reach", "hover", "swarm-swap", "stand")
SEED = 3_000_017  # neither training nor verification starts from it
STARTS = 64
KEPT = 0.95


@dataclass(frozen=True)
class Withheld:
    """A plant that no margin pushes: several numbers at once, by the names of `sim.perturbations`; those that fit."""

    name: str
    values: Mapping[str, float] = field(default_factory=dict)
    damping: float | None = None  # of the drives, x, where they have another stiffness
    variant: Variant = field(default_factory=Variant)
    fraction: float | None = None  # of all trained ranges, every number at an end

    def numbers(self, known: Mapping[str, Any]) -> dict[str, float]:
        """Those of its numbers that robots have, and CORNER where it is one."""
        values = {name: value for name, value in self.values.items() if name in known}
        return values | ({CORNER: self.fraction} if self.fraction is not None else {})


PLANTS = (
    Withheld("other loop", {"rate loop gains": 0.75, "rotor lag": 1.25, "drive gains": 0.8}, damping=1.2),
    Withheld("corner", fraction=1.0),
    Withheld("RK4, late", {"total delay": 0.015}, variant=Variant(integrator="RK4", substeps=2)),
)


def bench_verdicts(
    policies: tuple[Path, ...] = (), worlds: int = 64, out_dir: OutFolder = None, *, on_progress: Progress
) -> dict[str, Any]:
    """Whether what `phalanx verify` says of policies, sound and spoilt, is what they do on other plants.

    Args:
        policies: Policy files, beside those of the zoo.
        worlds: Episodes of each under each plant.
        out_dir: Folder in which each is kept; what it holds is not flown again.
    """
    rows: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as scratch, single_threaded_torch():
        files = list(_files(policies, Path(scratch)))
        for name, make in files:
            path = (out_dir or Path(scratch)) / f"{name.replace(' ', '-').replace(',', '').replace('%', '')}.json"
            rows[name] = kept(path, partial(_assess_made, make, worlds))
            on_progress(len(files))
    return {"worlds": worlds, **summary(rows)}


def _files(policies: Sequence[Path], folder: Path) -> Iterator[tuple[str, Callable[[], Path]]]:
    """Names, and what makes the file: one defect after the other, for what is cut off then has some of each task."""
    sources = [ZOO / f"{task}.onnx" for task in SPOILT]
    edits = {source: defects(load_bundle(source).contract) for source in sources}
    for defect in dict.fromkeys(defect for found in edits.values() for defect in found):
        for source in sources:
            if edit := edits[source].get(defect):
                name = f"{source.stem}, {defect}"
                yield name, partial(save_edited, source, folder / f"{name}.onnx", edit)
    for file in (*sources, *(file for file in policies if file.stem not in SPOILT)):
        yield file.stem, partial(Path, file)


def _assess_made(make: Callable[[], Path], worlds: int) -> dict[str, Any]:
    """`assess` of a file that is only made for it."""
    return assess(make(), worlds)


def assess(file: Path, worlds: int) -> dict[str, Any]:
    """Advice with its reasons and margins, and success in the first starts and under each withheld plant."""
    bundle = load_bundle(file)
    task = load_task(bundle.contract.task)
    known = {each.name: each for each in perturbations(task, task.group_name)}
    only = tuple(dict.fromkeys(name for plant in PLANTS for name in plant.numbers(known)))
    first = evaluate(file, task, STARTS, SEED, bundle.contract.team.trained_with, shield=True)
    margins: dict[str, Any] = {"rows": [], "corner": None}
    record = verification(file, bundle) or {}
    if "margins" in record:
        flight, margins = record["flight"], record["margins"]
    elif refuted(round(first.success_rate * STARTS), STARTS, task.min_success):
        why = f"{first.success_rate:.2g}, must be >= {task.min_success:g}"
        flight = {"advice": NOT, "reasons": [{"name": "success", "why": why}]}
    else:
        found = verify(file, VerifyCfg(teams=(bundle.contract.team.trained_with,)))
        if found["verdict"] != REFUSED:
            margins = plan_margins([bundle], MarginCfg(episodes=worlds, only=only))(None)
        rest = {"held": True, "complete": True, "only": [], **margins} | {"only": []}
        flight = advise(found["gates"], rest, [bundle.contract], {"": found})
    plants = {
        plant.name: {"success": success, "numbers": plant.numbers(known)}
        for plant, success in zip(PLANTS, fly(bundle, task, known, worlds), strict=True)
    }
    own = {"success": first.success_rate, "gate": task.min_success, "worlds": worlds}
    return {**flight, **own, "plants": plants, "margins": margins}


def fly(bundle: Bundle, task: TaskCfg, known: Mapping[str, Any], worlds: int) -> list[float]:
    """Success under each of PLANTS, behind the shield."""
    group = task.group_name
    _, runtimes = load_team([bundle])
    team = TeamRunner({name: make_policy_runner(runtime) for name, runtime in runtimes.items()})
    jobs = []
    for plant in PLANTS:
        numbers, variant = plant.numbers(known), plant.variant
        terms: dict[str, EventTerm] = {}
        if plant.fraction is not None:
            trained = trained_numbers(task, {group: bundle.contract.plant})
            jobs.append(corners(task, trained, SEED)(plant.fraction))
            continue
        cfg = task.group
        for name, value in numbers.items():
            terms |= _damped(known[name].terms(cfg, value), plant.damping)
            cfg = replace(cfg, randomisation={**cfg.randomisation, **terms})
            variant = replace(variant, rate_loop=variant.rate_loop or known[name].variant(value).rate_loop)
        jobs.append([Condition({group: terms}, variant)])
    return [n / worlds for n in fly_plants(team, task, jobs, MarginCfg(episodes=worlds, seed=SEED))]


def _damped(terms: Terms, damping: float | None) -> Terms:
    """The terms, drives with another factor on their damping."""
    other = {} if damping is None else {"damping": (damping, damping)}
    return {
        name: replace(term, params={**term.params, **other}) if other.keys() & term.params.keys() else term
        for name, term in terms.items()
    }


def summary(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A row for each policy, and the count of plants and of policies on which verdict and flight agree."""
    table: dict[str, dict[str, str]] = {}
    misses: dict[str, str] = {}
    right = {"plants": 0, "policies": 0}
    for name, row in rows.items():
        held = {plant: _held(flown["success"], row) for plant, flown in row["plants"].items()}
        hoped = {plant: _expected(flown["numbers"], row) for plant, flown in row["plants"].items()}
        wrong = [plant for plant in held if held[plant] != hoped[plant]]
        right["plants"] += len(held) - len(wrong)
        right["policies"] += (2 * sum(held.values()) > len(held)) == (row["advice"] != NOT)
        misses |= {name: ", ".join(wrong)} if wrong else {}
        flights = {
            plant: f"{flown['success']:.2f} {'holds' if held[plant] else 'falls'}{', miss' * (plant in wrong)}"
            for plant, flown in row["plants"].items()
        }
        table[name] = {"advice": row["advice"], "own plant": f"{row['success']:.2f}", **flights}
    of = {"plants": sum(len(row["plants"]) for row in rows.values()), "policies": len(rows)}
    agree = {what: f"{right[what]} of {count}" for what, count in of.items()}
    return {"policies": table, "agree": agree, "misses": misses, "found": dict(rows)}


def _held(success: float, row: Mapping[str, Any]) -> bool:
    return not refuted(round(success * row["worlds"]), row["worlds"], KEPT * row["gate"])


def _expected(numbers: Mapping[str, float], row: Mapping[str, Any]) -> bool:
    """Whether it may fly, and none of the `numbers` of a plant is as far out as its margins fell."""
    margins = row["margins"]
    rows = [*margins["rows"], *filter(None, [margins["corner"]])]
    return row["advice"] != NOT and not any(
        _falls(each, numbers[each["parameter"]]) for each in rows if each["parameter"] in numbers
    )


def _falls(row: Mapping[str, Any], value: float) -> bool:
    """Whether a row of `measure_margins` fell at `value`, or between it and the nominal one."""
    sign = 1.0 if row["direction"] == "up" else -1.0
    on_this_side = sign * (value - row["nominal"]) >= 0
    return row["fell"] is not None and on_this_side and sign * (value - row["fell"]) >= 0
