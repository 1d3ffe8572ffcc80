"""`phalanx monitor`: what robots do, as their shields say it."""

import json as json_format
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from hardware.names import nearest
from phalanx.console import err, out
from phalanx.options import Domain

if TYPE_CHECKING:
    from ros_nodes.operation.monitor import Monitor
    from ros_nodes.operation.robot_monitor import Change

POLL_S = 0.25
SHOW_S = 0.5
JSON_S = 1.0
SETTLE_S = 2.0  # without anybody new: rates and ages are measured
FIND_S = 4.0  # ... where it is not known who else there is: a robot that was not heard announces itself again after 3 s
FIRST_S = 2.0  # who is heard by then is shown, also where others are waited for
SETTLE_POLLS = 20  # as well: a process that stood still meanwhile has not looked
CHANGES = 8  # shown below the table
OLD = "!"
HEARD_S = 0.5  # a peer whose last message is older is not heard
RED, YELLOW, GREEN = "red", "yellow", "green"
STYLES = {
    "STOPPED": RED,
    "FAULT": RED,
    "SILENT": RED,
    "ENDED": "dim",
    "LANDING": YELLOW,
    "STARTING": YELLOW,
    "POLICY": GREEN,
}
LONG = ("reason", "does not hear")  # stand below where the table would be wider than the screen
NUMBERS = ("margin", "interv.", "req ms", "state ms", "o/r/c Hz", "pubs", "bat. %")
SINCE_EPOCH_S = 1e9  # robot times below are those of a simulation


def monitor(
    robots: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[ROBOT...]")] = (),
    json: bool = False,
    once: bool = False,
    wait_s: float = 10.0,
    domain: Domain = None,
) -> int:
    """Watch the robots of a ROS domain: state, mode, reason, margin, ages, rates, battery, who hears whom, changes.

    A table in a terminal, else a line for each change. It only listens. Ctrl-C ends it.

    Args:
        robots: Names; by default all that have a topic <name>/status.
        json: Print one JSON line every second.
        once: Print once all are heard that are there or named, and end; after --wait-s say who is not, and exit 1.
            Where others are waited for, who is heard so far is shown after 2 s; as JSON it is one line, at the end.
        wait_s: How long to wait for them.
    """
    from ros_nodes.messages.names import check_name
    from ros_nodes.operation.monitor import monitoring

    for name in robots:
        check_name(name)
    unknown = _Unknown()
    with suppress(KeyboardInterrupt), monitoring(robots, domain) as watched:
        if once:
            return _once(watched, json, wait_s)
        if json:

            def print_all(changes: "Sequence[Change]") -> None:
                unknown.say(watched)
                print_line(watched.snapshot())

            _repeat(watched, JSON_S, print_all)
        elif not out.is_terminal:
            err.print(f"a line for each change in ROS domain {watched.domain_id}", markup=False)

            def print_changes(changes: "Sequence[Change]") -> None:
                unknown.say(watched)
                _print_changes(changes)

            _repeat(watched, POLL_S, print_changes)
        else:
            with Live(console=out, auto_refresh=False) as live:

                def show(changes: "Sequence[Change]") -> None:
                    lines = [Text(line, YELLOW) for line in unknown.lines(watched)]
                    live.update(Group(render(watched.snapshot()), *lines), refresh=True)

                _repeat(watched, SHOW_S, show)
    return 0


class _Unknown:
    """Of robots that were named and are not heard, such as by a mistyped name: which ones there are."""

    def __init__(self) -> None:
        self._begun_s, self._is_said = time.monotonic(), False

    def lines(self, watched: "Monitor") -> list[str]:
        """A line for each such robot, once those that are there have had the time to be found."""
        is_over = time.monotonic() > self._begun_s + FIND_S
        missing = watched.missing if watched.is_named and is_over else []
        return [who_is_there(name, watched.in_domain, watched.domain_id) for name in missing]

    def say(self, watched: "Monitor") -> None:
        """Print the lines, once."""
        if not self._is_said and (lines := self.lines(watched)):
            self._is_said = True
            for line in lines:
                err.print(f"phalanx: {line}", markup=False, soft_wrap=True)


