"""A flight seen from above, as one SVG that reads on light and dark paper."""

from collections.abc import Callable

import numpy as np

from phalanx.report.flight import Flight

COLOURS = ("#4f8cff", "#f2a33a", "#2fbf8f", "#ea5f9a", "#9b7bff", "#2bb8c9", "#f0684f", "#93b83a")
INK = "#7d8590"
EDGE_M = 0.35
GRID_M = 0.5
Place = Callable[[np.ndarray], tuple[float, float]]  # (x, y, ...) m -> pixels


def top_view(flight: Flight, width_px: int = 640) -> str:
    """SVG with paths, starts (small rings), goals (large rings) and the closest approach; x to the right, y up."""
    points = np.concatenate([flight.pos[..., :2].reshape(-1, 2), flight.goal[:, :2]])
    low, high = points.min(0) - EDGE_M, points.max(0) + EDGE_M
    px = width_px / (high[0] - low[0])
    height = px * (high[1] - low[1])

    def at(point: np.ndarray) -> tuple[float, float]:
        return px * (point[0] - low[0]), height - px * (point[1] - low[1])

    thin = flight.thinned(20.0)
    body = [_grid(low, high, at, width_px, height)]
    for k in range(len(flight.names)):
        colour = COLOURS[k % len(COLOURS)]
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, thin.pos[:, k]))
        body.append(f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2.2"/>')
        body.append(_ring(at(flight.pos[0, k]), 0.05 * px, colour, 1.5))
        body.append(_ring(at(flight.goal[k]), 0.12 * px, colour, 2.5))
    body.extend(_closest(flight, at, px))
    size = f'viewBox="0 0 {width_px} {height:.0f}" width="{width_px}" height="{height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">\n' + "\n".join(body) + "\n</svg>\n"
    )


def _closest(flight: Flight, at: Place, px: float) -> list[str]:
    """Where all robots were at the moment of the closest approach, and how far that was."""
    separation = flight.separation_m()
    if not np.isfinite(separation).all():
        return []
    moment = int(separation.argmin())
    marks = []
    for k, point in enumerate(flight.pos[moment]):
        x, y = at(point)
        size, colour = max(3.0, px * flight.radius_m), COLOURS[k % len(COLOURS)]
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="{colour}" fill-opacity=".85"/>')
    words = f"closest pair {separation[moment]:.2f} m at {flight.t[moment]:.1f} s, collision at {flight.limit_m:.2f} m"
    return [*marks, f'<text x="10" y="20" fill="{INK}" font-size="13">{words}</text>']


def _ring(centre: tuple[float, float], radius: float, colour: str, width: float) -> str:
    x, y = centre
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _grid(low: np.ndarray, high: np.ndarray, at: Place, width: float, height: float) -> str:
    first = np.ceil(low / GRID_M) * GRID_M
    columns = (at(np.array([x, 0.0]))[0] for x in np.arange(first[0], high[0], GRID_M))
    rows = (at(np.array([0.0, y]))[1] for y in np.arange(first[1], high[1], GRID_M))
    lines = [f"M{x:.1f} 0V{height:.1f}" for x in columns] + [f"M0 {y:.1f}H{width:.1f}" for y in rows]
    return f'<path d="{"".join(lines)}" stroke="{INK}" stroke-opacity=".18" fill="none"/>'
