"""Whether a policy file may fly: probes, parity with the simulated controller, and held-out starts, as named gates."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import Any

from deploy.bundle import Bundle, load_bundle, self_test
from deploy.bundle.probes import replay_empty_slots
from deploy.bundle.session import run_session
from deploy.bundle.verification import REFUSED, VERIFIED
from deploy.contract import Contract
from deploy.contract.groups import group_and_number
from deploy.contract.tensor_specs import PEER_INPUTS
from deploy.runtime import check_robot
from hardware import load_robot
from hardware.ranges import check_fields, check_range
from policies.evaluation.actuation import ActuatorWatch, measure_steps
from policies.evaluation.evaluate import HELD_OUT_SEED, evaluate, fewest_for, group_of, load_team, starts_for
from policies.evaluation.parity import measure_team_parity
from policies.evaluation.way import OnShare, Way
from policies.threads import at_once
from policies.training.run_record import versions
from sim.tasks import load_task

LARGEST_ACTION = 1.0 + 1e-5  # contracts state actions in [-1, 1]; rounding apart
FLIES_FROM = 0.05  # share of the work that is done before the flights


@dataclass(frozen=True)
class VerifyCfg:
    """What is flown, and the limits of the gates."""

    num_worlds: int | None = None  # starts for each team, with and without shield; None: see `starts_for`
    parity_worlds: int = 8
    teams: tuple[int, ...] | None = None  # None: as the task says
    seed: int = HELD_OUT_SEED
    tolerance: float = 1e-5  # of commands, in their units
    overlay: Path | None = None  # file of the robot that is flown, see `hardware.overlay`; None: any of its kind
    min_success: float | None = None  # of the team that was trained, behind the shield, to be shown with 95 %
    # confidence: it is the lower end of the interval that has to reach it; None: as the task says
    max_shielded_collisions: float | None = None  # rate, in every team; None: as the task says

    def __post_init__(self) -> None:
        check_fields("", self, num_worlds=(1, inf))
        check_range("teams", min(self.teams or (1,)), 1)


def verify(
    path: Path | str | Sequence[Path | str],
    cfg: VerifyCfg | None = None,
    run_dir: Path | None = None,
    on_progress: OnShare | None = None,
) -> dict[str, Any]:
    """Replay, compare and fly the policy file at `path`; plain data with `verdict`, `gates` and all figures.

    With `run_dir`, a run or its checkpoint, parity is between the torch controller and the file; else between the
    file's batched graph and the runtime as it runs on one robot. The team size of training is flown also when
    `cfg.teams` leaves it out. A task with several groups takes a file for each, and robots that share no policy one for
    each robot: they are flown together, and what is said of one file is then under `files`. `on_progress` hears how far
    it is. Raises BundleError when a file cannot be loaded at all, CheckpointError when the run cannot, and ValueError
    for files that cannot be combined.
    """
    cfg = cfg or VerifyCfg()
    say = on_progress or (lambda share, what: None)
    say(0.0, "probes")
    paths = [path] if isinstance(path, Path | str) else list(path)
    bundles = [load_bundle(file) for file in paths]
    task, team = load_team(bundles)  # files that do not belong together are answered first
    probes = [
        {"probes": {"max_abs": self_test(bundle, str(file))}, **_slots(bundle)}
        for bundle, file in zip(bundles, paths, strict=True)
    ]
    if cfg.overlay is not None:
        task = f"{task}@{cfg.overlay}"
    demands = load_task(task)
    for bundle, file in zip(bundles, paths, strict=True):
        group, _ = group_and_number(group_of(bundle.contract))
        if group in demands.groups:
            check_robot(bundle.contract, load_robot(demands.groups[group].robot), str(file))
    least = demands.min_success if cfg.min_success is None else cfg.min_success
    starts = starts_of(bundles[0].contract, cfg)
    most = demands.max_collisions if cfg.max_shielded_collisions is None else cfg.max_shielded_collisions
    mixed, several = len(demands.groups) > 1, len(bundles) > 1
    trained = bundles[0].contract.team.trained_with
    sizes = (trained,) if several else team_sizes(bundles[0].contract, cfg)
    flights = [(robots, shield) for robots in sorted(sizes, reverse=True) for shield in (True, False)]
    say(FLIES_FROM / 2, "parity")
    by_group = {group_of(bundle.contract): bundle for bundle in bundles}
    parity = measure_team_parity(by_group, run_dir, cfg.seed, cfg.parity_worlds)
    watches = {group: ActuatorWatch(runtime) for group, runtime in team.items()}

    def fly(robots: int, shield: bool, on_step: Callable[[], None]) -> dict[str, Any]:
        way.begin(f"{robots} robot{'s' if robots > 1 else ''} {'with' if shield else 'without'} shield")
        runner = watches if shield and robots == trained else team
        size = None if mixed else robots

        def stepped() -> None:
            on_step()
            way.step(robots)

        return asdict(evaluate(runner, task, starts, cfg.seed, size, shield, on_step=stepped))

    longest_s = sum(robots * demands.lasts_s(robots) for robots, _ in flights)
    way = Way(say, FLIES_FROM, longest_s / bundles[0].contract.control_dt_s)
    flown = dict(zip(flights, at_once([partial(fly, *flight) for flight in flights]), strict=True))
    teams = {str(robots): _team(flown[robots, False], flown[robots, True]) for robots in sizes}
    files: dict[str, dict[str, Any]] = {
        group: {
            "bundle": str(file),
            "fingerprint": bundle.fingerprint,
            **replayed,
            "parity": parity[group],
            "actuators": watches[group].figures(),
            "step_us": measure_steps(bundle),
        }
        for (group, bundle), file, replayed in zip(by_group.items(), paths, probes, strict=True)
    }
    gates = [
        *(
            _gate(f"{what}_{group}" if several else what, file[what]["max_abs"], "<=", cfg.tolerance)
            for group, file in files.items()
            for what in ("probes", "slots", "parity")
            if what in file
        ),
        *(
            _gate(f"actions_{group}" if several else "actions", file["parity"]["largest_action"], "<=", LARGEST_ACTION)
            for group, file in files.items()
        ),
        *(
            _gate(f"shielded_success_{name}", team["shielded_success_interval"][0], ">=", least)
            for name, team in teams.items()
            if int(name) == trained
        ),
        *(
            _gate(f"shielded_collisions_{name}", team["shielded_collision_rate"], "<=", most)
            for name, team in teams.items()
        ),
    ]
    return {
        **({"files": files} if several else next(iter(files.values()))),
        "task": task,
        "episodes": starts,
        "seed": cfg.seed,
        "teams": teams,
        "gates": gates,
        "failed": [gate["name"] for gate in gates if not gate["passed"]],
        "verdict": VERIFIED if all(gate["passed"] for gate in gates) else REFUSED,
        "verified_at_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {**versions("mujoco"), "onnxruntime": version("onnxruntime")},
    }


def _slots(bundle: Bundle) -> dict[str, dict[str, float]]:
    """How far outputs move when slots without a peer hold NaN; nothing for a policy that is shown no peers."""
    if not any(tensor.name in PEER_INPUTS for tensor in bundle.contract.inputs):
        return {}
    error = replay_empty_slots(lambda inputs: run_session(bundle.session, inputs), bundle.probes)
    return {"slots": {"max_abs": min(error, sys.float_info.max)}}  # JSON has no infinity


def starts_of(contract: Contract, cfg: VerifyCfg) -> int:
    """Held-out starts that are flown in each team: as asked, or as many as can show what the task asks for."""
    if cfg.num_worlds is not None:
        return cfg.num_worlds
    return starts_for(_least_success(contract, cfg))


def too_few_asked(contract: Contract, cfg: VerifyCfg) -> tuple[float, int] | None:
    """The success that the starts of `cfg` cannot show even without a failure, and how many it takes; else None."""
    least = _least_success(contract, cfg)
    fewest = fewest_for(least) if least < 1.0 else 0
    return (least, fewest) if starts_of(contract, cfg) < fewest else None


def _least_success(contract: Contract, cfg: VerifyCfg) -> float:
    return load_task(contract.task).min_success if cfg.min_success is None else cfg.min_success


def team_sizes(contract: Contract, cfg: VerifyCfg) -> tuple[int, ...]:
    """Team sizes to fly: as asked or else as the task says, and always the one that was trained."""
    sizes = load_task(contract.task).verify_teams if cfg.teams is None else cfg.teams
    trained = contract.team.trained_with
    return sizes if trained in sizes else (*sizes, trained)


def _team(bare: Mapping[str, Any], shielded: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of one team size: the policy alone, and with the shield where the name says so."""
    kept = ("success_rate", "success_interval", "collision_rate", "collision_interval", "min_separation_m")
    return {
        **{name: bare[name] for name in kept},
        **{f"shielded_{name}": shielded[name] for name in kept},
        "intervention_rate": shielded["intervention_rate"],
        "mean_return": bare["mean_return"],
        "shielded_mean_return": shielded["mean_return"],
    }


def _gate(name: str, value: float, sign: str, limit: float) -> dict[str, Any]:
    passed = value >= limit if sign == ">=" else value <= limit
    return {"name": name, "value": value, "sign": sign, "limit": limit, "passed": bool(passed)}
