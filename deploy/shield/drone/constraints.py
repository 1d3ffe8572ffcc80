"""The constraint rows A a <= b on a robot's world acceleration, one definition for NumPy and torch.

A is (..., K, 3) with rows of unit length, b is (..., K) in m/s^2. A constraint is one function that returns such a
pair and an entry of `CONSTRAINTS`; what it looks at is in `Context`. All rows are written for the state `latency_s`
ahead, where an acceleration asked for now becomes real. Arithmetic is float64.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from deploy.shield.arrays import at_least, at_most, columns, least
from deploy.shield.drone.ahead import Ahead, predict_peers, predict_state
from deploy.shield.drone.apart import NO_LIMIT, obstacle_rows, peer_rows, people_rows
from deploy.shield.drone.attitude import rotation_matrix
from deploy.shield.drone.limits import envelope_rows, fence_bound, fence_rows, speed_rows
from deploy.shield.drone.params import ShieldParams
from deploy.shield.types import Context
from hardware.rotation import namespace_of
from hardware.types import Array


class Priority(Enum):
    """What is given up where not all rows can be met: SOFT ones, then those about a PERSON; a COLLISION is the last."""

    LIMIT = 0  # what the robot itself can do, and the floor: never given up
    COLLISION = 1  # with a peer, an obstacle
    PERSON = 2  # who is kept off from afar; one that follows must not drive a robot into something
    SOFT = 3  # may be violated for a moment


class Constraint(NamedTuple):
    """Rows of one kind, with a name and a priority each; with `each`, once for each entry of that Context field.

    `rows` is not called where there is no entry.
    """

    rows: Callable[[Ahead], tuple[Array, Array]]
    priorities: Mapping[str, Priority]
    each: str = ""


ROW_TOL = 1e-6  # m/s^2, by which a request may exceed a row and still count as allowed
# m/s^2, by which a request has to leave every row but those of the envelope room, to climb as fast as it likes: that
# covers full thrust for 75 ms, the age of a state, a period and the rotors' lag, which no prediction counts on.
CLEAR_ACCEL = 4.0
_FENCE = {f"fence_{side}_{axis}": Priority.SOFT for side in ("high", "low") for axis in "xyz"}
_ENVELOPE = (*(f"tilt_{45 * k}" for k in range(8)), "climb", "descent")
CONSTRAINTS = [  # in the order of their rows
    Constraint(peer_rows, {"peer": Priority.COLLISION}, each="peers"),
    Constraint(people_rows, {"person": Priority.PERSON}, each="people"),
    Constraint(obstacle_rows, {"obstacle": Priority.COLLISION}, each="obstacles"),
    Constraint(fence_rows, _FENCE | {"fence_low_z": Priority.LIMIT}),
    Constraint(speed_rows, {"speed": Priority.SOFT}),
    Constraint(envelope_rows, dict.fromkeys(_ENVELOPE, Priority.LIMIT)),
]


@lru_cache(maxsize=256)
def rows_of(kind: Callable[[Ahead], tuple[Array, Array]], counts: tuple[int, ...]) -> slice:
    """Which rows those of one constraint are; `counts` are the `row_counts`."""
    place = [rows for rows, _, _ in CONSTRAINTS].index(kind)
    sizes = [count * len(each.priorities) for count, each in zip(counts, CONSTRAINTS, strict=True)]
    first = sum(sizes[:place])
    return slice(first, first + sizes[place])


def knows_people(counts: tuple[int, ...]) -> bool:
    """Whether there are rows about people."""
    people = rows_of(people_rows, counts)
    return people.start < people.stop


def climb_row(counts: tuple[int, ...]) -> int:
    """Which row limits how fast it may climb."""
    return rows_of(envelope_rows, counts).start + _ENVELOPE.index("climb")


# Not taken from `CONSTRAINTS`: an entry that is written there is not in the core until it is written there too.
_IN_CORE = [peer_rows, people_rows, obstacle_rows, fence_rows, speed_rows, envelope_rows]


def are_shipped() -> bool:
    """Whether no constraint was added, which the compiled core would know nothing of."""
    return [rows for rows, _, _ in CONSTRAINTS] == _IN_CORE


def row_counts(context: Context) -> tuple[int, ...]:
    """How many entries each constraint has rows for."""
    return tuple([_entries(getattr(context, each)) if each else 1 for _, _, each in CONSTRAINTS])


def row_names(context: Context) -> tuple[str, ...]:
    """Names of the rows of `constraint_rows`, in order: "peer_0", "speed"."""
    return _layout(row_counts(context))[0]


def active_names(context: Context, active: np.ndarray) -> tuple[str, ...]:
    """Names of the rows of one robot that `active` (M,) bool marks; peers and obstacles are called by their own."""
    counts, rows = row_counts(context), active.nonzero()[0].tolist()
    found = dict(zip(rows, [_layout(counts)[0][row] for row in rows], strict=True))
    for kind, name_of in ((peer_rows, context.name_of), (obstacle_rows, context.name_of_obstacle)):
        of_kind = rows_of(kind, counts)
        found |= {row: name_of(row - of_kind.start) for row in rows if of_kind.start <= row < of_kind.stop}
    return tuple(found.values())


def constraint_rows(params: ShieldParams, context: Context) -> tuple[Array, Array]:
    """All rows for one robot or a batch: (A (..., M, 3), b (..., M)), A a <= b with a in m/s^2, world."""
    state = context.state
    assert state is not None
    xp = namespace_of(state.base_pos)
    ahead = predict_state(params, state, rotation_matrix(columns(state.base_quat)))
    return rows_ahead(xp, params, *ahead, context, row_counts(context))


def rows_ahead(
    xp: Any,
    params: ShieldParams,
    pos: Array,
    vel: Array,
    context: Context,
    counts: tuple[int, ...],
    driven: tuple[tuple[Array, Array], tuple[Array, Array]] | None = None,
) -> tuple[Array, Array]:
    """`constraint_rows` for a robot already predicted to `pos` (..., 3) m, `vel` (..., 3) m/s, float64.

    `counts` are the `row_counts`; `driven` is `weakest` and `strongest` of `Ahead`, `pos` and `vel` where unknown.
    """
    peer_pos, peer_vel, age = predict_peers(xp, params, context.peers)
    everyone = xp.concat([pos[..., None, :], peer_pos, vel[..., None, :], peer_vel], axis=-2)
    fences = fence_bound(xp, params, everyone)
    driven = driven or ((pos, vel), (pos, vel))
    ahead = Ahead(xp, params, context, pos, vel, *driven, peer_pos, peer_vel, age, fences)
    given = zip(CONSTRAINTS, counts, strict=True)
    rows, bounds = zip(*[each.rows(ahead) for each, entries in given if entries], strict=True)
    return xp.concat(rows, axis=-2), xp.concat(bounds, axis=-1)


def split_bounds(xp: Any, bound: Array, counts: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Bounds (..., M) for when not all can be met: without others, without SOFT rows, and without people's besides.

    A fence can be broken for a moment, a peer cannot: first the one, then from there the other. The lower fence stays,
    because there is a floor below it, and squeezed robots would dodge downwards.
    """
    _, *masks = _layout(counts)
    if not isinstance(bound, np.ndarray):
        masks = [xp.asarray(mask, device=bound.device) for mask in masks]
    is_other, is_soft, is_person = masks
    firm = xp.where(is_soft, NO_LIMIT, bound)
    return xp.where(is_other, NO_LIMIT, bound), firm, xp.where(is_person, NO_LIMIT, firm)


