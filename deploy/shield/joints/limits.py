"""The numbers of the joints' filter and guards as arrays, made once for a robot and its parameters."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deploy.shield.joints.bounds import BOUNDS
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.kept import kept
from hardware.spec import RobotSpec
from hardware.types import Array

RANGE_TOL = 0.1  # of a joint's range: what is measured or asked for that far beyond it is not that joint's
NO_LIMIT = 1e3  # rad/s, or m/s
SIGMAS = 3.0  # of errors of measurement that are counted with
LEAST_DAMPING = 1e-6  # N m s/rad
YIELDS = 0.2  # of a drive's effort, that an arm's joint is left while another one brakes with its whole effort


class Rows(NamedTuple):
    """What the filter calculates with, (U,) float64 in channel order: NumPy arrays or torch tensors.

    What meets the distances to both limits is (2, U), the same numbers twice: of like shapes NumPy needs a third of the
    time.
    """

    box_high: Array  # rad, of targets
    box_low: Array  # rad
    box: Array  # (2, U) rad, upper bound of targets, and lower bound with its sign turned
    sides: Array  # (2, U), up and down: every bound is written once, for the distance along its side
    low: Array  # rad, of the joint's range
    stiffness: Array  # N m/rad
    max_effort: Array  # N m, as `effort`
    fading: Array  # N m s/rad: by what speed lessens the servo's effort in the middle of a period, damping included
    per_range: Array  # 1/rad
    follow_rate: Array  # 1/s, at which a critically damped servo follows its target

    compliance: Array  # (2, U) rad/(N m)
    damping: Array  # (2, U) N m s/rad
    effort: Array  # (2, U) N m
    pull: Array  # (2, U) N m s/rad: by what the servo's effort fades over a control period, per speed of the joint
    pickup: Array  # (2, U) N m: by what it fades over a control period because the joint picks up speed
    max_speed: Array  # (2, U) rad/s
    least_speed: Array  # (2, U) rad/s, that is allowed towards a limit in any case
    return_speed: Array  # (2, U) rad/s, negative: back from beyond a limit
    brake_twice: Array  # (2, U) rad/s^2
    brake_time: Array  # (2, U) rad/s, braking times reaction time
    brake_time_squared: Array  # (2, U)
    free_gain: Array  # (2, U) N m s/rad, effort per speed left
    brake_gain: Array  # (2, U) N m s/rad, the same in excess of the allowed speed
    coast: Array  # (2, U) s, by which the target of a joint that nothing drives for a period runs ahead of it
    yields: Array  # (2, U) rad, by which it may be driven to either side while another joint brakes
    foreseen: Array  # (2, U) share that counts of the room which predicted motion leaves; none of a finger's


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one robot; arrays (U,) in channel order."""

    joint: np.ndarray | slice  # of joint arrays, the entries in channel order
    turning: np.ndarray | slice  # channels that the margin is taken over
    sliding: np.ndarray  # bool, channels in m
    turns: np.ndarray  # 1.0 of the others, 0.0 of these
    rests: np.ndarray  # rad, from its target, within which a joint that stands is measured
    rows: Rows
    span: np.float64  # rad, the longest range of a joint
    lead_s: np.ndarray  # s, by which the target of a joint that moves evenly runs ahead of it
    brake: np.ndarray  # rad/s^2, of the braking curve
    max_velocity: np.ndarray  # rad/s
    top_velocity: np.ndarray  # rad/s, beyond which a measurement is none
    jump: np.ndarray  # rad, farther than this at once is no measurement either
    asked: tuple[np.ndarray, np.ndarray]  # rad, what a policy may ask for
    found: tuple[np.ndarray, np.ndarray]  # rad, what a sensor may say


def reaction_s(params: JointShieldParams) -> float:
    """Seconds for which a joint may go on as it is before the next command can brake it."""
    return params.control_dt_s + params.latency_s


