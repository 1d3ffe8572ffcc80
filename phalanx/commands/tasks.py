"""`phalanx tasks`: what can be learned."""

from rich.table import Table

from phalanx.console import out, print_json


def tasks(json: bool = False) -> int:
    """List the tasks that can be trained.

    Args:
        json: Print one JSON object on stdout instead of a table.
    """
    from sim.tasks import load_task, task_names

    rows = [_row(load_task(name)) for name in task_names()]
    if json:
        print_json({"tasks": rows})
        return 0
    table = Table("task", "robot", "team", "episode", "what is learned", box=None, pad_edge=False)
    for row in rows:
        table.add_row(row["name"], row["robot"], str(row["num_agents"]), f"{row['episode_s']:g} s", row["summary"])
    out.print(table)
    return 0


def _row(task) -> dict:
    return {
        "name": task.name,
        "robot": task.robot,
        "num_agents": task.num_agents,
        "episode_s": task.episode_s,
        "summary": task.summary,
    }
