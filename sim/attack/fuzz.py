"""Inputs of any type, shape and value for `Shield.step`, between good ones: what comes back must be a command."""

import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from deploy.shield import Context, JointShieldParams, Mode, Shield, ShieldParams, make_shield_params
from hardware import load_robot
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Peers, RobotState
from sim.attack.outcome import Outcome

PARDONED = 0.1  # chance in each call that a person gives a latched robot back to its policy
LIFE = 240  # calls of one shield
OBEYS = (Mode.NOMINAL, Mode.FILTERED)
ODD_NUMBERS = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e38, 1e-320, 1e9, -1e9, 0.0, -0.0, -1.0, 2.0**63)
DTYPES = (
    np.float16,
    np.float32,
    np.int8,
    np.int64,
    np.uint8,
    np.bool_,
    np.complex128,
    np.longdouble,
    object,
    "U8",
    "S4",
)
NOT_ARRAYS: tuple[Any, ...] = (None, "hover", b"\0", {}, [], (), 3, np.nan, True, object(), [[1, 2], [3]], range(4))


def fuzz(spec: RobotSpec, params: ShieldParams | JointShieldParams, calls: int, seed: int) -> Outcome:
    """Call shields of `spec` `calls` times. Violations: exceptions, no command, trust in what cannot be used."""
    out = Outcome()
    for life in range(-(-calls // LIFE)):
        rng = np.random.default_rng([seed, life])
        one = _Life(spec, params, rng)
        for call in range(min(LIFE, calls - life * LIFE)):
            wrong, mode = one.call()
            found = f"seed {seed}, shield {life}, call {call}: {wrong}; {one.what}" if wrong else ""
            out.add(
                Outcome(
                    steps=1,
                    violations=int(bool(wrong)),
                    changed=int(mode is Mode.FILTERED),
                    held=int(mode not in OBEYS),
                    broken=Counter([wrong] if wrong else []),
                    first=found,
                )
            )
            if wrong:
                break
        else:
            out.ended[mode.name] += 1
    return out


@dataclass(frozen=True, slots=True)
class Job:
    """A part of many calls."""

    robot: str
    shield: Mapping[str, Any]  # as `Campaign.shield`
    calls: int
    seed: int


def fuzz_part(job: Job) -> Outcome:
    """`fuzz` of one part, in any process."""
    spec = load_robot(job.robot)
    warnings.simplefilter("ignore", RuntimeWarning)  # of overflows, which are what is tried
    return fuzz(spec, make_shield_params(spec, **job.shield), job.calls, job.seed)


class _Life:
    """One shield, and what it is called with."""

    def __init__(self, spec: RobotSpec, params: ShieldParams | JointShieldParams, rng: np.random.Generator):
        self.spec, self.params, self.rng = spec, params, rng
        self.shield = Shield(params, spec)
        self.now_s = 100.0
        self.what = ""  # the last call, in words
        self._low, self._high = np.array(spec.command_low, np.float32), np.array(spec.command_high, np.float32)
        self._spoilt: list[Callable[[dict[str, Any]], str]] = []  # what is done to the next calls
        self._for = 0
        self._bad = {"request": 0, "state": 0}  # calls in a row in which it could not be used
        self._sent: list[np.ndarray] = []
        self._latched = False

    def call(self) -> tuple[str, Mode]:
        """What is wrong with the answer, or an empty string; the shield's mode."""
        rng, dt_s = self.rng, self.params.control_dt_s
        self.now_s += dt_s
        args = self._good()
        if self._for == 0:
            self._spoilt = [self._draw() for _ in range(rng.choice([0, 1, 2, 3], p=[0.4, 0.3, 0.2, 0.1]))]
            self._for = int(rng.choice([1, 2, 5, 20], p=[0.4, 0.3, 0.2, 0.1]))
        self._for -= 1
        self.what = ", ".join(spoil(args) for spoil in self._spoilt) or "nothing spoilt"
        if self._latched and rng.random() < PARDONED:
            (self.shield.reset if rng.random() < 0.5 else self.shield.release)()
        try:
            command, report = self.shield.step(args["now_s"], args["context"], args["request"], args["request_age_s"])
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} in {Path(at.filename).name}:{at.lineno}", Mode.OFF
        self._latched, target = report.latched, command.target
        if not isinstance(target, np.ndarray) or target.dtype != np.float32 or target.shape != self._low.shape:
            return f"command is {type(target).__name__} {np.shape(target)}", report.mode
        if not ((target >= self._low) & (target <= self._high)).all():
            return "command outside its limits", report.mode
        self._bad = {what: count + 1 if what in args["unusable"] else 0 for what, count in self._bad.items()}
        for what, count in self._bad.items():
            if count > self.params.act_periods + 1 and report.mode in OBEYS:
                return f"{report.mode.name} without a {what} that can be used", report.mode
        return self._frozen(target, report.mode), report.mode

    def _frozen(self, target: np.ndarray, mode: Mode) -> str:
        """A drone in the air that answers the same for ever, whatever it measures, is flown by no controller."""
        if self.spec.flight is None or mode in (Mode.OFF, Mode.ESTOP) or self._spoilt:
            self._sent = []
            return ""
        self._sent = [*self._sent[-9:], target.copy()]
        inner = (target > self._low) & (target < self._high)
        same = len(self._sent) == 10 and inner.all() and all(np.array_equal(target, sent) for sent in self._sent)
        return f"{mode.name} with the same command for ten calls" if same else ""

    def _good(self) -> dict[str, Any]:
        """Arguments of a usable call: a robot that hovers, or stands, and moves a little."""
        rng, spec = self.rng, self.spec
        joints = np.array(spec.home)
        noise = lambda *shape: rng.normal(0.0, 0.01, shape)  # noqa: E731
        height = 1.0 if spec.flight is not None else spec.home_height_m
        peers = int(rng.integers(0, 4))
        state = RobotState(
            joints + 0.1 * noise(len(joints)),
            noise(len(joints)),
            np.array([0.0, 0.0, height]) + noise(3),
            np.array([1.0, 0.0, 0.0, 0.0]),
            noise(3),
            noise(3),
            np.array(0.005),
        )
        places = np.array([2.0, 0.0, 1.0]) + np.arange(peers)[:, None] + noise(peers, 3)
        middle = np.array(spec.command_low) * 0.5 + np.array(spec.command_high) * 0.5
        centre = np.array(spec.home_target) if spec.flight is None else middle
        return {
            "now_s": self.now_s,
            "context": Context(state, Peers(places, noise(peers, 3), np.full(peers, 0.01), np.ones(peers, dtype=bool))),
            "request": ActuatorCommand((centre + 0.01 * noise(len(centre))).astype(np.float32)),
            "request_age_s": 0.01,
            "unusable": set(),
        }

    def _draw(self) -> Callable[[dict[str, Any]], str]:
        """One way to spoil the arguments of a call; it says what it did."""
        rng = self.rng
        where = str(rng.choice(["state", "peers", "request", "time", "request age", "context", "whole"]))
        odd = _odd(rng)

        def spoil(args: dict[str, Any]) -> str:
            context: Context = args["context"]
            if where == "time":
                step = rng.choice([0.0, -0.05, -1e6, 1e6, 10.0, np.nan, np.inf, -np.inf])
                args["now_s"] = self.now_s + float(step)
                return f"now_s {step:+g}"
            if where == "request age":
                args["request_age_s"] = odd(np.array(0.01))
            elif where == "request":
                args["request"] = ActuatorCommand(odd(args["request"].target if args["request"] else np.zeros(4)))
                args["unusable"].discard(where)  # what was None before counts no more
                if not _is_usable(args["request"].target, self._low.shape):
                    args["unusable"].add(where)
            elif where == "whole":
                name = str(rng.choice(["request", "state", "peers"]))
                if name == "request":
                    args["request"] = None
                else:
                    nothing: Any = {name: None}
                    args["context"] = replace(context, **nothing)
                args["unusable"].add(name)
                return f"{name} None"
            elif where == "context":
                name = str(rng.choice(["objects", "people", "obstacles"]))
                args["context"] = replace(context, **{name: odd(np.zeros(3))})
                return f"{name} odd"
            else:
                holder: Any = getattr(context, where)
                if holder is None:
                    return f"no {where}"
                name = str(rng.choice(holder.__slots__))
                old = getattr(holder, name)
                setattr(holder, name, odd(old))
                needed = {"age", "joint_pos" if self.spec.fixed_base else "base_quat"}
                if where == "state" and name in needed and not _is_usable(getattr(holder, name), np.shape(old)):
                    args["unusable"].add(where)
                return f"{where}.{name} = {getattr(holder, name)!r:.60}"
            return where

        return spoil


def _odd(rng: np.random.Generator) -> Callable[[Any], Any]:
    """A way to make something odd of an array."""
    kind, number = rng.integers(0, 7), rng.choice(ODD_NUMBERS)
    dtype, other = DTYPES[rng.integers(len(DTYPES))], NOT_ARRAYS[rng.integers(len(NOT_ARRAYS))]

    def odd(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return other
        if kind == 0:
            return np.full_like(value, number, dtype=float)
        if kind == 1 and value.size:
            changed = value.astype(float)
            changed.flat[rng.integers(value.size)] = number
            return changed
        if kind == 2:
            with np.errstate(all="ignore"), suppress(ValueError):  # of text that is no number
                return value.astype(dtype)
            return other
        if kind == 3:
            return other
        if kind == 4:
            return value[..., None] if rng.random() < 0.5 else np.concatenate([value.ravel(), value.ravel()])
        if kind == 5:
            return value.ravel()[:-1]
        return value.tolist()

    return odd


def _is_usable(value: Any, shape: tuple[int, ...]) -> bool:
    """Whether a shield may take `value` for numbers of `shape`; what is only out of range it may, or may not."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub" or value.shape != shape:
        return not isinstance(value, (str, bytes, dict)) and np.shape(np.array(value, dtype=object)) == shape
    return bool(np.isfinite(value).all())
