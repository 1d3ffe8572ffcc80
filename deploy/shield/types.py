"""What goes into a shield's filter, and what it says it did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hardware.types import Array, ObjectState, Peers, RobotState

NO_PEERS = Peers(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0, dtype=bool))


@dataclass(slots=True)
class Sharing:
    """What peers do about their distance to this robot, one entry for each slot of `Peers`."""

    shares: Array  # (..., P) bool, that run this filter, hear this robot, and so do their half of the braking
    separation_m: Array  # (..., P) m, that they keep themselves; a pair keeps the larger one of both


@dataclass(slots=True)
class Obstacles:
    """Rounded boxes that drones and arms' links keep off: a wall, a shelf, an arm's links."""

    pos: Array  # (..., B, 3) m, world, of the middle
    quat: Array  # (..., B, 4) wxyz, box -> world
    half: Array  # (..., B, 3) m, half of its size along each of its axes; 0, 0, half a length for a capsule
    radius: Array  # (..., B) m, by which it is rounded on all sides
    speed: Array  # (..., B) m/s, at which it may come nearer; 0 for what stands
    valid: Array  # (..., B) bool; False marks padding


@dataclass(slots=True)
class Context:
    """All that one robot's shield knows at one moment. A constraint on new data is one function and a field here."""

    state: RobotState | None  # of the robot itself; only the supervisor knows what to do without
    peers: Peers  # robots of the team
    objects: Mapping[str, ObjectState] = field(default_factory=dict)  # tracked things, by name
    people: Peers = field(default_factory=lambda: NO_PEERS)  # tracked persons, of whom only where they are counts
    sharing: Sharing | None = None  # None: all peers share, and keep the same distance
    peer_names: Sequence[str] = ()  # by which reasons call them
    obstacles: Obstacles | None = None  # what stands around
    obstacle_names: Sequence[str] = ()  # by which reasons call them
    lost: str = ""  # what around the robot is not known any more, in words; a shield holds its robot while it is so
    load: Array | None = None  # (..., U) N m, what each drive holds besides the robot itself; None where unknown
    sent: Array | None = None  # (..., U) the command before, which drives follow or will; None if unknown

    def name_of(self, slot: int) -> str:
        """What the peer in `slot` is called."""
        return _name("peer", self.peer_names, slot)

    def name_of_obstacle(self, slot: int) -> str:
        """What the obstacle in `slot` is called."""
        return _name("obstacle", self.obstacle_names, slot)


def _name(what: str, names: Sequence[str] | None, slot: int) -> str:
    return names[slot] if names and slot < len(names) else f"{what}_{slot}"


@dataclass(slots=True)
class FilterInfo:
    """What the filter did.

    Drones have M rows, named by `drone.constraints.row_names`; robots with joints five a channel, named by
    `joints.filter.joint_row_names`.
    """

    margin: Array  # (...) drones: least scaled distance to a peer over the guaranteed one, minus 1; infinite without
    # peers. Joints: least distance to a limit, as a share of the joint's range
    active: Array  # (..., M) bool, rows that hold the command back
    feasible: Array  # (...) bool, False where the fallback was sent because no command meets every row
    intervention: Array  # (...) drones: m/s^2, distance from the requested acceleration to the one sent. Joints: rad
    # (m for a slide), the largest change of a target
