"""`phalanx play`: watch a policy or a simple agent in simulation."""

from pathlib import Path
from typing import Any

from phalanx.console import err, out, print_json
from phalanx.options import Agent, Count, OutFile, Subjects, TaskFlag
from phalanx.report.renderer import choose_renderer

SUFFIXES = (".html", ".svg", ".png", ".gif", ".mp4")
RASTER = (".png", ".gif", ".mp4")


def play(
    subjects: Subjects = (),
    agent: Agent = "policy",
    task: TaskFlag = None,
    robots: Count = None,
    episodes: int = 1,
    seed: int = 0,
    no_shield: bool = False,
    out_file: OutFile = None,
    json: bool = False,
) -> int:
    """Watch a policy in simulation: as text, replay page, picture or video.

    Args:
        subjects: A task, or a policy file, which names its own; of a team with several roles a file for each.
        agent: Who acts: the policy (that of the zoo when only a task is given), nobody (zero), chance (random), or the
            task's own controller that nobody trained (baseline).
        task: Another way to name the task.
        robots: Size of the team; as in training when not given.
        episodes: How many.
        seed: Of the first episode; each further one adds 1.
        no_shield: Let the commands through as they are.
        out_file: Where to draw the last episode: .html replay, .svg from above and from the side, .png four moments,
            .gif or .mp4 video.
        json: Print one JSON object on stdout.
    """
    if episodes < 1:
        raise ValueError(f"episodes = {episodes}: at least 1")
    if out_file and out_file.suffix not in SUFFIXES:
        raise ValueError(f"cannot draw {out_file.suffix or 'that'!r}; known: {', '.join(SUFFIXES)}")
    if out_file and out_file.suffix in RASTER:
        choose_renderer()  # before MuJoCo is imported, which reads the choice once
    if out_file and out_file.suffix == ".mp4":
        from phalanx.report.video import ffmpeg

        ffmpeg()  # complains before an episode is played for nothing
    from phalanx.report.episode import play_episode
    from phalanx.subjects import pilots_and_task

    pilots, cfg = pilots_and_task(agent, subjects, task, seed)
    rows = []
    for number in range(seed, seed + episodes):
        episode = play_episode(cfg, pilots, robots, number, shield=not no_shield)
        rows.append(row_of(number, episode, not no_shield))
        if not json:
            out.print(sentence(rows[-1]))
    if not json:
        out.print(f"[dim]reward of the last: {terms_in_words(episode.reward_terms)}[/]")
        if episodes > 1:
            out.print(f"{sum(row['success'] for row in rows)} of {episodes} succeeded")
    if out_file:
        how = draw(out_file, episode, (cfg, robots), agent)
        err.print(f"written {out_file}{f' ({how})' if how else ''}", markup=False)
    if json:
        print_json({"task": cfg.name, "agent": agent, "robots": len(episode.flight.names), "episodes": rows})
    return 0


def draw(path: Path, episode: Any, scene: Any, agent: str) -> str:
    """Draw `episode` into `path` by its suffix; returns a word on how, where there is more than one way.

    `scene` is the task and the team size that it was played with.
    """
    from phalanx.report import picture, render_replay

    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in RASTER:
        from phalanx.report.video import save_still, save_video

        return (save_still if path.suffix == ".png" else save_video)(path, episode, scene)
    if path.suffix == ".html":
        path.write_text(render_replay(episode.flight, f"{scene[0].name}, {WHO[agent]}"), encoding="utf-8")
    else:
        path.write_text(picture(episode.flight), encoding="utf-8")
    return ""


WHO = {
    "policy": "by its policy",
    "zero": "by nobody: all actions are zero",
    "random": "by chance",
    "baseline": "by its baseline",
}


def row_of(seed: int, episode: Any, shield: bool) -> dict[str, Any]:
    """The figures of one episode; None where one says nothing, such as the closest pair of a robot alone."""
    flight = episode.flight
    near = float(flight.separation_m().min())
    return {
        "seed": seed,
        "success": episode.success,
        "failure": episode.failure or None,
        "duration_s": episode.duration_s,
        "return": episode.mean_return,
        "reward_terms": episode.reward_terms,
        "min_separation_m": near if near < float("inf") else None,
        "filtered_share": float((flight.mode[1:] > 0).mean()) if shield else None,
    }


def sentence(row: dict[str, Any]) -> str:
    """One episode in a line."""
    how = "[green]success[/]" if row["success"] else f"[red]{row['failure'] or 'no success'}[/]"
    parts = [f"episode {row['seed']}: {how} after {row['duration_s']:.1f} s", f"return {row['return']:.1f}"]
    if row["min_separation_m"] is not None:
        parts.append(f"closest pair {row['min_separation_m']:.2f} m")
    if row["filtered_share"] is not None:
        parts.append(f"shield busy {100 * row['filtered_share']:.0f} % of the time")
    return ", ".join(parts)


def terms_in_words(terms: dict[str, float]) -> str:
    """The sums of the reward's terms, the largest first; what gave nothing is left out."""
    ordered = sorted(terms.items(), key=lambda item: -abs(item[1]))
    return ", ".join(f"{name} {value:+.3g}" for name, value in ordered if abs(value) >= 5e-4) or "none"
