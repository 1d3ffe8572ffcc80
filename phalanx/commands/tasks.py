"""`phalanx tasks`: what can be learned."""

from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.markup import escape

from phalanx.console import err, out, print_json, print_section, print_table


def tasks(
    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[TASK]")] = None,
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FOLDER")] = None,
    json: bool = False,
) -> int:
    """List the tasks that can be trained, or explain one.

    Commands, observations, memory, actions, rewards, terminations, randomisation.

    Args:
        name: Explain this one; or module:NAME, a TaskCfg of your own.
        markdown: Write tasks.md and randomisation.md into a folder, of all tasks.
        json: Print one JSON object on stdout instead of tables.
    """
    from sim.tasks import load_task, task_names

    if markdown is not None:
        from phalanx.documents.tasks import write_documents

        for path in write_documents(markdown):
            err.print(f"written {path}", markup=False)
        return 0
    if name is not None:
        task = load_task(name)
        from phalanx.documents.catalogue import describe_task
        from phalanx.zoo import shipped_figure

        described = describe_task(task) | {"zoo": shipped_figure(name)}
        if json:
            print_json(described)
        else:
            show_task(described)
        return 0
    rows = [_row(load_task(each)) for each in task_names()]
    if json:
        print_json({"tasks": rows})
    else:
        from phalanx.zoo import figure_in_words

        cells = [
            (row["name"], row["team"], row["summary"], figure_in_words(row["zoo"], row["num_agents"])) for row in rows
        ]
        print_table(("task", "robots", "what is learned", "zoo: success"), cells, whole=(0, 3))
    return 0


def show_task(task: dict[str, Any]) -> None:
    """Print everything about one task."""
    from phalanx.documents.catalogue import sections_of, team_in_words
    from phalanx.zoo import figure_in_words

    robots = sum(group["num_agents"] for group in task["groups"].values())
    out.print(f"\n[bold]{task['name']}[/]   {escape(task['summary'])}")
    out.print(
        f"[dim]{team_in_words(task)}, episodes of {task['episode_s']:g} s at {task['control_hz']:g} Hz"
        f"{', zoo: ' + figure_in_words(task['zoo'], robots) if task['zoo'] else ''}[/]\n"
    )
    for section in sections_of(task):
        print_section(*section)


def _row(task: Any) -> dict[str, Any]:
    from phalanx.zoo import shipped_figure

    return {
        "name": task.name,
        "robot": " and ".join(dict.fromkeys(group.robot for group in task.groups.values())),
        "team": ", ".join(f"{group.num_agents} {group.robot}" for group in task.groups.values()),
        "num_agents": sum(group.num_agents for group in task.groups.values()),
        "episode_s": task.episode_s,
        "summary": task.summary,
        "zoo": shipped_figure(task.name),
    }
