"""The mission of a task: starts, objects and commands as training draws them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import torch

from hardware import load_robot
from ros_nodes.plans.course import Course
from ros_nodes.plans.mission import LONGEST_S, Commands, Member, Mission, Order, check_times, team_names
from sim.randomisation import terrain
from sim.task import Draw, GroupCfg, Start, TaskCfg

ORDERS_HZ = 25.0  # how often a command that changes is sent
LANDING_S, AFTERMATH_S = 8.0, 2.0  # a mission goes on for so long after a policy was killed: of a drone, of others
LARGEST_TEAM = 16  # two processes a robot: more than that starve one another on any one machine


def plan_task(task: TaskCfg, robots: int | None, duration_s: float, kill_s: float | None, seed: int) -> Mission:
    """Episodes of `task`, one after the other, for at least `duration_s`; robots start once, commands are new in each.

    `robots` replaces the team size of a task for like robots. ValueError when the times do not fit, or for a team that
    the task has no room for.
    """
    if robots is not None and len(task.groups) > 1:
        raise ValueError(f"{task.name} has groups ({', '.join(task.groups)}) with team sizes of their own")
    sizes = {group: cfg.num_agents if robots is None else robots for group, cfg in task.groups.items()}
    size = sum(sizes.values())
    episode_s = task.lasts_s(size)
    if size > LARGEST_TEAM:
        raise ValueError(f"robots = {size}: a mission on one machine takes at most {LARGEST_TEAM}")
    if any(term.func is terrain for cfg in task.groups.values() for term in cfg.randomisation.values()):
        raise ValueError(f"{task.name}: a mission is on a level floor, not on the ground that this task is about")
    if kill_s is not None:
        if not np.isfinite(kill_s):
            raise ValueError(f"kill_after_s = {kill_s:g}: must be a finite time, s")
        if size == 1 and kill_s < episode_s:
            raise ValueError(f"kill_after_s = {kill_s:g}: must be after the first episode, {episode_s:g} s")
        first_group = next(iter(task.groups.values()))
        duration_s = max(duration_s, kill_s + (LANDING_S if load_robot(first_group.robot).flight else AFTERMATH_S))
    most = max(1, int(LONGEST_S / episode_s))
    legs = min(max(1, int(np.ceil(duration_s / episode_s - 1e-6))), most)
    if any(cfg.course for cfg in task.groups.values()):  # a robot that has come to its end stays there
        legs, duration_s = 1, max(duration_s, episode_s)
    else:
        duration_s = legs * episode_s
    check_times(duration_s, kill_s)
    generator = torch.Generator().manual_seed(seed)
    starts = [task.starts(Draw(generator, 1, size, torch.ones(1))) for _ in range(legs)]
    of_group = [group for group in task.groups for _ in range(sizes[group])]
    called = team_names([load_robot(task.groups[group].robot).name for group in of_group])
    first = dict(reversed(list(zip(of_group, called, strict=True))))  # of each group
    names = iter(called)
    team = tuple(
        Member(next(names), cfg.robot, group, base_pose, joint_pos, lands_on=first.get(cfg.lands_on, ""))
        for group, cfg in task.groups.items()
        for base_pose, joint_pos in zip(*_places(task, cfg, starts[0][group], sizes[group]), strict=True)
    )
    objects = {name: pose for start in starts[0].values() for name, pose in start.objects.items()}
    noises = [asdict(cfg.noise) for cfg in task.groups.values()]
    return Mission(
        team=team,
        orders=tuple(
            o for leg, start in enumerate(starts) for o in _orders(task, team, start, leg * episode_s, episode_s)
        ),
        duration_s=duration_s,
        courses=_courses(task, team, starts[0]),
        checks_s=(*(episode_s * (leg + 1) for leg in range(legs - 1)), duration_s),
        hold_s=task.success_hold_s,
        task=task.name,
        scene=task.name if task.scene.props is not None or task.scene.objects else "",
        objects={name: torch.cat(pose, -1)[0].double().numpy() for name, pose in objects.items()},
        noise={name: max(noise[name] for noise in noises) for name in noises[0]},  # one tracker serves all groups
        kill_s=kill_s,
        seed=seed,
    )


def _courses(task: TaskCfg, team: Sequence[Member], starts: Mapping[str, Start]) -> dict[str, Course]:
    """The goals of each robot whose group has a course."""
    found = {}
    for group, cfg in task.groups.items():
        mine = [member.name for member in team if member.group == group] if cfg.course else []
        for row, name in enumerate(mine):
            assert cfg.course is not None
            plan = {key: value[0, row].double().numpy() for key, value in starts[group].plan.items()}
            goals = plan["course"][int(plan["goal"].item()) :]
            found[name] = Course(goals, cfg.course.within_m, cfg.course.below_m_s)
    return found


def _orders(
    task: TaskCfg, team: Sequence[Member], starts: Mapping[str, Start], begin_s: float, episode_s: float
) -> list[Order]:
    """Commands to all robots in the episode of `episode_s` that begins at `begin_s`; empty where the task has none."""
    moves = any(cfg.update_commands for cfg in task.groups.values())
    orders: list[Order] = []
    for time_s in np.arange(0.0, episode_s if moves else 1e-9, 1.0 / ORDERS_HZ).tolist():
        due: dict[str, dict[str, np.ndarray]] = {}
        for group, cfg in task.groups.items():
            start = starts[group]
            moved = cfg.update_commands(start.plan, torch.full((1, 1, 1), time_s)) if cfg.update_commands else {}
            commands = {name: value[0].double().numpy() for name, value in {**start.command, **moved}.items()}
            mine = [member.name for member in team if member.group == group]
            due |= {name: {c: value[n] for c, value in commands.items()} for n, name in enumerate(mine) if commands}
        if due and not (orders and _same(due, orders[-1].commands)):
            orders.append(Order(begin_s + time_s, due))
    return orders


def _same(one: Commands, other: Commands) -> bool:
    return all((value == other[robot][c]).all() for robot, commands in one.items() for c, value in commands.items())


def _places(task: TaskCfg, cfg: GroupCfg, start: Start, robots: int) -> tuple[np.ndarray, np.ndarray]:
    """Base poses (N, 7) and joint positions (N, J); fixed bases stand where the task's scene has them.

    By default they are a metre apart along y.
    """
    home = [load_robot(cfg.robot).home] * robots
    joint_pos = np.array(home).reshape(robots, -1) if start.joint_pos is None else start.joint_pos[0].double().numpy()
    if start.pos is not None and start.quat is not None:
        return torch.cat([start.pos, start.quat], -1)[0].double().numpy(), joint_pos
    if task.scene.bases is not None:
        bases = np.asarray(task.scene.bases(robots), float)
    else:
        bases = np.zeros((robots, 4))
        bases[:, 1] = np.arange(robots) - (robots - 1) / 2
    none, half = np.zeros(robots), bases[:, 3] / 2
    return np.column_stack([bases[:, :3], np.cos(half), none, none, np.sin(half)]), joint_pos
