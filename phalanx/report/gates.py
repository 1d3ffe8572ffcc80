"""What a run has to reach before anybody calls it a success."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SUCCESS_RATE = 0.95
PARITY = 1e-5
CONTROL_HZ, RATE_TOLERANCE = 50.0, 0.01
FALLBACK_PERIODS = 5


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition: what was measured, what was wanted, in words for a person."""

    name: str
    passed: bool
    value: str
    wanted: str


def judge(result: Mapping[str, Any], learned: bool) -> list[Gate]:
    """The gates of a run from the content of result.json; what was not measured fails.

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
        Gate(
            "control rate of the slowest robot",
            ros["control_hz"] >= (1 - RATE_TOLERANCE) * CONTROL_HZ,
            f"{ros['control_hz']:.1f} Hz",
            f"{CONTROL_HZ:g} Hz",
        ),
        _below("sensor to command in ROS 2, p99", ros["sensor_to_command_ms"]["p99"], period_ms, "ms"),
        _below("kill to fallback", ros["kill_to_fallback_ms"], FALLBACK_PERIODS * period_ms, "ms"),
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
        gates.append(_yes("mission flown in ROS 2: every robot at its goals, nobody touched", ros["mission_success"]))
    return gates


def _below(name: str, value: float | None, limit: float, unit: str, form: str = "{:.1f}") -> Gate:
    wanted = f"< {limit:g} {unit}".strip()
    if value is None:
        return Gate(name, False, "not measured", wanted)
    return Gate(name, value < limit, f"{form.format(value)} {unit}".strip(), wanted)


def _yes(name: str, value: bool | None) -> Gate:
    return Gate(name, value is True, {True: "yes", False: "no", None: "not measured"}[value], "yes")
