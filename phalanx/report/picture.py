"""An episode as one SVG that reads on light and dark paper: from above and, where bodies are known, from the side."""

from collections.abc import Callable

import numpy as np

from phalanx.report.flight import Flight
from phalanx.report.sketch import Outline, View, make_view, outlines

COLOURS = ("#4f8cff", "#f2a33a", "#2fbf8f", "#ea5f9a", "#9b7bff", "#2bb8c9", "#f0684f", "#93b83a")
INK = "#7d8590"
EDGE_M = 0.35
GRID_M = 0.5
LEAST_M = 0.8  # what a panel shows at least, either way
ABOVE = View(np.array([1.0, 0, 0]), np.array([0, 1.0, 0]), np.array([0, 0, 1.0]))
SIDES = (make_view(-np.pi / 2, 0.0), make_view(0.0, 0.0))  # from -y with x to the right, from +x with y to the right
Place = Callable[[np.ndarray], tuple[float, float]]  # (right, up) m -> pixels
Box = tuple[np.ndarray, np.ndarray]  # lower left and upper right corner, (2,) m


def picture(flight: Flight, width_px: int = 960) -> str:
    """SVG of an episode: from above and from the side, the end in full, moments before it the fainter the earlier."""
    if flight.film is None:
        return top_view(flight)
    spread = np.ptp(flight.seen().reshape(-1, 3), axis=0)
    along = int(spread[1] > 1.3 * spread[0])
    views = (ABOVE, SIDES[along])
    boxes = [_extent(flight, view) for view in views]
    total = sum(high[0] - low[0] for low, high in boxes)
    px = (width_px - 20) / total
    body, left, height = [], 0.0, 0.0
    for view, box, title in zip(views, boxes, ("from above", f"from the {'front' if along else 'side'}"), strict=True):
        panel, high = _panel(flight, view, box, px, title)
        body.append(f'<g transform="translate({left:.1f} 0)">' + "\n".join(panel) + "</g>")
        left, height = left + px * (box[1][0] - box[0][0]) + 20, max(height, high)
    return _page("\n".join(body), width_px, height)


def moments(flight: Flight, count: int | None = None) -> list[int]:
    """Which `count` steps a picture shows, the last one last; by default more the farther somebody travelled."""
    assert flight.film is not None
    path = flight.film.moving()
    way = np.concatenate([[0.0], np.linalg.norm(np.diff(path, axis=0), axis=-1).max(1).cumsum()])
    own = max(0.3, float(np.ptp(path, axis=1).max()))
    count = count or int(np.clip(round(1.2 * way[-1] / own) + 2, 3, 6))
    steps = np.searchsorted(way, np.linspace(0.0, way[-1], count))  # as far apart on the way, not in time
    return np.unique(np.append(steps[:-1], [0, len(flight.t) - 1]).astype(int)).tolist()


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
        body.append(_line([at(point) for point in thin.pos[:, k]], colour, 2.2))
        body.append(_ring(at(flight.pos[0, k]), 0.05 * px, colour, 1.5))
        if len(flight.goal):
            body.append(_ring(at(flight.goal[k]), 0.12 * px, colour, 2.5))
    body.extend(_closest(flight, at, px))
    return _page("\n".join(body), width_px, height)


