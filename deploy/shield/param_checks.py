"""What the shield parameters of all classes of robots have in common: supervision, and how numbers are checked."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from math import isfinite
from numbers import Real
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from msgspec import Meta

from hardware.names import nearest

OLDEST_S = 0.5  # no input that old is acted on, whatever the parameters say
TOL = 1e-6  # relative: numbers written out and read back are not wider for that
UNBOUNDED = 1e9  # what stands for no bound

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(gt=0, le=1)]
ShareOrNone = Annotated[float, Meta(ge=0, le=1)]
HalfShare = Annotated[float, Meta(ge=0, lt=0.5)]
Whole = Annotated[int, Meta(gt=0)]

T = TypeVar("T", bound="SupervisionParams")


class ShieldParamsError(ValueError):
    """A shield parameter has no meaning: names the parameter, the value and what was allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisionParams:
    """When the shield takes over from a policy, and when it gives back (SI)."""

    control_dt_s: Positive  # period of the shield's loop
    warn_periods: Whole = 2  # age of an input, in control periods, that is reported
    act_periods: Whole = 5  # ... and that trips the fallback
    recover_periods: Whole = 5  # new good requests in a row that end a hold, while it is not latched
    latch_s: Annotated[float, Meta(ge=0, le=0.5)] = 0.5  # s of hold without good inputs that in all latch it until a
    # reset; the policy's time wears off a twentieth
    clock_jump_s: Positive = 0.5  # s, a longer step of the clock trips the fallback
    ramp_s: Positive = 0.5  # s, from holding to the policy's command after activation
    ground_z_m: float = 0.0  # m, world

    @property
    def act_s(self) -> float:
        """Age, s, from which on an input is not acted on any more."""
        return self.act_periods * self.control_dt_s

    def __post_init__(self) -> None:
        own: Any = type(self)
        for name, kind in _kinds(own).items():
            value = getattr(self, name)
            if get_origin(kind) is tuple:
                _require(_are_numbers(value), name, value, "a list of numbers")
                value = tuple(float(number) for number in value)
                object.__setattr__(self, name, value)
            else:
                _require(_are_numbers([value]), name, value, "a number")
            check_number(name, value, kind)
            if kind is not bool and get_origin(kind) is not tuple:  # a file may say 1 for 1.0
                object.__setattr__(self, name, (get_args(kind) or (kind,))[0](value))
        check_at_most("act_periods", self.act_periods, max(OLDEST_S / self.control_dt_s, 3.0))


Limits = dict[str, tuple[Any, Any]]  # of a field: the widest and the narrowest value that a policy file may give it


def supervision_limits(usual: SupervisionParams) -> Limits:
    """Of what all classes have in common; see `narrowed_limits`."""
    return {
        "warn_periods": (usual.warn_periods, 1),
        "act_periods": (usual.act_periods, 2),
        "recover_periods": (usual.recover_periods, 50),
        "latch_s": (usual.latch_s, 0.0),
        "ramp_s": (usual.ramp_s, 5.0),
    }


def make_params(kind: type[T], values: Mapping[str, Any], overrides: Mapping[str, Any]) -> T:
    """Parameters of a `kind`, in which `overrides` replace single `values`. ShieldParamsError for an unknown one."""
    known = [field.name for field in fields(kind)]
    if unknown := sorted(set(overrides) - set(known)):
        near = nearest(unknown[0], known)
        raise ShieldParamsError(f"unknown shield parameter {unknown[0]!r}; known: {', '.join(known)}{near}")
    return kind(**{**values, **overrides})


def check_number(name: str, value: Any, kind: Any) -> None:
    """Raise ShieldParamsError unless every number of `value` is finite and inside the bounds of the type `kind`."""
    numbers = value if isinstance(value, tuple) else (value,)
    element = get_args(kind)[0] if get_origin(kind) is tuple else kind
    if get_origin(kind) is tuple and Ellipsis not in get_args(kind):
        _require(len(numbers) == len(get_args(kind)), name, value, f"{len(get_args(kind))} numbers")
    plain, *metas = get_args(element) or (element,)
    bounds = metas[0] if metas else Meta()
    _require(all(isfinite(number) for number in numbers), name, value, "finite")
    _require(plain is not int or all(number == int(number) for number in numbers), name, value, "a whole number")
    _require(bounds.gt is None or all(number > bounds.gt for number in numbers), name, value, "greater than 0")
    _require(bounds.ge is None or all(number >= bounds.ge for number in numbers), name, value, "0 or greater")
    _require(bounds.lt is None or all(number < bounds.lt for number in numbers), name, value, f"below {bounds.lt}")
    for number in numbers:
        if bounds.le is not None:
            check_at_most(name, number, bounds.le)


def bounds_of(kind: type) -> dict[str, tuple[float, float]]:
    """Least and greatest value of every number of a `kind` of parameters; both inclusive, tuples left out."""
    found = {}
    for name, hint in _kinds(kind).items():
        plain, *metas = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        if plain not in (int, float):
            continue
        bounds, least = metas[0] if metas else Meta(), 1 if plain is int else TOL
        low = bounds.ge if bounds.ge is not None else -UNBOUNDED if bounds.gt is None else bounds.gt + least
        high = bounds.le if bounds.le is not None else UNBOUNDED if bounds.lt is None else bounds.lt - least
        found[name] = float(low), float(high)
    return found


def check_at_most(name: str, value: float, most: float) -> None:
    """Raise ShieldParamsError where `value` is above `most`."""
    if not value <= most + TOL * abs(most):
        raise ShieldParamsError(f"shield parameter {name} = {value:g}: must be at most {most:g}")


def _are_numbers(values: Any) -> bool:
    return isinstance(values, (list, tuple, np.ndarray)) and all(isinstance(each, Real) for each in values)


def _require(holds: bool, name: str, value: Any, what: str) -> None:
    if not holds:
        raise ShieldParamsError(f"shield parameter {name} = {repr(value)[:60]}: must be {what}")


@cache
def _kinds(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)
