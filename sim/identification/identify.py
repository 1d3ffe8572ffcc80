"""Which numbers of its model fit a recording of a robot, with intervals, a held-out part and what cannot be seen."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardware.overlay import DELAY, TOOL_MASS, Number, Overlay, overlaid, quantities
from hardware.spec import RobotSpec
from sim.identification.fit import Fit, Prior, Problem, fit, remaining
from sim.identification.recording import Recording, read_recording
from sim.identification.replay import Replay
from sim.identification.rhythm import SURE_S
from sim.identification.windows import Windows, error_names, make_windows

STEP_S = 0.002
BEFORE_S = 0.2  # of replay from which actuators get what they remember
HELD_OUT = 0.25  # of the windows, the last ones
SEEN = 0.5  # of a prior's width: a wider interval says nothing new
ALIKE = 0.7  # correlation of two numbers that move the model alike
MOST_DELAY_S = 0.06


@dataclass(frozen=True)
class IdentifyCfg:
    """What is fitted, and to how much of a recording."""

    known: Mapping[str, float]  # numbers that were measured otherwise, by the names of `hardware.overlay.quantities`
    window_s: float | None = None  # None: as is good for the class of robot
    most_windows: int = 60  # evenly over the recording
    name: str = ""  # of the robot in the bag; empty for the only one


WINDOW_S = {"drone": 0.4, "manipulator": 0.4, "humanoid": 0.12}


def identify(
    path: Path, robot: str, spec: RobotSpec, cfg: IdentifyCfg, on_progress: Callable[[float, str], None]
) -> tuple[dict[str, Any], Overlay]:
    """Plain data of what was found in the recording at `path`, and the overlay that states it.

    ValueError for a recording that cannot be read or is too short, and for known numbers that there are not.
    """
    overlaid(spec, cfg.known, "--known")  # a wrong name is answered before any work
    recording = read_recording(path, spec, cfg.name, STEP_S)
    window_s = cfg.window_s or WINDOW_S.get(spec.kind, 0.3)
    windows = make_windows(recording, spec, window_s, BEFORE_S * bool(spec.flight), STEP_S, cfg.most_windows)
    firmware = spec.flight is not None and spec.flight.rate_loop is not None and _flies_by_firmware(spec, windows, cfg)
    found = _identified(spec, windows, cfg, firmware, on_progress)
    numbers = {name: Number(value, value, value) for name, value in cfg.known.items()}
    numbers |= {name: Number(each["value"], each["low"], each["high"]) for name, each in found["numbers"].items()}
    about = {"robot": robot, "recording": recording.source, "recorded_s": float(recording.time_s[-1])}
    about["rhythm"] = rhythm_of(recording)
    return {**about, "window_s": window_s, **found}, Overlay(robot, numbers, recording.source)


def rhythm_of(recording: Recording) -> dict[str, Any]:
    """Plain data of how evenly it was recorded, and of which share of its commands the time is not known."""
    late, unsure = (each[each > SURE_S] for each in (recording.heard_late_s, recording.unsure_s))
    count = len(recording.command_s)
    return {
        **{name: asdict(each) for name, each in recording.rhythms.items()},
        "commands_heard_late": {"share": len(late) / count, "longest_s": float(late.max(initial=0.0))},
        "commands_left_out": {"share": len(unsure) / count, "longest_s": float(unsure.max(initial=0.0))},
        "measurements_missing": float(1.0 - recording.measured.mean()),
        "notes": list(recording.notes),
    }


def _flies_by_firmware(spec: RobotSpec, windows: Windows, cfg: IdentifyCfg) -> bool:
    """Whether a drone turns as by its firmware's rate loop, or as by the slower one of its model: as simulated ones."""
    some = windows.pick(np.linspace(0, len(windows.begin_s) - 1, 8).round().astype(int))
    left = []
    for firmware in (False, True):
        problem = Problem(spec, Replay(spec, STEP_S, firmware), some, cfg.known)
        priors = {name: prior for name, prior in priors_of(spec, firmware).items() if name not in cfg.known}
        left.append(float(np.square(fit(problem, priors, 2).noise[-3:]).sum()))  # of the rates
    return left[1] < left[0]


