"""What a run leaves behind for people and machines: result.json and a self-contained report.html."""

from phalanx.report.flight import Event, Flight
from phalanx.report.page import render_page

__all__ = ["Event", "Flight", "render_page"]
