"""What the shield of a multirotor promises, in numbers that follow from its parameters and from what is assumed."""

from dataclasses import dataclass
from math import degrees, hypot, pi, sqrt, tan

import numpy as np

from deploy.shield.drone.attitude import rate_authority_s
from deploy.shield.drone.fallback import BLIND_S, FLIPPED_RAD, LIFTING_MORE
from deploy.shield.drone.flight import BLIND_LIFT
from deploy.shield.drone.motion import RISES_WITHIN_S
from deploy.shield.drone.params import THRUST_ERROR, ShieldParams
from deploy.shield.guarantee import Guarantee, Lines
from hardware.spec import GRAVITY, FlightModel, RobotSpec

SIGMAS = 3.0  # of a random error that a margin has room for


@dataclass(frozen=True, slots=True)
class FlightBounds:
    """What is assumed, all of it at once; errors of measurement are one sigma of each axis."""

    pos_m: float = 0.005
    vel: float = 0.03  # m/s
    tilt_rad: float = 0.01
    rate: float = 0.02  # rad/s
    age_s: float = 0.028  # of the own state and of what peers say, when they are used
    delay_s: float = 0.02  # from the shield's answer to the motors
    thrust: float = THRUST_ERROR  # share by which thrust over mass may differ from the nominal one
    thing: float = 0.6  # m/s, of obstacles and links


BOUNDS = FlightBounds()  # at this corner adversaries fly (tests/shield/test_shield_adversary.py)


@dataclass(frozen=True, slots=True)
class Used:
    """How much of a buffer errors use up, m."""

    steady_m: float  # by thrust that is not the nominal one, in the direction that needs most
    noise_m: float  # by errors of measurement, three sigma

    @property
    def total_m(self) -> float:
        return self.steady_m + self.noise_m


def used_of_buffer(params: ShieldParams, bounds: FlightBounds, bodies: int) -> Used:
    """What errors use up of a buffer across, between two robots (`bodies` 2) or a robot and a face of its fence (1).

    An acceleration that is short by e lets a barrier h settle at -e / barrier_gain, and so the distance at
    -e / (barrier_gain approach_gain); an error of velocity counts like one of distance over approach_gain, and is
    carried ahead over age and latency besides.
    """
    stiffness = params.barrier_gain * params.approach_gain
    upwards = 1.0 if bodies == 1 else 1.0 / params.downwash_ratio
    steady_m = bodies * bounds.thrust * GRAVITY * max(tan(params.max_tilt_rad), upwards) / stiffness
    ahead_s = bounds.age_s + params.latency_s + 1.0 / params.approach_gain
    noise_m = hypot(bounds.pos_m, ahead_s * bounds.vel, GRAVITY * bounds.tilt_rad / stiffness)
    return Used(steady_m, SIGMAS * sqrt(bodies) * noise_m)


def attitude_loop(params: ShieldParams, flight: FlightModel, bounds: FlightBounds) -> tuple[float, float]:
    """Phase margin, rad, of the loop from a tilt error to the rates that undo it, and the delay, s, that uses it up.

    The loop is that of the filter: rates are asked for over the slowest rate loop that is assumed, the model's own
    1 / (T s + 1)^2, at the largest age and delay and with half a control period of holding each command.
    """
    authority_s, lag_s = rate_authority_s(params, flight), flight.rate_time_constant_s
    s = 1j * np.geomspace(0.1, 1e3, 20_000)
    delay_s = bounds.age_s + bounds.delay_s + 0.5 * params.control_dt_s
    lead_s = params.lookahead_s - authority_s + bounds.age_s
    loop = (1.0 + lead_s * s) * np.exp(-delay_s * s) / (authority_s * s * (lag_s * s + 1.0) ** 2)
    crossing = int(np.flatnonzero(np.abs(loop) > 1.0)[-1])
    phase = float(np.unwrap(np.angle(loop))[crossing]) + pi
    return phase, phase / float(s[crossing].imag)


def flight_guarantee(params: ShieldParams, spec: RobotSpec, bounds: FlightBounds = BOUNDS) -> Guarantee:
    """The tables of a multirotor."""
    assert spec.flight is not None
    measured = spec.name == "crazyflie"
    return Guarantee(
        holds=_holds(params),
        assumed=_assumed(params, spec.flight, bounds, measured),
        margins=_margins(params, spec.flight, bounds),
        outside=_outside(params, measured),
    )


