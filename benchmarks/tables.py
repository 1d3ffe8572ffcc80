"""Figures of the benchmarks as tables for a terminal."""

from collections.abc import Iterator
from typing import Any

from rich.table import Table

_SHARES = ("rollout", "physics", "terms", "inference", "learning")  # of the time that training takes


def sim(result: dict[str, Any]) -> Iterator[Table]:
    """A table for each task, a row for each batch size, the best one marked."""
    for task, found in result["tasks"].items():
        cold = found["cold_start"]
        table = _table(f"{task}", "raw steps/s", "env steps/s", "of raw", "CPU time", "if alone", "robots/s", "memory")
        for row in found["batches"]:
            mark = " *" if row["num_envs"] == found["best_batch"] else ""
            table.add_row(
                f"{row['num_envs']:,} worlds{mark}",
                f"{row['raw_physics_steps_per_s']:,.0f}",
                f"{row['env_physics_steps_per_s']:,.0f}",
                *(f"{row[key]:.2f}" for key in ("ratio_to_raw", "ratio_of_cpu_time", "ratio_if_alone")),
                f"{row['agent_steps_per_s']:,.0f}",
                f"{row['peak_rss_bytes'] / 1e9:.2f} GB",
            )
        each = found["bytes_per_world"]
        memory = f", {each / 1e3:,.0f} kB a world" if each else ""
        table.caption = (
            f"import {cold['import_s']:.1f} s, environment {cold['make_env_s']:.1f} s, "
            f"first step {cold['first_step_s']:.2f} s{memory}"
        )
        if "training" in found:
            table.caption += f", training {found['training']['agent_steps_per_s']:,.0f} robot steps/s"
        yield table


def scale(result: dict[str, Any]) -> Iterator[Table]:
    """Microseconds a robot and control step, by the wall and by CPU time, for each team."""
    table = _table("robots in a scene", "raw us", "x", "env us", "x", "raw CPU us", "x", "env CPU us", "x", "contacts")
    for row in result["rows"]:
        cells = []
        for cost, over in (("us_per_robot_step", "of_smallest"), ("cpu_us_per_robot_step", "cpu_of_smallest")):
            for layer in ("raw", "env"):
                cells += [f"{row[layer][cost]:.1f}", f"{row[layer][over]:.2f}"]
        table.add_row(str(row["team"]), *cells, f"{row['contacts_per_world']:.2f}")
    yield table


def peers(result: dict[str, Any]) -> Iterator[Table]:
    """A table of rates and one of physics settings for each task."""
    for task, found in result["tasks"].items():
        table = _table(f"{task} ({found['robot']})", "robot steps/s", "ours / this", "by CPU time")
        for name, row in found["rates"].items():
            table.add_row(
                name,
                f"{row['robot_steps_per_s']:,.0f}",
                f"{row['ours_over_this']:.1f}",
                f"{row['ours_over_this_by_cpu_time']:.1f}",
            )
        yield table
        names = list(found["physics"])
        settings = _table("physics", *names)
        for key in found["physics"]["ours"]:
            settings.add_row(key, *(f"{found['physics'][name][key]:g}" for name in names))
        yield settings


def engines(result: dict[str, Any]) -> Iterator[Table]:
    """A table for each task, a row for each engine and batch size."""
    for task in dict.fromkeys(row["task"] for row in result["rows"]):
        table = _table(task, "worlds", "bare steps/s", "env steps/s", "physics", "of mujoco", "robots/s", "first step")
        notes = []
        for row in (row for row in result["rows"] if row["task"] == task):
            if "error" in row:
                notes.append(f"{row['engine']}: {row['error']}")
                continue
            table.add_row(
                f"{row['engine']} ({row['device']})",
                f"{row['num_envs']:,}",
                f"{row['physics_steps_per_s']:,.0f}",
                f"{row['env_physics_steps_per_s']:,.0f}",
                f"{100 * row['physics_share']:.0f} %",
                f"{row['of_mujoco']:.3f}" if "of_mujoco" in row else "",
                f"{row['agent_steps_per_s']:,.0f}",
                f"{row['first_step_s']:.1f} s",
            )
            if "training" in row:
                shares = ", ".join(f"{k} {100 * row['training'][k]:.0f} %" for k in _SHARES if k in row["training"])
                rate = row["training"]["agent_steps_per_s"]
                stepped = row["training"].get("of_stepped")
                whole = f"; rollouts in one program, {stepped:.2f} x as fast as in steps" if stepped else ""
                notes.append(f"{row['engine']}, {row['num_envs']:,} worlds: {rate:,.0f} learning; {shares}{whole}")
        table.caption = "\n".join(dict.fromkeys(notes)) or None
        yield table


def control(result: dict[str, Any]) -> Iterator[Table]:
    """Step times of what runs on a robot."""
    table = _table("", "p50", "p99", "worst")
    for name, times in result["step_us"].items():
        table.add_row(name, *(f"{times[key]:.0f} us" for key in ("p50", "p99", "max")))
    yield table


def _table(head: str, *columns: str) -> Table:
    table = Table(head, box=None, pad_edge=False, caption_justify="left")
    for column in columns:
        table.add_column(column, justify="right")
    return table
