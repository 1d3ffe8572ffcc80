"""`phalanx operate`: one order of a person to robots."""

from typing import Annotated, Literal

import tyro

from phalanx import interrupt
from phalanx.console import err, out
from phalanx.options import Domain

What = Literal["arm", "start", "land", "hold", "disarm", "estop", "reset", "goal"]
TO_ALL = ("land", "hold", "estop")  # of which none should miss a robot that was forgotten


def operate(
    what: Annotated[What, tyro.conf.Positional],
    robots: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[ROBOT...]")] = (),
    at: Annotated[tuple[float, float, float] | None, tyro.conf.arg(metavar="X Y Z", help_behavior_hint="")] = None,
    domain: Domain = None,
) -> int:
    """Ask robots to arm, start, land, hold, disarm, estop or reset, or give them a goal; exits 1 where one refuses.

    Without names land, hold and estop go to all robots of the ROS domain. What each does: docs/ros2.md.

    Args:
        robots: Names.
        at: The goal, m in the world.
    """
    import numpy as np

    from ros_nodes.lifecycle.processes import end_process
    from ros_nodes.mission.mission import check_name
    from ros_nodes.mission.operate import ask, find_robots, send_goal

    for name in robots:
        check_name(name)
    if (what == "goal") is not (at is not None):
        raise ValueError("a goal needs --at X Y Z, and nothing else takes it")
    if at is not None and not np.isfinite(at).all():
        raise ValueError(f"--at {at}: every number must be finite")
    answers, names = {}, ""
    with interrupt.leaving_all_open():
        if at is not None and robots:
            answers = send_goal(robots, np.array(at), domain)
        elif robots or what in TO_ALL:
            answers = ask(what, robots, domain)
        if not answers:
            names = ", ".join(find_robots(domain))
    if not answers:
        there = f"there are {names}" if names else "no robot is there"
        err.print(f"phalanx: {what} to whom: {there}", markup=False, soft_wrap=True)
        end_process(2)
    for robot, (done, said) in answers.items():
        text = f"{what}: {said}" if done and said else said or what
        (out if done else err).print(f"{robot}: {text}", markup=False, soft_wrap=True)
    end_process(0 if all(answer.done for answer in answers.values()) else 1)