def _outside(params: ShieldParams, measured: bool) -> Lines:
    """`measured`: whether figures of attacks, which were flown with Crazyflies, are of this robot."""
    silent_ms, narrow_m = 1e3 * params.act_s, 2.0 * (params.obstacle_m + params.obstacle_buffer_m)
    return (
        (
            "a peer that does not run this filter, or does not hear this robot",
            "this robot does all of the braking: it evades one that flies straight on; "
            + ("a hunter of 1.5 m/s came to 0.17 m, a faster one may hit it" if measured else "a hunter may hit it"),
        ),
        (
            "a robot that was never heard",
            "nothing is done about it; arming is refused while one of the team is missing",
        ),
        (
            f"a peer whose messages are older than {silent_ms:.0f} ms",
            f"the same; after {params.peer_silent_s:g} s the shield holds the robot, then lands it",
        ),
        (
            "a person who is tracked",
            f"kept at {params.people_m:g} m across, with all of the braking, where it is given how fast they walk; at "
            "0.5 m where it is not and they walk 1.6 m/s. Who follows pushes the robot out of its fence, by less than "
            "1.4 m (an X500 among obstacles: 1.7), or up to an obstacle: there it stays, also when a person comes",
        ),
        ("the arm on whose load it lands", "its forearm and hand are not kept off, its other links are"),
        (
            f"obstacles that leave a way of less than {narrow_m:.2f} m between them",
            "it stays out of that way; what moves and closes one around the robot is not kept off",
        ),
        (
            f"obstacles and links at more than {BOUNDS.thing:g} m/s",
            "kept off as well as it can: a ball that follows it comes too near to one that hovers from 1.5 m/s on, to "
            "one that flies at it from 1 m/s on (by scripts that are not kept). Arms of the team are slowed down "
            "before it",
        ),
        (
            "rotors that are slower under the rate loop of its firmware, or other gains",
            "not held: with rotors of 80 ms and all bounds at once a Crazyflie that was shaken left its fence by 5 cm "
            "and was 8 cm below its floor; with gains between 0.75 and 1.25 times the published ones some were 7 cm "
            "below it, with half of all gains none ([figures](figures.md))"
            if measured
            else "with all bounds at once and rotors of 50 ms one and two stayed in their fence; other gains "
            "have not been flown",
        ),
        (
            "obstacles in its way down",
            "it does not land on them: it stays above, until a person moves it or the obstacle",
        ),
        (
            "eight robots that press each other into one corner",
            "come within 0.2 m, and did not touch (0.155 m)" if measured else "have not been flown",
        ),
        (
            "robots that press each other against the fence",
            "leave it, for it gives way to collisions: four of them by less than 0.4 m",
        ),
        (
            "an estimate that is wrong",
            "seen where it freezes, jumps, where position and velocity contradict each other, or where a height stands "
            f"still for {RISES_WITHIN_S:g} s under {LIFTING_MORE:g} times hover thrust: then it sinks and is in FAULT. "
            "Rotors that lost more than a fifth of their thrust look the same. An offset that is there from the start "
            "is not seen, nor a height that stands still under less thrust",
        ),
        (f"a tilt of more than {degrees(FLIPPED_RAD):.0f} degrees", "the shield levels and lands the robot"),
        (
            f"no state for {silent_ms:.0f} ms",
            f"it sinks level, away from peers by what it remembers, and goes back to its policy after "
            f"{params.recover_periods} good requests; where that lasts {params.act_s + params.latch_s:g} s it lands "
            f"for good, with the weakest rotors {_sunk_m(params):.2f} m lower by then; after {BLIND_S:g} s its motors "
            "idle",
        ),
        ("a person's emergency stop", "motors idle at once: the robot falls on what is below it"),
        ("a shield that is killed", "says nothing any more: the robot is left to its firmware"),
        (
            "downwash, whose push is beyond that bound",
            "the lower drone is pushed away, from who is above; under two of them it leaves the fence by its floor "
            "([figures](figures.md))",
        ),
    )


