"""What a run has to reach to be called a success."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

SUCCESS_RATE = 0.95
PARITY = 1e-5
CONTROL_HZ, RATE_TOLERANCE = 50.0, 0.01
FALLBACK_PERIODS = 7  # five to act, and what the last request's age and the shield's own cycle add
LATE_SHARE = 0.03  # of the cycles at most may be lost where one in a hundred bare echoes lasts a period: three hops
ECHO_MS = 2.0  # p99 of a bare echo where nothing disturbs it
FREE_CORES = 0.25  # other programs that use less of the processor disturb nothing
SLOW_ECHO_MS = 4.0  # p99 from which on a machine is too slow by itself, whatever else runs there
SLOW_FACTOR = 2.0  # above its limit at most, where a slow machine is the cause: the echo feels the mission too


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition: what was measured, what was wanted, in words for a person."""

    name: str
    passed: bool
    value: str
    wanted: str
    warning: str = ""  # why the figure is missed and the gate is passed all the same


def check_gates(result: Mapping[str, Any], learned: bool) -> list[Gate]:
    """The gates of a run from the content of result.json; what was not measured fails.

    A figure of time that the machine alone made too late is a warning, see `_on_time`.

    `learned` False leaves out those that need a fully trained policy, as after the short training of a quick run.
    """
    teams, ros = result["verify"]["teams"], result["ros"]
    robots, period_ms = ros["robots"], 1e3 / CONTROL_HZ
    collided = {size: team["shielded_collision_rate"] for size, team in teams.items()}
    gates = [
        _below("parity of simulation and file, largest difference", result["parity"]["max_abs"], PARITY, "", "{:.1e}"),
        Gate(
            "collisions behind the shield, held-out starts",
            all(rate == 0 for rate in collided.values()),
            ", ".join(f"{100 * rate:.2g} % of {size}" for size, rate in collided.items()),
            "0 in every team",
        ),
        _control_rate(ros),
        _on_time("sensor to command in ROS 2, p99", ros["sensor_to_command_ms"]["p99"], period_ms, ros),
        _on_time("kill to fallback", ros["kill_to_fallback_ms"], FALLBACK_PERIODS * period_ms, ros),
        _yes("robot without policy landed safely", ros["landed_safely"]),
        Gate(
            "separation violations in ROS 2",
            result["shield"]["violations"] == 0,
            str(result["shield"]["violations"]),
            "0",
        ),
    ]
    if learned:
        rate = teams[str(robots)]["shielded_success_rate"] if str(robots) in teams else 0.0
        name = f"success on held-out starts, team of {robots}, with shield"
        gates.insert(0, Gate(name, rate >= SUCCESS_RATE, f"{100 * rate:.1f} %", f">= {100 * SUCCESS_RATE:g} %"))
        gates.append(_yes("mission flown in ROS 2: every robot at its goals, no contact", ros["mission_success"]))
    return gates


def _control_rate(ros: Mapping[str, Any]) -> Gate:
    """Full rate, or that of a bare echo beside the mission where the machine holds up both."""
    least, hz, why = (1 - RATE_TOLERANCE) * CONTROL_HZ, ros["control_hz"], _disturbed(ros)
    gate = Gate("control rate of the slowest robot", hz >= least, f"{hz:.1f} Hz", f"{CONTROL_HZ:g} Hz")
    echo = ros.get("bare_echo") or {}
    echo_hz, echo_ms = echo.get("hz"), echo.get("cycle_ms", {}).get("p99")
    if gate.passed:
        return gate
    if why and echo_hz is not None and hz >= (1 - RATE_TOLERANCE) * min(echo_hz, CONTROL_HZ):
        return replace(gate, passed=True, warning=f"a bare echo ran at {echo_hz:.1f} Hz: {why}")
    if echo_ms is not None and echo_ms > 1e3 / CONTROL_HZ and hz >= (1 - RATE_TOLERANCE - LATE_SHARE) * CONTROL_HZ:
        warning = f"one in a hundred bare echoes took {echo_ms:.1f} ms or more, longer than a period"
        return replace(gate, passed=True, warning=warning)
    return gate


def _on_time(name: str, value: float | None, limit_ms: float, ros: Mapping[str, Any]) -> Gate:
    """Below the limit, or above it by no larger factor than a bare echo beside the mission is above its usual time."""
    gate, why = _below(name, value, limit_ms, "ms"), _disturbed(ros)
    echo_ms = (ros.get("bare_echo") or {}).get("cycle_ms", {}).get("p99")
    if gate.passed or value is None or echo_ms is None:
        return gate
    factor = echo_ms / ECHO_MS
    if not why and echo_ms >= SLOW_ECHO_MS:
        why, factor = "nothing else ran, the machine is slow", min(factor, SLOW_FACTOR)
    if not why or value >= limit_ms * factor:
        return gate
    warning = f"a bare echo took {echo_ms:.1f} ms p99, {ECHO_MS:g} ms where nothing disturbs it: {why}"
    return replace(gate, passed=True, warning=warning)


def _disturbed(ros: Mapping[str, Any]) -> str:
    """What on this machine can hold up any program; empty for nothing, so that delays are our own."""
    cores, niceness = ros.get("other_programs_cores"), (ros.get("bare_echo") or {}).get("niceness")
    busy = f"other programs held {cores:.1f} cores" if cores is not None and cores > FREE_CORES else ""
    refused = "the system refused a niceness below 0" if niceness is not None and niceness >= 0 else ""
    return ", ".join(filter(None, [busy, refused]))


def _below(name: str, value: float | None, limit: float, unit: str, form: str = "{:.1f}") -> Gate:
    wanted = f"< {limit:g} {unit}".strip()
    if value is None:
        return Gate(name, False, "not measured", wanted)
    return Gate(name, value < limit, f"{form.format(value)} {unit}".strip(), wanted)


def _yes(name: str, value: bool | None) -> Gate:
    return Gate(name, value is True, {True: "yes", False: "no", None: "not measured"}[value], "yes")
