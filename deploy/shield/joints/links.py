"""How fast an arm may go on: its links keep off each other, the floor, obstacles and people with room to brake.

Looked at are two straight ways in joint space, each up to where the arm comes to rest if it goes on for the reaction
time and then brakes with all joints together: the way that it is sent on, and the way that it is on. Where a way is
blocked, the arm is slowed down to what comes to rest before that: its path stays, and standing still is always allowed.
No gradient and no program is needed: capsules are placed at `SAMPLES` points of each way, in one matrix product.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from deploy.shield.arrays import at_least, at_most, constant, dot, double, greatest, least, namespace, norm
from deploy.shield.joints.limits import Same, reaction_s
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.types import Context, Obstacles
from hardware.links import Links, as_index, load_links
from hardware.rotation import rotate, rotate_inverse, rotate_inverse_each
from hardware.spec import RobotSpec
from hardware.types import Array, RobotState

KINDS = ("self", "floor", "obstacle", "person")
SAMPLES = 4  # of each way, beyond its beginning; between them gaps are taken for straight
FAR_M = 0.06  # capsules that come no closer in any of `POSES` are left out
POSES = 2048
NO_MORE_M = 1e-6, 1e-3  # by what capsules that are too close may still approach, when sent and when seen to (noise)
PERSON_M = 2.0  # a person reaches so far up and down from where it is tracked
TINY = 1e-9
SOON_S = 1e-3  # over which a speed is taken


@dataclass(frozen=True, slots=True, eq=False)
class LinkRows:
    """What is looked at of one robot."""

    links: Links
    per_brake: np.ndarray  # (U) s^2/rad
    pairs: tuple[np.ndarray, np.ndarray]  # (S) capsules that may touch each other
    reach: np.ndarray  # (S) m, sum of their radii
    lengths: tuple[np.ndarray, np.ndarray]  # (S) m^2, of their axes
    moving: np.ndarray  # spheres that are not the base's
    touching: np.ndarray  # (K) bool, of these those of fingers, which touch things on purpose


def link_rows(spec: RobotSpec) -> LinkRows | None:
    """The rows of an arm that is bolted down; None for other robots, and where the MJCF has no collision shapes."""
    return _link_rows(Same(spec))


@lru_cache(maxsize=16)
def _link_rows(key: Same) -> LinkRows | None:
    spec = key.value
    if not spec.fixed_base:
        return None
    if (links := load_links(spec)) is None:
        return None
    first, second = _pairs(spec, links)
    axes = links.ends[:, 1] - links.ends[:, 0]
    squares = np.maximum((axes**2).sum(-1), TINY)
    moving = np.flatnonzero(links.link[links.sphere_of] > 0)
    return LinkRows(
        links=links,
        per_brake=np.array([1.0 / spec.joints[index].max_acceleration for index in spec.joint_of_channel]),
        pairs=(first, second),
        reach=links.radius[first] + links.radius[second],
        lengths=(squares[first], squares[second]),
        moving=moving,
        touching=links.finger[links.sphere_of[moving]],
    )


def _pairs(spec: RobotSpec, links: Links) -> tuple[np.ndarray, np.ndarray]:
    """Capsules of links that are no neighbours and come near each other in some pose of the whole range."""
    first, second = np.triu_indices(len(links.radius), 1)
    parent = np.array([-1, *links.parent])
    on, other = links.link[first], links.link[second]
    apart = (on != other) & (parent[on] != other) & (parent[other] != on)
    first, second = first[apart], second[apart]
    low, high = np.array(spec.command_low), np.array(spec.command_high)
    poses = np.random.default_rng(0).uniform(low, high, (POSES, len(low)))
    begin, end, _ = links.place(poses)
    squares = np.maximum(((links.ends[:, 1] - links.ends[:, 0]) ** 2).sum(-1), TINY)
    apart_m = between(np, begin, end, (first, second), (squares[first], squares[second]))
    near = (apart_m - links.radius[first] - links.radius[second]).min(0) < FAR_M
    return first[near], second[near]


def between(xp: Any, begin: Array, end: Array, pairs: tuple[Array, Array], lengths: tuple[Array, Array]) -> Array:
    """Distances (..., S) m of the axes of pairs of capsules, from their ends (..., C, 3); `lengths` (S) m^2.

    Ericson, "Real-Time Collision Detection", 2005, 5.1.9: the nearest points of two segments.
    """
    first, second = pairs
    axes = end - begin
    axis, other = (xp.take(axes, each, axis=-2) for each in pairs)
    way = xp.take(begin, first, axis=-2) - xp.take(begin, second, axis=-2)
    one, two = lengths
    across, along, behind = dot(axis, other), dot(axis, way), dot(other, way)
    share = xp.clip((across * behind - along * two) / at_least(one * two - across * across, TINY), 0.0, 1.0)
    there = xp.clip((across * share + behind) / two, 0.0, 1.0)
    share = xp.clip((across * there - along) / one, 0.0, 1.0)
    return norm(xp, way + share[..., None] * axis - there[..., None] * other)


def off_boxes(xp: Any, points: Array, pos: Array, axes: Array, half: Array) -> Array:
    """Distances (..., K, B) m of points (..., K, 3) from boxes of half a size (..., B, 3); negative inside.

    `pos` (..., B, 3) m and `axes` (..., B, 3, 3), one axis a row, in the frame of the points.
    """
    local = points @ xp.reshape(axes, (*axes.shape[:-3], -1, 3)).mT
    local = xp.reshape(local, (*local.shape[:-1], -1, 3)) - (axes @ pos[..., None])[..., None, :, :, 0]
    beyond = xp.abs(local) - half[..., None, :, :]
    return norm(xp, at_least(beyond, 0.0)) + at_most(greatest(beyond), 0.0)


def free_share(
    params: JointShieldParams, rows: LinkRows, context: Context, pos: Array, ways: Array
) -> tuple[Array, Array]:
    """Share (..., 1) of its speed that an arm may go on with, and which of the `KINDS` (..., 4) bool say so.

    `pos` (..., U) rad, and `ways` (..., 2, U) rad/s: the velocity that it is sent on with, and its own.
    """
    xp = namespace(ways)
    delay_s = reaction_s(params)
    stop_s = greatest(xp.abs(ways) * (constant(xp, rows.per_brake, ways) / params.link_brake_share))  # (..., 2)
    most_s = delay_s + 0.5 * stop_s
    way_s = most_s[..., None] * constant(xp, np.linspace(0.0, 1.0, SAMPLES + 1), ways)  # (..., 2, n) at full speed
    end_s = xp.sqrt(delay_s**2 + 2.0 * stop_s[..., None] * way_s)  # until it rests, at a speed that ends there
    poses = pos[..., None, None, :] + way_s[..., None] * ways[..., None, :]
    room = _Room(xp, params, rows, context, poses, end_s).of_kinds()
    tightest = room[0]
    for other in room[1:]:
        tightest = xp.minimum(tightest, other)
    before, after = tightest[..., :-1], tightest[..., 1:]
    part = at_most(at_least(before / at_least(before - after, TINY), 0.0), 1.0)
    index = constant(xp, np.arange(SAMPLES, dtype=np.float64), ways)
    free = least(xp.where(after >= 0.0, 1.0, (index + part) / SAMPLES))
    free = xp.where(free >= 0.0, free, 0.0)  # what is no number blocks
    way_s = free * most_s
    speed = 2.0 * way_s / (xp.sqrt(delay_s**2 + 2.0 * stop_s * way_s) + delay_s)
    blocked = [~(least(least(each)) >= 0.0) for each in room]
    return least(xp.where(free >= 1.0, 1.0, speed))[..., None], xp.stack(blocked, axis=-1)


def arm_obstacles(spec: RobotSpec, state: RobotState, lands_on: bool = False) -> Obstacles | None:
    """The links of another arm in `state`, as what a shield keeps off; None where its MJCF has no collision shapes.

    How fast each may come nearer is the speed at which its faster end moves now. For a robot that `lands_on` what the
    arm holds the last two links, which carry it, are not valid.
    """
    if (rows := link_rows(spec)) is None:
        return None
    links, xp = rows.links, namespace(state.joint_pos)
    channel = as_index(np.array(spec.joint_of_channel), state.joint_pos)
    pos, vel = (double(xp.take(each, channel, axis=-1)) for each in (state.joint_pos, state.joint_vel))
    poses = xp.stack([pos, pos + SOON_S * vel], axis=-2)
    begin, end, _ = links.place(poses)
    moved = xp.maximum(
        norm(xp, begin[..., 1, :, :] - begin[..., 0, :, :]), norm(xp, end[..., 1, :, :] - end[..., 0, :, :])
    )
    begin, end = begin[..., 0, :, :], end[..., 0, :, :]
    turn = double(state.base_quat)[..., None, :]
    axis = rotate(turn, end - begin)
    length = norm(xp, axis)
    half = constant(xp, np.eye(3)[2], axis) * (0.5 * length)[..., None]
    # Half way between z and the axis lies what turns one into the other.
    unit = axis / length[..., None]
    quat = xp.stack([1.0 + unit[..., 2], -unit[..., 1], unit[..., 0], 0.0 * length], axis=-1)
    upside = constant(xp, np.array([0.0, 1.0, 0.0, 0.0]), quat)
    quat = xp.where(quat[..., :1] < TINY, upside, quat)
    quat = quat / xp.sqrt((quat * quat).sum(-1))[..., None]
    middle = rotate(turn, 0.5 * (begin + end)) + double(state.base_pos)[..., None, :]
    radius = constant(xp, links.radius, length) + 0.0 * length
    kept = constant(xp, links.link < len(links.names) - (2 if lands_on else 0), radius)
    return Obstacles(middle, quat, half, radius, moved / SOON_S, kept * radius > 0.0)


class _Room:
    """What is left of gaps (..., 2, n) m at the `poses` (..., 2, n, U) rad of two ways, `end_s` (..., 2, n) s away."""

    def __init__(
        self, xp: Any, params: JointShieldParams, rows: LinkRows, context: Context, poses: Array, end_s: Array
    ) -> None:
        self.xp, self.params, self.rows, self.context, self.end_s = xp, params, rows, context, end_s
        assert context.state is not None
        self.turn, self.base = double(context.state.base_quat), double(context.state.base_pos)
        self.begin, self.end, spheres = rows.links.place(poses)
        self.spheres = xp.take(spheres, as_index(rows.moving, end_s), axis=-2)
        self.radius = constant(xp, rows.links.sphere_radius[rows.moving], end_s)
        touching = constant(xp, rows.touching.astype(np.float64), end_s)
        self.margin = constant(xp, params.link_margin_m * np.array([[[1.0]], [[0.5]]]), end_s)
        # Fingers work by touching: they only do it slowly.
        self.margins = self.margin * (1.0 - touching)
        self.touch_m = params.touch_speed * reaction_s(params) * touching

    def of_kinds(self) -> list[Array]:
        """One array for each of the `KINDS`."""
        return [self._own(), self._floor(), self._obstacles(), self._people()]

    def _kept(self, gap: Array, margin: Array) -> Array:
        """What is too near already may stay where it is, or go away."""
        closer = constant(self.xp, np.array(NO_MORE_M)[:, None, None], gap)
        return gap - self.xp.minimum(margin, gap[..., :1, :] - closer)

    def _own(self) -> Array:
        rows, xp = self.rows, self.xp
        if not len(rows.reach):
            return self.xp.zeros_like(self.end_s) + np.inf
        pairs = tuple(as_index(each, self.end_s) for each in rows.pairs)
        lengths = tuple(constant(xp, each, self.end_s) for each in rows.lengths)
        apart = between(xp, self.begin, self.end, pairs, lengths)
        return least(self._kept(apart - constant(xp, rows.reach, self.end_s), self.margin))

    def _floor(self) -> Array:
        up = rotate_inverse(self.turn, constant(self.xp, np.array([0.0, 0.0, 1.0]), self.base))
        base_m = (self.base[..., 2] - self.params.ground_z_m)[..., None, None, None]
        gap = (self.spheres @ up[..., None, None, :, None])[..., 0] + base_m - self.radius
        return least(self._kept(gap, self.margins) + self.touch_m)

    def _obstacles(self) -> Array:
        things = self.context.obstacles
        if things is None or not things.pos.shape[-2]:
            return self.xp.zeros_like(self.end_s) + np.inf
        gap = self._off(things.pos, things.quat, things.half, things.valid)
        gap = gap - double(things.speed)[..., None, None, :, None] * self.end_s[..., None, None]
        gap = gap - double(things.radius)[..., None, None, :, None]
        kept = self._kept(self.xp.reshape(gap, (*gap.shape[:-2], -1)), _tiled(self.xp, self.margins, gap))
        return least(kept + _tiled(self.xp, self.touch_m, gap))

    def _people(self) -> Array:
        """ISO/TS 15066, speed and separation; what the robot goes until it rests is in the gap already."""
        people, params, xp = self.context.people, self.params, self.xp
        if not people.pos.shape[-2]:
            return self.xp.zeros_like(self.end_s) + np.inf
        upright = constant(xp, np.array([1.0, 0.0, 0.0, 0.0]), self.base) + xp.zeros_like(people.pos[..., :1])
        height = constant(xp, np.array([0.0, 0.0, PERSON_M]), self.base) + xp.zeros_like(upright[..., :3])
        gap = self._off(people.pos, upright, height, people.valid)
        walked_s = self.end_s[..., None] + double(people.age)[..., None, None, :]
        kept_m = params.person_radius_m + params.person_reach_m + params.person_error_m
        return least(least(gap) - params.person_speed * walked_s - kept_m)

    def _off(self, pos: Array, quat: Array, half: Array, valid: Array) -> Array:
        """Gaps (..., 2, n, B, K) m of spheres and boxes; infinite where there is no box."""
        pos, quat, half, xp = double(pos), double(quat), double(half), self.xp
        axes = rotate(quat[..., None, :], constant(xp, np.eye(3), pos))  # (..., B, 3, 3) in the world
        flat = xp.reshape(axes, (*axes.shape[:-3], -1, 3))
        axes = xp.reshape(rotate_inverse_each(self.turn, flat), axes.shape)
        near = rotate_inverse_each(self.turn, pos - self.base[..., None, :])
        boxes = near[..., None, None, :, :], axes[..., None, None, :, :, :], half[..., None, None, :, :]
        off = off_boxes(xp, self.spheres, *boxes)
        return xp.where(valid[..., None, None, :, None], off.mT - self.radius, np.inf)


def _tiled(xp: Any, values: Array, gap: Array) -> Array:
    """Values (..., K) for each of B boxes, (..., B K)."""
    each = values[..., None, :] + xp.zeros_like(gap[..., :1, :, :])
    return xp.reshape(each, (*each.shape[:-2], -1))