def _panel(flight: Flight, view: View, box: Box, px: float, title: str) -> tuple[list[str], float]:
    """One view of the whole episode, and its height in pixels."""
    assert flight.film is not None
    (low, high), film, thin = box, flight.film, flight.thinned(20.0)
    width, height = px * (high - low)

    def at(point: np.ndarray) -> tuple[float, float]:
        return px * (point[0] - low[0]), height - px * (point[1] - low[1])

    body = [_grid(low, high, at, width, height)]
    if view is not ABOVE:
        ground = at(np.zeros(2))[1]
        body.append(f'<path d="M0 {ground:.1f}H{width:.1f}" stroke="{INK}" stroke-width="1.5"/>')
    shown = moments(flight)
    drawn = [_polygon(outline, at) for outline in outlines(film, 0, view, world=True)]
    body.append('<g opacity="0.5">' + "".join(drawn) + "</g>")
    separation = flight.separation_m()
    nearest = int(separation.argmin()) if np.isfinite(separation).all() else -1
    if nearest >= 0:
        shown = sorted({*shown, nearest})
    for number, step in enumerate(shown):
        fade = 1.0 if step == shown[-1] else 0.14 + 0.22 * number / len(shown)
        fade = max(fade, 0.6) if step == nearest else fade
        drawn = [_polygon(outline, at) for outline in outlines(film, step, view, world=False)]
        body.append(f'<g opacity="{fade:.2f}">' + "".join(drawn) + "</g>")
    for k in range(len(flight.names)):
        if np.ptp(thin.pos[:, k], axis=0).max() > 0.02:  # it does not stand on a bolted base
            body.append(_line([at(p) for p in view.flat(thin.pos[:, k])], COLOURS[k % len(COLOURS)], 1.8))
            body.append(_ring(at(view.flat(thin.pos[0, k])), 4.0, COLOURS[k % len(COLOURS)], 1.5))
    for marker in film.markers:
        colour = INK if marker.owner < 0 else COLOURS[marker.owner % len(COLOURS)]
        path = view.flat(marker.pos)
        if np.ptp(path, axis=0).max() > 0.02:
            body.append(
                _line([at(p) for p in path[:: max(1, len(path) // 200)]], colour, 1.2, ' stroke-dasharray="5 4"')
            )
        body.append(_ring(at(path[-1]), 9.0, colour, 2.5))
    if view is ABOVE:
        body.extend(_closest(flight, at, px)[-1:])  # the words; the robots are drawn as they are
    body.append(
        f'<text x="10" y="{height - 10:.0f}" fill="{INK}" font-size="13">{title}, squares of {GRID_M:g} m</text>'
    )
    return body, height


def _extent(flight: Flight, view: View) -> Box:
    """What a panel has to show: everything that moves, and the ground."""
    points = view.flat(flight.seen().reshape(-1, 3))
    low, high = points.min(0), points.max(0)
    if view is not ABOVE:
        low[1] = min(low[1], 0.0)
    edge = np.maximum(max(0.12, 0.1 * float((high - low).max())), (LEAST_M - (high - low)) / 2)
    return low - edge, high + edge


def _polygon(outline: Outline, at: Place) -> str:
    tint = COLOURS[outline.owner % len(COLOURS)] if outline.owner >= 0 else "#9aa3b2"
    corners = [at(point) for point in outline.points]
    if not outline.closed:
        return _line(corners, INK, 1.2)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    fill = mixed(outline.colour, tint, 0.5)
    return (
        f'<polygon points="{points}" fill="{fill}" stroke="{mixed(tint, "#1a1f28", 0.35)}" stroke-width="1" '
        f'opacity="{outline.alpha:.2f}"/>'
    )


def mixed(first: str, second: str, share: float) -> str:
    """The colour between two, #rrggbb; 0 is the first."""
    pairs = [(int(first[k : k + 2], 16), int(second[k : k + 2], 16)) for k in (1, 3, 5)]
    return "#" + "".join(f"{round((1 - share) * a + share * b):02x}" for a, b in pairs)


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


def _line(corners: list[tuple[float, float]], colour: str, width: float, extra: str = "") -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"{extra}/>'


def _ring(centre: tuple[float, float], radius: float, colour: str, width: float) -> str:
    x, y = centre
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _grid(low: np.ndarray, high: np.ndarray, at: Place, width: float, height: float) -> str:
    first = np.ceil(low / GRID_M) * GRID_M
    columns = (at(np.array([x, 0.0]))[0] for x in np.arange(first[0], high[0], GRID_M))
    rows = (at(np.array([0.0, y]))[1] for y in np.arange(first[1], high[1], GRID_M))
    lines = [f"M{x:.1f} 0V{height:.1f}" for x in columns] + [f"M0 {y:.1f}H{width:.1f}" for y in rows]
    return f'<path d="{"".join(lines)}" stroke="{INK}" stroke-opacity=".18" fill="none"/>'


def _page(body: str, width: float, height: float) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">\n{body}\n</svg>\n'
