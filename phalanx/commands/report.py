"""`phalanx report`: the page of a mission, a team or a demo once more."""

import json
from pathlib import Path
from typing import Annotated, Any

import tyro

from hardware.names import nearest_path
from phalanx.console import out

RESULT, PAGE = "result.json", "report.html"


def report(run: Annotated[Path, tyro.conf.Positional]) -> int:
    """Write report.html of a deployment or a demo again, from the result and the flight in its folder.

    For a page that was lost, that a full disk did not take, or that an older version wrote. A team that ended without a
    failure, which leaves none, gets one too.

    Args:
        run: The folder, such as runs/deploy/1 or runs/demo.
    """
    page = run / PAGE
    page.write_text(_render(run, _read(run)), encoding="utf-8")
    out.print(str(page), markup=False)
    return 0


def _read(run: Path) -> dict[str, Any]:
    """The result in a folder; ValueError where there is none."""
    file = run / RESULT
    if run.is_file():
        raise ValueError(f"{run}: is a file; give its folder: {run.parent}")
    if not run.is_dir():
        raise ValueError(f"{run}: no such folder{nearest_path(run)}")
    if not file.is_file():
        raise ValueError(f"{run}: has no {RESULT}; give the folder of a deployment that came to its end, or of a demo")
    try:
        result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: is damaged: {error}") from error
    if not isinstance(result, dict) or "failures" not in result:
        raise ValueError(f"{file}: is no result of a deployment or a demo")
    return result


def _render(run: Path, result: dict[str, Any]) -> str:
    """HTML of a demo, which has gates, of a mission, which has a recorded flight, or of a team."""
    from phalanx.report.page import render_failure, render_flight, render_page

    if "gates" not in result and not (run / "flight.npz").is_file():
        how = "deployment failed" if result["failures"] else "deployed without a failure"
        return render_failure(result["failures"], result.get("events", ()), f"{run.resolve().name}: {how}")
    from phalanx.missions.film import load_mission_flight  # takes seconds
    from ros_nodes.plans.mission import load_mission

    if "gates" in result:
        from phalanx.demo.stages import title

        return render_page(result, load_mission_flight(run / "ros" / "flight.npz"), title(result))
    mission = load_mission(run / "plan.json")
    flight = load_mission_flight(run / "flight.npz", mission)
    return render_flight(result, flight, result["task"], [member.robot for member in mission.team])
