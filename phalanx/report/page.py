"""The report page: one HTML file with data, style and drawing code inside; it asks no server for anything."""

import html
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from phalanx.report.film import Film
from phalanx.report.flight import Flight
from phalanx.report.framing import framing
from phalanx.report.gates import Gate
from phalanx.report.incidents import failure_lines, incident_rows, state_lanes

HERE = Path(__file__).parent
SCRIPTS = ("svg.js", "charts.js", "film.js", "replay.js", "page.js")
REPLAY_HZ = 25.0
HISTOGRAM_BINS = 48
ABOUT = (
    "The policy was trained in parallel simulation, exported to one file, checked against its own probes and then "
    "run in ROS 2, each robot behind a safety shield in another process."
)


def render_page(result: Mapping[str, Any], flight: Flight | None, title: str) -> str:
    """HTML of the report on `result` (the content of result.json) and the recorded `flight`."""
    events = result.get("events", ())
    rows = {"events": incident_rows(events), "states": state_lanes(events or result.get("ros", {}).get("events", ()))}
    content = {"about": ABOUT, **result, **rows, "tiles": tiles_of(result)}
    data = {"title": title, "result": content, "flight": None if flight is None else flight_data(flight)}
    page = (HERE / "page.html").read_text(encoding="utf-8")
    parts = {
        "{{TITLE}}": html.escape(title),
        "{{STYLE}}": (HERE / "style.css").read_text(encoding="utf-8"),
        "{{SCRIPT}}": "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS),
        "{{DATA}}": json.dumps(_without_nan(data), separators=(",", ":"), allow_nan=False).replace("</", "<\\/"),
    }
    for mark, text in parts.items():
        page = page.replace(mark, text)
    return page


def flight_data(flight: Flight) -> dict[str, Any]:
    """What replay and charts need, rounded to what a screen can show (mm, ms)."""
    thin = flight.thinned(REPLAY_HZ)
    separation = thin.separation_m()
    centre, size = framing(thin.seen(), thin.t)
    return {
        "names": list(thin.names),
        "t": _rounded(thin.t, 3),
        "pos": _rounded(thin.pos, 3),
        "mode": thin.mode.astype(int).tolist(),
        "modeNames": list(thin.mode_names),
        "intervention": _rounded(thin.intervention, 3),
        "separation": _rounded(separation, 4) if np.isfinite(separation).all() else [],
        "limit": thin.limit_m,
        "radius": thin.radius_m,
        "events": [asdict(event) for event in thin.events],
        "latency": histogram(flight.latency_ms, top=flight.control_period_ms),
        "period": histogram(np.abs(flight.period_error_us) / 1e3),
        "controlPeriodMs": flight.control_period_ms,
        "centre": _rounded(centre, 3),
        "size": round(size, 3),
        "film": None if thin.film is None else film_data(thin.film),
        "rewards": [
            {"name": name, "values": _rounded(values, 4), "sum": float(flight.rewards[name].sum())}
            for name, values in thin.rewards.items()
        ],
        "charts": [
            asdict(chart) | {"lines": [asdict(line) | {"values": _rounded(line.values, 4)} for line in chart.lines]}
            for chart in thin.charts
        ],
    }


def film_data(film: Film) -> dict[str, Any]:
    """What the replay draws: shapes in the frames of bodies, and at each moment their poses (x, y, z, w, x, y, z)."""
    return {
        "poses": _rounded(np.concatenate([film.pos[:, 1:], film.quat[:, 1:]], axis=-1), 3),
        "shapes": [asdict(s) | {"points": _rounded(s.points, 3), "slab": s.is_slab()} for s in film.shapes],
        "cables": [asdict(c) | {"points": _rounded(c.points, 3)} for c in film.cables],
        "markers": [asdict(m) | {"pos": _rounded(m.pos, 3)} for m in film.markers],
    }


def histogram(samples: np.ndarray, top: float | None = None) -> dict[str, Any]:
    """Counts up to `top` (or the 99.5th percentile); the last bin also holds what lies beyond, so no tail is hidden."""
    if not len(samples):
        return {"edges": [], "counts": [], "p50": None, "p99": None, "max": None}
    p50, p99 = (float(np.percentile(samples, q)) for q in (50, 99))
    high = max(top or 0.0, 1.25 * p99, 1e-9)
    edges = np.linspace(0.0, high, HISTOGRAM_BINS + 1)
    counts, _ = np.histogram(np.minimum(samples, high), edges)
    return {"edges": _rounded(edges, 4), "counts": counts.tolist(), "p50": p50, "p99": p99, "max": float(samples.max())}


