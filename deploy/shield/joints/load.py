"""What a load leaves of the limits of drives."""

from typing import Any

from deploy.shield.arrays import at_least, at_most, greatest
from deploy.shield.joints.limits import Rows
from hardware.types import Array

FREE_SHARE = 0.4  # of a drive's effort that brakes in the worst pose; the robot's own weight takes what is missing
LEAST_EFFORT = 0.1  # of a drive's effort, that is counted on with any load
SLOWED = 1.0  # of its speed, for a load that takes the whole effort of one of its drives: joints throw each other
HEAVY = 1.6  # by how much a load on the drive that it bends most lessens what all of them brake with
FORESEEN = 5.0  # by how much such a load lessens the room that predicted motion leaves: it moves otherwise
LEAST_BRAKE = 0.1  # of braking without a load, that is counted on with any
LOAD = FREE_SHARE, HEAVY, SLOWED, LEAST_EFFORT, LEAST_BRAKE, FORESEEN  # in the order of the core's `struct servo`


def braking_left(xp: Any, max_effort: Array, load: Array) -> tuple[Array, Array, Array]:
    """Shares of braking (..., U) counted on with a `load` (..., U) N m, and of the effort (..., U) that it takes.

    And the largest of the latter (..., 1): a mass is to be braked also where no drive has to hold it.
    """
    taken = xp.abs(load) / max_effort
    most = greatest(taken)[..., None]
    free = at_least(1.0 - taken / FREE_SHARE, 0.0) * at_least(1.0 - HEAVY * most, 0.0)  # less effort, on a larger mass
    return at_least(free, LEAST_BRAKE), taken, most


def loaded(xp: Any, rows: Rows, load: Array) -> tuple[Rows, Array]:
    """The rows of drives with less effort left, by `load` (..., U) N m, and by how far (..., U) rad it bends them."""
    brake, taken, most = braking_left(xp, rows.max_effort, load)
    slow, left = (1.0 - SLOWED * at_most(most, 1.0))[..., None], at_least(1.0 - taken, LEAST_EFFORT)
    both_left, both_brake = left[..., None, :], brake[..., None, :]
    rows = rows._replace(
        max_effort=rows.max_effort * left,
        effort=rows.effort * both_left,
        max_speed=rows.max_speed * slow,
        brake_gain=rows.brake_gain * both_left,
        foreseen=rows.foreseen * at_least(1.0 - FORESEEN * most, 0.0)[..., None],
        brake_twice=rows.brake_twice * both_brake,
        brake_time=rows.brake_time * both_brake,
        brake_time_squared=rows.brake_time_squared * both_brake**2,
    )
    return rows, load / rows.stiffness
