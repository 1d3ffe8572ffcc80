"""`phalanx play`: watch a policy or a simple agent in simulation."""

from pathlib import Path
from typing import Any

from phalanx.console import err, out, print_json
from phalanx.options import Agent, Count, OptionalPolicyFile, OutFile
from phalanx.play.renderer import choose_renderer


def play(
    file: OptionalPolicyFile = None,
    agent: Agent = "policy",
    task: str = "swarm-swap",
    robots: Count = None,
    episodes: int = 1,
    seed: int = 0,
    no_shield: bool = False,
    out_file: OutFile = None,
    json: bool = False,
) -> int:
    """Watch a policy in simulation: as text, replay page, picture or video.

    Args:
        file: Policy file; needed by the agent "policy".
        agent: Who flies: the policy, nobody (zero), chance (random), or straight at the goal (baseline).
        task: Task of the simple agents; a policy file names its own.
        robots: Size of the team; as in training when not given.
        episodes: How many.
        seed: Of the first episode; each further one adds 1.
        no_shield: Let the commands through as they are.
        out_file: Where to draw the last episode: .html replay, .svg seen from above, .gif rendered by MuJoCo.
        json: Print one JSON object on stdout.
    """
    if episodes < 1:
        raise ValueError(f"episodes = {episodes}: at least 1")
    if out_file and out_file.suffix not in (".html", ".svg", ".gif"):
        raise ValueError(f"cannot draw {out_file.suffix or 'that'!r}; known: .html, .svg, .gif")
    if out_file and out_file.suffix == ".gif":
        choose_renderer()  # before MuJoCo is imported, which reads the choice once
    from phalanx.play.episode import play_episode
    from phalanx.play.pilots import pilot_and_task

    pilot, task = pilot_and_task(agent, file, task, seed)
    rows = []
    for number in range(seed, seed + episodes):
        episode = play_episode(task, pilot, robots, number, shield=not no_shield)
        separation = float(episode.flight.separation_m().min()) if len(episode.flight.names) > 1 else None
        rows.append(
            {
                "seed": number,
                "success": episode.success,
                "failure": episode.failure or None,
                "duration_s": episode.duration_s,
                "return": episode.mean_return,
                "min_separation_m": separation,
                "filtered_share": float((episode.flight.mode > 0).mean()),
            }
        )
        if not json:
            out.print(_sentence(rows[-1]))
    if out_file:
        written = draw(out_file, episode, task, agent)
        err.print(f"written {written}", markup=False)
    if json:
        print_json({"task": task, "agent": agent, "robots": len(episode.flight.names), "episodes": rows})
    return 0


def draw(path: Path, episode: Any, task: str, agent: str) -> Path:
    """Draw `episode` into `path` by its suffix; a video that cannot be rendered here becomes a picture."""
    from phalanx.play.video import NoRenderer, save_video
    from phalanx.report import render_replay, top_view
    from sim.tasks import load_task

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gif":
        try:
            save_video(path, episode, load_task(task).robot)
            return path
        except NoRenderer as error:
            path = path.with_suffix(".svg")
            err.print(f"no video here ({error}); a picture instead", markup=False)
    if path.suffix == ".html":
        path.write_text(render_replay(episode.flight, f"{task}, flown by {agent}"), encoding="utf-8")
    else:
        path.write_text(top_view(episode.flight), encoding="utf-8")
    return path


def _sentence(row: dict) -> str:
    how = "[green]success[/]" if row["success"] else f"[red]{row['failure'] or 'goals not reached'}[/]"
    near = "" if row["min_separation_m"] is None else f", closest pair {row['min_separation_m']:.2f} m"
    return (
        f"episode {row['seed']}: {how} after {row['duration_s']:.1f} s, return {row['return']:.1f}{near}, "
        f"shield busy {100 * row['filtered_share']:.0f} % of the time"
    )
