"""What can be pushed of a plant: each number by a name, its unit, how far, and the randomisation term that sets it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from deploy.contract.plant import Plant
from hardware import load_robot
from hardware.spec import GRAVITY
from sim import field_spans, randomisation
from sim.conditions import Terms, Variant
from sim.noise import Noise
from sim.task import GroupCfg, TaskCfg
from sim.terms import EventTerm

POINTS = 12  # of a grid, beside the ends of what was trained and of what hardware shows
DELAY_STEP_S = 0.005
CAMERA_LATEST_S = 0.1  # beside a robot's own state; physics remembers as much at 50 Hz
Span = tuple[float, float]
Change = Callable[[GroupCfg, float], Terms]
Trained = Callable[[Plant], Span | None]


@dataclass(frozen=True)
class Perturbation:
    """One number; `unit` x is a factor on the robot's nominal value. Where `low` or `high` is `nominal` it ends there.

    `terms` (the group as its task has it, value) set it; `trained` says over what range a file was trained, or None.
    """

    name: str
    unit: str
    nominal: float
    low: float
    high: float
    terms: Change
    trained: Trained
    field: Span | None = None  # what hardware shows
    variant: Callable[[float], Variant] = lambda _: Variant()
    nominal_too: bool = False  # the task flies another plant: nothing says that it holds at the nominal value
    step: float = 0.0  # of a grid whose values are multiples of it

    def grid(self, up: bool, plant: Plant | None) -> list[float]:
        """Values from the nominal one outward, which is not among them unless it is to be flown; empty if no way."""
        end = self.high if up else self.low
        if end == self.nominal:
            return []
        if self.step:
            values = np.arange(self.step, end + self.step / 2, self.step)
        elif min(self.nominal, end) > 0:
            values = np.geomspace(self.nominal, end, POINTS + 1)[1:]
        else:
            values = np.linspace(self.nominal, end, POINTS + 1)[1:]
        found = {round(float(value), 4) for value in values}
        for span in (self.field, self.trained(plant) if plant else None):
            found |= {span[up]} if span is not None and self._within(span[up], up) else set()
        return [self.nominal] * self.nominal_too + sorted(found, reverse=not up)

    def edge(self, span: Span | None, up: bool) -> float | None:
        """The end of `span` in that direction; None where it does not reach beyond the nominal value."""
        if span is None or (span[up] <= self.nominal if up else span[up] >= self.nominal):
            return None
        return span[up]

    def _within(self, value: float, up: bool) -> bool:
        return self.nominal < value <= self.high if up else self.low <= value < self.nominal


def perturbations(task: TaskCfg, group: str) -> list[Perturbation]:
    """What can be pushed of the robots of a group in this task."""
    return list(_of_robot(task, task.groups[group]))


def not_pushed(task: TaskCfg, group: str) -> list[str]:
    """Randomisation of the task that no perturbation stands for, by name."""
    covered = {event for each in perturbations(task, group) for event in each.terms(task.groups[group], each.low)}
    return [name for name in task.groups[group].randomisation if name not in covered]


def _of_robot(task: TaskCfg, cfg: GroupCfg) -> Iterator[Perturbation]:
    spec, has = load_robot(cfg.robot), {term.func for term in cfg.randomisation.values()}
    period_s, drone, free = 1.0 / spec.control_hz, spec.flight is not None, not spec.fixed_base
    if spec.joints:
        both = _set(randomisation.gains, "stiffness", "damping")
        yield Perturbation("drive gains", "x", 1.0, 0.1, 4.0, *both, field=field_spans.GAINS)
        weaker, shown_weaker = _set(randomisation.motor_strength, "scale"), field_spans.strength(spec)
        yield Perturbation("drive strength", "x", 1.0, 0.1, 1.0, *weaker, field=shown_weaker)
        yield Perturbation("joint friction", "x", 1.0, 0.0, 10.0, *_set(randomisation.joint_friction, "scale"))
        yield Perturbation("armature", "x", 1.0, 0.2, 5.0, *_set(randomisation.armature, "scale"))
    if spec.flight is not None and spec.flight.rate_loop is not None:
        loop = {"gain": (1.0, 1.0), "lag": (1.0, 1.0), "trim": (0.0, 0.0)}
        shown, uneven = partial(field_spans.of_firmware, spec), field_spans.unlike_rotors(spec)

        def of_loop(parameter: str, spread: bool = False) -> tuple[Change, Trained]:
            return _set(randomisation.rate_loop, parameter, spread=spread, fixed={"own": 0.0}, others=loop)

        new: dict[str, Any] = {}
        if not cfg.rate_loop:
            new = {"variant": lambda _: Variant(rate_loop=True), "nominal_too": True}
        gain, lag, trim = of_loop("gain"), of_loop("lag"), of_loop("trim", spread=True)
        yield Perturbation("rate loop gains", "x", 1.0, 0.1, 4.0, *gain, field=shown("gain"), **new)
        yield Perturbation("rotor lag", "x", 1.0, 0.2, 4.0, *lag, field=shown("lag"), **new)
        yield Perturbation("rotors unlike each other", "1", 0.0, 0.0, 0.4, *trim, field=uneven, **new)
    least = DELAY_STEP_S
    delay: dict[str, Any] = {"field": field_spans.total_delay(spec), "step": least}
    yield Perturbation("total delay", "s", 0.0, 0.0, 3 * period_s - least, _delays(period_s), _trained_delay, **delay)
    lost = _set(randomisation.lost_commands, "share", every_s=0.0)
    yield Perturbation("lost commands", "1", 0.0, 0.0, 0.9, *lost, field=field_spans.lost_commands(spec))
    shaken: dict[str, Any] = {"field": field_spans.jitter(spec)}
    yield Perturbation("jitter", "s", 0.0, 0.0, period_s, _jitters, _trained_jitter, **shaken)
    held = _set(randomisation.lost_states, "share", every_s=0.0, others={"hold_s": field_spans.hold(spec)})
    yield Perturbation("lost states", "1", 0.0, 0.0, 0.9, *held, field=field_spans.lost_states(spec))
    if free:
        walk = field_spans.drift(spec)
        walked: dict[str, Any] = {"field": walk and walk[0]}
        yield Perturbation("attitude drift", "rad", 0.0, 0.0, 0.06, _drifting, _trained_drift, **walked)
    yield Perturbation("mass", "x", 1.0, 0.4, 2.5, *_set(randomisation.mass, "scale"), field=field_spans.MASS)
    if free:
        shift = _set(randomisation.centre_of_mass, "shift_m", spread=True)
        yield Perturbation("centre of mass", "m", 0.0, 0.0, round(0.2 * spec.radius_m, 4), *shift)
        push = _set(randomisation.push, "speed_m_s", every_s=2.0)
        yield Perturbation("push", "m/s", 0.0, 0.0, 3.0, *push, field=field_spans.push(spec))
    if drone:
        thrust = field_spans.of_firmware(spec, "thrust")
        yield Perturbation("thrust", "x", 1.0, 0.4, 1.6, *_set(randomisation.thrust, "scale"), field=thrust)
        curve = _set(randomisation.thrust_curve, "exponent")
        yield Perturbation("exponent of the thrust curve", "x", 1.0, 0.6, 1.6, *curve)
        sag = _set(randomisation.battery_sag, "share", every_s=1.0)
        shown_sag = field_spans.of_firmware(spec, "sag_per_s")
        yield Perturbation("thrust lost each second", "1", 0.0, 0.0, 0.12, *sag, field=shown_sag)
        weight_n, blown = round(spec.mass_kg * GRAVITY, 3), _set(randomisation.wind, "force_n", every_s=1.0)
        yield Perturbation("wind", "N", 0.0, 0.0, weight_n, *blown, field=field_spans.wind(spec))
    else:
        yield Perturbation("friction", "x", 1.0, 0.1, 4.0, *_set(randomisation.friction, "scale"))
    if task.scene.objects:
        yield Perturbation("mass of objects", "x", 1.0, 0.2, 5.0, *_set(randomisation.object_mass, "scale"))
    if cfg.observation.peer:
        most_s = 2 * period_s - least
        late = _set(randomisation.network_delay, "range_s")
        yield Perturbation("delay of messages", "s", 0.0, 0.0, most_s, *late, step=least)
        dropped = _set(randomisation.dropped_messages, "share")
        yield Perturbation("lost messages", "1", 0.0, 0.0, 0.98, *dropped, field=field_spans.lost_messages(spec))
    if task.scene.objects and spec.kind == "manipulator":
        well: dict[str, Any] = {"others": {"delay_s": (0.0, 0.0), "missing": (0.0, 0.0), "offset": Noise()}}
        late, missing = (_set(randomisation.camera, name, **well) for name in ("delay_s", "missing"))
        most_s, shown_s = CAMERA_LATEST_S, field_spans.PICTURES_S
        yield Perturbation("delay of pictures", "s", 0.0, 0.0, most_s, *late, field=shown_s, step=2 * least)
        yield Perturbation("missing pictures", "1", 0.0, 0.0, 0.95, *missing, field=field_spans.PICTURES_MISSING)
    if cfg.noise:
        shown_noise = field_spans.noise(task, cfg, spec)
        louder: dict[str, Any] = {"variant": lambda value: Variant(noise=value), "field": shown_noise}
        yield Perturbation("sensor noise", "x", 1.0, 1.0, 32.0, lambda *_: {}, lambda _: None, **louder)
    if randomisation.sensor_bias in has:
        yield Perturbation("sensor bias", "x of training", 0.0, 0.0, 10.0, _biased, _trained_bias)
    if randomisation.motor_failure in has:
        yield Perturbation("one robot dies", "1", 0.0, 0.0, 1.0, _struck, _trained_failure, step=0.25)


def _set(
    func: Callable[..., None],
    *parameters: str,
    spread: bool = False,
    every_s: float | None = None,
    fixed: Mapping[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
) -> tuple[Change, Trained]:
    """A value for `parameters` of the term `func`: all the same, or with `spread` anything up to it on both sides.

    Other parameters are the task's, or `others` where it has no such term, but for those that are `fixed`. A term that
    the task does not have comes at every start, or again `every_s`.
    """

    def terms(cfg: GroupCfg, value: float) -> Terms:
        name, own = _term_of(cfg, func, every_s)
        span = (-value, value) if spread else (value, value)
        params = {**(others or {}), **own.params, **(fixed or {}), **dict.fromkeys(parameters, span)}
        return {name: replace(own, params=params)}

    def trained(plant: Plant) -> Span | None:
        spans = [
            (found.low, found.high)
            for found in plant.trained_ranges
            if found.event == func.__name__ and found.parameter in parameters
        ]
        if not spans:
            return None
        low, high = max(low for low, _ in spans), min(high for _, high in spans)
        return (0.0, max(abs(low), abs(high))) if spread else (low, high)

    return terms, trained


def _term_of(cfg: GroupCfg, func: Callable[..., None], every_s: float | None) -> tuple[str, EventTerm]:
    """The task's own term of `func` and its name; a new one where it has none."""
    for name, term in cfg.randomisation.items():
        if term.func is func:
            return name, term
    return func.__name__, EventTerm(func, interval_range_s=None if every_s is None else (every_s, every_s))


