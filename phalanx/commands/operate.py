"""`phalanx operate`: one order of a person to robots."""

from typing import Annotated

import tyro

from phalanx.options import Domain
from phalanx.order import What, give_order


def operate(
    what: Annotated[What, tyro.conf.Positional],
    robots: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[ROBOT...]")] = (),
    at: Annotated[tuple[float, float, float] | None, tyro.conf.arg(metavar="X Y Z", help_behavior_hint="")] = None,
    quat: Annotated[
        tuple[float, float, float, float] | None, tyro.conf.arg(metavar="W X Y Z", help_behavior_hint="")
    ] = None,
    domain: Domain = None,
) -> int:
    """Ask robots to arm, start, land, hold, disarm, estop or reset, give them a goal, or one another policy in flight.

    Exits 1 where one refuses. Without names land, hold and estop go to all robots of the ROS domain.
    `swap ROBOT FILE` follows the swap to its end. `reconnect ROBOT...` has drivers of robots that are not armed connect
    to their devices again. What each does: docs/ros2.md.

    Args:
        robots: Names; of swap one, and the policy file, as its computer finds it.
        at: The goal, m in the world.
        quat: How an arm's tool is to be turned there, a quaternion in the world.
    """
    return give_order(what, robots, at, domain, quat)
