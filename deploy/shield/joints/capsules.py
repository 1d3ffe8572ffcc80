"""Links of an arm as capsules: which of them are looked at, and how far they are from each other and from boxes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from deploy.shield.arrays import NEVER_ZERO, at_least, at_most, constant
from deploy.shield.kept import kept
from hardware.links import Links, as_index, load_links
from hardware.spec import RobotSpec
from hardware.types import Array

NEVER_NEAR_M = 0.06  # capsules that come no closer in any of `POSES` are left out
POSES = 2048
TINY = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class LinkRows:
    """What is looked at of one robot."""

    links: Links
    per_brake: np.ndarray  # (U) s^2/rad
    pairs: "Pairs"  # (S) of capsules that may touch each other
    reach: np.ndarray  # (S) m, sum of their radii
    spheres: np.ndarray  # (K, 2 C) from what `Links.place` returns to spheres that are not the base's
    radius: np.ndarray  # (K) m, of these
    touching: np.ndarray  # (K) bool, those of fingers, which touch things on purpose
    levers: np.ndarray  # (S + K, U) m by which a pair's distance and a sphere's place change at most per rad


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """S pairs of C capsules."""

    lines: np.ndarray  # (4 S) of what `Links.place` returns: the one's end, the other's end, the one's way, the other's
    one: np.ndarray  # (S, 1) m^2, squared length of the axis of the one capsule
    two: np.ndarray  # (S, 1) m^2, of the other

    @classmethod
    def of(cls, links: Links, first: np.ndarray, second: np.ndarray) -> "Pairs":
        """The pairs of capsules `first` (S) and `second` (S)."""
        squares = np.maximum(((links.ends[:, 1] - links.ends[:, 0]) ** 2).sum(-1), TINY)[:, None]
        count = len(links.radius)
        lines = np.concatenate([first, second, count + first, count + second])
        return cls(lines, squares[first], squares[second])


@kept
def link_rows(spec: RobotSpec) -> LinkRows | None:
    """The rows of an arm that is bolted down; None for other robots, and where the MJCF has no collision shapes."""
    if not spec.fixed_base:
        return None
    if (links := load_links(spec)) is None:
        return None
    first, second = _pairs(spec, links)
    moving = np.flatnonzero(links.link[links.sphere_of] > 0)
    levers = links.levers()
    # What moves both of a pair does not change their distance.
    apart = np.where((levers[first] > 0.0) & (levers[second] > 0.0), 0.0, levers[first] + levers[second])
    return LinkRows(
        links=links,
        per_brake=np.array([1.0 / spec.joints[index].max_acceleration for index in spec.joint_of_channel]),
        pairs=Pairs.of(links, first, second),
        reach=links.radius[first] + links.radius[second],
        spheres=links.spheres[moving],
        radius=links.sphere_radius[moving],
        touching=links.finger[links.sphere_of[moving]],
        levers=np.concatenate([apart, levers[links.sphere_of[moving]]]),
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
    apart_m = between(np, links.place(poses), Pairs.of(links, first, second))
    near = apart_m.min(-1) - links.radius[first] - links.radius[second] < NEVER_NEAR_M
    return first[near], second[near]


def between(xp: Any, lines: Array, pairs: Pairs) -> Array:
    """Distances (S, N) m of the axes of pairs of capsules, from what `Links.place` returns (3, 2 C, N).

    Ericson, "Real-Time Collision Detection", 2005, 5.1.9: the nearest points of two segments.
    """
    given = xp.take(lines, as_index(pairs.lines, lines), axis=1)
    count = len(pairs.one)
    axis, other = given[:, 2 * count : 3 * count], given[:, 3 * count :]
    way = given[:, :count] - given[:, count : 2 * count]
    one, two = constant(xp, pairs.one, lines), constant(xp, pairs.two, lines)
    across, along, behind = _dot(axis, other), _dot(axis, way), _dot(other, way)
    share = share_of((across * behind - along * two) / at_least(one * two - across * across, TINY))
    there = share_of((across * share + behind) / two)
    share = share_of((across * there - along) / one)
    apart = way + share * axis - there * other
    return xp.sqrt(_dot(apart, apart) + NEVER_ZERO)


def _dot(a: Array, b: Array) -> Array:
    """Scalar product over the first axis, of length 3."""
    x, y, z = a * b
    return x + y + z


def share_of(x: Array) -> Array:
    """`x`, held in 0 to 1."""
    return at_most(at_least(x, 0.0), 1.0)
