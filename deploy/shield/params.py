"""Shield parameters of any robot: every number that the shield acts on, and what a policy file may make of them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from deploy.shield.drone.params import ShieldParams, flight_limits, make_flight_params
from deploy.shield.joints.params import JointShieldParams, joint_limits, make_joint_params
from deploy.shield.kept import kept
from deploy.shield.param_checks import TOL, UNBOUNDED, Limits, ShieldParamsError
from hardware.spec import RobotSpec

FREE = (
    "geofence_low",
    "geofence_high",
    "ground_z_m",
    "ramp_s",
    "hold_s",
    "stand_s",
    "damp_s",
)  # guarantees hold with any


def make_shield_params(spec: RobotSpec, **overrides: Any) -> ShieldParams | JointShieldParams:
    """Shield parameters for `spec`: JointShieldParams for a robot without a flight model.

    Keyword `overrides` replace single fields. Raises ShieldParamsError for an unknown field or a value out of range.
    """
    return make_joint_params(spec, **overrides) if spec.flight is None else make_flight_params(spec, **overrides)


@kept
def clearance_m(spec: RobotSpec) -> float:
    """How far, m, the links of an arm stay off the middle of another robot that has none.

    Of a drone it is where its own shield, as specified, begins to make way; of a robot on legs all that it can reach.
    """
    params = make_shield_params(spec)
    return params.obstacle_m + params.obstacle_buffer_m if isinstance(params, ShieldParams) else spec.radius_m


def narrowed_limits(spec: RobotSpec, trained: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Of the parameters `trained` that a policy file states, those that hold for `spec`; and what was held back.

    The limits belong to the robot's owner: a file may narrow them, as far as the robot still can keep them, and its
    other numbers (gains, delays, margins of the filter) are the robot's in any case. Give the first to
    `make_shield_params`, after it what the owner has set; the second is a line for each value that was held back.
    Raises ShieldParamsError for an unknown parameter, what is no number, or another number of joints.
    """
    default = make_shield_params(spec)
    if unknown := sorted(set(trained) - {field.name for field in fields(default)}):
        raise ShieldParamsError(f"unknown shield parameter {unknown[0]!r} in the policy file")
    limits, held = {}, []
    for name, (widest, narrowest) in _limits(spec).items():
        if name not in trained:
            continue
        asked = trained[name]
        limits[name] = _between(name, asked, widest, narrowest)
        if _differ(limits[name], asked):
            held.append(f"{name}: the policy file asks for {_text(asked)}, the robot's {_text(limits[name])} holds")
    return limits, held


def owned_params(
    spec: RobotSpec, trained: Mapping[str, Any], own: Mapping[str, Any]
) -> ShieldParams | JointShieldParams:
    """Of a robot whose owner sets `own` limits, and whose policy file states `trained`; errors as of the two above."""
    return make_shield_params(spec, **{**narrowed_limits(spec, trained)[0], **own})


def untried_limits(spec: RobotSpec, params: ShieldParams | JointShieldParams) -> list[str]:
    """A line for each of an owner's numbers that docs/shield.md does not vouch for: neither the robot's nor narrower.

    Where a robot may be is the owner's; attacks say nothing about a shield that acts later, or brakes less, than usual.
    """
    default, limits, lines = make_shield_params(spec), _limits(spec), []
    for field in fields(default):
        value, usual = getattr(params, field.name), getattr(default, field.name)
        if field.name in FREE or value == usual:
            continue
        if field.name in limits and _between(field.name, value, *limits[field.name]) == value:
            continue
        lines.append(
            f"shield limit {field.name} = {_text(value)}, the robot's own is {_text(usual)}: "
            "what docs/shield.md guarantees was not tried with it"
        )
    return lines


def _limits(spec: RobotSpec) -> Limits:
    return flight_limits(spec) if spec.flight else joint_limits(spec)


def _between(name: str, asked: Any, widest: Any, narrowest: Any) -> Any:
    """`asked` between two values, the one or the other of which is the greater one."""
    if isinstance(widest, tuple):
        if not isinstance(asked, (tuple, list)) or len(asked) != len(widest):
            raise ShieldParamsError(f"shield parameter {name} = {asked!r}: must be {len(widest)} numbers")
        return tuple(_between(name, *each) for each in zip(asked, widest, narrowest, strict=True))
    if isinstance(asked, bool) or not isinstance(asked, (int, float)) or asked != asked:
        raise ShieldParamsError(f"shield parameter {name} = {asked!r}: must be a number")
    low, high = sorted((widest, narrowest))
    room = TOL * max(abs(low), abs(high))
    return asked if low - room <= asked <= high + room else low if asked < low else high


def _differ(value: Any, asked: Any) -> bool:
    return (tuple(value) != tuple(asked)) if isinstance(value, tuple) else value != asked


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_text, value))})"
    return f"{value:g}" if abs(value) < UNBOUNDED else f"{'-' * (value < 0)}over {UNBOUNDED:g}"
