"""What happened to robots, in few rows: on a busy machine there are a hundred delays to each change of state."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

DELAY = re.compile(r"(no .+?) for (\d+) ms: (.+)")  # as `ros_nodes.messages.delays` words it


def incident_rows(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows (robot, t_s, what, why) of `events` as of `ros_nodes`: every change of state, then the delays.

    Delays of one robot and one kind are one row, at the time of the first.
    """
    changes, delays = [], dict[tuple[str, str, str], list[tuple[float, int]]]()
    for event in events:
        if event["from"] == event["to"] and (found := DELAY.fullmatch(event["reason"])):
            delays.setdefault((event["robot"], found[1], found[3]), []).append((event["t_s"], int(found[2])))
        else:
            what = "delay" if event["from"] == event["to"] else f"{event['from'] or 'start'} to {event['to']}"
            changes.append({"robot": event["robot"], "t_s": event["t_s"], "what": what, "why": event["reason"]})
    return changes + [
        {
            "robot": robot,
            "t_s": times[0][0],
            "what": f"{len(times)} delays until {times[-1][0]:.1f} s" if len(times) > 1 else "delay",
            "why": f"{missing} for {'up to ' * (len(times) > 1)}{max(ms for _, ms in times)} ms: {who}",
        }
        for (robot, missing, who), times in sorted(delays.items())
    ]


def failure_lines(failures: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of failures of a mission a line each, who, when and why; what several robots failed in at once is one."""
    robots: dict[tuple[float, str], list[str]] = {}
    for failure in failures:
        robots.setdefault((failure["t_s"], failure["why"]), []).append(failure["robot"])
    return [f"{', '.join(who) or 'a process'} at {t_s:.1f} s: {why}" for (t_s, why), who in robots.items()]


def state_lanes(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of each robot of `events` its states over time: `spans` of (from s, to s, state), until the last event of any."""
    end_s = max((event["t_s"] for event in events), default=0.0)
    begun: dict[str, list[tuple[float, str]]] = {}
    for event in sorted(events, key=lambda event: event["t_s"]):
        if event["from"] != event["to"]:
            begun.setdefault(event["robot"], []).append((event["t_s"], event["to"]))
    return [
        {
            "robot": robot,
            "spans": [
                (t_s, until_s, state)
                for (t_s, state), (until_s, _) in zip(states, [*states[1:], (end_s, "")], strict=True)
            ],
        }
        for robot, states in sorted(begun.items(), key=lambda lane: (len(lane[0]), lane[0]))  # cf10 after cf9
    ]
