"""`phalanx bench`: how fast it is on this machine."""

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.table import Table

from phalanx.console import make_progress, out, print_json

SIM_NAMES = {
    "raw_rollout": "mujoco.rollout alone",
    "physics": "our physics back end",
    "env_random_actions": "whole environment, random actions",
    "training": "training (rollout and PPO)",
}


def bench(
    what: Annotated[Literal["sim", "control"], tyro.conf.Positional],
    task: str = "swarm-swap",
    policy: Path = Path("zoo/swarm-swap.onnx"),
    num_envs: int = 512,
    neighbours: int = 8,
    repeats: int = 5,
    json: bool = False,
) -> int:
    """Measure speed on this machine.

    `sim`: physics, environment and training. `control`: policy runtime, shield and both together.

    Args:
        what: What to measure.
        task: Task of `sim`.
        policy: Policy file of `control`.
        num_envs: Worlds in parallel in `sim`.
        neighbours: Robots around the one that `control` flies.
        repeats: Measurements; the median counts.
        json: Print one JSON object on stdout.
    """
    with make_progress() as progress:
        bar = progress.add_task(f"bench {what}", total=repeats, note="")

        def advance() -> None:
            progress.advance(bar)

        if what == "sim":
            from phalanx.bench.sim import bench_sim

            result = bench_sim(task, num_envs, repeats, advance)
        else:
            from phalanx.bench.control import bench_control

            result = bench_control(policy, neighbours, repeats, advance)
    if json:
        print_json(result)
        return 0
    out.print(_sim_table(result) if what == "sim" else _control_table(result))
    out.print(f"[dim]{result['machine']['processor']}, {result['machine']['cores']} cores, median of {repeats}[/]")
    return 0


def _sim_table(result: dict[str, Any]) -> Table:
    table = Table("", box=None, pad_edge=False)
    for column in ("physics steps/s", "of raw", "agent steps/s"):
        table.add_column(column, justify="right")
    for name, rate in result["physics_steps_per_s"].items():
        agents = result["agent_steps_per_s"].get(name)
        ratio = result["ratio_to_raw"][name]
        table.add_row(SIM_NAMES[name], f"{rate:,.0f}", f"{ratio:.2f}", f"{agents:,.0f}" if agents else "")
    return table


def _control_table(result: dict[str, Any]) -> Table:
    table = Table("", box=None, pad_edge=False)
    for column in ("p50", "p99", "worst"):
        table.add_column(column, justify="right")
    for name, times in result["step_us"].items():
        table.add_row(name, *(f"{times[key]:.0f} us" for key in ("p50", "p99", "max")))
    return table
