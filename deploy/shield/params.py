"""Shield parameters of any robot: every number that the shield acts on, and what a policy file may make of them."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from deploy.shield.drone.params import NARROWER as FLIGHT_NARROWER
from deploy.shield.drone.params import ShieldParams, make_flight_params, widest_flight_limits
from deploy.shield.joints.params import NARROWER as JOINT_NARROWER
from deploy.shield.joints.params import JointShieldParams, make_joint_params
from deploy.shield.param_checks import TOL, ShieldParamsError
from hardware.spec import RobotSpec


def make_shield_params(spec: RobotSpec, **overrides: Any) -> ShieldParams | JointShieldParams:
    """Shield parameters for `spec`: JointShieldParams for a robot without a flight model.

    Keyword `overrides` replace single fields. Raises ShieldParamsError for an unknown field or a value out of range.
    """
    return make_joint_params(spec, **overrides) if spec.flight is None else make_flight_params(spec, **overrides)


def narrowed_limits(spec: RobotSpec, trained: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Of the parameters `trained` that a policy file states, those that hold for `spec`; and what was held back.

    The limits belong to the robot's owner: a file may narrow them, and its other numbers (gains, delays, margins of the
    filter) are the robot's in any case. Give the first to `make_shield_params`, after it what the owner has set; the
    second is a line for each limit that the file would have widened. Raises ShieldParamsError for an unknown parameter,
    a number that is none, or another number of joints.
    """
    default = make_shield_params(spec)
    if unknown := sorted(set(trained) - {field.name for field in fields(default)}):
        raise ShieldParamsError(f"unknown shield parameter {unknown[0]!r} in the policy file")
    is_drone = isinstance(default, ShieldParams)
    narrower = FLIGHT_NARROWER if is_drone else JOINT_NARROWER
    widest = widest_flight_limits(spec) if is_drone else {name: getattr(default, name) for name in JOINT_NARROWER}
    limits, held = {}, []
    for name in [name for name in narrower if name in trained]:
        asked, most = trained[name], widest[name]
        limits[name] = _narrower(name, narrower[name], asked, most)
        if _differ(limits[name], asked):
            held.append(f"{name}: the policy file asks for {_text(asked)}, the robot's limit {_text(most)} holds")
    return limits, held


def _narrower(name: str, pick: Callable, asked: Any, most: Any) -> Any:
    if not isinstance(most, tuple):
        return _picked(name, pick, asked, most)
    if not isinstance(asked, (tuple, list)) or len(asked) != len(most):
        raise ShieldParamsError(f"shield parameter {name} = {asked!r}: must be {len(most)} numbers")
    return tuple(_picked(name, pick, a, m) for a, m in zip(asked, most, strict=True))


def _picked(name: str, pick: Callable, asked: Any, most: float) -> float:
    if isinstance(asked, bool) or not isinstance(asked, (int, float)) or asked != asked:
        raise ShieldParamsError(f"shield parameter {name} = {asked!r}: must be a number")
    return asked if abs(asked - most) <= TOL * abs(most) else pick(asked, most)


def _differ(value: Any, asked: Any) -> bool:
    return (tuple(value) != tuple(asked)) if isinstance(value, tuple) else value != asked


def _text(value: Any) -> str:
    return f"({', '.join(f'{number:g}' for number in value)})" if isinstance(value, (tuple, list)) else f"{value:g}"
