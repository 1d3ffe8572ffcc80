"""`phalanx attack`: try to break the shield."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from hardware.ranges import check_range
from phalanx.console import err, out, print_json, print_table
from phalanx.folders import CHECKPOINT, check_out, fresh_folder
from phalanx.options import Count, Counts, Json, Names, OutFolder, check_robots, check_seed
from phalanx.progress import make_progress, training_note

if TYPE_CHECKING:
    from sim.attack.campaign import Campaign, Flight
    from sim.attack.firmware import Loop
    from sim.attack.outcome import Outcome

TEAMS = (1, 2, 4)
LEARNED_TASK = "sim.attack.learned:BREAK"
FUZZED = 2_400  # calls of one part
Target = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ROBOT|TASK|FILE")]
Ends = Annotated[tuple[float, float] | None, tyro.conf.arg(metavar="LEAST MOST", help_behavior_hint="")]


def attack(
    target: Target = "crazyflie",
    robots: Counts = (),
    steps: int = 1_000_000,
    seed: int = 0,
    faults: Names = (),
    attackers: Names = (),
    rotor_lag_s: Ends = None,
    gains: Ends = None,
    train: Count = None,
    fuzz: Count = None,
    workers: Count = None,
    out_dir: OutFolder = None,
    json: Json = False,
) -> int:
    """Try to break the shield of a robot, with teams in simulation whose policies attack while other things go wrong.

    Every robot flies behind the shield that it has in ROS 2, supervisor and filter. All policies of a team are
    attackers: they chase, ram, squeeze, push at walls, freeze, send what is no number. Each attacker meets each fault:
    of sensing, messages, delays and actuators, inside of what the shield states and outside of it. What counts is where
    the bodies are. Prints a table, writes attack.json and report.html; exits 1 when a guarantee did not hold inside.

    Ctrl-C keeps what has been flown; the same command with the same --out goes on.

    Args:
        target: A robot, such as crazyflie; or a task or a policy file, for its robot with the limits of its shield.
        robots: Team sizes of drones; 1, 2 and 4 when not given. Arms and humanoids are attacked by themselves.
        steps: Robot-steps to fly, one for each robot and control period, shared by all attackers and faults.
        seed: Decides starts, noise, delays and strengths. The same seed flies the same flights.
        faults: Only these, by name; all when none is given.
        attackers: Only these, by name; all when none is given.
        rotor_lag_s: Drones fly by their firmware's rate loop and mixer, with rotors whose thrust settles with a time
            constant, s, between these two; by their model's own loop when not given.
        gains: Then factors on the gains that the firmware publishes, between these two; 1 when not given.
        train: Agent steps to train an attacker for, a policy of the project's own PPO that is rewarded for what the
            shield must prevent, behind the shield; it takes the place of the others. Crazyflie only.
        fuzz: Instead of flights, so many calls of the robot's shield with inputs of any type, shape and value, of a
            robot of any class: never an exception, never a command that is none, never trust in what cannot be used.
        workers: Processes; as many as cores when not given.
        out_dir: Folder of the results, or that of a run to go on with; a fresh one under runs/attack when not given.
    """
    check_robots(*robots)
    check_seed(seed)
    check_range("steps", steps, 1, 1e12)
    check_range("fuzz", fuzz, 1, 1e12)
    check_range("train", train, 1, 1e12)
    check_range("workers", workers, 1, 1024)
    check_out(out_dir, folder=True)
    cores = workers or len(os.sched_getaffinity(0))
    if fuzz is not None:
        return _fuzz(target, fuzz, seed, cores, json)
    from phalanx.report.attack import write_attack
    from sim.attack.campaign import attacks_on, plan, run
    from sim.attack.table import result_of

    cfg = _campaign(target, robots or TEAMS, steps, seed, faults, attackers)
    if rotor_lag_s is not None:
        cfg = replace(cfg, loop=_loop(cfg.robot, rotor_lag_s, gains or (1.0, 1.0)))
    if train is not None and cfg.robot != "crazyflie":
        raise ValueError(f"--train is for crazyflie, not for {cfg.robot}")
    folder = out_dir or fresh_folder(Path("runs/attack"))
    fly = None
    if train is not None:
        cfg, fly = _learned(cfg, train, folder / "learned")
    with make_progress() as progress:
        flights, (known, _) = sum(1 for _ in plan(cfg)), attacks_on(cfg.robot)
        bar, bad = progress.add_task("attack", total=flights, note=""), 0

        def landed(flight: Any, outcome: "Outcome") -> None:
            nonlocal bad
            bad += outcome.violations if known[flight.fault].inside else 0
            progress.update(bar, advance=1, note=f"{bad} violations inside")

        try:
            table = run(cfg, folder, cores, landed, fly)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; the same command with --out {folder} goes on") from None
    result = {"target": target, **result_of(cfg, table)}
    write_attack(result, folder)
    if json:
        print_json(result)
    else:
        _show(result)
    err.print(f"results and report are in {folder}", markup=False)
    return 0 if result["passed"] else 1


def _learned(cfg: "Campaign", steps: int, folder: Path) -> "tuple[Campaign, Callable[[Flight], Outcome]]":
    """Train an attacker, or go on training it; the campaign in which it is the only one, and who flies that."""
    from functools import partial

    from policies.evaluation.learned_attack import LEARNED, fly_learned, register
    from policies.training.config import CollectionCfg, TrainCfg
    from policies.training.train import train

    learning = TrainCfg(
        task=LEARNED_TASK,
        out=folder,
        collection=CollectionCfg(shield=True),
        total_steps=steps,
        seed=cfg.seed,
        resume=(folder / CHECKPOINT).exists(),
    )
    with make_progress() as progress:
        bar = progress.add_task("train", total=1.0, note="")
        result = train(learning, lambda n: progress.update(bar, completed=n["fraction"], note=training_note(n)))
    if not result.finished:
        raise KeyboardInterrupt(f"interrupted; the same command with --out {folder.parent} goes on")
    register(folder)
    return replace(cfg, attackers=(LEARNED,)), partial(fly_learned, cfg, folder)


def _fuzz(target: str, calls: int, seed: int, workers: int, json: bool) -> int:
    """Calls in parts over processes; 1 where one was answered wrongly."""
    robot, shield = robot_of(target)
    from sim.attack.campaign import over_processes
    from sim.attack.fuzz import Job, fuzz_part
    from sim.attack.outcome import Outcome

    jobs = [Job(robot, shield, min(FUZZED, calls - first), seed + first // FUZZED) for first in range(0, calls, FUZZED)]
    total = Outcome()
    with make_progress() as progress:
        bar = progress.add_task("fuzz", total=calls, note="")
        for job, outcome in over_processes(fuzz_part, jobs, workers):
            total.add(outcome)
            progress.update(bar, advance=job.calls, note=f"{total.violations} answered wrongly")
    result = {"target": target, "robot": robot, "seed": seed, "passed": not total.violations, **total.as_json()}
    if json:
        print_json(result)
    else:
        out.print(f"{total.steps:,} calls, {total.violations} answered wrongly", markup=False)
        for what, count in total.broken.most_common():
            out.print(f"  {count} x {what}", markup=False)
        if total.first:
            out.print(f"  first: {total.first}", markup=False)
    return 0 if result["passed"] else 1


def _campaign(
    target: str, robots: Sequence[int], steps: int, seed: int, faults: Sequence[str], attackers: Sequence[str]
) -> "Campaign":
    """ValueError for a name that does not exist, and for a robot that has no attackers."""
    from hardware import load_robot
    from hardware.names import nearest
    from sim.attack.campaign import Campaign, attacks_on

    robot, shield = robot_of(target)
    spec, (known_faults, known_attackers) = load_robot(robot), attacks_on(robot)
    if spec.flight is None:
        robots = (1,)  # each for itself: a world for each
    for what, known, asked in (("fault", known_faults, faults), ("attacker", known_attackers, attackers)):
        for name in asked:
            if name not in known:
                raise ValueError(
                    f"unknown {what} {name!r}; there are: {', '.join(map(repr, known))}{nearest(name, known)}"
                )
    return Campaign(
        robot, shield, tuple(robots), steps, seed, tuple(faults or known_faults), tuple(attackers or known_attackers)
    )


def _loop(robot: str, rotor_lag_s: tuple[float, float], gains: tuple[float, float]) -> "Loop":
    """ValueError for a range that is none, and for a robot whose firmware's rate loop is not published."""
    from hardware import load_robot
    from sim.attack.firmware import Loop

    for name, (least, most), limit in (("rotor-lag-s", rotor_lag_s, 1.0), ("gains", gains, 10.0)):
        check_range(name, least, 1e-3, limit)
        check_range(name, most, least, limit)
    loop = Loop(rotor_lag_s, gains)
    loop.tick_s(load_robot(robot))
    return loop


