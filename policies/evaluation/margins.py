"""How far each number of the plant may be pushed before a policy falls short of what its task asks for.

A value counts as held until the episodes flown there refute the success that the task asks for: until even the upper
end of their 95 % interval is below it. Values are searched by bisection, as if what falls at one fell at all farther
ones, all numbers at once in one environment, behind the shield.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil, log2
from pathlib import Path
from typing import Any

import torch

from deploy.bundle import Bundle
from deploy.contract.groups import group_and_number
from deploy.contract.plant import Plant
from hardware.names import nearest
from policies.evaluation.corners import corners, trained_numbers
from policies.evaluation.evaluate import HELD_OUT_SEED, fly_worlds, load_team, make_policy_runner, wilson
from policies.evaluation.policy_runner import TeamRunner, robots_flown
from policies.threads import single_threaded_torch
from sim.conditions import Condition, Variant, under_conditions
from sim.envs.team_env import TeamEnv
from sim.perturbations import Perturbation, not_pushed, perturbations
from sim.task import TaskCfg
from sim.tasks import load_task

CORNER = "worst corner"
FRACTIONS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)  # of what was trained, all at once
OTHER_PHYSICS = {
    "half the time step": Variant(substeps=2),
    "elliptic friction": Variant(elliptic=True),  # other integrators change no success, see docs/figures.md
}
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class MarginCfg:
    """What is flown for each value."""

    episodes: int = 64
    seed: int = HELD_OUT_SEED
    only: tuple[str, ...] = ()  # names of numbers, CORNER, names of OTHER_PHYSICS; empty for all


@dataclass
class Search:
    """Bisection of one number in one direction; `held` and `fell` are places in its grid, -1 the task's own plant."""

    label: dict[str, Any]
    grid: list[float]
    conditions: Callable[[float], Sequence[Condition]]  # of a value: those that its episodes are shared out to
    held: int = -1
    fell: int = field(init=False)
    success: dict[float, float] = field(default_factory=dict)  # by value, as far as flown

    def __post_init__(self) -> None:
        self.fell = len(self.grid)

    @property
    def next(self) -> int | None:
        """Where to fly next, None where nothing is left to find out: first at a nominal value that is to be flown."""
        if self.fell == len(self.grid) and self.held < 0 and self.grid[0] == self.label["nominal"]:
            return 0
        return None if self.fell - self.held <= 1 else (self.held + self.fell) // 2

    def take(self, successes: int, episodes: int, gate: float) -> None:
        """Note how many of the episodes at `next` succeeded."""
        place = self.next
        assert place is not None
        self.success[self.grid[place]] = successes / episodes
        if refuted(successes, episodes, gate):
            self.fell = place
        else:
            self.held = place


def refuted(successes: int, episodes: int, gate: float) -> bool:
    """Whether so many successes show, with 95 % confidence, less than `gate`."""
    return wilson(successes, episodes)[1] < gate


