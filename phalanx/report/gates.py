"""What a run has to reach to be called a success."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

SUCCESS_RATE = 0.95
PARITY = 1e-5
CONTROL_HZ = 50.0
LOST_PERCENT = 1.0  # of the cycles
FALLBACK_PERIODS = 6  # five in which the shield waits for a request, and its own cycle
ECHO_MS = 3.0  # all but one in twenty bare echoes are faster where nothing disturbs them
LEAST_CORES = 2
FREE_CORES = 0.25  # other programs that use less of the processor disturb nothing


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition: what was measured, what was wanted, in words for a person."""

    name: str
    passed: bool
    value: str
    wanted: str
    cause: str = ""  # of a figure of time that is missed: what was found of the machine
    warning: bool = False  # whether it is missed, and passed all the same: the machine explains it


def check_gates(result: Mapping[str, Any], learned: bool) -> list[Gate]:
    """The gates of a run from the content of result.json; what was not measured fails.

    A figure of time that the machine alone can have made too large is a warning, see `_on_time`.

    `learned` False leaves out those that need a fully trained policy, as after the short training of a quick run.
    """
    teams, ros = result["verify"]["teams"], result["ros"]
    robots, period_ms = ros["robots"], 1e3 / CONTROL_HZ
    collided = {size: team["shielded_collision_rate"] for size, team in teams.items()}
    lost = max(0.0, 100 * (1 - ros["control_hz"] / CONTROL_HZ))
    delay_ms, fallback_ms = ros["sensor_to_command_ms"]["p99"], ros["kill_to_fallback_ms"]
    gates = [
        _below("parity of simulation and file, largest difference", result["parity"]["max_abs"], PARITY, "", "{:.1e}"),
        Gate(
            "collisions behind the shield, held-out starts",
            all(rate == 0 for rate in collided.values()),
            ", ".join(f"{100 * rate:.2g} % of {size}" for size, rate in collided.items()),
            "0 in every team",
        ),
        _on_time(f"cycles of {CONTROL_HZ:g} Hz lost by the slowest robot", lost, LOST_PERCENT, "%", ros),
        _on_time("sensor to command in ROS 2, p99", delay_ms, period_ms, "ms", ros),
        _on_time("kill to fallback", fallback_ms, FALLBACK_PERIODS * period_ms, "ms", ros),
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


def _on_time(name: str, value: float | None, limit: float, unit: str, ros: Mapping[str, Any]) -> Gate:
    """Below the limit; above it a warning by as much as the machine is slower than it should be, see `_slowness`."""
    gate = _below(name, value, limit, unit)
    if gate.passed or value is None:
        return gate
    slowness, found = _slowness(ros)
    passed = value < slowness * limit
    explained = f"{slowness * limit:.3g} {unit}"
    whose = "the machine" if passed else f"the load explains {explained} (how fast its cores are is not looked at)"
    return replace(gate, passed=passed, cause=f"{whose}: {found}", warning=passed)


def _slowness(ros: Mapping[str, Any]) -> tuple[float, str]:
    """By what factor the machine is slower than it should be, at least 1, and what was found of it.

    By its bare echoes while nothing of ours ran; or by other programs during the mission: what has to wait for the
    processor waits longer as its idle share shrinks, which would have been larger without them.
    """
    cores, others, ours = ros["machine_cores"], ros["other_programs_cores"], sum(ros["cores"].values())
    stolen = ros["stolen_cores"] or 0.0
    echoes = {when: echo["p95"] for when, echo in ros["bare_echo_ms"].items() if echo}
    factors = [1.0, *(ms / ECHO_MS for ms in echoes.values())]
    found = [f"{ms:.1f} ms {when}" for when, ms in echoes.items()]
    words = [f"bare echoes took {' and '.join(found)} the mission (p95, quiet: {ECHO_MS:g} ms)"] * bool(found)
    if others is not None:
        host = f", the host of this virtual machine {stolen:.1f}" if stolen >= 0.05 else ""
        words.insert(0, f"other programs held {others:.1f} of {cores} cores{host}, this one {ours:.1f}")
        if (taken := others + stolen) > FREE_CORES:
            factors.append((cores - ours) / max(cores - ours - taken, 1e-3))
    if cores < LEAST_CORES:
        factors.append(inf)
        words.insert(0, f"this machine has {cores} core, where {LEAST_CORES} are needed")
    return max(factors), "; ".join(words)


def _below(name: str, value: float | None, limit: float, unit: str, form: str = "{:.1f}") -> Gate:
    wanted = f"< {limit:g} {unit}".strip()
    if value is None:
        return Gate(name, False, "not measured", wanted)
    return Gate(name, value < limit, f"{form.format(value)} {unit}".strip(), wanted)


def _yes(name: str, value: bool | None) -> Gate:
    return Gate(name, value is True, {True: "yes", False: "no", None: "not measured"}[value], "yes")