def free_height(xp: Any, params: ShieldParams, bound: Array, counts: tuple[int, ...]) -> Array:
    """Share (...), 0 to 1, of climb and of descent that ceiling and floor leave to a robot; 1 where another is near.

    There it has to lean away, and what it keeps of a request counts for more than how punctual its thrust is.
    """
    fence, names = bound[..., rows_of(fence_rows, counts)], list(_FENCE)
    up = fence[..., names.index("fence_high_z")] / params.max_climb_accel
    down = fence[..., names.index("fence_low_z")] / params.max_descent_accel
    share = at_most(at_least(xp.minimum(up, down), 0.0), 1.0)
    others = xp.concat([bound[..., rows_of(kind, counts)] for kind in (peer_rows, people_rows, obstacle_rows)], axis=-1)
    return xp.where(least(others) < CLEAR_ACCEL, 1.0, share) if others.shape[-1] else share


def _entries(field: Any) -> int:
    if field is None:
        return 0
    return len(field) if isinstance(field, Mapping) else field.pos.shape[-2]


@lru_cache(maxsize=64)
def _layout(counts: tuple[int, ...]) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray]:
    """Names (M,) of the rows, and which (M,) are about others, which are SOFT, and which are about people."""
    rows = [
        (f"{name}_{index}" if each else name, priority)
        for count, (_, priorities, each) in zip(counts, CONSTRAINTS, strict=True)
        for index in range(count)
        for name, priority in priorities.items()
    ]
    priorities = np.array([priority for _, priority in rows])
    is_soft, is_person = priorities == Priority.SOFT, priorities == Priority.PERSON
    return tuple(name for name, _ in rows), is_person | (priorities == Priority.COLLISION), is_soft, is_person
