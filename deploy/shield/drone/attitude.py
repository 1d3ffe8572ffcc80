"""From body-rate commands to the acceleration they lead to, and back; float64.

Vectors are columns (`arrays.columns`): three numbers each, floats for one robot and (...) arrays for a batch. A matrix
is its nine columns, row by row.
"""

from collections.abc import Sequence

from deploy.shield.arrays import at_least, at_most, functions
from deploy.shield.drone.mixer import curve_exponent, rate_room
from deploy.shield.drone.params import ShieldParams
from hardware.spec import GRAVITY, FlightModel, RobotSpec
from hardware.types import Array

Columns = Sequence[Array]
UPRIGHT = 0.5  # cosine of the tilt, 60 degrees
OVERTURNED_RATE = 1e3  # rad/s, no limit beyond the channels' own
CALM_RATE = 0.5  # rad/s: changing sides it adds 10 % to the thrust that an X500 sinks with, 2.5 rad/s all of it again
MIN_LIFT = 0.2 * GRAVITY  # m/s^2, least upward thrust that an acceleration may be turned into: the rotors cannot pull


def rotation_matrix(quat: Columns) -> Columns:
    """Rotation matrix (9) body -> world of a quaternion (4) wxyz."""
    w, x, y, z = quat
    ww, xx, yy, zz = w * w, x * x, y * y, z * z
    x2, y2, z2 = 2.0 * x, 2.0 * y, 2.0 * z
    xy, xz, yz, wx, wy, wz = x * y2, x * z2, y * z2, w * x2, w * y2, w * z2
    return ww + xx - yy - zz, xy - wz, xz + wy, xy + wz, ww - xx + yy - zz, yz - wx, xz - wy, yz + wx, ww - xx - yy + zz


def rotated(rot: Columns, vec: Columns) -> Columns:
    """The body vector (3) in the world."""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = rot
    x, y, z = vec
    return xx * x + xy * y + xz * z, yx * x + yy * y + yz * z, zx * x + zy * y + zz * z


def rotated_back(rot: Columns, vec: Columns) -> Columns:
    """The world vector (3) in the body."""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = rot
    return rotated((xx, yx, zx, xy, yy, zy, xz, yz, zz), vec)


def thrust_axis(rot: Columns) -> Columns:
    """The body's z axis (3) in the world."""
    return rot[2::3]


def turn_matrix(turn: Columns) -> Columns:
    """Rotation matrix (9) of a rotation vector (3) rad."""
    return rotation_matrix(_turn_quat(turn))


def turned_axis(turn: Columns) -> Columns:
    """`thrust_axis` of the `turn_matrix`."""
    w, x, y, z = _turn_quat(turn)
    return 2.0 * (x * z + w * y), 2.0 * (y * z - w * x), w * w - x * x - y * y + z * z


def _turn_quat(turn: Columns) -> Columns:
    x, y, z = turn
    f = functions(x)
    half = 0.5 * f.sqrt(x * x + y * y + z * z + 1e-18)
    gain = 0.5 * f.sin(half) / half
    return f.cos(half), gain * x, gain * y, gain * z


def rate_authority_s(params: ShieldParams, flight: FlightModel) -> float:
    """Seconds of a commanded body rate that are angle after the look-ahead; the measured rate supplies the rest."""
    return params.lookahead_s - params.command_delay_s - flight.turn_lag_s


def spared_rate(params: ShieldParams, spec: RobotSpec, thrust: Array, free: Array) -> Array:
    """Roll and pitch rates together, rad/s, that leave the mixer room for `thrust` N of a robot at rest.

    Of more than the steepest climb needs where thrust grows with the square of a rotor's signal only. There rates that
    change sides take thrust from a climb, and add as much again to what a robot sinks with: the smaller the share
    `free` of climb and descent is that the rows leave, the less of them is kept.
    """
    if curve_exponent(spec) == 1.0:
        thrust = at_most(thrust, spec.mass_kg * (GRAVITY + params.max_climb_accel))
        return at_most(rate_room(spec, thrust), params.kept_rate)
    return at_most(rate_room(spec, thrust), CALM_RATE + free * (params.kept_rate - CALM_RATE))


def shortened(rates: Columns, most: Array) -> Columns:
    """Rates (3) with roll and pitch together not above `most`; yaw stays."""
    x, y, z = rates
    share = at_most(most / functions(x).sqrt(x * x + y * y + 1e-12), 1.0)
    return x * share, y * share, z


def predicted_turn(params: ShieldParams, flight: FlightModel, rate: Columns, command: Columns, age: Array) -> Columns:
    """Body-frame rotation vector (3) rad from the measured attitude to the one after age + look-ahead."""
    authority = rate_authority_s(params, flight)
    kept = params.lookahead_s - authority + age
    return [now * kept + then * authority for now, then in zip(rate, command, strict=True)]


def acceleration_of(mass_kg: float, thrust: Array, thrust_axis_w: Columns) -> Columns:
    """World acceleration (3) m/s^2 of `thrust` N along `thrust_axis_w` (3), drag neglected."""
    x, y, z = thrust_axis_w
    lift = thrust / mass_kg
    return x * lift, y * lift, z * lift - GRAVITY


def lift_of(accel_w: Columns) -> Columns:
    """Specific thrust (3) m/s^2, world, that gives `accel_w`; never downwards."""
    x, y, z = accel_w
    return x, y, at_least(z + GRAVITY, MIN_LIFT)


def missing_turn(lift_b: Columns) -> tuple[Columns, Array]:
    """What is missing for the specific thrust `lift_b` (3) m/s^2, body.

    Returns the body-frame rotation vector (3) rad, without yaw, that aligns the thrust axis, and the specific thrust
    m/s^2 along the present axis.
    """
    x, y, z = lift_b
    f = functions(x)
    side = f.sqrt(x * x + y * y + 1e-18)
    gain = f.atan2(side, z) / side
    return (-y * gain, x * gain, 0.0 * z), z
