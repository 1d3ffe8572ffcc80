"""One robot's joints and links by the compiled core: what `joints.filter` and `joints.links` find by NumPy."""

import numpy as np

from deploy.shield import native
from deploy.shield.arrays import NEVER_ZERO
from deploy.shield.joints.capsules import TINY, LinkRows
from deploy.shield.joints.limits import Limits, Rows, reaction_s
from deploy.shield.joints.load import LOAD
from deploy.shield.joints.params import JointShieldParams
from deploy.shield.kept import kept
from deploy.shield.types import Context

# In the order of `struct joint`, which has only one of what is the same for both sides.
FIELDS = [name for name in Rows._fields if name not in ("box", "sides")]
_SMALL = np.array([TINY, NEVER_ZERO])


def targets_of_core(
    params: JointShieldParams, limits: Limits, context: Context, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """(8, U) from `pos` on as `joints.filter` has them, which of its rows act (5, U) bool, and the margin.

    None where there is no core, or it has no answer: to what is no finite number.
    """
    state, size = context.state, len(target)
    if native.compiled is None or state is None:
        return None
    pos, vel = state.joint_pos[limits.joint], state.joint_vel[limits.joint]
    found, active = np.empty((8, size)), np.empty((5, size), bool)
    given = _joints(limits), _numbers(params), pos, vel, state.age, target, context.load, context.sent
    margin = native.compiled.joint_targets(*given, found, active)
    return None if margin is None else (found, active, margin)


def place_of_core(rows: LinkRows, poses: np.ndarray) -> np.ndarray | None:
    """As `Links.place`, (3, 2 C, N) m for `poses` (N, U) rad; None where the core is not there, or has no answer."""
    if native.compiled is None:
        return None
    hinges, capsules, *_ = _links(rows)
    lines = np.empty((3, 2 * len(capsules), len(poses)))
    return lines if native.compiled.place_links(hinges, capsules, poses, lines) else None


def gaps_of_core(rows: LinkRows, lines: np.ndarray) -> np.ndarray | None:
    """As `capsules.between` (S, N) m for all pairs; None where the core is not there, or has no answer."""
    if native.compiled is None:
        return None
    pairs = _links(rows)[2]
    apart = np.empty((len(pairs), lines.shape[-1]))
    return apart if native.compiled.link_gaps(lines, pairs, _SMALL, apart) else None


def heights_of_core(rows: LinkRows, lines: np.ndarray, up: list[float]) -> np.ndarray | None:
    """How far the spheres are over the floor (K, N) m; `up` are its normal in the base, and how far that is over it.

    None where the core is not there, or has no answer.
    """
    if native.compiled is None:
        return None
    spheres = _links(rows)[3]
    above = np.empty((len(spheres), lines.shape[-1]))
    return above if native.compiled.sphere_heights(lines, spheres, np.array(up), above) else None


@kept
def _joints(limits: Limits) -> np.ndarray:
    counts = np.zeros(len(limits.turns))
    counts[limits.turning] = 1.0
    rows = [np.atleast_2d(getattr(limits.rows, name))[0] for name in FIELDS]
    return np.stack([*rows, counts], axis=-1)


@kept
def _numbers(params: JointShieldParams) -> np.ndarray:
    """In the order of `struct servo`."""
    return np.array([1.0 / reaction_s(params), params.latency_s, params.pickup_share, params.max_power_w, *LOAD])


@kept
def _links(rows: LinkRows) -> tuple[np.ndarray, ...]:
    """In the order of `struct hinge`, `struct capsule`, `struct pair` and `struct sphere`."""
    links, pairs = rows.links, rows.pairs
    count = len(pairs.one)
    parts = links.turning.reshape(len(links.parent), 3, 4, 4)[:, :, :3].reshape(len(links.parent), -1)
    hinges = np.c_[links.parent, links.angles[:, 1::3].argmax(0), parts]
    capsules = np.c_[links.link, links.ends[:, 0], links.ends[:, 1] - links.ends[:, 0]]
    ends, ways = np.split(rows.spheres, 2, axis=1)  # a sphere's place is its capsule's end and a share of its way
    spheres = np.c_[ends.argmax(1), ways.sum(1), rows.radius]
    return hinges, capsules, np.c_[pairs.lines[:count], pairs.lines[count : 2 * count], pairs.one, pairs.two], spheres
