"""Documents that `make docs` writes from the code: all tasks, and all ways to randomise a world."""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phalanx.documents.catalogue import describe_task, in_words, sections_of, team_in_words, when
from phalanx.documents.markdown import table
from policies.task_data import first_sentence
from sim import randomisation
from sim.task import TaskCfg
from sim.tasks import load_task, task_names

TASKS = """# Tasks

Written by `make docs` from the code; `phalanx tasks NAME` shows one, `phalanx play NAME` plays it.
Sizes are numbers of one robot, weights are per control step, ranges that a world draws from are those of training and
evaluation alike. The policies that ship, and how well they do: zoo/README.md."""
RANDOMISATION = """# Randomisation

Written by `make docs` from `sim/randomisation.py` and the tasks. Every function changes something for the worlds that
it is given; a task names it with a range, from which it is drawn in each episode or, where a time is given, during it.
"""


def uses_of_randomisation(tasks: Sequence[TaskCfg]) -> dict[Any, list[tuple[str, str, str]]]:
    """Task, range and when of each use of every public function of sim/randomisation.py, in its order there."""
    public = [f for name, f in vars(randomisation).items() if inspect.isfunction(f) and not name.startswith("_")]
    uses: dict[Any, list[tuple[str, str, str]]] = {f: [] for f in public if f.__module__ == randomisation.__name__}
    for task in tasks:
        for term in (term for group in task.groups.values() for term in group.randomisation.values()):
            use = (task.name, in_words(term.params), when(term.interval_range_s))
            uses.setdefault(term.func, []).append(use)
    return uses


def write_documents(folder: Path) -> list[Path]:
    """Write tasks.md and randomisation.md into `folder`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [load_task(name) for name in task_names()]
    texts = {"tasks.md": tasks_document(tasks), "randomisation.md": randomisation_document(tasks)}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def tasks_document(tasks: Sequence[TaskCfg]) -> str:
    """Markdown: all tasks in one table, then each in its own tables."""
    described = [describe_task(task) for task in tasks]
    rows = [
        (f"[{t['name']}](#{t['name']})", team_in_words(t), f"{t['episode_s']:g} s", t["summary"]) for t in described
    ]
    parts = [TASKS, table(("task", "team", "episode", "what is learned"), rows)]
    for task in described:
        summary, team = (text[:1].upper() + text[1:] for text in (task["summary"], team_in_words(task)))
        parts.append(f"## {task['name']}")
        parts.append(f"{summary}. {team}, episodes of {task['episode_s']:g} s at {task['control_hz']:g} Hz.")
        parts += [f"**{section.title}**\n\n{table(section.columns, section.rows)}" for section in sections_of(task)]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def randomisation_document(tasks: Sequence[TaskCfg]) -> str:
    """Markdown: each function, and which task uses it with which range."""
    found = uses_of_randomisation(tasks)
    rows = [
        (f"`{f.__name__}`", first_sentence(f), ", ".join(dict.fromkeys(u[0] for u in uses)))
        for f, uses in found.items()
    ]
    uses = [(f"`{f.__name__}`", *use) for f, uses in found.items() for use in uses]
    functions = table(("function", "what differs", "tasks"), rows)
    ranges = table(("function", "task", "range", "when"), uses)
    return f"{RANDOMISATION}\n{functions}\n## Ranges\n\n{ranges}"
