"""`phalanx play`: watch a policy or a simple agent in simulation."""

import re
from pathlib import Path
from typing import Annotated, Any

import tyro

from hardware.ranges import check_range
from phalanx.console import err, out, print_json
from phalanx.folders import check_out
from phalanx.options import Agent, Count, Json, OutFile, Subjects, TaskFlag, check_robots, check_seed
from phalanx.progress import make_progress

PICTURES = (".png", ".gif", ".mp4")
WHO = {
    "policy": "trained policy",
    "zero": "all actions zero",
    "random": "random actions",
    "baseline": "baseline controller",
}


def play(
    subjects: Subjects = (),
    agent: Agent = "policy",
    task: TaskFlag = None,
    robots: Count = None,
    episodes: int = 1,
    seed: int = 0,
    shield: bool = True,
    out_file: OutFile = None,
    size: Annotated[str, tyro.conf.arg(metavar="WIDTHxHEIGHT")] = "1280x720",
    json: Json = False,
) -> int:
    """Watch a policy in simulation: as text, replay page, picture or video.

    Args:
        robots: Size of the team; as in training when not given.
        episodes: How many.
        seed: Of the first episode; each further one adds 1.
        shield: Fly without the safety shield, which is there by default, as on a robot.
        out_file: Where to draw the last episode: .html replay, .png picture, .gif or .mp4 video.
        size: Of picture or video, in pixels.
    """
    check_range("episodes", episodes, 1)
    check_seed(seed)
    check_robots(robots)
    check_out(out_file)
    pixels = _pixels(size)
    from phalanx.subjects import check_subjects, runners_and_task

    check_subjects(subjects, task)
    if out_file and out_file.suffix in PICTURES:
        from phalanx.report.render import choose_opengl

        choose_opengl()  # before MuJoCo is imported, which reads the choice once
        from phalanx.report.video import check_tools

        check_tools(out_file.suffix)
    elif out_file and out_file.suffix != ".html":
        known = ", ".join((".html", *PICTURES))
        raise ValueError(f"out = {out_file}: cannot write {out_file.suffix or 'that'!r}; known: {known}")
    from phalanx.report.episode import play_episode

    runners, cfg = runners_and_task(agent, subjects, task, seed)
    rows = []
    for number in range(seed, seed + episodes):
        episode = play_episode(cfg, runners, robots, number, shield)
        rows.append(row_of(number, episode, shield))
        if not json:
            out.print(sentence(rows[-1]))
    if not json:
        out.print(f"[dim]reward of the last: {terms_in_words(episode.reward_terms)}[/]")
        if episodes > 1:
            out.print(f"{sum(row['success'] for row in rows)} of {episodes} succeeded")
    if out_file:
        out_file.parent.mkdir(parents=True, exist_ok=True)
        if out_file.suffix == ".html":
            _write_page(out_file, episode, cfg.name, agent, rows[-1])
        else:
            from phalanx.report.video import save_picture

            with make_progress() as progress:
                bar = progress.add_task("draw", total=1.0, note=str(out_file))

                def drawn(fraction: float) -> None:
                    progress.update(bar, completed=fraction)

                save_picture(out_file, episode, cfg, pixels, drawn)
        err.print(f"written {out_file}", markup=False)
    if json:
        print_json({"task": cfg.name, "agent": agent, "robots": len(episode.flight.names), "episodes": rows})
    return 0


def play_page(checkpoint: Path, page: Path, robots: int | None, seed: int) -> None:
    """Write the replay of one episode of a run's policies, behind the shield, in the task that they were trained in."""
    from phalanx.report.episode import play_episode
    from phalanx.subjects import runners_and_task

    runners, cfg = runners_and_task("policy", [str(checkpoint)], None, seed)
    episode = play_episode(cfg, runners, robots, seed, shield=True)
    _write_page(page, episode, cfg.name, "policy", row_of(seed, episode, shield=True))


def _write_page(path: Path, episode: Any, task: str, agent: str, row: dict[str, Any]) -> None:
    from phalanx.report import render_replay

    path.write_text(render_replay(episode.flight, task, episode.robots, WHO[agent], row), encoding="utf-8")


def _pixels(size: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", size)
    if match is None or any(not 64 <= int(side) <= 4096 or int(side) % 2 for side in match.groups()):
        raise ValueError(f"size = {size}: WIDTHxHEIGHT, even numbers from 64 to 4096, such as 1280x720")
    return int(match[1]), int(match[2])


def row_of(seed: int, episode: Any, shield: bool) -> dict[str, Any]:
    """The figures of one episode; None where one says nothing, such as the closest pair of a single robot."""
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
        parts.append(f"shield intervened {100 * row['filtered_share']:.0f} % of the time")
    return ", ".join(parts)


def terms_in_words(terms: dict[str, float]) -> str:
    """The sums of the reward's terms, the largest first; zero ones are left out."""
    ordered = sorted(terms.items(), key=lambda item: -abs(item[1]))
    return ", ".join(f"{name} {value:+.3g}" for name, value in ordered if abs(value) >= 5e-4) or "none"
