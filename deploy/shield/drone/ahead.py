"""Where a robot and its peers are when a command given now takes effect, for NumPy and torch alike; float64."""

from dataclasses import dataclass
from typing import Any

from deploy.shield.arrays import at_least, at_most, columns, double, join
from deploy.shield.drone.attitude import Columns, rotated, thrust_axis
from deploy.shield.drone.params import ShieldParams
from deploy.shield.types import Context
from hardware.spec import GRAVITY
from hardware.types import Array, Peers, RobotState

# Of the measured rates' turn, over latency and age: they last for the dead time, then fade with both poles of the rate
# loop. It is the same for every robot whose latency is a multiple of these poles.
SWINGS_ON = 0.8


@dataclass(slots=True)
class Ahead:
    """A robot and its surroundings when a command given now takes effect; float64, world."""

    xp: Any
    params: ShieldParams
    context: Context
    pos: Array  # (..., 3) m
    vel: Array  # (..., 3) m/s
    weakest: tuple[Array, Array]  # the same two by the thrust that was sent before, where it is known, up to the weight
    strongest: tuple[Array, Array]  # ... and by rotors as strong as they may be, from the weight on
    peer_pos: Array  # (..., P, 3) m
    peer_vel: Array  # (..., P, 3) m/s
    peer_age: Array  # (..., P) s, capped
    fences: Array  # (..., 1 + P, 6) m/s^2, of the robot and of each peer


def predict_state(
    params: ShieldParams, state: RobotState, rot: Columns, lift: Array | None = None
) -> tuple[Array, Array]:
    """World position (..., 3) m and velocity (..., 3) m/s, `latency_s` + age ahead, turning on from `rot` as measured.

    With the tilt kept a robot whose tilt swings is taken to brake when it no longer does: its filter then circles where
    two walls meet. `lift` (...) m/s^2 is the specific thrust; where it is not known, the one that carries the weight.
    """
    x, y, z = columns(state.base_pos)
    vx, vy, vz = rotated(rot, columns(state.base_lin_vel))
    axis_x, axis_y, axis_z = thrust_axis(rot)
    ahead = double(state.age) + params.latency_s
    # Thrust is not measured; the one that carries the weight at this tilt is the least surprising guess.
    gain = ahead * (GRAVITY / at_least(axis_z, 0.5) if lift is None else lift)
    climb = 0.0 * ahead if lift is None else gain * axis_z - GRAVITY * ahead
    rate_x, rate_y, _ = columns(state.base_ang_vel)
    xx, xy, _, yx, yy = rot[:5]
    swing = SWINGS_ON * ahead
    to_x, to_y = swing * rate_y, -swing * rate_x
    swing_x, swing_y = xx * to_x + xy * to_y, yx * to_x + yy * to_y
    dx, dy = (axis_x + swing_x / 2.0) * gain, (axis_y + swing_y / 2.0) * gain
    way_x, way_y = (axis_x + swing_x / 3.0) * gain, (axis_y + swing_y / 3.0) * gain
    pos = join((x + (vx + 0.5 * way_x) * ahead, y + (vy + 0.5 * way_y) * ahead, z + (vz + 0.5 * climb) * ahead))
    return pos, join((vx + dx, vy + dy, vz + climb))


def predict_peers(xp: Any, params: ShieldParams, peers: Peers) -> tuple[Array, Array, Array]:
    """Peers `latency_s` + age ahead at constant velocity: position (..., P, 3), velocity, capped age (..., P)."""
    age = at_least(at_most(double(peers.age), params.peer_age_cap_s), 0.0)
    vel = double(peers.lin_vel)
    return double(peers.pos) + vel * (age + params.latency_s)[..., None], vel, age


def braking_curve(
    xp: Any, distance: Array, brake: Array, gain: float, knee: Array | None = None
) -> tuple[Array, Array]:
    """Closing speed (m/s) from which `brake` m/s^2 stops within `distance` m, and its slope (1/s).

    The square root of the text books, made linear with slope `gain` near and below zero distance, where its own slope
    would be infinite: there the speed is negative, which asks for moving apart. `knee` is that of `knee_of`.
    """
    knee = knee_of(brake, gain) if knee is None else knee
    root = xp.sqrt(2.0 * brake * at_least(distance - knee, knee))
    return xp.minimum(gain * distance, root), brake / root


def used_up(xp: Any, params: ShieldParams, barrier: Array, duty: Array) -> Array:
    """How fast, m/s^2, a `barrier` h, m/s, may be used up where this robot does the share `duty` of the braking.

    It solves h = rate / barrier_gain + rate^2 / (2 turn): what closes in any more while commands take effect, and while
    all who brake lean over to the other side. Their accelerations turn at gravity times `max_rate`, m/s^3, each; on
    that way they gain the speed of the second term. A gain alone asks slow turners to lean over in no time.
    """
    lag, turn = 1.0 / params.barrier_gain, GRAVITY * params.max_rate / duty
    return 2.0 * barrier / (lag + xp.sqrt(lag * lag + 2.0 * at_least(barrier, 0.0) / turn))


def knee_of(brake: Array, gain: float) -> Array:
    """Half of the distance, m, up to which a `braking_curve` is linear."""
    return 0.5 * brake / gain**2
