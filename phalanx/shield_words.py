"""What a shield enforces, in sentences."""

from contextlib import suppress
from math import degrees

from deploy.contract import Contract
from deploy.shield import JointShieldParams, ShieldParams, make_shield_params, narrowed_limits
from hardware import load_robot
from hardware.spec import RobotSpec


def shield_in_words(contract: Contract) -> list[str]:
    """What the shield of a policy file enforces: of a robot that is known here the robot's own limits, and what the
    file narrows of them; of another one, the parameters that the file states.
    """
    stated = [f"{name}: {value}" for name, value in contract.shield.items()]
    with suppress(ValueError):  # of a robot that is not known here
        spec = load_robot(contract.robot.name)
        try:
            limits, held = narrowed_limits(spec, contract.shield)
            params = make_shield_params(spec, **limits)
        except ValueError as error:
            return [f"refused: {error}"]
        return [*(_drone(params) if isinstance(params, ShieldParams) else _joints(params, spec)), *held]
    return stated


def _drone(params: ShieldParams) -> list[str]:
    p, low, high = params, params.geofence_low, params.geofence_high
    return [
        f"keeps {p.separation_m:.2f} m between robots ({p.separation_m * p.downwash_ratio:.2f} m above one another), "
        f"each doing half of the braking at {p.brake_accel:g} m/s2",
        f"stays in x {low[0]:g}..{high[0]:g}, y {low[1]:g}..{high[1]:g}, z {low[2]:g}..{high[2]:g} m, "
        f"below {p.max_speed:g} m/s and {degrees(p.max_tilt_rad):.0f} deg of tilt",
        f"{_takes_over(p)}, or jumps by more than {p.max_jump_m:g} m",
        f"then hovers, and {_gives_back(p, 'hovers')}",
        f"after a hover of {p.hold_s:g} s it lands at {p.land_speed:g} m/s, still avoiding the others; "
        "an operator resets it",
    ]


def _joints(params: JointShieldParams, spec: RobotSpec) -> list[str]:
    p = params
    lines = [
        f"keeps each joint {100 * p.range_margin:g} % of its range clear of either end, "
        f"below {100 * p.speed_share:g} % of its speed and {100 * p.effort_share:g} % of its effort",
    ]
    jumps = f"or has a joint jump by more than {100 * p.max_jump_share:g} % of its range"
    if spec.fixed_base:
        return [
            *lines,
            f"keeps its links {100 * p.link_margin_m:g} cm off one another, the floor and what stands around; "
            f"fingers may touch these at {p.touch_speed:g} m/s",
            f"slows down and stands before a tracked person, who may come at {p.person_speed:g} m/s and reach "
            f"{p.person_reach_m:g} m ahead, can touch it",
            f"{_takes_over(p)}, {jumps}",
            f"then brakes along its path and holds, with full strength, and {_gives_back(p, 'holds')}",
            "after that it stays where it is until an operator resets it",
        ]
    return [
        *lines,
        f"{_takes_over(p)}, {jumps}",
        f"then comes to a stand, and {_gives_back(p, 'stands')}",
        f"takes a tilt beyond {degrees(p.max_tilt_rad):.0f} deg, foreseen {1e3 * p.fall_horizon_s:g} ms ahead, or a "
        f"base below {p.min_height_share * spec.home_height_m:.2f} m for a fall: then its drives give way, damped",
    ]


def _takes_over(params: ShieldParams | JointShieldParams) -> str:
    silent_ms = 1e3 * params.act_s
    return f"takes over when state or policy is silent for {params.act_periods} periods ({silent_ms:g} ms), sends NaN"


def _gives_back(params: ShieldParams | JointShieldParams, doing: str) -> str:
    return (
        f"gives the robot back after {params.recover_periods} good requests in a row, unless they were missing for "
        f"longer than {params.latch_s:g} s of {doing} in all"
    )