def who_is_there(name: str, robots: Sequence[str], domain: int) -> str:
    """Of a robot `name` that is not heard: which there are instead."""
    there = ", ".join(each for each in robots if each != name) or "no other robot"
    return f"{name} is not heard in ROS domain {domain}: there is {there}{nearest(name, robots)}"


def print_line(value: Any) -> None:
    """Print `value` as JSON in one line, at once."""
    print(json_format.dumps(value, allow_nan=False), flush=True)


def _repeat(watched: "Monitor", every_s: float, show: "Callable[[Sequence[Change]], None]") -> None:
    """Poll for ever; `show` what has changed since the last time."""
    changes: list[Change] = []
    show_s = 0.0
    while True:
        changes += watched.poll()
        if (now_s := time.monotonic()) >= show_s:
            show_s = max(now_s, show_s + every_s) if show_s else now_s + every_s
            show(changes)
            changes = []
        time.sleep(POLL_S)


def _once(watched: "Monitor", json: bool, wait_s: float) -> int:
    """Print what is there once all are heard and no robot has come for a while, or `wait_s` are over."""
    from ros_nodes.operation.monitor import slowness

    begin_s = changed_s = time.monotonic()
    find_s, known = FIND_S * min(slowness(), 3.0), tuple[list[str], list[str]](([], []))
    polls, shown = 0, False
    while True:
        now_s, settled_s = time.monotonic(), changed_s + (SETTLE_S if watched.is_whole else find_s)
        if now_s >= settled_s and polls >= SETTLE_POLLS and watched.heard and not watched.missing:
            break
        if now_s > max(begin_s + wait_s, settled_s if watched.heard else 0.0):
            break
        watched.poll()
        polls += 1
        if known != (found := ([robot.name for robot in watched.heard], watched.missing)):
            known, changed_s, polls = found, now_s, 0
        if not shown and watched.heard and now_s > begin_s + FIRST_S and not watched.is_whole:
            shown = True
            if not json:
                out.print(render(watched.snapshot()))
            others = ", ".join(watched.missing) or "others, if there are any"
            err.print(f"heard {', '.join(known[0])}; waiting for {others}", markup=False)
        time.sleep(POLL_S / 5)
    if json:
        print_line(watched.snapshot())
    elif watched.heard:  # also where all were shown before: rates and ages are known now
        out.print(render(watched.snapshot()))
    if watched.heard and not watched.missing:
        return 0
    who = ", ".join(watched.missing) or "any robot"
    still = ", ".join(watched.standing_still)
    if not still and watched.is_named:
        for name in watched.missing:
            err.print(f"phalanx: {who_is_there(name, watched.in_domain, watched.domain_id)}", markup=False)
    heard, all_there = len(watched.heard), len(watched.heard) + len(watched.missing)
    if still:
        why = f"the process of {still} stands still"
    elif heard:
        why = f"{heard} of {all_there} were heard: do the others run?"
    else:
        why = f"is {watched.domain_id} the right ROS domain?"
    err.print(f"phalanx: nothing was heard of {who} within {wait_s:g} s; {why}", markup=False)
    return 1


def _print_changes(changes: "Sequence[Change]") -> None:
    for change in changes:
        out.print(_line(change.time_s, change.robot, change.before, change.after, change.reason), markup=False)
        out.file.flush()


def _line(time_s: float, robot: str, before: str, after: str, reason: str) -> str:
    when = time.strftime("%H:%M:%S", time.localtime(time_s)) if time_s > SINCE_EPOCH_S else f"{time_s:.1f} s"
    changed = f"{before} -> {after}" if before not in ("", after) else after
    return f"{when}  {robot}  {changed}{': ' + reason if reason else ''}"


