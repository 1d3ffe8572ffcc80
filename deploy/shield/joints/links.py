"""How fast an arm may go on: its links keep off each other, the floor, obstacles and people with room to brake.

Looked at are two straight ways in joint space, each up to where the arm comes to rest if it goes on for the reaction
time and then brakes with all joints together: the way that it is sent on, and the way that it is on. Where a way is
blocked, the arm is slowed down to what comes to rest before that: its path stays, and standing still is always allowed.
No gradient and no program is needed: capsules are placed at the `SHARES` of each way, in one matrix product. Between
them gaps are taken for straight, and the edge of a box may be passed over: unless it lies before the first, it is seen
as the arm goes on, with at least half of the way to it left. Of four points at equal distances, on an FR3's way of
2 rad, the first was too far ahead to brake for what lay before it.
"""

from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from deploy.shield.arrays import at_least, at_most, columns, constant, double, every, greatest, least
from deploy.shield.drone.attitude import rotation_matrix
from deploy.shield.joints.capsules import TINY, LinkRows, between, share_of
from deploy.shield.joints.compiled import gaps_of_core, heights_of_core, place_of_core
from deploy.shield.joints.limits import reaction_s
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.kept import kept
from deploy.shield.obstacles import off_boxes
from deploy.shield.types import Context
from hardware.rotation import namespace_of, rotate, rotate_inverse_each
from hardware.types import Array

KINDS = ("self", "floor", "obstacle", "person")
SHARES = np.array([0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0])
NO_MORE_M = 1e-6, 1e-3  # by what capsules that are too close may still approach, when sent and when seen to (noise)
PERSON_M = 2.0  # a person reaches so far up and down from where it is tracked
_ALL, _NONE = np.ones(1), np.zeros(len(KINDS), dtype=bool)


def free_share(
    params: JointShieldParams, rows: LinkRows, context: Context, pos: Array, ways: Array, left: Array | None = None
) -> tuple[Array, Array]:
    """Share (..., 1) of its speed that an arm may go on with, and which of the `KINDS` (..., 4) bool say so.

    `pos` (..., U) rad, and `ways` (..., 2, U) rad/s: the velocity that it is sent on with, and its own. A load leaves
    it `left` (..., U) of its braking; links count on no more than joints do.
    """
    xp = namespace_of(ways)
    numbers = _numbers(params, rows)
    delay_s = numbers.delay_s
    per_brake = constant(xp, numbers.per_brake, ways)
    if left is not None:
        per_brake = per_brake * at_least(params.link_brake_share / params.brake_share / left, 1.0)[..., None, :]
    stop_s = greatest(xp.abs(ways) * per_brake)  # (..., 2)
    most_s = delay_s + 0.5 * stop_s
    way_s = most_s[..., None] * constant(xp, SHARES, ways)  # (..., 2, n) at full speed
    lone, far = pos.ndim == 1, (False, False)
    if lone:
        seen = _seen(params, rows)
        far = seen.far(context, pos, most_s[:, None] * ways)
        if all(far) and context.obstacles is None and not len(context.people.pos):
            return _ALL, _NONE
    poses = pos[..., None, None, :] + way_s[..., None] * ways[..., None, :]
    measured = _Room(xp, params, rows, context, poses, stop_s[..., None] * way_s)
    kinds = measured.of_kinds(*far)
    if lone:
        seen.keep(context, pos, *kinds[:2])
        if all(each is None or np.minimum.reduce(each, axis=None) >= 0.0 for each in kinds):
            return _ALL, _NONE
        if any(far):  # how far a way is free depends on all of them
            kinds = measured.of_kinds()
    room = [None if each is None else least(each, -3) for each in kinds]
    tightest = reduce(xp.minimum, [each for each in room if each is not None])
    before, after = tightest[..., :-1], tightest[..., 1:]
    part = share_of(before / at_least(before - after, TINY))
    begin, end = (constant(xp, each, ways) for each in (SHARES[:-1], SHARES[1:]))
    free = least(xp.where(after >= 0.0, 1.0, begin + part * (end - begin)))
    free = xp.where(free >= 0.0, free, 0.0)  # what is no number blocks
    way_s = free * most_s
    speed = 2.0 * way_s / (xp.sqrt(delay_s**2 + 2.0 * stop_s * way_s) + delay_s)
    blocked = [free < 0.0 if each is None else ~(least(each) >= 0.0) for each in room]  # of both ways
    return least(xp.where(free >= 1.0, 1.0, speed))[..., None], xp.stack(blocked, axis=-1).any(-2)


