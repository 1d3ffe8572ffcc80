"""Rows that keep a robot off others: its peers, people and obstacles."""

from deploy.shield.arrays import NEVER_ZERO, at_least, at_most, constant, dot, double, every, greatest, some
from deploy.shield.drone.ahead import Ahead, braking_curve, predict_peers, used_up
from deploy.shield.drone.distance import scale_of
from deploy.shield.drone.limits import BOTH_WAYS, fence_push, of_fence
from deploy.shield.drone.params import FRESH_S
from deploy.shield.obstacles import outward
from hardware.types import Array

NO_LIMIT = 1e6  # m/s^2, bound of a row that must never act (a finite number, because solvers dislike infinity)
GIVES = 40.0  # 1/s^2, how fast people's rows give way outside of the fence
HALF = 0.5  # of the braking that keeps two robots apart, where both do theirs


def peer_rows(ahead: Ahead) -> tuple[Array, Array]:
    """One barrier row per peer: (A (..., P, 3), b (..., P)), with this robot's share of the duty, see `_apart`.

    It is half of it for a peer that shares; both brake for the fence as one, or the one behind would push the one in
    front through it. It is all of it for a peer that does not, or has fallen silent: it is taken to fly straight on.
    """
    xp, params, sharing = ahead.xp, ahead.params, ahead.context.sharing
    together = None
    if some(ahead.fences < 0.0):
        pushes = fence_push(ahead.fences)
        own, other = pushes[..., :1, :], pushes[..., 1:, :]
        together = at_least(xp.maximum(own, other), 0.0) + at_most(xp.minimum(own, other), 0.0)
    duty, separation_m = HALF, params.separation_m
    if sharing is not None:
        separation_m = at_least(sharing.separation_m, params.separation_m)
        does = sharing.shares & (ahead.peer_age <= params.act_s)
        if not bool(does.all()):
            duty = xp.where(does, HALF, 1.0)
            together = None if together is None else xp.where(does[..., None], together, 0.0)
    peers = ahead.peer_pos, ahead.peer_vel, ahead.peer_age
    return _apart(ahead, *peers, separation_m, duty, together, ahead.context.peers.valid)


def people_rows(ahead: Ahead) -> tuple[Array, Array]:
    """One barrier row per person, with all of the duty; it gives way where the robot is too far out of its fence."""
    xp, params, people = ahead.xp, ahead.params, ahead.context.people
    pos, vel, age = predict_peers(xp, params, people)
    rows, bound = _apart(ahead, pos, vel, age, params.people_m, 1.0, None, people.valid)
    both_ways = constant(xp, BOTH_WAYS, ahead.pos)
    outside = greatest(ahead.pos @ both_ways - constant(xp, of_fence(params)[0], ahead.pos)) - params.fence_buffer_m
    over = (outside - params.people_outside_m)[..., None]
    return rows, xp.where(over > 0.0, at_least(bound, -params.fence_most_accel) + GIVES * over, bound)


def obstacle_rows(ahead: Ahead) -> tuple[Array, Array]:
    """One barrier row per obstacle, with all of the braking; one that moves is taken to come straight on.

    Like the fence they never ask for more than the robot has. What stands around is slanted: who sinks along it with
    less thrust than carries it is nearer than if that carried it, and pulls away the less; at what is above or beside,
    more thrust drives it nearer. Only what brings it nearer counts: who took itself to climb off the top of a box, or
    to sink from a ceiling, would let go each time, and come nearer with each turn.
    """
    xp, params, things = ahead.xp, ahead.params, ahead.context.obstacles
    assert things is not None
    (pos, vel), (strong_pos, strong_vel) = ahead.weakest, ahead.strongest
    away, gap = outward(xp, pos, things)
    gap = gap + at_most(dot(away, (strong_pos - pos)[..., None, :]), 0.0)
    speed = double(things.speed)
    opening = dot(away, vel[..., None, :]) + at_most(dot(away, (strong_vel - vel)[..., None, :]), 0.0) - speed
    reach = params.obstacle_m + params.obstacle_buffer_m + params.latency_s * speed
    allowed, slope = braking_curve(xp, gap - reach, params.sure_brake_accel, params.approach_gain)
    bound = used_up(xp, params, opening + allowed, 1.0) + slope * opening
    there = xp.where(things.valid, at_least(bound, -params.fence_most_accel), NO_LIMIT)
    return xp.where(things.valid[..., None], -away, 0.0), there


def _apart(
    ahead: Ahead,
    pos: Array,
    vel: Array,
    age: Array,
    separation_m: Array,
    duty: Array,
    together: Array | None,
    valid: Array,
) -> tuple[Array, Array]:
    """Rows (..., P, 3) and bounds (..., P) that keep `separation_m` from each of P bodies.

    h = opening speed + braking_curve(distance - reach) on coordinates whose z is divided by `downwash_ratio`; a row is
    the share `duty` of dh/dt >= -used_up(h) (after Wang, Ames, Egerstedt, 2017), where `together` (..., P, 3) m/s^2 is
    what both do anyway. With `stops_alone` the opening speed is no larger than if each closed in by its share of it as
    this robot does: who flies at one that stands, or flees, stops by itself. Circling opens the distance too,
    but earns no credit: estimated from noisy velocities of different ages it is what adversaries spiral in on. A body
    that flew away when it was heard may have stopped since.
    """
    xp, params = ahead.xp, ahead.params
    scale = scale_of(xp, params, ahead.pos)
    diff = ahead.pos[..., None, :] - pos
    away = diff * scale[:, 0]  # times the distance
    lengths = xp.sqrt((diff * diff) @ scale + NEVER_ZERO)
    distance, length = lengths[..., 0], lengths[..., 1]
    opening = dot(away, ahead.vel[..., None, :] - vel) / distance
    if some(age > FRESH_S):
        doubt = at_least(age - FRESH_S, 0.0) / (params.peer_age_cap_s - FRESH_S)
        opening = opening - doubt * at_least(-dot(away, vel), 0.0) / distance
    reach = (separation_m + params.buffer_m) + (0.5 * params.peer_accel) * age * age
    allowed, slope = braking_curve(xp, distance - reach, params.brake_accel / duty, params.approach_gain)
    barrier = opening + allowed
    if params.stops_alone:
        barrier = xp.minimum(barrier, dot(away, ahead.vel[..., None, :]) / (duty * distance) + allowed)
    part = duty * (used_up(xp, params, barrier, duty) + slope * opening)
    bound = part * distance if together is None else part * distance - dot(away, together)
    rows, bound = away / -length[..., None], bound / length
    if not every(valid):
        rows, bound = xp.where(valid[..., None], rows, 0.0), xp.where(valid, bound, NO_LIMIT)
    return rows, bound