def _delays(period_s: float) -> Change:
    """A total delay, s: half of it the command's, which is at most a control period; the rest the sensors'."""

    def terms(cfg: GroupCfg, value: float) -> Terms:
        act_s = min(value / 2 // DELAY_STEP_S * DELAY_STEP_S, period_s)
        parts = {randomisation.actuator_delay: act_s, randomisation.sensor_delay: value - act_s}
        return {name: term for func, s in parts.items() for name, term in _set(func, "range_s")[0](cfg, s).items()}

    return terms


def _trained_delay(plant: Plant) -> Span | None:
    most = plant.actuator_delay_s[1] + plant.sensor_delay_s[1]
    return (0.0, round(most, 6)) if most else None


def _jitters(cfg: GroupCfg, value: float) -> Terms:
    """Up to `value` s more, drawn in each control step, of commands, of states and of what is heard."""
    funcs = [randomisation.actuator_jitter, randomisation.sensor_jitter]
    if cfg.observation.peer:
        funcs.append(randomisation.network_jitter)
    found = [_term_of(cfg, func, 0.0) for func in funcs]
    return {name: replace(own, params={"range_s": (0.0, value)}) for name, own in found}


def _trained_jitter(plant: Plant) -> Span | None:
    most = [found.high for found in plant.trained_ranges if found.event.endswith("_jitter")]
    return (0.0, min(most)) if most else None


def _drifting(cfg: GroupCfg, value: float) -> Terms:
    """Attitude that in each second comes to be `value` rad farther off, by standard deviation."""
    name, own = _term_of(cfg, randomisation.sensor_drift, 1.0)
    return {name: replace(own, params={"step": replace(own.params.get("step", Noise()), angle_rad=value)})}


def _trained_drift(plant: Plant) -> Span | None:
    most = [found.high for found in plant.trained_ranges if found.parameter == "step.angle_rad"]
    return (0.0, max(most)) if most else None


def _biased(cfg: GroupCfg, value: float) -> Terms:
    """The task's sensor bias times `value`."""
    name, own = _term_of(cfg, randomisation.sensor_bias, None)
    bias: Noise = own.params["bias"]
    scaled = {field: value * getattr(bias, field) for field in bias.__dataclass_fields__}
    return {name: replace(own, params={"bias": Noise(**scaled)})}


def _struck(cfg: GroupCfg, value: float) -> Terms:
    """Share of the episodes in which the drives of one robot of the team stop for good, when the task has them stop."""
    name, own = _term_of(cfg, randomisation.motor_failure, None)
    return {name: replace(own, params={"probability": value})}


def _trained_failure(plant: Plant) -> Span | None:
    most = [found.high for found in plant.trained_ranges if found.event == randomisation.motor_failure.__name__]
    return (0.0, max(most)) if most else None


def _trained_bias(plant: Plant) -> Span | None:
    return (0.0, 1.0) if any(found.event == "sensor_bias" for found in plant.trained_ranges) else None
