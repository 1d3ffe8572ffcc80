"""The command; what is checked is said in the package."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from deploy.shield import check
from deploy.shield.check.cells import BOUNDS, NOISE_M_S
from deploy.shield.check.pairs import FRESH_S, Pair, compare_three, fly, greatest, synthesis_time
from deploy.shield.check.robot import Robot
from deploy.shield.drone.params import make_flight_params
from hardware import load_robot, robot_names

SIZE = (0.01, 0.02)
LINE_SIZE, LINE_M = (0.02, 0.05), 0.55  # of three on a line, up to this beyond the separation
LATE_S, SILENT_S = 0.1, (0.1, 0.2, 0.3)
Job = tuple[str, str, Callable[[], Any]]  # part of the result, name, what gives it


def jobs(robot: Robot) -> list[Job]:
    """All that is checked of a robot, each to be called."""
    alone, above = replace(robot, alone=True), replace(robot, above=True)
    mutants = {
        "each does 0.4 of the braking": (replace(robot, share=0.8), True),
        "no margin for latency and age": (replace(robot, predicts=False), True),
        "a peer that does not share is forgotten": (robot, False),
    }
    line = (LINE_SIZE, robot.params.separation_m + LINE_M)
    return [
        *(("pairs", f"both share, message {age:g} s old", _pair(robot, age)) for age in (0.0, FRESH_S, LATE_S)),
        *(
            ("pairs", f"the other flies straight on, heard {age:g} s ago", _pair(alone, age, False))
            for age in (0.0, FRESH_S, *SILENT_S)
        ),
        *(("mutants", name, _pair(mutant, FRESH_S, shares)) for name, (mutant, shares) in mutants.items()),
        ("limits", "unseen change of the closing speed, m/s", lambda: greatest(lambda u: _unseen(robot, u), 0.4)),
        ("above", "one above the other", _pair(above, FRESH_S)),
        ("limits", "closing speed above each other, m/s", lambda: greatest(lambda v: _slow(above, v), 5.0)),
        ("three", "on a line", lambda: compare_three(robot, *line)),
        ("three", "two fly at one that stands, least gap m", lambda: fly(robot, FRESH_S, 0.0, robot.params.max_speed)),
        *(("times", str(count), lambda count=count: synthesis_time(robot, *line, count)) for count in range(2, 11)),
    ]


def run(robot: Robot, on_progress: Callable[[int, int, str], None]) -> dict[str, Any]:
    """The result of all `jobs`, by part and name; `passes` when all pairs keep their distance and no mutant does."""
    todo = jobs(robot)
    result: dict[str, Any] = {}
    for number, (part, name, call) in enumerate(todo):
        on_progress(number, len(todo), name)
        result.setdefault(part, {})[name] = call()
    safe = all(each["safe"] for each in result["pairs"].values())
    return {"passes": safe and not any(each["safe"] for each in result["mutants"].values()), **result}


def _pair(robot: Robot, age_s: float, shares: bool = True) -> Callable[[], dict[str, Any]]:
    def check_pair() -> dict[str, Any]:
        pair = Pair.of(robot, age_s, SIZE, shares)
        found: dict[str, Any] = {"safe": pair.keeps, "cells": pair.lost.size, "lost": int((pair.lost > 0).sum())}
        return found if pair.keeps else found | {"flown_m": fly(robot, age_s, float(shares)), "trace": pair.trace()}

    return check_pair


def _unseen(robot: Robot, unseen_m_s: float) -> bool:
    return Pair.of(robot, FRESH_S, SIZE, wrong=(BOUNDS[0], NOISE_M_S + unseen_m_s)).keeps


def _slow(robot: Robot, closing: float) -> bool:
    return Pair.of(robot, FRESH_S, SIZE, closing=closing).keeps


def show(name: str, result: dict[str, Any]) -> None:
    """Print the result for people."""
    for part in ("pairs", "mutants", "above"):
        for what, found in result[part].items():
            verdict = "safe" if found["safe"] else "not safe"
            print(f"{part}: {what}: {verdict}, {found['lost']} of {found['cells']} cells lost")
            if "trace" in found:
                print(f"  flown with all errors at their bounds the least gap is {found['flown_m']} m; through cells:")
                for point in found["trace"]:
                    print("   ", ", ".join(f"{key} {value:g}" for key, value in point.items()))
    for what, value in result["limits"].items():
        print(f"safe up to: {what}: {value:g}")
    for what, value in result["three"].items():
        print(f"three {what}: {value}")
    for row in result["times"].values():
        print(
            f"{row['robots']} robots: {row['local_s_each']} s each, one game has {row['cells_of_one_game']:.1e} cells"
        )
    print(f"{name}: {'passes' if result['passes'] else 'FAILS'}")


def main() -> int:
    """Check what the command line names; 0 when it passes, 1 when not."""
    parser = argparse.ArgumentParser(
        prog="python -m deploy.shield.check", description=check.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    drones = [name for name in robot_names() if load_robot(name).flight is not None]
    parser.add_argument("--robot", default="crazyflie", choices=drones)
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    asked = parser.parse_args()
    began = time.perf_counter()

    def tell(done: int, total: int, what: str) -> None:
        spent = time.perf_counter() - began
        left = f", about {spent / done * (total - done):.0f} s left" if done else ""
        print(f"{done + 1} of {total}{left}: {what}", file=sys.stderr)

    result = run(Robot(make_flight_params(load_robot(asked.robot))), tell)
    result = {"robot": asked.robot, **result, "seconds": round(time.perf_counter() - began, 1)}
    print(json.dumps(result)) if asked.json else show(asked.robot, result)
    return 0 if result["passes"] else 1


if __name__ == "__main__":
    sys.exit(main())
