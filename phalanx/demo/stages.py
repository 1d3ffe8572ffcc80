"""The whole way: train, export, verify, fly in ROS 2, report. Each stage returns its part of result.json."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from phalanx.console import say_stopping
from phalanx.demo.display import Display
from phalanx.machine import machine, versions
from phalanx.progress import mission_note, training_note
from phalanx.report import check_gates, render_page

LEFT_BY_A_RUN = ("train", "ros", "policy.onnx", "result.json", "report.html")
Update = Callable[[float | None, str], None]  # how far the stage is, 0 to 1, and a note
NUMBER_WORDS = {1: "One Crazyflie", 2: "Two Crazyflies", 3: "Three Crazyflies", 4: "Four Crazyflies"}


@dataclass(frozen=True, slots=True)
class DemoCfg:
    """What a run does. Seconds are upper bounds of the training; annealing follows whichever ends first."""

    out: Path
    seed: int = 0
    task: str = "swarm-swap"
    robots: int = 4
    train_s: float = 900.0  # far above what a busy laptop takes: the steps decide, so that a seed gives the same again
    episodes: int = 256
    teams: tuple[int, ...] = (2, 4, 8)
    mission_s: float = 18.0
    kill_after_s: float = 11.0
    quick: bool = False


def quick_changes() -> dict[str, Any]:
    """What `--quick` changes: a training too short to succeed, fewer starts, a shorter flight; the rest is as real.

    What has learned little may be near the ceiling when it is killed: to land from there takes nearly 8 s.
    """
    return {"train_s": 8.0, "episodes": 32, "mission_s": 12.0, "kill_after_s": 4.0, "quick": True}


def run_demo(cfg: DemoCfg, display: Display) -> dict[str, Any]:
    """Run all stages, write result.json and report.html into `cfg.out`, and return the content of result.json.

    KeyboardInterrupt leaves what is done; training can be resumed.
    """
    began = time.perf_counter()
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    _make_room(cfg.out)
    policy = cfg.out / "policy.onnx"
    with display.stage("train") as update:
        training = _train(cfg, update)
    with display.stage("export") as update:
        update(None, str(_export(cfg, policy)))
    with display.stage("verify") as update:
        verified = _verify(cfg, policy, update)
    with display.stage("fly") as update:
        metrics = _fly(cfg, policy, update)
    with display.stage("report") as update:
        result = {
            "success": False,
            "kind": "quick run" if cfg.quick else "full run",
            "task": cfg.task,
            "seed": cfg.seed,
            "started_utc": started,
            "train": training,
            "parity": verified["parity"],
            "verify": {"episodes": verified["episodes"], "teams": verified["teams"]},
            "ros": {name: value for name, value in metrics.items() if name != "shield"},
            "shield": metrics["shield"],
            "wall_s": time.perf_counter() - began,
            "versions": versions(),
            "machine": machine(),
            "failures": metrics["failures"],
            "files": {"policy": str(policy), "bag": metrics["bag"], "checkpoint": str(cfg.out / "train")},
            "command": f"phalanx demo --seed {cfg.seed}" + (" --quick" if cfg.quick else ""),
        }
        gates = check_gates(result, learned=not cfg.quick)
        result["success"] = all(gate.passed for gate in gates)
        result["gates"] = [asdict(gate) for gate in gates]
        update(None, str(_write(cfg, result)))
    return result


def _make_room(out: Path) -> None:
    """Remove what an earlier demo left in the folder, and nothing else."""
    out.mkdir(parents=True, exist_ok=True)
    for name in LEFT_BY_A_RUN:
        path = out / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _train(cfg: DemoCfg, update: Update) -> dict[str, Any]:
    from policies.training.train import CollectionCfg, TrainCfg, train
    from sim.tasks import load_task

    task = load_task(cfg.task)
    result = train(
        TrainCfg(
            task=cfg.task,
            out=cfg.out / "train",
            collection=CollectionCfg(task.num_envs, cfg.robots),
            total_steps=task.train_steps,
            wall_budget_s=cfg.train_s,
            seed=cfg.seed,
        ),
        on_progress=lambda numbers: update(numbers["fraction"], training_note(numbers)),
    )
    if result.interrupted or not result.finished:
        raise KeyboardInterrupt(result.message)
    return {
        "wall_s": result.wall_s,
        "env_steps": result.env_steps,
        "agent_steps": result.agent_steps,
        "steps_per_s": result.env_steps / result.wall_s,
        "agent_steps_per_s": result.steps_per_s,
        "return_curve": result.return_curve,
    }


def _export(cfg: DemoCfg, policy: Path) -> Path:
    from policies.export.export import export_policy

    return export_policy(cfg.out / "train", policy)


def _verify(cfg: DemoCfg, policy: Path, update: Update) -> dict[str, Any]:
    from policies.evaluation.verify import VerifyCfg, verify

    checks = VerifyCfg(num_worlds=cfg.episodes, teams=cfg.teams)
    return verify(policy, checks, cfg.out / "train", update)


def _fly(cfg: DemoCfg, policy: Path, update: Update) -> dict[str, Any]:
    from ros_nodes.mission.deploy import run_swap

    done_s = 0.0

    def on_progress(state: dict[str, Any]) -> None:
        nonlocal done_s
        display = mission_note(state)
        done_s = max(done_s, display.get("completed", 0.0))  # a landing goes on where the mission ended
        update(done_s / cfg.mission_s, display.get("note") or display["description"])
        if state["phase"] == "stopping":
            say_stopping(state["processes"])

    flight = (cfg.robots, cfg.mission_s, cfg.kill_after_s, cfg.seed)
    return run_swap(policy, cfg.out / "ros", *flight, on_progress=on_progress, echo=True)


def _write(cfg: DemoCfg, result: dict[str, Any]) -> Path:
    (cfg.out / "result.json").write_text(json.dumps(result, indent=2, allow_nan=False), encoding="utf-8")
    page = cfg.out / "report.html"
    from phalanx.missions.film import load_mission_flight

    flight = load_mission_flight(cfg.out / "ros" / "flight.npz")
    page.write_text(render_page(result, flight, title(result)), encoding="utf-8")
    return page


def title(result: dict[str, Any]) -> str:
    """The report's headline."""
    robots = result["ros"]["robots"]
    team = NUMBER_WORDS.get(robots, f"{robots} Crazyflies")
    if not result["success"]:
        return f"{team} did not get through every gate"
    if result["kind"] == "quick run":
        return f"{team}, a short training, and the whole way to ROS 2"
    return f"{team} learned to cross each other's way, and flew it in ROS 2"
