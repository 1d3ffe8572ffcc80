"""FilterInfo: what a filter did, the same for every class of robot."""

from dataclasses import dataclass

from hardware.types import Array


@dataclass(slots=True)
class FilterInfo:
    """What the filter did.

    Drones have M = P + 17 rows, named by `rows.row_names`; robots with joints five rows a channel, named by
    `joints.joint_row_names`.
    """

    margin: Array  # (...) drones: least scaled distance to a peer over the guaranteed one, minus 1; infinite without
    # peers. Joints: least distance to a limit, as a share of the joint's range
    active: Array  # (..., M) bool, rows that hold the command back
    feasible: Array  # (...) bool, False where the fallback was sent because no command meets every row
    intervention: Array  # (...) drones: m/s^2, distance from the requested acceleration to the one sent. Joints: rad
    # (m for a slide), the largest change of a target