def _rounded(values: np.ndarray, digits: int) -> list:
    return np.round(np.asarray(values, dtype=float), digits).tolist()


def _without_nan(value: Any) -> Any:
    """JSON has no NaN; a number that could not be measured becomes null."""
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def render_flight(figures: Mapping[str, Any], flight: Flight, task: str, robots: Sequence[str]) -> str:
    """HTML of a mission of `task` in ROS 2; `figures` as `run_mission` returns them, `robots` by specification."""
    good = figures["mission_success"] and figures["landed_safely"] is not False
    why = "; ".join(failure_lines(figures["failures"]))
    gates = [
        Gate("mission flown: every robot at its goals, no contact", figures["mission_success"], why or "yes", "yes"),
        Gate("separation violations", figures["shield"]["violations"] == 0, str(figures["shield"]["violations"]), "0"),
    ]
    if figures["landed_safely"] is not None:
        gates.append(Gate("robot without policy landed safely", figures["landed_safely"], "", ""))
    result = {
        "success": good,
        "task": task,
        "seed": figures["seed"],
        "gates": [asdict(gate) for gate in gates],
        "ros": figures,
        "shield": figures["shield"],
        "files": {"policy fingerprint": figures["fingerprint"], "bag": figures["bag"]},
        "about": "Simulated robots over ROS 2; policies and shields are in different processes.",
    }
    return render_page(result, flight, f"{task}: {team_of(robots)} in ROS 2")


def render_failure(failures: Sequence[Mapping[str, Any]], events: Sequence[Mapping[str, Any]], title: str) -> str:
    """HTML of a deployment without a recorded flight: which robot failed, when and why; `events` as of `ros_nodes`."""
    why = "; ".join(f"{f['robot'] or 'a process'} at {f['t_s']:.1f} s: {f['why']}" for f in failures)
    result = {
        "success": not failures,
        "gates": [asdict(Gate("deployed without a failure", not failures, why or "none", "none"))],
        "ros": {"failures": failures},
        "shield": {},
        "events": events,
    }
    return render_page(result, None, title)


def render_replay(flight: Flight, task: str, robots: Sequence[str], agent: str, row: Mapping[str, Any]) -> str:
    """HTML of one episode in simulation; `row` are its figures (see `episode.figures_of`)."""
    result = {
        "gates": [],
        "task": task,
        "kind": f"simulation, {agent}",
        "seed": row["seed"],
        "success": row["success"],
        "about": "",
        "outcome": "success" if row["success"] else row["failure"] or "no success",
        "episode": row,
    }
    return render_page(result, flight, f"{task}: {team_of(robots)}")


def team_of(robots: Sequence[str]) -> str:
    """`4 crazyflie`, `2 g1 and 1 panda`; a single robot by its name alone."""
    count = Counter(robots)
    return " and ".join(f"{n} {name}" if len(robots) > 1 else name for name, n in count.items())


def tiles_of(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The figures at the head of the page: value, unit, label; what was not measured is left out."""
    train, ros, episode = (result.get(name) or {} for name in ("train", "ros", "episode"))
    teams = (result.get("verify") or {}).get("teams", {})
    team: Mapping[str, Any] = teams.get(str(ros.get("robots"))) or next(iter(teams.values()), {})
    latency, shield = ros.get("sensor_to_command_ms") or {}, result.get("shield") or {}
    found: list[tuple[float | None, float, str, str]] = [
        (train.get("wall_s"), 1, "s", f"training, {train.get('agent_steps', 0) / 1e6:.2g} M agent steps"),
        (team.get("shielded_success_rate"), 100, "%", "success on held-out starts, with shield"),
        (team.get("intervention_rate"), 100, "%", "of their steps corrected by the shield"),
        ((result.get("parity") or {}).get("max_abs"), 1, "", "largest difference between simulation and file"),
        (episode.get("duration_s"), 1, "s", "episode"),
        (episode.get("return"), 1, "", "return"),
        (episode.get("filtered_share"), 100, "%", "of the time the shield intervened"),
        (episode.get("min_separation_m", ros.get("min_separation_m")), 1, "m", "closest pair"),
        (latency.get("p99"), 1, "ms", "sensor to command, p99"),
        (ros.get("kill_to_fallback_ms"), 1, "ms", "from policy killed to fallback"),
        (shield.get("violations"), 1, "", "violations of the shield's limits"),
    ]
    return [(_short(scale * value), unit, label) for value, scale, unit, label in found if value is not None]


def _short(value: float) -> str:
    """Three digits, or all before the point; of what is tiny two."""
    if 0 < abs(value) < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-")
    return f"{value:.0f}" if 100 <= abs(value) < 1e7 else f"{value:.3g}"