def priors_of(spec: RobotSpec, firmware: bool) -> dict[str, Prior]:
    """What is fitted of a robot, and what is known of it before: ranges that hold nearly all robots of its kind."""
    known = quantities(spec)

    def factor(name: str, width: float, most: float = 10.0) -> Prior:
        nominal = known[name].nominal
        return Prior(nominal, width * nominal, nominal / most, most * nominal)

    priors = {DELAY: Prior(0.0, MOST_DELAY_S / 2, 0.0, MOST_DELAY_S)}
    if spec.flight is not None:
        priors |= {"thrust": factor("thrust", 0.2), "drag": factor("drag", 1.0)}
        both = ("rate_loop.lag", "rate_loop.gain") if firmware else ("own_loop.lag", "own_loop.speed")
        return priors | {name: factor(name, 0.5, 3.0) for name in both}
    if not spec.fixed_base:
        priors["mass_kg"] = factor("mass_kg", 0.1)
    slides = {channel.name for channel in spec.channels if channel.unit == "m"}
    for joint in (
        joint for joint in spec.joints if joint.name not in slides
    ):  # a gripper is not what a recording is of
        if joint.stiffness:
            priors |= {f"{joint.name}.{name}": factor(f"{joint.name}.{name}", 0.5) for name in ("stiffness", "damping")}
        if joint.armature:
            priors[f"{joint.name}.armature"] = factor(f"{joint.name}.armature", 0.5)
        friction = joint.friction or 0.01 * joint.max_effort
        priors[f"{joint.name}.friction"] = Prior(joint.friction, friction, 0.0, 20.0 * friction)
    if TOOL_MASS in known:
        most = spec.payload_kg or 1.0
        priors[TOOL_MASS] = Prior(0.0, most / 2, 0.0, 2.0 * most)
    return priors


def _identified(
    spec: RobotSpec, windows: Windows, cfg: IdentifyCfg, firmware: bool, say: Callable[[float, str], None]
) -> dict[str, Any]:
    """Fit to the first windows, and compare with the last ones, which are held out."""
    count = len(windows.begin_s)
    last = count - max(2, round(HELD_OUT * count))
    seen, held_out = windows.pick(np.arange(count) < last), windows.pick(np.arange(count) >= last)
    replay, known = Replay(spec, STEP_S, firmware), quantities(spec)
    priors = {name: prior for name, prior in priors_of(spec, firmware).items() if name not in cfg.known}
    loop = "" if spec.flight is None else f" under the {'firmware' if firmware else 'model'}'s rate loop"
    found = fit(Problem(spec, replay, seen, cfg.known), priors, 3, lambda share: say(0.9 * share, f"replays{loop}"))
    values, noise = {**cfg.known, **found.values}, found.noise
    gap = {
        part: _gap(spec, replay, some, cfg.known, values, noise)
        for part, some in (("fitted", seen), ("held_out", held_out))
    }
    say(1.0, "")
    half = {**found.half, DELAY: found.half.get(DELAY, 0.0) + STEP_S / 2}  # a delay is not known to less than a step
    unseen = not_identifiable(found)
    if spec.flight is not None and "mass_kg" not in cfg.known:
        unseen["mass_kg"] = "motion does not tell it from thrust and drag: weigh the robot, --known mass_kg=KG"
    return {
        "rate_loop": ("firmware" if firmware else "model") if spec.flight is not None else None,
        "windows": {"fitted": len(seen.begin_s), "held_out": len(held_out.begin_s)},
        "numbers": {
            name: {
                "value": value,
                "low": max(priors[name].low, value - half[name]),
                "high": value + half[name],
                "nominal": known[name].nominal,
                "unit": known[name].unit,
                "meaning": known[name].meaning,
                "identified": name not in unseen,
            }
            for name, value in found.values.items()
        },
        "not_identifiable": unseen,
        "known": dict(cfg.known),
        "gap": gap,
    }


def not_identifiable(fit: Fit) -> dict[str, str]:
    """Numbers whose interval is hardly narrower than what was known before, and why."""
    names, unseen = list(fit.values), dict[str, str]()
    for number, (name, left) in enumerate(fit.left.items()):
        if left > SEEN:
            others = np.argsort(-np.abs(fit.correlation[number]))
            alike = [names[i] for i in others if i != number and abs(fit.correlation[number, i]) > ALIKE]
            moves = f"it moves the model like {' and '.join(alike[:3])}"
            unseen[name] = moves if alike else "the recording hardly depends on it"
    return unseen


def _gap(
    spec: RobotSpec,
    replay: Replay,
    windows: Windows,
    before: Mapping[str, float],
    after: Mapping[str, float],
    noise: np.ndarray,
) -> list[dict[str, Any]]:
    """Signal by signal the RMS of model against recording, before and after, in SI units."""
    rms = []
    for values in (before, after):
        problem = Problem(spec, replay, windows, {})
        problem.noise = noise
        rms.append(np.sqrt((remaining(problem, values) ** 2).mean((0, 1))))
    return [
        {"signal": name, "unit": unit, "before": float(b), "after": float(a)}
        for (name, unit), b, a in zip(error_names(spec), *rms, strict=True)
    ]
