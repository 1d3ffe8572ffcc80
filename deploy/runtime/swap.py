"""A policy that takes over from another in flight: tried beside it, blended in, and taken back where it fails."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from deploy.bundle import BundleError
from deploy.bundle.file import check_size
from deploy.contract import Contract, TeamSpec
from deploy.runtime.graph_inputs import as_typed
from deploy.runtime.policy_runtime import NO_OBJECTS, ControlStep, PolicyOutputError, PolicyRuntime
from hardware.types import ActuatorCommand, ObjectState, Peers, RobotState

KEPT = ("robot", "control_dt_s", "commands", "objects", "team", "shield", "group")  # of a contract, by a swap
LARGEST_SHARE = 0.25  # of a control period, for one step of a policy that runs beside another
LARGEST_FILE = 16 << 20  # bytes: checking a file holds up the policy that flies, the longer the larger it is
SLACK = 1e-4  # by which rounding may carry a target beyond a channel's limit, in units of the channel's range


@dataclass(frozen=True, slots=True)
class SwapCfg:
    """How long each part of a swap lasts, s."""

    probe_s: float = 1.0  # the new policy runs, the old one flies
    blend_s: float = 0.5  # what flies goes over from the old one to the new one
    trial_s: float = 2.0  # the new one flies, the old one runs and gets the robot back where anything is amiss


class SwapRuntime:
    """Flies one PolicyRuntime, and may change to another. `offer` may be called by any thread, all else by the loop's.

    `tell` is called, in the loop's thread, with a sentence for each stage of a swap and its end.
    """

    def __init__(self, runtime: PolicyRuntime, file: str, tell: Callable[[str], None], cfg: SwapCfg | None = None):
        cfg = cfg or SwapCfg()
        self._flying, self.file, self._tell = runtime, file, tell
        self._next: tuple[PolicyRuntime, str] | None = None
        ends = np.cumsum([cfg.probe_s, cfg.blend_s, cfg.trial_s]) / runtime.contract.control_dt_s
        self._probed, self._blended, self._tried = (round(end) for end in ends)  # cycles
        channels = runtime.contract.robot.channels
        low, high = (np.array([getattr(c, side) for c in channels], np.float32) for side in ("low", "high"))
        self._low, self._high = low - SLACK * (high - low), high + SLACK * (high - low)
        self._cycle, self._took_s = 0, [0.0]
        self._is_flown = False

    @property
    def contract(self) -> Contract:
        """Of the policy that flies."""
        return self._flying.contract

    @property
    def fingerprint(self) -> str:
        """Of the policy that flies; a new one counts as soon as it is not taken back any more."""
        return self._flying.fingerprint

    def check_command(self, command: Mapping[str, Any]) -> None:
        """As `PolicyRuntime.check_command`; all policies of a swap take the same commands."""
        self._flying.check_command(command)

    def reset(self) -> None:
        """Memory to its initial value; a swap that is under way ends."""
        self._is_flown = False
        self.take_back("the policy began again")
        self._flying.reset()

    def offer(self, load: Callable[[str], PolicyRuntime], file: str) -> None:
        """Load `file` and begin to try it. ValueError, one line, for what cannot be swapped, or not now."""
        if (tried := self._next) is not None:
            raise ValueError(f"{file}: {tried[1]} is being tried already")
        self._check_flown(file)
        with suppress(OSError):  # `load` says it
            check_size(file, LARGEST_FILE)
        candidate = load(file)
        self._check_flown(file)
        _check_same(self.contract, candidate.contract, file)
        self._cycle, self._took_s = 0, []
        self._next = candidate, file  # last: the loop sees it from here on

    def _check_flown(self, file: str) -> None:
        if not self._is_flown:
            how = "swap it in POLICY, or set `bundle` while the node is unconfigured"
            raise ValueError(f"{file}: no policy has the robot now: {how}")

    def shield_says(self, is_flown: bool, why: str) -> None:
        """Whether the robot does what its policy wants, and why not: a new policy is taken back then."""
        self._is_flown = is_flown
        if not is_flown:
            self.take_back(f"the shield: {why}")

    def take_back(self, why: str) -> None:
        """End a swap: the old policy flies on."""
        if self._next is not None:
            file, self._next = self._next[1], None
            self._tell(f"{file} was taken back, {self.file} flies on: {why}")

    def step(
        self,
        state: RobotState,
        peers: Peers,
        command: Mapping[str, Any],
        objects: Mapping[str, ObjectState] = NO_OBJECTS,
        correction: NDArray | None = None,
    ) -> ControlStep:
        """As `PolicyRuntime.step`. A new policy that raises, or asks for too much, ends the swap and not the flight."""
        old = self._flying.step(state, peers, command, objects, correction)
        if self._next is None:
            return old
        candidate, file = self._next
        try:
            began_s = perf_counter()
            new = candidate.step(state, peers, command, objects, correction)
            self._took_s.append(perf_counter() - began_s)
            self._check(new)
        except ValueError as error:
            self.take_back(str(error))
            return old
        return self._advance(candidate, file, old, new)

    def _advance(self, candidate: PolicyRuntime, file: str, old: ControlStep, new: ControlStep) -> ControlStep:
        cycle, self._cycle = self._cycle, self._cycle + 1
        if cycle == 0:
            self._tell(f"{file} runs beside {self.file}")
        if cycle < self._probed:
            return old
        if cycle == self._probed:
            period_s, step_s = self.contract.control_dt_s, median(self._took_s)
            if step_s > LARGEST_SHARE * period_s:
                most = f"at most {LARGEST_SHARE:g} of its period, {period_s * 1e3:g} ms, may be"
                self.take_back(f"a step takes {step_s * 1e3:.1f} ms, {most}")
                return old
            self._tell(f"{file} takes over from {self.file}")
        if cycle >= self._tried:
            self._flying, self.file, self._next = candidate, file, None
            self._tell(f"{file} flies")
            return new
        share = np.float32(min(1.0, (cycle - self._probed + 1) / max(1, self._blended - self._probed)))
        target = (1 - share) * old.requested.target + share * new.requested.target
        return ControlStep(new.obs, new.action, ActuatorCommand(target))

    def _check(self, step: ControlStep) -> None:
        """PolicyOutputError for a target beyond the limits of the channels."""
        target = step.requested.target
        if not ((target >= self._low) & (target <= self._high)).all():
            raise PolicyOutputError(f"asks for {as_typed(target.round(3))}, beyond the limits of its channels")


def _check_same(old: Contract, new: Contract, file: str) -> None:
    """BundleError unless the contracts differ in nothing that the robot, its operator or its shield would notice."""
    memory = {m.input for m in (*old.memory, *new.memory)}
    sides = [
        {name: getattr(contract, name) for name in KEPT}
        | {"team": replace(contract.team, trained_with=1)}  # it flies in a team of any size
        | {"inputs": {replace(tensor, meaning="-") for tensor in contract.inputs if tensor.name not in memory}}
        for contract in (old, new)
    ]
    for name, value in sides[0].items():
        if sides[1][name] != value:
            raise BundleError(f"{file}: {_difference(name, value, sides[1][name])}; a swap in flight keeps what it was")


def _difference(name: str, old: Any, new: Any) -> str:
    """In what a part of a contract differs, in words."""
    if isinstance(old, str | float):
        return f"{name} is {new}, of the policy that flies {old}"
    if isinstance(old, TeamSpec):
        fields = [field for field in TeamSpec.__struct_fields__ if getattr(old, field) != getattr(new, field)]
        return "; ".join(_difference(f"team.{f}", str(getattr(old, f)), str(getattr(new, f))) for f in fields)
    return f"its {name!r} is not that of the policy that flies"
