"""Missions of tasks: starts, objects and commands as training draws them, judged by the task's own terms."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

import numpy as np
import torch

from deploy.contract import Contract
from hardware import load_robot
from hardware.types import ObjectState, RobotState
from ros_nodes.mission import Mission, Order, check_times, plan_swap, team_names
from ros_nodes.truth import Truth
from ros_nodes.verdict import Judge, Verdict, near_goal
from sim.task import Draw, Start, TaskCfg, Term, Transition
from sim.tasks import any_task_names, load_task

SWAP = "swarm-swap"
SWAP_ROBOTS, SWAP_S, SWAP_KILL_S = 4, 18.0, 11.0
ORDERS_HZ = 25.0  # how often a command that moves is said
AFTERMATH_S = 2.0  # a mission goes on for at least this long after a policy was killed
LEAST_S = 4.0  # a mission gets as many legs, each as long as an episode, as it takes to last this long


def plan_mission(
    contract: Contract,
    robots: int | None,
    duration_s: float | None,
    kill_after_s: float | Literal["auto"] | None,
    seed: int,
) -> tuple[Mission, Judge]:
    """The mission for a policy with `contract`, and what it is judged by; None for what the task says.

    One policy is killed after `kill_after_s`; "auto" kills in the swap only. The swap is for a policy of
    swarm-swap, or of a task that is not known here; else it is the policy's own task. ValueError for figures that do
    not fit.
    """
    if robots is not None and robots < 1:
        raise ValueError(f"robots = {robots}: a team needs at least one")
    if duration_s is not None and not 0.0 < duration_s < np.inf:
        raise ValueError(f"duration_s = {duration_s:g}: must be above 0 and finite")
    if contract.task == SWAP or contract.task not in any_task_names():
        kill_s = SWAP_KILL_S if kill_after_s == "auto" else kill_after_s
        team = SWAP_ROBOTS if robots is None else robots
        return plan_swap(team, SWAP_S if duration_s is None else duration_s, kill_s, seed), near_goal
    task = load_task(contract.task)  # ValueError for a task of several roles: one policy is not a team there
    kill_s = None if kill_after_s == "auto" else kill_after_s
    team = task.num_agents if robots is None else robots
    return plan_task(task, team, LEAST_S if duration_s is None else duration_s, kill_s, seed), judge_of(task)


def plan_task(task: TaskCfg, robots: int, duration_s: float, kill_s: float | None, seed: int) -> Mission:
    """Episodes of `task`, one after the other, for at least `duration_s`; robots start once, commands are new in each.

    ValueError when the times do not fit, or for a team that the task has no room for.
    """
    spec = load_robot(task.robot)
    if kill_s is not None:
        if robots == 1 and kill_s < task.episode_s:
            raise ValueError(f"kill_after_s = {kill_s:g}: must be after the first episode, {task.episode_s:g} s")
        duration_s = max(duration_s, kill_s + AFTERMATH_S)
    legs = max(1, int(np.ceil(duration_s / task.episode_s - 1e-6)))
    duration_s = legs * task.episode_s
    check_times(duration_s, kill_s)
    generator = torch.Generator().manual_seed(seed)
    starts = [task.start(Draw(generator, 1, robots, torch.ones(1))) for _ in range(legs)]
    first = starts[0]
    joint_pos = _home(task, robots) if first.joint_pos is None else first.joint_pos[0].double().numpy()
    orders = [order for leg, start in enumerate(starts) for order in _orders(task, start, leg * task.episode_s)]
    return Mission(
        robot=spec.name,
        names=team_names(spec.name, robots),
        base_pose=_bases(task, first, robots),
        joint_pos=joint_pos,
        orders=tuple(orders),
        duration_s=duration_s,
        checks_s=tuple(task.episode_s * (leg + 1) for leg in range(legs)),
        hold_s=task.success_hold_s,
        task=task.name,
        scene=task.name if task.scene.props is not None or task.scene.objects else "",
        objects={name: torch.cat(pose, -1)[0].double().numpy() for name, pose in first.objects.items()},
        noise=asdict(task.noise),
        kill_s=kill_s,
        seed=seed,
    )


def judge_of(task: TaskCfg) -> Judge:
    """What says, by the success and failure terms of `task`, how a mission went; moments stand for worlds."""

    def judge(mission: Mission, truth: Truth) -> Verdict:
        now = _transition(task, mission, truth)
        return Verdict(_call(task.success, now), {name: _call(term, now) for name, term in task.failures.items()})

    return judge


def _orders(task: TaskCfg, start: Start, begin_s: float) -> list[Order]:
    """What robots are asked during the episode that begins at `begin_s` of the mission."""
    if task.motion is None:
        return [Order(begin_s, _of_one(start.command))]
    times = np.arange(0.0, task.episode_s, 1.0 / ORDERS_HZ)
    orders: list[Order] = []
    for time_s in times.tolist():
        commands = _of_one({**start.command, **task.motion(start.plan, torch.full((1, 1, 1), time_s))})
        if not orders or any((commands[name] != orders[-1].commands[name]).any() for name in commands):
            orders.append(Order(begin_s + time_s, commands))
    return orders


def _of_one(commands: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: value[0].double().numpy() for name, value in commands.items()}


def _bases(task: TaskCfg, start: Start, robots: int) -> np.ndarray:
    """(N, 7); fixed bases stand where the task's scene has them, by default a metre apart along y."""
    if start.pos is not None and start.quat is not None:
        return torch.cat([start.pos, start.quat], -1)[0].double().numpy()
    if task.scene.bases is not None:
        bases = np.asarray(task.scene.bases(robots), float)
    else:
        bases = np.zeros((robots, 4))
        bases[:, 1] = np.arange(robots) - (robots - 1) / 2
    none = np.zeros(robots)
    half = bases[:, 3] / 2
    return np.column_stack([bases[:, :3], np.cos(half), none, none, np.sin(half)])


def _home(task: TaskCfg, robots: int) -> np.ndarray:
    return np.array([[joint.home for joint in load_robot(task.robot).joints]] * robots).reshape(robots, -1)


def _transition(task: TaskCfg, mission: Mission, truth: Truth) -> Transition:
    state = RobotState(*(_tensor(getattr(truth.robots, name)) for name in RobotState.__slots__))
    before = RobotState(*(torch.cat([x[:1], x[:-1]]) for x in (getattr(state, n) for n in RobotState.__slots__)))
    target = _tensor(truth.target)
    objects = {
        name: ObjectState(*(_tensor(getattr(found, field))[:, None] for field in ObjectState.__slots__))
        for name, found in truth.objects.items()
    }
    return Transition(
        robot=task.robot,
        state=state,
        last_state=before,
        objects=objects,
        command={name: _tensor(mission.command_at(name, truth.time_s)) for name in task.commands},
        target=target,
        action=torch.zeros_like(target),  # nobody knows it who only watches
        last_action=torch.zeros_like(target),
        memory={},
        time_s=_tensor(truth.time_s),
        dt_s=1.0 / load_robot(task.robot).control_hz,
    )


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values)).float()


def _call(term: Term, now: Transition) -> np.ndarray:
    return term.func(now, **term.params).numpy()
