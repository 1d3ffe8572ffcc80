"""From body-rate commands to the acceleration they lead to, and back; NumPy and torch, float64, `...` is any batch.

Written with matrix products over constant tables because a single robot's time goes into calls, not into arithmetic.
"""

from math import exp
from typing import Any

import numpy as np

from deploy.shield.arrays import at_least, constant
from deploy.shield.params import ShieldParams
from hardware.spec import GRAVITY, FlightModel
from hardware.types import Array

MIN_LIFT = 0.2 * GRAVITY  # m/s^2, least upward thrust that an acceleration may be turned into: the rotors cannot pull


def rotation_matrix(xp: Any, quat: Array) -> Array:
    """Rotation matrix (..., 3, 3) body -> world of a quaternion (..., 4) wxyz."""
    products = (quat[..., :, None] * quat[..., None, :]).reshape((*quat.shape[:-1], 16))
    return (products @ constant(xp, _QUAT_TO_MATRIX, quat)).reshape((*quat.shape[:-1], 3, 3))


def turn_matrix(xp: Any, rotation: Array) -> Array:
    """Rotation matrix (..., 3, 3) of a rotation vector (..., 3) rad."""
    half = 0.5 * xp.sqrt((rotation * rotation).sum(-1) + 1e-18)[..., None]
    return rotation_matrix(xp, xp.concat([xp.cos(half), rotation * (0.5 * xp.sin(half) / half)], axis=-1))


def rate_authority_s(params: ShieldParams, flight: FlightModel) -> float:
    """Seconds of a commanded body rate that are angle after the look-ahead; the measured rate supplies the rest.

    Integral of the step response of 1 / (T s + 1)^2 over the look-ahead without its dead time.
    """
    lag = flight.rate_time_constant_s
    span = params.lookahead_s - params.command_delay_s
    return span - 2 * lag + (2 * lag + span) * exp(-span / lag)


def predicted_turn(params: ShieldParams, flight: FlightModel, rate: Array, rate_command: Array, age: Array) -> Array:
    """Body-frame rotation vector (..., 3) rad from the measured attitude to the one after age + look-ahead."""
    authority = rate_authority_s(params, flight)
    return rate * (params.lookahead_s - authority + age)[..., None] + rate_command * authority


def acceleration_of(xp: Any, mass_kg: float, thrust: Array, thrust_axis_w: Array) -> Array:
    """World acceleration (..., 3) m/s^2 of `thrust` (...) N along `thrust_axis_w` (..., 3), drag neglected."""
    return thrust[..., None] * thrust_axis_w / mass_kg - constant(xp, _GRAVITY_W, thrust_axis_w)


def lift_of(xp: Any, accel_w: Array) -> Array:
    """Specific thrust (..., 3) m/s^2, world, that gives `accel_w`; never downwards."""
    lift = accel_w + constant(xp, _GRAVITY_W, accel_w)
    return xp.concat([lift[..., :2], at_least(lift[..., 2:], MIN_LIFT)], axis=-1)


def missing_turn(xp: Any, rot: Array, lift_w: Array) -> tuple[Array, Array]:
    """What is missing at attitude `rot` (..., 3, 3) for the specific thrust `lift_w` (..., 3) m/s^2, world.

    Returns the body-frame rotation vector (..., 3) rad, without yaw, that aligns the thrust axis, and the specific
    thrust (...) m/s^2 along the present axis.
    """
    lift_b = (lift_w[..., None, :] @ rot)[..., 0, :]
    x, y, z = lift_b[..., 0], lift_b[..., 1], lift_b[..., 2]
    side = xp.sqrt(x * x + y * y + 1e-18)
    gain = xp.atan2(side, z) / side
    return xp.stack([-y * gain, x * gain, 0.0 * z], axis=-1), z


def _quat_to_matrix() -> np.ndarray:
    table = np.zeros((4, 4, 3, 3))
    w, x, y, z = range(4)
    for i, sign in ((w, 1), (x, 1), (y, -1), (z, -1)):
        table[i, i, 0, 0] = sign
    for i, sign in ((w, 1), (x, -1), (y, 1), (z, -1)):
        table[i, i, 1, 1] = sign
    for i, sign in ((w, 1), (x, -1), (y, -1), (z, 1)):
        table[i, i, 2, 2] = sign
    for (i, j), (row, col), sign in (
        ((x, y), (0, 1), 2), ((w, z), (0, 1), -2), ((x, z), (0, 2), 2), ((w, y), (0, 2), 2),
        ((x, y), (1, 0), 2), ((w, z), (1, 0), 2), ((y, z), (1, 2), 2), ((w, x), (1, 2), -2),
        ((x, z), (2, 0), 2), ((w, y), (2, 0), -2), ((y, z), (2, 1), 2), ((w, x), (2, 1), 2),
    ):  # fmt: skip
        table[i, j, row, col] = sign
    return table.reshape(16, 9)


_QUAT_TO_MATRIX = _quat_to_matrix()
_GRAVITY_W = np.array([0.0, 0.0, GRAVITY])