def robot_of(target: str) -> tuple[str, dict[str, Any]]:
    """Name of the robot, and what of its shield's parameters is not as usual."""
    from deploy.shield import narrowed_limits
    from hardware import load_robot, robot_names
    from hardware.names import nearest
    from phalanx.subjects import is_file

    if target in robot_names():
        return target, {}
    if is_file(target):
        from deploy.bundle import load_bundle

        contract = load_bundle(Path(target)).contract
        return contract.robot.name, narrowed_limits(load_robot(contract.robot.name), contract.shield)[0]
    from sim.tasks import load_task, task_names

    if target not in task_names() and ":" not in target:
        raise ValueError(
            f"neither a robot, a task nor a policy file: {target!r}; robots: {', '.join(robot_names())}; "
            f"tasks: {', '.join(task_names())}{nearest(target, [*robot_names(), *task_names()])}"
        )
    task = load_task(target)
    if len(task.groups) > 1:
        raise ValueError(f"{target} has groups ({', '.join(task.groups)}): attack the robots of each")
    return task.group.robot, dict(task.group.shield)


def _show(result: Mapping[str, Any]) -> None:
    """A row for each fault and class of attackers, and what they add up to."""
    from phalanx.report.attack import COLUMNS, in_words, table_of

    print_table(COLUMNS, table_of(result), whole=range(7))
    for where in ("inside", "outside"):
        total = result[where]
        out.print(f"{where} of what is stated: {in_words(total)}", markup=False)
        if total["first"]:
            out.print(f"  first violation: {total['first']}", markup=False)
    colour, word = ("green", "held") if result["passed"] else ("red", "broken")
    if not result["inside"]["steps"]:
        colour, word = "yellow", "nothing was flown inside of what is stated"
    out.print(f"[{colour}]{word}[/]  {result['robot']}")
