"""The catalogue as documents: docs/tasks.md and docs/randomisation.md say what the code says, and nothing else."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phalanx.catalogue.randomisation import Effect, effects
from phalanx.catalogue.sections import sections_of, team_in_words
from phalanx.catalogue.tasks import describe_task
from sim.task import MixedTaskCfg, TaskCfg
from sim.tasks import any_task_names, load_any_task

COMMAND = "phalanx tasks --markdown docs"


def write_documents(folder: Path) -> list[Path]:
    """Write both documents into `folder`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [load_any_task(name) for name in any_task_names()]
    texts = {"tasks.md": tasks_document(tasks), "randomisation.md": randomisation_document(tasks)}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def tasks_document(tasks: Sequence[TaskCfg | MixedTaskCfg]) -> str:
    """docs/tasks.md: all tasks in one table, then each in its own tables."""
    described = [describe_task(task) for task in tasks]
    rows = [
        (f"[{t['name']}](#{t['name']})", team_in_words(t), f"{t['episode_s']:g} s", t["summary"]) for t in described
    ]
    parts = [
        "# Tasks",
        f"Written by `{COMMAND}` from the code; `phalanx tasks NAME` shows one, `phalanx play NAME` plays it.\n"
        "Sizes are numbers of one robot, weights are per control step, ranges that a world draws from are those of "
        "training and evaluation alike. The policies that ship, and how well they do: [zoo](../zoo/README.md).",
        _table(("task", "team", "episode", "what is learned"), rows),
        *(_task(task) for task in described),
    ]
    return "\n\n".join(parts) + "\n"


def randomisation_document(tasks: Sequence[TaskCfg | MixedTaskCfg]) -> str:
    """docs/randomisation.md: each function, what it changes, and who uses it with which range."""
    found = effects(tasks)
    parts = [
        "# Randomisation",
        f"Written by `{COMMAND}` from `sim/randomisation.py` and the tasks. Every function changes something for the "
        "worlds that it is given; a task names it with a range, and it is drawn anew in each episode or, where a time "
        "is given, in its course.",
        _table(
            ("function", "what differs", "it changes", "tasks"),
            [(f"`{e.name}`", e.meaning, e.changes, ", ".join(dict.fromkeys(use[0] for use in e.uses))) for e in found],
        ),
        "## Ranges",
        _table(("function", "task", "range", "when"), [row for effect in found for row in _uses(effect)]),
    ]
    return "\n\n".join(parts) + "\n"


def _uses(effect: Effect) -> list[tuple[str, ...]]:
    return [(f"`{effect.name}`", *use) for use in effect.uses]


def _task(task: Mapping[str, Any]) -> str:
    head = (
        f"## {task['name']}\n\n{_capital(task['summary'])}. {_capital(team_in_words(task))}, episodes of "
        f"{task['episode_s']:g} s at {task['control_hz']:g} Hz."
    )
    tables = [f"**{section.title}**\n\n{_table(section.columns, section.rows)}" for section in sections_of(task)]
    return "\n\n".join([head, *tables])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
