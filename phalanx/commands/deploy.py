"""`phalanx deploy`: fly policy files in ROS 2."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.markup import escape

from phalanx.console import err, out, outlive_readers, print_json, say_stopping
from phalanx.folders import results_folder
from phalanx.options import OutFolder, Policies, TrustedKeys, check_seed
from phalanx.progress import make_progress, mission_note

RUNS = Path("runs/deploy")
BUSY = 0.3  # of the cores, held by others


def deploy(
    subjects: Policies = (),
    robots: int | None = None,
    duration_s: float | None = None,
    kill_after_s: Annotated[float | Literal["auto"] | None, tyro.conf.arg(metavar="SECONDS|auto|None")] = "auto",
    seed: int = 0,
    mission: Literal["task", "swap"] = "task",
    policy_hosts: int | None = None,
    shield_hosts: int | None = None,
    trusted_keys: TrustedKeys = (),
    out_dir: OutFolder = None,
    json: bool = False,
) -> int:
    """Fly a policy file in ROS 2, or the files of a team with several groups, one for each.

    The mission of its task with simulated robots: policies in some processes, shields in others; exits 1 when it fails.

    Args:
        subjects: Policy file, such as zoo/swarm-swap.onnx, of a team with several groups a file for each; or a task,
            for the policies that ship for it; or a team file (.yaml) with real robots, simulated ones, or both, which
            is run until Ctrl-C, and of the options takes --out and --json only.
        robots: Size of the team; need not be that of training. By default that of the task.
        duration_s: How long the mission lasts, in whole episodes of the task; for the swap 18 s, or
            2.25 s for each robot where that is more.
        kill_after_s: When the first robot's policy process is killed; None for never. auto kills in the swap only.
        seed: Decides starts, goals and sensor noise.
        mission: That of the policy's own task; or swap, in which Crazyflies swap places, for a policy of another task.
        policy_hosts: Processes for policies, as many as robots for one each; by default one for 8 robots. A policy
            that is killed is alone in one more.
        shield_hosts: Processes for shields; by default two, or one for 8 robots where that is more.
        trusted_keys: Public keys, or files with them, as `phalanx sign` makes them: only policy files that one of them
            signed are flown. A team file names its own.
        out_dir: New folder for bag, logs, result and report; a fresh one under runs/deploy when not given.
        json: Print the figures as JSON on stdout.
    """
    from ros_nodes.lifecycle.fork_server import warm

    outlive_readers()
    warm()
    if any(Path(subject).suffix.lower() in (".yaml", ".yml") for subject in subjects):
        _refuse_options(
            ("robots", robots is not None, "a team file lists its robots"),
            ("duration-s", duration_s is not None, "a team is run until Ctrl-C"),
            ("kill-after-s", kill_after_s != "auto", "phalanx drill kills policies of a team file's robots"),
            ("seed", seed != 0, "a team file states where robots start, as base_pose, and their goals"),
            ("mission", mission != "task", "a team file names its own, as mission: FILE"),
            ("policy-hosts", policy_hosts is not None, "a team file states it, as hosts: {policies: INT}"),
            ("shield-hosts", shield_hosts is not None, "a team file states it, as hosts: {shields: INT}"),
            ("trusted-keys", bool(trusted_keys), "a team file names its own, as trusted_keys: [...]"),
        )
        return _deploy_team(subjects, out_dir, json)
    check_seed(seed)
    from deploy.bundle import load_bundle
    from phalanx.verification.verdict import warn_of_files, warn_of_size

    files = policy_files(subjects)
    if twice := [file for file in files if files.count(file) > 1]:
        raise ValueError(f"{twice[0]} is given twice: a team takes one file for each group")
    bundles = {file: load_bundle(file, trusted_keys) for file in files}
    policies = {str(file): bundle.contract for file, bundle in bundles.items()}
    if out_dir is not None and (out_dir.is_file() or (out_dir.is_dir() and any(out_dir.iterdir()))):
        raise ValueError(
            f"--out {out_dir}: exists already; give a new folder, or remove it where nothing in it is needed"
        )
    warn_of_files(bundles)
    if find_spec("torch") is None:  # for the report; said before anything flies
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    from phalanx.missions.plan import plan_mission  # takes seconds: what is wrong with the files is said before
    from ros_nodes.mission.deploy import DeployError, run_mission, unwritten

    plan, criterion = plan_mission(policies, robots, duration_s, kill_after_s, seed, swap=mission == "swap")
    warn_of_size(bundles, len(plan.team))
    with results_folder(out_dir, RUNS) as folder, make_progress() as progress:
        bar = progress.add_task("starting", total=plan.duration_s, note="")

        def follow(state: dict[str, Any]) -> None:
            if "domain_id" in state:
                domain = state["domain_id"]
                err.print(f"in ROS domain {domain}; to watch: phalanx monitor --domain {domain}", markup=False)
            progress.update(bar, **mission_note(state))
            if state["phase"] == "stopping":
                say_stopping(state["processes"])

        try:
            result = run_mission(plan, folder, criterion, follow, policy_hosts, shield_hosts, trusted_keys)
        except KeyboardInterrupt:
            said = "interrupted; simulated robots do not land first"
            raise KeyboardInterrupt(f"{said}; bag and logs are in {folder}") from None
        except DeployError as error:
            progress.stop()
            written = _write_failure(folder, [error.failure], error.events)
            err.print(f"phalanx: {error}; logs are in {folder / 'logs'}, report: {written}", markup=False)
            return 1
    from phalanx.missions.film import load_mission_flight  # seconds more, in which nothing waits on the ground
    from phalanx.report import render_flight

    page = folder / "report.html"
    if not result["unwritten"]:
        flight = load_mission_flight(folder / "flight.npz", plan)
        text = render_flight(result, flight, result["task"], [member.robot for member in plan.team])
        result["unwritten"] += unwritten(page, lambda: page.write_text(text, encoding="utf-8"))
    good = result["mission_success"] and result["landed_safely"] is not False and result["stopped_safely"] is not False
    good = good and not result["unwritten"]
    if json:
        print_json(result)
    else:
        _summary(result, page)
    return 0 if good else 1


def _refuse_options(*options: tuple[str, bool, str]) -> None:
    """ValueError for the first of the options (name, whether it is given, where that is said instead) that is given."""
    for name, is_given, instead in options:
        if is_given:
            raise ValueError(f"--{name}: {instead}")


def _deploy_team(subjects: Sequence[str], out_dir: Path | None, json: bool) -> int:
    """Run a team file until Ctrl-C; 1 where something failed."""
    from deploy.bundle import load_bundle
    from deploy.runtime.compatibility import lacks_firmware
    from deploy.shield import owned_params, untried_limits
    from deploy.shield.authority import GIVEN_UP_S
    from hardware import load_robot
    from phalanx.doctor.links import shared_domain
    from phalanx.doctor.machine import held_up
    from phalanx.ending import promise, stopping
    from phalanx.verification.verdict import warn_of_files
    from ros_nodes.lifecycle.domain import given_domain
    from ros_nodes.mission.deploy import RESULT
    from ros_nodes.mission.run_team import LANDING_S, Listener, run_team
    from ros_nodes.plans.kept_stops import kept_elsewhere, kept_stop
    from ros_nodes.plans.team_file import load_team

    if len(subjects) > 1:
        raise ValueError(f"{' '.join(subjects)}: a team file is given alone")
    file = Path(subjects[0])
    team = load_team(file)
    for line in team.scene.lines():
        out.print(line, markup=False)
    bundles = {robot.bundle: load_bundle(robot.bundle, team.trusted_keys) for robot in team.robots}
    warn_of_files({Path(file): bundle for file, bundle in bundles.items()})
    specs = [load_robot(robot.type) for robot in team.robots]
    for robot, spec in zip(team.robots, specs, strict=True):
        if robot.driver and (unlike := lacks_firmware(bundles[robot.bundle].contract)):
            err.print(f"[yellow]warning:[/] {robot.name}: {escape(robot.bundle)} {unlike}", soft_wrap=True)
        params = owned_params(spec, bundles[robot.bundle].contract.shield, team.limits()[robot.name])
        for line in untried_limits(spec, params):
            err.print(f"[yellow]warning:[/] {robot.name}: {line}", soft_wrap=True)
        if kept := kept_stop(robot, given_domain()):
            said = f"{robot.name} is STOPPED still ({kept}); once it is up: phalanx operate reset {robot.name}"
            err.print(said, markup=False, soft_wrap=True)
        if kept := kept_elsewhere(robot, given_domain()):
            err.print(f"[yellow]warning:[/] {robot.name}: {escape(kept)}", soft_wrap=True)
    for robot in team.robots:
        if shared := shared_domain(robot.driver, robot.options):
            err.print(f"[yellow]warning:[/] {robot.name}: {'; '.join(shared)}", soft_wrap=True)
    if any(robot.driver for robot in team.robots) and (line := held_up()):
        err.print(f"[yellow]warning:[/] {escape(line)}", soft_wrap=True)
    kinds = {robot.name: spec for robot, spec in zip(team.robots, specs, strict=True)}

    def say_up(after_s: float, by_a_person: bool, stopped: Sequence[str]) -> None:
        how = ": phalanx operate arm NAME" if by_a_person else ""
        out.print(up_in_words([robot.name for robot in team.robots], stopped, after_s, how), markup=False)

    def say(robot: str, what: str) -> None:
        err.print(f"{robot}: {what}", markup=False, soft_wrap=True)

    def say_ends(processes: int, left: Mapping[str, str]) -> None:
        say_stopping(processes, stopping(kinds, team.simulated, left, LANDING_S, GIVEN_UP_S))

    with results_folder(out_dir, RUNS) as folder:
        where = f"team of {file} in ROS domain {given_domain()}"
        first = f"{where}: at Ctrl-C {promise(kinds, team.simulated)}; logs are in {folder / 'logs'}"
        listener = Listener(
            starts=lambda: out.print(first, markup=False),
            fails=lambda why: err.print(f"failed: {why}", markup=False, soft_wrap=True),
            up=say_up,
            waits=say,
            troubles=say,
            stops=say_ends,
        )
        result = run_team(file, folder.resolve(), listener)
    page = _write_failure(folder, result["failures"], result["events"]) if result["failures"] else ""
    if json:
        print_json(result)
    else:
        changes = [event for event in result["events"] if event["from"] not in ("", event["to"])]
        out.print(f"team               {result['duration_s']:.0f} s, {len(changes)} changes of state")
        for failure in result["failures"]:
            who = failure["robot"] or "a process"
            out.print(f"[red]failed[/]             {escape(who)} at {failure['t_s']:.1f} s: {escape(failure['why'])}")
        for robot, rates in result["rates_hz"].items():
            shown = ", ".join(f"{topic} {rate['median']:.0f} Hz" for topic, rate in rates.items() if rate)
            why = "" if shown else "not measured: its policy did not have it for a second"
            out.print(f"rates              {robot}: {shown or why}", markup=False)
        for lost in result["unwritten"]:
            out.print(f"[red]not written[/]        {escape(lost)}")
        if not result["unwritten"]:
            out.print(f"result             {folder / RESULT}", markup=False)
        if result["failures"]:
            out.print(f"report             {page}", markup=False)
    for robot, why in result["left"].items():
        err.print(f"phalanx: {robot} was left as it is: {why}", markup=False, soft_wrap=True)
    return 1 if result["failures"] or result["unwritten"] else 0


def _write_failure(folder: Path, failures: list[dict[str, Any]], events: list[dict[str, Any]]) -> str:
    """The page of a deployment that failed; returns its path, or why it could not be written."""
    from phalanx.report.page import render_failure
    from ros_nodes.mission.deploy import unwritten

    page = folder / "report.html"
    text = render_failure(failures, events, f"{folder.name}: deployment failed")
    return "; ".join(unwritten(page, lambda: page.write_text(text, encoding="utf-8"))) or str(page)


def up_in_words(team: Sequence[str], stopped: Sequence[str], after_s: float, how: str = "") -> str:
    """That all nodes of a team are up `after_s` after their start, `how` to arm, and who is `stopped` all the same."""
    ready = [name for name in team if name not in stopped]
    who = "robots" if len(ready) == len(team) else ", ".join(ready) or "no robot"
    but = "".join(f"; {name} is STOPPED, before it is armed: phalanx operate reset {name}" for name in stopped)
    return f"{who} can be armed, {after_s:.1f} s after their nodes were started{how}{but}"


def policy_files(subjects: Sequence[str]) -> list[Path]:
    """The files that `subjects` are, or those that ship for the one task that is named instead; ValueError else."""
    from phalanx.subjects import is_file, shipped

    files = [Path(subject) for subject in subjects if is_file(subject)]
    if len(subjects) == max(len(files), 1):
        return files or shipped(subjects[0])
    raise ValueError(
        "which policy? give a file, such as zoo/swarm-swap.onnx, of a team with several groups one for each, or a task"
    )


def _summary(result: dict, page: Path) -> None:
    from phalanx.report.incidents import failure_lines

    latency, landed, stopped = (result[name] for name in ("sensor_to_command_ms", "landed_safely", "stopped_safely"))
    legs = ", ".join(
        f"leg {number} {'at the goals' if reached else '[red]goals not reached[/]'}"
        for number, reached in enumerate(result["legs"], start=1)
    )
    out.print(f"mission            {'flown' if result['mission_success'] else '[red]not flown[/]'}: {legs}")
    for line in failure_lines(result["failures"]):
        out.print(f"                   {line}", markup=False)
    for reason in result["lost"]:
        out.print(f"[yellow]lost[/]               {escape(reason)}")
    for hold in result["shield"]["takeovers"]:
        if hold["until_s"] is not None:
            held_s = hold["until_s"] - hold["t_s"]
            what = f"{hold['robot']} at {hold['t_s']:.1f} s for {held_s:.2f} s: {hold['reason']}"
            out.print(f"short hold         {what}", markup=False)
    if result["min_separation_m"] is not None:
        violations = result["shield"]["violations"]
        out.print(
            f"closest approach   {result['min_separation_m']:.2f} m, {violations} violations of the shield's promise"
        )
    out.print(
        f"control rate       {result['control_hz']:.1f} Hz, {result['missed_cycles']} of {result['cycles']} missed"
    )
    out.print(f"sensor to command  {latency['p50']:.1f} ms median, {latency['p99']:.1f} ms p99")
    if (others := result["other_programs_cores"]) is not None:
        out.print(f"machine            other programs on {others:.1f} of {result['machine_cores']} cores")
        if not result["mission_success"] and others > BUSY * result["machine_cores"]:
            out.print("                   that is a usual reason for late messages, and so for holds: phalanx doctor")
    if landed is not None:
        fallback = result["kill_to_fallback_ms"]
        took = "had the robot before, or never took over" if fallback is None else f"took over after {fallback:.0f} ms"
        out.print(f"killed policy      shield {took}; {'landed safely' if landed else '[red]did not land safely[/]'}")
    if stopped is not None:
        ended = "shield brought the robot to rest" if stopped else "[red]robot did not come to rest[/]"
        out.print(f"killed policy      {ended}")
    for why in result["unwritten"]:
        out.print(f"[red]not written[/]        {escape(why)}")
    if not result["unwritten"]:
        out.print(f"report             {page}")
    out.print(f"bag                {result['bag']}")