@kept
def joint_limits(params: JointShieldParams, spec: RobotSpec) -> Limits:
    """The `Limits` of one robot; ValueError where parameters and robot do not have the same channels."""
    index = np.array(spec.joint_of_channel)
    if len(index) != len(params.max_effort) or (index < 0).any():
        raise ValueError(f"shield parameters for {len(params.max_effort)} joints do not fit {spec.name!r}")
    low, high, max_velocity = (np.array(x) for x in (params.position_low, params.position_high, params.max_velocity))
    asked_low, asked_high = np.array(spec.command_low), np.array(spec.command_high)
    slack = RANGE_TOL * (asked_high - asked_low)
    reach = (0.5 + RANGE_TOL) * (high - low)
    turning = np.array([channel.unit == "rad" for channel in spec.channels])
    joints = [spec.joints[i] for i in index]
    stiffness, damping = np.array([j.stiffness for j in joints]), np.array([j.damping for j in joints])
    brake = params.brake_share * np.array(params.max_acceleration)
    yields = YIELDS if spec.fixed_base else np.inf  # a leg that carries the robot goes on carrying it
    return Limits(
        joint=_as_slice(index),
        turning=slice(None) if turning.all() or not turning.any() else np.flatnonzero(turning),
        sliding=~turning,
        turns=turning.astype(np.float64),
        rests=SIGMAS * (BOUNDS.pos + BOUNDS.vel * damping / stiffness),
        rows=_rows(params, turning, low, high, max_velocity, brake, stiffness, damping, yields),
        span=(high - low).max(),
        lead_s=damping / stiffness,
        brake=brake,
        max_velocity=max_velocity,
        top_velocity=params.velocity_sense * max_velocity,
        jump=params.max_jump_share * (high - low),
        asked=(asked_low - slack, asked_high + slack),
        found=(0.5 * (low + high) - reach, 0.5 * (low + high) + reach),
    )


def _rows(
    params: JointShieldParams,
    turning: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    max_velocity: np.ndarray,
    brake: np.ndarray,
    stiffness: np.ndarray,
    damping: np.ndarray,
    yields: float,
) -> Rows:
    margin = np.where(turning, params.range_margin, 0.0) * (high - low)
    # A finger grips with its whole effort, and picks up no speed while it does.
    effort = np.where(turning, params.effort_share, 1.0) * np.array(params.max_effort)
    picked_up = np.where(turning, params.pickup_share, 0.0) * params.control_dt_s * np.array(params.max_acceleration)
    # A joint at rest in the middle of its range may use its whole effort: a gripper lives on that.
    free_gain = np.maximum(params.approach_gain * damping, effort / max_velocity)
    brake_time = brake * reaction_s(params)
    pull = params.control_dt_s * stiffness
    sided = {
        "compliance": 1.0 / stiffness,
        "damping": damping,
        "effort": effort,
        "pull": pull,
        "pickup": picked_up * (0.5 * pull + damping),
        "max_speed": params.speed_share * max_velocity,
        "least_speed": np.where(turning, -NO_LIMIT, NO_LIMIT),
        "return_speed": -params.return_share * max_velocity,
        "brake_twice": 2.0 * brake,
        "brake_time": brake_time,
        "brake_time_squared": brake_time**2,
        "free_gain": free_gain,
        "brake_gain": effort / (params.brake_window * max_velocity),
        "coast": damping / stiffness + 0.5 * (params.control_dt_s + params.latency_s),
        "yields": np.where(turning, yields, np.inf) * effort / stiffness,
        "foreseen": turning.astype(np.float64),
    }
    return Rows(
        box_high=high - margin,
        box_low=low + margin,
        box=np.stack([high - margin, -(low + margin)]),
        sides=np.repeat([[1.0], [-1.0]], len(low), axis=1),
        low=low,
        stiffness=stiffness,
        max_effort=effort,
        fading=0.5 * pull + damping,
        per_range=1.0 / (high - low),
        follow_rate=2.0 * stiffness / np.maximum(damping, LEAST_DAMPING),
        **{name: np.stack([row, row]) for name, row in sided.items()},
    )


def _as_slice(index: np.ndarray) -> np.ndarray | slice:
    """A slice, which costs no copy, where the channels are the first joints in order."""
    return slice(0, len(index)) if (index == np.arange(len(index))).all() else index