def render(snapshot: dict[str, Any], width: int | None = None) -> RenderableType:
    """The display of a `Monitor.snapshot`."""
    robots, width = snapshot["robots"], width or out.width
    if not robots:
        return Text(f"no robot is heard yet in ROS domain {snapshot['domain_id']}", style="dim")
    rows = [_cells(robot) for robot in robots]
    widths = {title: max(len(title), *(len(row[title]) for row in rows)) for title in rows[0]}
    below = () if sum(widths.values()) + len(widths) <= width else LONG
    widths = {title: size for title, size in widths.items() if title not in below}
    # By hand: rich's table takes longer than all the listening.
    lines = []
    for titles in _folded(widths, width):
        lines.append(Text(" ".join(_aligned(title, title, widths) for title in titles), "dim"))
        for robot, row in zip(robots, rows, strict=True):
            several = any(count > 1 for count in robot["publishers"].values())
            style = RED if several or _is_old(robot) else STYLES.get(robot["state"], "")
            lines.append(Text(" ".join(_aligned(title, row[title], widths) for title in titles), style))
    lines += [Text(f"{row['robot']} {title}: {row[title]}") for row in rows for title in below if row[title]]
    lines += [Text(f"{robot['robot']} {robot['refused']}", YELLOW) for robot in robots if robot["refused"]]
    lines += [Text(f"{robot['robot']} device: {robot['device']}", YELLOW) for robot in robots if robot["device"]]
    changes = sorted((c | {"robot": r["robot"]} for r in robots for c in r["changes"]), key=lambda c: c["time_s"])
    last = [Text(_line(c["time_s"], c["robot"], c["from"], c["to"], c["reason"])) for c in changes[-CHANGES:]]
    legend = Text(f"{OLD}: too old; o/r/c: odometry, requests, commands; pubs: publishers of each", style="dim")
    lines += [legend, Text("\nlast changes", style="dim"), *last]
    for line in lines:
        line.no_wrap, line.overflow = False, "fold"  # else what does not fit would be cut, or left to the terminal
    return Group(*lines)


def _folded(widths: dict[str, int], width: int) -> list[list[str]]:
    """Titles of tables that fit into `width` columns, one below the other; each begins with the robots' names."""
    name, *others = widths
    tables, taken = [[name]], widths[name]
    for title in others:
        if len(tables[-1]) > 1 and taken + 1 + widths[title] > width:
            tables.append([name])
            taken = widths[name]
        tables[-1].append(title)
        taken += 1 + widths[title]
    return tables


def _aligned(title: str, text: str, widths: dict[str, int]) -> str:
    return text.rjust(widths[title]) if title in NUMBERS else text.ljust(widths[title])


def _cells(robot: dict[str, Any]) -> dict[str, str]:
    """What the table says of a robot, by the column's title."""
    charge, peers = robot["battery"] and robot["battery"]["charge"], robot["peers_age_s"]
    lost = [name for name, age_s in peers.items() if age_s is None or age_s > HEARD_S]
    return {
        "robot": robot["robot"],
        "state": robot["state"],
        "mode": robot["mode"],
        "margin": _number(robot["margin"], ".2f"),
        "interv.": str(robot["interventions"]),
        "req ms": _number(robot["request_age_s"], ".0f", 1e3),
        "state ms": _number(robot["state_age_s"], ".0f", 1e3) + OLD * _is_old(robot),
        "o/r/c Hz": "/".join(rate_of(robot, topic) for topic in robot["rates_hz"]) or "-",
        "pubs": "/".join(map(str, robot["publishers"].values())) or "-",
        "hears": f"{len(peers) - len(lost)}/{len(peers)}" if peers else "-",
        "bat. %": _number(charge, ".0f", 100.0),
        "does not hear": ", ".join(lost),
        "reason": ("for good: " if robot["latched"] else "") + robot["reason"],
    }


def _is_old(robot: dict[str, Any]) -> bool:
    """Whether its last measurement is older than what its shield acts on."""
    age_s, bound_s = robot["state_age_s"], robot["state_bound_s"]
    return age_s is not None and bound_s is not None and age_s > bound_s


def rate_of(robot: dict[str, Any], topic: str) -> str:
    """How often a topic is sent, Hz, as text; a dash where it is not measured."""
    return _number(robot["rates_hz"][topic] if robot["publishers"].get(topic) else None, ".0f")


def _number(value: float | None, how: str, scale: float = 1.0) -> str:
    return "-" if value is None else format(value * scale, how)