def _sunk_m(params: ShieldParams) -> float:
    """By how much a hovering robot that is blind has sunk when its landing begins."""
    pull = GRAVITY * (1.0 - BLIND_LIFT * (1.0 - THRUST_ERROR))
    return 0.5 * pull * params.latch_s**2


def _holds(params: ShieldParams) -> Lines:
    faces = zip("xyz", params.geofence_low, params.geofence_high, strict=True)
    return (
        ("distance of two centres at one height", f"{params.separation_m:.3f} m or more"),
        (
            "... above each other",
            f"{params.downwash_ratio * params.separation_m:.2f} m or more; in between, an ellipsoid",
        ),
        (
            "centre to the surface of what it is given: obstacles, keep-out zones, arms' links",
            f"{params.obstacle_m:.2f} m or more",
        ),
        ("centre of one robot by itself", ", ".join(f"{axis} {low:g} to {high:g} m" for axis, low, high in faces)),
        (
            "a request, a state or peers that cannot be used",
            f"the shield flies the robot after {1e3 * params.act_s:.0f} ms",
        ),
    )


def _assumed(params: ShieldParams, flight: FlightModel, bounds: FlightBounds, measured: bool) -> Lines:
    return (
        ("start", "at rest outside each other's ellipsoid: arming is refused elsewhere"),
        ("number of robots in one place", "one, two or four: so many were attacked together"),
        (
            "each peer",
            "runs this filter, says so, and hears this robot; of two distances that they keep the larger one holds",
        ),
        ("error of position; of velocity", f"{1e3 * bounds.pos_m:g} mm; {bounds.vel:g} m/s, one sigma"),
        ("error of attitude; of rates", f"{bounds.tilt_rad:g} rad; {bounds.rate:g} rad/s, one sigma"),
        ("age of the own state and of what peers say", f"{1e3 * bounds.age_s:g} ms or less"),
        ("from the command to the motors", f"{1e3 * bounds.delay_s:g} ms or less"),
        ("obstacles and links that move", f"{bounds.thing:g} m/s or less, and the shield knows how fast"),
        ("thrust over mass", f"within {100 * bounds.thrust:g} % of the nominal one, load and wind included"),
        (
            "rotors and rate loop",
            f"its firmware's with the published gains, rotors of {'20 to 60' if measured else '12.5 to 25'} ms, 5 % "
            f"unlike; or thrust with a lag of at most {1e3 * flight.rotor_time_constant_s:.0f} ms, rates by two "
            f"poles of {1e3 * flight.rate_time_constant_s:.0f} ms, without overshoot, for which rates take no thrust",
        ),
    )


def _margins(params: ShieldParams, flight: FlightModel, bounds: FlightBounds) -> Lines:
    peer, fence = (used_of_buffer(params, bounds, bodies) for bodies in (2, 1))
    phase, reserve_s = attitude_loop(params, flight, bounds)
    stale_m = 0.5 * params.peer_accel * bounds.age_s**2
    return (
        (
            f"of the buffer of a pair, {params.buffer_m:g} m and {1e3 * stale_m:.0f} mm for the age of messages",
            f"{1e3 * peer.steady_m:.0f} mm for thrust, {1e3 * peer.noise_m:.0f} mm for measurement; "
            f"{1e3 * (params.buffer_m + stale_m - peer.total_m):.0f} mm are left",
        ),
        (
            f"of the buffer of the fence, {params.fence_buffer_m:g} m",
            f"{1e3 * fence.steady_m:.0f} mm for thrust, {1e3 * fence.noise_m:.0f} mm for measurement; "
            f"{1e3 * (params.fence_buffer_m - fence.total_m):.0f} mm are left",
        ),
        (
            f"attitude loop, gain {1.0 / rate_authority_s(params, flight):.1f} 1/s, at the largest age and delay",
            f"phase margin {degrees(phase):.0f} degrees; it would circle with {1e3 * reserve_s:.0f} ms more",
        ),
        (
            f"way to a stop from {params.max_speed:g} m/s",
            f"{0.5 * params.max_speed**2 / params.brake_accel:.2f} m for a peer at {params.brake_accel:g} m/s^2, "
            f"{0.5 * params.max_speed**2 / params.fence_brake_accel:.2f} m for the fence, "
            f"{0.5 * params.max_speed**2 / params.sure_brake_accel:.2f} m for its floor and for obstacles",
        ),
    )