@single_threaded_torch()
def measure_margins(
    team: TeamRunner,
    task: TaskCfg,
    searches: Sequence[Search],
    gate: float,
    cfg: MarginCfg,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Margins of a `team` of policies in `task`, as plain data; `searches` that have not begun.

    `on_progress(share, note)` hears after every control step how far it is, from 0 to 1. It ends after the first round
    where the task's own plant refutes the gate already. KeyboardInterrupt leaves what is known: `complete` is false
    then, and a row that is not `found` falls anywhere between the two values that it names.
    """
    say = on_progress or (lambda *_: None)
    own: dict[str, float] = {}  # success of the task's own plant, and under other physics
    # The most that any of them takes.
    rounds = 1 + ceil(log2(max((len(search.grid) for search in searches), default=1)))
    complete = True
    try:
        for number in range(rounds):
            flown = [(search, search.next) for search in searches if search.next is not None]
            names = [] if number else ["own", *(name for name in OTHER_PHYSICS if name in (cfg.only or OTHER_PHYSICS))]
            if not flown and not names:
                break
            jobs = [list(search.conditions(search.grid[place])) for search, place in flown]
            jobs += [[Condition(variant=OTHER_PHYSICS.get(name, Variant()))] for name in names]
            note = f"round {number + 1} of {rounds}: {len(jobs)} plants"
            found = fly_plants(team, task, jobs, cfg, partial(_report, say, number, rounds, note))
            for (search, _), successes in zip(flown, found, strict=False):
                search.take(successes, cfg.episodes, gate)
            own |= {name: n / cfg.episodes for name, n in zip(names, found[len(flown) :], strict=True)}
            if refuted(round(own["own"] * cfg.episodes), cfg.episodes, gate):
                break
        say(1.0, "")
    except KeyboardInterrupt:
        complete = False
    rows = [_row(search) for search in searches]
    return {
        "episodes": cfg.episodes,
        "seed": cfg.seed,
        "gate": gate,
        "complete": complete,
        "only": list(cfg.only),
        "success": own.get("own"),
        "held": None if "own" not in own else not refuted(round(own["own"] * cfg.episodes), cfg.episodes, gate),
        "rows": [row for row in rows if row["parameter"] != CORNER],
        "corner": next((row for row in rows if row["parameter"] == CORNER), None),
        "physics": {name: share for name, share in own.items() if name != "own"},
        "fell_under": [
            name
            for name, share in own.items()
            if name != "own" and refuted(round(share * cfg.episodes), cfg.episodes, gate)
        ],
        "not_pushed": {group: names for group in task.groups if (names := not_pushed(task, group))},
    }


def plan_margins(
    files: Sequence[Path | str | Bundle], cfg: MarginCfg | None = None
) -> Callable[[Progress | None], dict[str, Any]]:
    """`measure_margins` of policy files, one for each group of their task, against the success that this asks for.

    Nothing flies before what is returned is called. ValueError where `only` names what cannot be pushed in this task.
    """
    name, runtimes = load_team(files)
    task, cfg = load_task(name), cfg or MarginCfg()
    team = TeamRunner({group: make_policy_runner(runtime) for group, runtime in runtimes.items()})
    plants = {group_and_number(name)[0]: runtime.contract.plant for name, runtime in runtimes.items()}
    searches = _searches(task, plants, cfg)
    return partial(measure_margins, team, task, searches, task.min_success, cfg)


def _report(say: Progress, number: int, rounds: int, note: str, share: float) -> None:
    say((number + share) / rounds, note)


def _searches(task: TaskCfg, plants: Mapping[str, Plant | None], cfg: MarginCfg) -> list[Search]:
    searches: list[Search] = []
    trained = trained_numbers(task, plants)
    for group in task.groups:
        plant = plants[group]
        for each in perturbations(task, group):
            span = each.trained(plant) if plant else None
            for up in (False, True):
                if grid := each.grid(up, plant):
                    edges = each.edge(span, up), each.edge(each.field, up)
                    label = _label(group, each.name, each.unit, up, each.nominal, *edges)
                    searches.append(Search(label, grid, _pushed(task, group, each)))
    if trained:
        label = _label("", CORNER, "x of training", True, 0.0, 1.0, None)
        searches.append(Search(label, list(FRACTIONS), corners(task, trained, cfg.seed)))
    if cfg.only:
        known = [*dict.fromkeys(search.label["parameter"] for search in searches), *OTHER_PHYSICS]
        if unknown := [name for name in cfg.only if name not in known]:
            near = nearest(unknown[0], known) or f": of {task.name} these can be pushed: {', '.join(known)}"
            raise ValueError(f"only {unknown[0]!r}{near}")
        return [search for search in searches if search.label["parameter"] in cfg.only]
    return searches


def _label(
    group: str, name: str, unit: str, up: bool, nominal: float, trained: float | None, field_: float | None
) -> dict[str, Any]:
    return {
        "group": group,
        "parameter": name,
        "unit": unit,
        "direction": "up" if up else "down",
        "nominal": nominal,
        "trained": trained,
        "field": field_,
    }


def _pushed(task: TaskCfg, group: str, each: Perturbation) -> Callable[[float], list[Condition]]:
    return lambda value: [Condition({group: each.terms(task.groups[group], value)}, each.variant(value))]


@torch.inference_mode()
def fly_plants(
    team: TeamRunner,
    task: TaskCfg,
    jobs: Sequence[Sequence[Condition]],
    cfg: MarginCfg,
    on_share: Callable[[float], None] = lambda _: None,
) -> list[int]:
    """How many of the episodes of each job, behind the shield, succeeded; they are shared out to its conditions.

    `on_share` hears what part of all control steps is flown.
    """
    parts: dict[Variant, list[tuple[int, Condition, int]]] = defaultdict(list)  # job, condition, its worlds
    for job, conditions in enumerate(jobs):
        for number, condition in enumerate(conditions):
            count = cfg.episodes * (number + 1) // len(conditions) - cfg.episodes * number // len(conditions)
            parts[condition.variant].append((job, condition, count))
    found, total, done = [0] * len(jobs), cfg.episodes * len(jobs), 0
    for variant, several in parts.items():
        counts = torch.tensor([count for *_, count in several])
        owner = torch.arange(len(several)).repeat_interleave(counts)
        cfg_task = under_conditions(variant.of(task), [condition for _, condition, _ in several], owner)
        env = TeamEnv(cfg_task, len(owner), cfg.seed, robots_flown(task.groups, team.runners), shield=True)
        step = [0]

        def stepped(worlds: int = len(owner), before: int = done, most: int = env.max_steps, step: list = step) -> None:
            step[0] += 1
            on_share((before + worlds * step[0] / most) / total)

        success = fly_worlds(team, env, stepped)[0]["success"]
        for index, (job, *_) in enumerate(several):
            found[job] += int(success[owner == index].sum())
        done += len(owner)
    return found


def _row(search: Search) -> dict[str, Any]:
    label, grid = search.label, search.grid
    held = grid[search.held] if search.held >= 0 else label["nominal"]
    below = search.held < 0 and grid[0] == label["nominal"]  # not even the nominal value was shown to hold
    fell = grid[search.fell] if search.fell < len(grid) else None
    trained = label["trained"]
    room = None if trained is None else (held - label["nominal"]) / (trained - label["nominal"])
    return {
        **label,
        "held": None if below else held,
        "fell": fell,
        "farthest": grid[-1],
        "found": search.next is None,
        "room": room,
        "success": {f"{value:g}": share for value, share in sorted(search.success.items())},
    }
