"""Many flights under attack, over processes, each written down once it has landed, so that a campaign can go on."""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from deploy.shield import ShieldParams, make_shield_params
from hardware import load_robot
from hardware.parent import end_with_parent
from sim.attack.arms import drive
from sim.attack.attackers import ATTACKERS, Attacker
from sim.attack.drones import SECONDS, WORLDS
from sim.attack.drones import flight as fly_drones
from sim.attack.faults import FAULTS, HUMANOID_FAULTS, JOINT_FAULTS, Fault
from sim.attack.firmware import Loop
from sim.attack.humanoid_attackers import HUMANOID_ATTACKERS
from sim.attack.humanoids import drive_humanoid
from sim.attack.joint_attackers import JOINT_ATTACKERS
from sim.attack.outcome import Outcome

FLIGHTS = "flights.jsonl"  # in the folder of a campaign: what is attacked in the first line, then a flight a line
J = TypeVar("J")
AHEAD = 2  # flights that wait for each process


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is attacked, by whom and for how long. The same campaign flies the same flights."""

    robot: str
    shield: dict[str, Any]  # fields of its shield's parameters that are not the robot's usual ones
    robots: tuple[int, ...]
    steps: int  # shielded robot-steps, at least
    seed: int
    faults: tuple[str, ...]
    attackers: tuple[str, ...]
    loop: Loop | None = None  # of drones: their firmware's rate loop; that of their model when not given


@dataclass(frozen=True, slots=True)
class Flight:
    """One of a campaign."""

    number: int
    fault: str
    attacker: str
    robots: int


def attacks_on(robot: str) -> tuple[dict[str, Fault], dict[str, Attacker]]:
    """Faults and attackers for a robot of this name."""
    spec = load_robot(robot)
    if spec.flight is not None:
        return FAULTS, ATTACKERS
    return (JOINT_FAULTS, JOINT_ATTACKERS) if spec.fixed_base else (HUMANOID_FAULTS, HUMANOID_ATTACKERS)


def plan(cfg: Campaign) -> Iterator[Flight]:
    """Its flights: every fault with every attacker and team, in an order of chance, again and again."""
    cells = list(product(cfg.faults, cfg.attackers, cfg.robots))
    random.Random(cfg.seed).shuffle(cells)
    rate, steps, number = load_robot(cfg.robot).control_hz, 0, 0
    attackers = attacks_on(cfg.robot)[1]
    while steps < cfg.steps:
        flight = Flight(number, *cells[number % len(cells)])
        steps += WORLDS * flight.robots * round(SECONDS * rate) * attackers[flight.attacker].rounds
        number += 1
        yield flight


def fly_one(cfg: Campaign, flight: Flight) -> Outcome:
    """One flight; an exception of the shield is a violation."""
    spec = load_robot(cfg.robot)
    params = make_shield_params(spec, **cfg.shield)
    seed = int.from_bytes(sha256(f"{cfg.seed}/{flight.number}".encode()).digest()[:6])
    try:
        if not isinstance(params, ShieldParams):
            go = drive if spec.fixed_base else drive_humanoid
            return go(spec, params, flight.fault, flight.attacker, WORLDS * flight.robots, SECONDS, seed)
        return fly_drones(spec, params, flight.fault, flight.attacker, flight.robots, seed, cfg.loop)
    except Exception as error:
        what = (
            f"{flight.attacker}, {flight.fault}, {flight.robots} robots, seed {seed}: {type(error).__name__}: {error}"
        )
        return Outcome(1, 1, {"no exception": -1.0}, broken=Counter(["no exception"]), first=what)


def run(
    cfg: Campaign,
    folder: Path,
    workers: int,
    landed: Callable[[Flight, Outcome], None],
    fly: Callable[[Flight], Outcome] | None = None,
) -> dict[tuple[str, str], Outcome]:
    """Fly what of `cfg` is not in `folder` yet; outcomes by fault and attacker. `landed` is called after each flight.

    `fly` flies one in any process: it can be sent there, and is `fly_one` when not given.

    ValueError where the folder is that of another campaign. KeyboardInterrupt leaves all that has landed.
    """
    done = _read(cfg, folder / FLIGHTS)
    table: dict[tuple[str, str], Outcome] = {}

    def take(flight: Flight, outcome: Outcome) -> None:
        table.setdefault((flight.fault, flight.attacker), Outcome()).add(outcome)
        landed(flight, outcome)

    flights = list(plan(cfg))
    for flight in flights:
        if flight.number in done:
            take(flight, done[flight.number])
    missing = [flight for flight in flights if flight.number not in done]
    with (folder / FLIGHTS).open("a", encoding="utf-8") as file:
        for flight, outcome in over_processes(fly or partial(fly_one, cfg), missing, workers):
            file.write(json.dumps(asdict(flight) | outcome.as_json(), allow_nan=False) + "\n")
            file.flush()
            take(flight, outcome)
    return table


def over_processes(work: Callable[[J], Outcome], jobs: Sequence[J], workers: int) -> Iterator[tuple[J, Outcome]]:
    """`work` of each of `jobs`, as it is done; a single process is this one."""
    if workers == 1 or len(jobs) < 2:
        yield from ((job, work(job)) for job in jobs)
        return
    pool = ProcessPoolExecutor(min(workers, len(jobs)), get_context("spawn"), _begin, (os.getpid(),))
    waiting = iter(jobs)
    running: dict[Future[Outcome], J] = {}
    try:
        while True:
            while len(running) < AHEAD * workers and (job := next(waiting, None)) is not None:
                running[pool.submit(work, job)] = job
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begin(parent: int) -> None:
    """Ctrl-C goes to all processes of a terminal; what it means is decided by the first, with which the others end."""
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["OMP_NUM_THREADS"] = "1"


def _read(cfg: Campaign, path: Path) -> dict[int, Outcome]:
    """Outcomes of the flights in `path`, by number; writes its first line where it is new."""
    own = json.loads(json.dumps(asdict(cfg)))
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(own) + "\n", encoding="utf-8")
        return {}
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    for name, value in json.loads(head).items():
        if own[name] != value:
            raise ValueError(f"{path.parent} has a campaign with {name} = {value}, not {own[name]}: give another --out")
    done, whole = {}, [head]
    for line in lines:
        try:
            row = json.loads(line)
        except ValueError:  # what was being written when the process ended
            continue
        whole.append(line)
        done[row["number"]] = Outcome.of_json({k: v for k, v in row.items() if k not in Flight.__slots__})
    path.write_text("\n".join(whole) + "\n", encoding="utf-8")
    return done