class _Numbers(NamedTuple):
    """What one robot's parameters make of its rows; the axes are rows, ways, and points of a way."""

    delay_s: float
    per_brake: np.ndarray  # (U) s^2/rad
    reach: np.ndarray  # (S, 1, 1) m
    margin: np.ndarray  # (2, 1) m
    closer: np.ndarray  # (2, 1) m
    margins: np.ndarray  # (K, 2, 1) m
    touch_m: np.ndarray  # (K, 1, 1)
    radius: np.ndarray  # (K, 1, 1) m


@kept
def _numbers(params: JointShieldParams, rows: LinkRows) -> _Numbers:
    touching = rows.touching.astype(np.float64)[:, None, None]
    margin = params.link_margin_m * np.array([[1.0], [0.5]])
    return _Numbers(
        delay_s=reaction_s(params),
        per_brake=rows.per_brake / params.link_brake_share,
        reach=rows.reach[:, None, None],
        margin=margin,
        closer=np.array(NO_MORE_M)[:, None],
        # Fingers work by touching: they only do it slowly.
        margins=margin * (1.0 - touching),
        touch_m=params.touch_speed * reaction_s(params) * touching,
        radius=rows.radius[:, None, None],
    )


class _Seen:
    """What was left of one arm's gaps when they were measured last: they need not be until it can be used up.

    This only saves time: the answers are what measuring again would give.
    """

    def __init__(self, rows: LinkRows) -> None:
        self.levers, self.pairs = rows.levers, len(rows.reach)
        self.base: list[float] | None = None  # what the floor's place depends on; bolted down it does not change
        self.pos = np.zeros(rows.levers.shape[1])  # rad
        self.left = np.zeros(len(rows.levers))  # m, of pairs, then of spheres over the floor

    def far(self, context: Context, pos: np.ndarray, ways: np.ndarray) -> tuple[bool, bool]:
        """Whether no gap of pairs, and none to the floor, can be used up at `pos` (U,) rad nor on `ways` (2, U) rad."""
        if self.base != self._base(context):
            return False, False
        moved = np.abs(pos - self.pos) + np.maximum.reduce(np.abs(ways), axis=0)
        is_far = self.levers @ moved < self.left
        return every(is_far[: self.pairs]), every(is_far[self.pairs :])

    def keep(self, context: Context, pos: np.ndarray, own: Array | None, floor: Array | None) -> None:
        """Keep what `_Room` found at `pos` (U,) rad; of what was not measured, what is left at least."""
        self.left = self.left - self.levers @ np.abs(pos - self.pos)
        self.base, self.pos = self._base(context), pos
        if own is not None:
            self.left[: self.pairs] = own[:, 0, 0] - NO_MORE_M[0]
        if floor is not None:
            self.left[self.pairs :] = floor[:, 0, 0] - NO_MORE_M[0]

    def _base(self, context: Context) -> list[float]:
        assert context.state is not None
        return [*context.state.base_quat.tolist(), float(context.state.base_pos[2])]


@kept
def _seen(params: JointShieldParams, rows: LinkRows) -> _Seen:
    return _Seen(rows)


