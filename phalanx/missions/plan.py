"""Missions of policy files: that of their own task, or the swap, which is planned without a simulator."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast

from deploy.contract import Contract
from deploy.contract.groups import needed, robots_of
from ros_nodes.mission.mission_success import Criterion, near_goal
from ros_nodes.plans.mission import CRAZYFLIE, FIRST_KILL_S, SWAP, Mission, check_times, plan_swap, swap_s

SWAP_ROBOTS, KILL_SHARE = 4, 11 / 18
LANDS_S = 5.5  # from a kill until the robot has held, landed and come to rest
LEAST_S = 4.0  # a mission gets as many legs, each as long as an episode, as it takes to last this long


def plan_mission(
    policies: Mapping[str, Contract],
    robots: int | None,
    duration_s: float | None,
    kill_after_s: float | Literal["auto"] | None,
    seed: int,
    swap: bool = False,
) -> tuple[Mission, Criterion]:
    """The mission for policy files with these contracts, and its criterion of success; None for the task's own.

    It is that of the policies' own task, or the swap: for policies of swarm-swap, and for others where `swap` is set.
    One policy is killed after `kill_after_s`; "auto" kills in the swap only. ValueError for files that are no team, a
    task that is not known here, and figures that do not fit.
    """
    if robots is not None and robots < 1:
        raise ValueError(f"robots = {robots}: a team needs at least one")
    if duration_s is not None:
        check_times(duration_s, None)
    name, *others = dict.fromkeys(contract.task for contract in policies.values())
    if others:
        raise ValueError(f"policies of different tasks cannot be combined: {name!r} and {others[0]!r}")
    given = [contract.group for contract in policies.values()]
    trained_with = [contract.team.trained_with for contract in policies.values()]
    if swap or name == SWAP:
        robots = robots or robots_of([CRAZYFLIE], given, trained_with) or SWAP_ROBOTS
        return _plan_swap(policies, robots, duration_s, kill_after_s, seed), near_goal
    from phalanx.missions.criterion import task_criterion  # takes seconds, for which the swap need not wait
    from phalanx.missions.task import plan_task
    from sim.tasks import load_task

    try:
        task = load_task(name)
    except ValueError as error:
        file = next(iter(policies))
        raise ValueError(f"{file}: {error}. With --mission swap it flies the mission of {SWAP}") from None
    kill_s = None if kill_after_s == "auto" else kill_after_s
    robots = robots or robots_of(task.groups, given, trained_with)
    mission = plan_task(task, robots, LEAST_S if duration_s is None else duration_s, kill_s, seed)
    mission = replace(mission, task=name, scene=name if mission.scene else "")  # as it is found again: module:NAME too
    return mission.flown_by(_by_group(policies, mission)), task_criterion(task)


def _plan_swap(
    policies: Mapping[str, Contract], robots: int, duration_s: float | None, kill_after_s: object, seed: int
) -> Mission:
    """The swap; by default a policy is killed at the same share of its way, or so early that its robot can land."""
    for file, contract in policies.items():
        if (robot := contract.robot.name) != CRAZYFLIE:
            raise ValueError(f"{file}: is for robot {robot!r}; the swap is for {CRAZYFLIE!r}")
    duration_s = swap_s(robots) if duration_s is None else duration_s
    before_s = max(min(KILL_SHARE * duration_s, duration_s - LANDS_S), FIRST_KILL_S)
    auto_s = round(min(before_s, duration_s - 1.0), 2)
    kill_s = auto_s if kill_after_s == "auto" else cast(float | None, kill_after_s)
    mission = plan_swap(robots, duration_s, kill_s, seed)
    return mission.flown_by(_by_group(policies, mission))


def _by_group(policies: Mapping[str, Contract], mission: Mission) -> dict[str, str]:
    """The policy file of each group, or of each robot of one; ValueError unless there is one for each."""
    robots = Counter(member.group for member in mission.team)
    given = [contract.group or next(iter(robots)) for contract in policies.values()]
    if sorted(given) != sorted(wanted := needed(robots, given)):
        task = next(iter(policies.values())).task
        raise ValueError(f"task {task!r} takes policies for {' and '.join(wanted)}; given: {', '.join(given)}")
    return dict(zip(given, policies, strict=True))
