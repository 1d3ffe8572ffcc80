"""How much thrust an airframe really has, from a hover, and a number of a driver in a team file."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from hardware.spec import GRAVITY

if TYPE_CHECKING:
    from ros_nodes.operation.hover_log import HoverLog

SCALE = (0.5, 1.5)  # that the driver takes
MOST = 0.35  # of a change: beyond, the robot or its battery is another one
LEAST_HZ = 20.0  # of measurements and commands
LOWEST_M, FASTEST_M_S, LEAST_UPRIGHT = 0.3, 0.3, 0.97  # a hover, above the ground's effect
AGREE = 0.03  # of the thrust in both halves of the time


def hover_thrust(log: "HoverLog", mass_kg: float) -> tuple[float, float]:
    """Thrust that was sent, and that carried it, along the vertical, N; ValueError where it did not hover.

    What carries a drone of `mass_kg` is m (g + change of its vertical speed / time).
    """
    if len(log.time_s) < 2 or not len(log.thrust_n):
        raise ValueError("nothing is heard of it: is it deployed, and flown by its policy?")
    took_s = float(log.time_s[-1] - log.time_s[0])
    if min(len(log.time_s), len(log.thrust_n)) < LEAST_HZ * took_s:
        raise ValueError(f"{len(log.time_s)} measurements and {len(log.thrust_n)} commands in {took_s:.1f} s are few")
    fastest_m_s = float(np.sqrt((log.velocity_w**2).sum(axis=1).mean()))
    if log.height_m.min() < LOWEST_M or fastest_m_s > FASTEST_M_S or log.upright.min() < LEAST_UPRIGHT:
        how = f"from {log.height_m.min():.2f} m up, at {fastest_m_s:.2f} m/s, tilted by {_tilt(log):.0f} degrees"
        limits = f"above {LOWEST_M:g} m, below {FASTEST_M_S:g} m/s, {np.degrees(np.arccos(LEAST_UPRIGHT)):.0f} degrees"
        raise ValueError(f"it does not hover: {how}; needs {limits}")
    first, second = (float(half.mean()) for half in np.array_split(log.thrust_n, 2))
    if abs(first - second) > AGREE * (first + second) / 2:
        raise ValueError(f"its thrust changes from {first:.3f} to {second:.3f} N: let it hover for longer")
    sent_n = float(log.thrust_n.mean() * log.upright.mean())
    gained_m_s = float(log.velocity_w[-1, 2] - log.velocity_w[0, 2])
    return sent_n, mass_kg * (GRAVITY + gained_m_s / took_s)


def new_scale(scale: float, sent_n: float, carried_n: float) -> float:
    """The thrust scale with which `carried_n` is what is sent; ValueError for one that cannot be."""
    found = scale * sent_n / carried_n
    if not SCALE[0] <= found <= SCALE[1] or abs(found / scale - 1.0) > MOST:
        allowed = f"{SCALE[0]:g} to {SCALE[1]:g}, and at most {100 * MOST:g} % from {scale:g}"
        raise ValueError(f"thrust_scale would be {found:.3f}: expected {allowed}; look at propellers, battery and mass")
    return round(found, 3)


def write_option(file: Path, robot: str, option: str, value: float) -> None:
    """Set a number in the options of `robot` in a team file, and leave all else of it as it is.

    ValueError, and the file as it was, where its options are not written between { and } after its name.
    """
    text = file.read_text(encoding="utf-8")
    wanted = msgspec.yaml.decode(text)
    for each in wanted["robots"]:
        if each["name"] == robot:
            each.setdefault("options", {})[option] = value
    begin = re.search(rf"""["']?name["']?\s*:\s*["']?{robot}["']?\s*[,\n}}]""", text)
    options = re.compile(r"""["']?options["']?\s*:\s*{""").search(text, begin.start() if begin else len(text))
    if options:
        end = text.find("}", options.end())
        inside, n = re.subn(rf"""(["']?{option}["']?\s*:\s*)[-+.\deE]+""", rf"\g<1>{value}", text[options.end() : end])
        if not n:
            inside = f'"{option}": {value}, {inside}'
        text = text[: options.end()] + inside + text[end:]
        if msgspec.yaml.decode(text) == wanted:
            file.write_text(text, encoding="utf-8")
            return
    raise ValueError(f"{file}: cannot be changed by itself: write {option}: {value} into the options of {robot}")


def _tilt(log: "HoverLog") -> float:
    return float(np.degrees(np.arccos(np.clip(log.upright.min(), -1.0, 1.0))))