class _Room:
    """What is left of gaps at the `poses` (..., 2, n, U) rad of two ways.

    `braked` (..., 2, n) s^2 is how far each is at full speed, times the time in which this speed is braked.
    """

    def __init__(
        self, xp: Any, params: JointShieldParams, rows: LinkRows, context: Context, poses: Array, braked: Array
    ) -> None:
        self.xp, self.params, self.rows, self.context, self.braked = xp, params, rows, context, braked
        assert context.state is not None
        self.numbers, self.shape = _numbers(params, rows), poses.shape[:-1]
        self.turn, self.base = double(context.state.base_quat), double(context.state.base_pos)
        flat = poses.reshape(-1, poses.shape[-1])
        lines = place_of_core(rows, flat) if xp is np else None
        self.lines = rows.links.place(flat) if lines is None else lines

    def _end_s(self) -> Array:
        """Until it rests (..., 2, n) s, at a speed that ends there."""
        return self.xp.sqrt(self.numbers.delay_s**2 + 2.0 * self.braked)

    def of_kinds(self, own_far: bool = False, floor_far: bool = False) -> list[Array | None]:
        """Of each of the `KINDS` R rows (..., R, 2, n) m; None of what is far, or where there is nothing."""
        own, floor = None if own_far else self._own(), None if floor_far else self._floor()
        return [own, floor, self._obstacles(), self._people()]

    def _per_robot(self, values: Array) -> Array:
        """(R, N) of all poses as (..., R, 2, n)."""
        values = values.reshape(-1, *self.shape)
        return values if len(self.shape) == 2 else self.xp.moveaxis(values, 0, -3)

    def _kept(self, gap: Array, margin: np.ndarray) -> Array:
        """What is too near already may stay where it is, or go away.

        What noise needs is left to it only down to where it touches: left in each period, it would add up.
        """
        closer, margin = constant(self.xp, self.numbers.closer, gap), constant(self.xp, margin, gap)
        begin = gap[..., :1]
        closer = at_least(closer * at_most(begin / at_least(margin, TINY), 1.0), NO_MORE_M[0])
        return gap - self.xp.minimum(margin, begin - closer)

    def _own(self) -> Array | None:
        if not len(self.rows.reach):
            return None
        apart = gaps_of_core(self.rows, self.lines) if self.xp is np else None
        apart = self._per_robot(between(self.xp, self.lines, self.rows.pairs) if apart is None else apart)
        return self._kept(apart - constant(self.xp, self.numbers.reach, apart), self.numbers.margin)

    def _floor(self) -> Array:
        xp, numbers = self.xp, self.numbers
        up = [*rotation_matrix(columns(self.turn))[6:], self.base[..., 2] - self.params.ground_z_m]
        if len(self.shape) > 2:
            up = [each[..., None, None, None] for each in up]
        elif xp is np and (found := heights_of_core(self.rows, self.lines, up)) is not None:
            return self._over_floor(self._per_robot(found))
        up_x, up_y, up_z, base_m = up
        x, y, z = map(self._per_robot, self.lines)
        height = (up_x * x + up_y * y + up_z * z).reshape(*self.shape[:-2], -1, self.shape[-2] * self.shape[-1])
        above = (constant(xp, self.rows.spheres, height) @ height).reshape(*self.shape[:-2], -1, *self.shape[-2:])
        return self._over_floor(above + (base_m - constant(xp, numbers.radius, above)))

    def _over_floor(self, gap: Array) -> Array:
        return self._kept(gap, self.numbers.margins) + constant(self.xp, self.numbers.touch_m, gap)

    def _obstacles(self) -> Array | None:
        things, numbers = self.context.obstacles, self.numbers
        if things is None or not things.pos.shape[-2]:
            return None
        gap = self._off(things.pos, things.quat, things.half, things.valid)
        speed, radius = (double(each)[..., None, None, None] for each in (things.speed, things.radius))
        gap = gap - speed * self._end_s()[..., None, None, :, :] - radius
        kept = self._kept(gap, numbers.margins) + constant(self.xp, numbers.touch_m, gap)
        return self.xp.reshape(kept, (*kept.shape[:-4], -1, *kept.shape[-2:]))

    def _people(self) -> Array | None:
        """ISO/TS 15066, speed and separation; what the robot goes until it rests is in the gap already."""
        people, params, xp = self.context.people, self.params, self.xp
        if not people.pos.shape[-2]:
            return None
        upright = constant(xp, np.array([1.0, 0.0, 0.0, 0.0]), self.base) + xp.zeros_like(people.pos[..., :1])
        height = constant(xp, np.array([0.0, 0.0, PERSON_M]), self.base) + xp.zeros_like(upright[..., :3])
        gap = self._off(people.pos, upright, height, people.valid)
        walked_s = self._end_s()[..., None, :, :] + double(people.age)[..., None, None]
        kept_m = params.person_radius_m + params.person_reach_m + params.person_error_m
        return least(gap, -3) - params.person_speed * walked_s - kept_m

    def _off(self, pos: Array, quat: Array, half: Array, valid: Array) -> Array:
        """Gaps (..., B, K, 2, n) m of spheres and boxes; infinite where there is no box."""
        pos, quat, half, xp = double(pos), double(quat), double(half), self.xp
        axes = rotate(quat[..., None, :], constant(xp, np.eye(3), pos))  # (..., B, 3, 3) in the world
        flat = xp.reshape(axes, (*axes.shape[:-3], -1, 3))
        axes = xp.reshape(rotate_inverse_each(self.turn, flat), axes.shape)
        near = rotate_inverse_each(self.turn, pos - self.base[..., None, :])
        places = self._per_robot(constant(xp, self.rows.spheres, self.lines) @ self.lines)  # (..., 3 K, 2, n)
        off = off_boxes(xp, xp.reshape(places, (*places.shape[:-3], 3, -1)), near, axes, half)
        off = xp.reshape(off, (*off.shape[:-1], -1, *self.shape[-2:])) - constant(xp, self.numbers.radius, off)
        return xp.where(valid[..., None, None, None], off, np.inf)
