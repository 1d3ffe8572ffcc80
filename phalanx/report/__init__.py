"""What a run leaves behind for people and machines: result.json and a self-contained report.html."""

from phalanx.report.film import Marker
from phalanx.report.flight import Event, Flight, load_flight
from phalanx.report.gates import check_gates
from phalanx.report.page import render_flight, render_page, render_replay

__all__ = ["Event", "Flight", "Marker", "check_gates", "load_flight", "render_flight", "render_page", "render_replay"]
