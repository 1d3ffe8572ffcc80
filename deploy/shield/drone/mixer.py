"""What a multirotor's mixer can do at once: rotors that are at their limit give up thrust for the rates asked for."""

from math import sqrt

from deploy.shield.arrays import at_least, at_most
from deploy.shield.kept import kept
from hardware.spec import RobotSpec
from hardware.types import Array


def rate_room(spec: RobotSpec, thrust: Array) -> Array:
    """Roll and pitch rates together, rad/s, that leave the mixer room for `thrust` N of a robot at rest."""
    full_n, offset, exponent, signal_s = mixer(spec)
    signal = (at_most(at_least(thrust / full_n, 0.0), 1.0) ** (1.0 / exponent) - offset) / (1.0 - offset)
    return at_least(1.0 - signal, 0.0) / signal_s


def curve_exponent(spec: RobotSpec) -> float:
    """How thrust grows with a rotor's signal: 1 evenly, 2 with its square."""
    return mixer(spec)[2]


@kept
def mixer(spec: RobotSpec) -> tuple[float, float, float, float]:
    """Full thrust N, offset and exponent of the rotors' curve, and what a rate about a diagonal takes of their signal.

    The last one in s/rad; without a published loop it is next to nothing.
    """
    loop = None if spec.flight is None else spec.flight.rate_loop
    if loop is None:
        return spec.command_high[0], 0.0, 1.0, 1e-9
    of_rate = max(share * gain for share, gain in zip(loop.shares[:2], loop.proportional[:2], strict=True))
    return spec.command_high[0], *loop.curve, sqrt(2.0) * of_rate
