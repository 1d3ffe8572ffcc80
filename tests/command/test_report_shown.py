"""Pages as a browser shows them: what lies on what, and what has to be scrolled for."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_report import GOOD, make_flight

from phalanx.report import Event, render_page
from phalanx.report.page import render_failure

OVERLAPS = """
const found = [];
for (const svg of document.querySelectorAll("svg")) {
  const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  boxes.forEach(([a, p], i) => boxes.slice(0, i).forEach(([b, q]) => {
    const apart = p.right <= q.left + 1 || q.right <= p.left + 1 || p.bottom <= q.top + 3 || q.bottom <= p.top + 3;
    if (!apart) found.push(`${a} / ${b}`);
  }));
}
document.title = `overlaps: ${found.join(", ")};`;
"""


def shown_title(page: str, script: str, folder: Path, width: int = 1280) -> str:
    """The title that `script` gives the page in a browser once that has drawn it.

    Figures are drawn when the browser lays the page out, in its first frame, which on a busy machine comes late or not
    at all before it ends.
    """
    drawn = f"requestAnimationFrame(() => setTimeout(() => {{{script}}}, 500))"
    script = f"<script>addEventListener('load', () => {drawn})</script>"
    own = re.search("<title>(.*?)</title>", page)[1]
    (folder / "page.html").write_text(page.replace("</body>", f"{script}</body>"))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},3000", "--dump-dom"]
    command += ["--virtual-time-budget=4000", f"--user-data-dir={folder}", f"file://{folder}/page.html"]
    for _ in range(10):
        shown = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
        if (title := re.search("<title>(.*?)</title>", shown)[1]) != own:
            break
    return title


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs a browser")
@pytest.mark.parametrize("width", [1280, 500])
def test_no_label_of_a_figure_lies_on_another(tmp_path, width):
    flight = make_flight()
    events = [Event(t, "cf3", "kill", text) for t, text in ((0.0, "new goals"), (10.3, "new goals"), (17.9, "landed"))]
    flight = replace(flight, events=(*flight.events, *events), latency_ms=np.linspace(3.0, 30.0, 1000))
    page = render_page({**GOOD, "success": True, "gates": []}, flight, "swap")
    assert shown_title(page, OVERLAPS, tmp_path, width) == "overlaps: ;"


UNREADABLE = """
const hidden = [...document.querySelectorAll(".scroll")].filter((each) => each.scrollWidth > each.clientWidth).length;
document.title = `hidden ${hidden} undefined ${document.body.innerText.includes("undefined")}`;
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs a browser")
def test_reasons_of_a_failed_deployment_are_read_without_a_scroll_bar(tmp_path):
    failures = [{"robot": f"x{n}", "t_s": 16.6, "why": "device: nothing heard for 1642 ms"} for n in range(4)]
    page = render_failure(failures, [], "team of lab.yaml")
    assert shown_title(page, UNREADABLE, tmp_path, 900) == "hidden 0 undefined false"


STATES = """
const shown = [...document.querySelectorAll("rect.state")].map((lane) => lane.textContent);
document.title = `${shown.length} states: ${shown.join("; ")};`;
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs a browser")
def test_a_deployment_that_failed_shows_the_states_of_its_robots_over_time(tmp_path):
    """It has no recorded flight to show them with."""
    changes = [("cf1", 0.0, "", "DISARMED"), ("cf2", 0.1, "", "DISARMED"), ("cf1", 1.0, "DISARMED", "ARMED")]
    late = {"t_s": 2.0, "robot": "cf1", "from": "ARMED", "to": "ARMED", "reason": "no measurement for 300 ms: late"}
    events = [{"robot": r, "t_s": t, "from": a, "to": b, "reason": ""} for r, t, a, b in changes]
    page = render_failure([{"robot": "cf2", "t_s": 4.0, "why": "never armed"}], [*events, late], "busy")
    title = shown_title(page, STATES, tmp_path)
    assert title == "3 states: cf1: DISARMED, 0 to 1 s; cf1: ARMED, 1 to 2 s; cf2: DISARMED, 0.1 to 2 s;"


LABELS = """
const svg = document.querySelector("svg:has(.mark)");
const rows = new Set([...svg.querySelectorAll(".mark-text")].map((text) => text.getAttribute("y")));
const grid = [...svg.querySelectorAll(".grid")].map((line) => +line.getAttribute("y1"));
const plot = Math.round(Math.max(...grid) - Math.min(...grid));
document.title = `rows ${rows.size} marks ${svg.querySelectorAll(".mark").length} plot ${plot}`;
"""


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs a browser")
def test_labels_of_many_holds_leave_room_for_the_curve(tmp_path):
    flight = make_flight()
    holds = tuple(Event(5.0 + 0.1 * k, "cf3", "hold", f"cf3 holds: request {k} is late") for k in range(40))
    page = render_page({**GOOD, "success": True, "gates": []}, replace(flight, events=holds), "swap")
    rows, marks, plot = map(int, re.findall(r"\d+", shown_title(page, LABELS, tmp_path)))
    assert rows == 4 and marks == 40 and plot > 80
