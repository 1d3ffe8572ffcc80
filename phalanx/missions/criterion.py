"""Missions of tasks are evaluated by the task's own terms; moments take the place of worlds."""

from collections.abc import Mapping

import numpy as np
import torch

from hardware import load_robot
from hardware.types import ObjectState, RobotState
from ros_nodes.mission.ground_truth import GroundTruth
from ros_nodes.mission.mission_success import Criterion, MissionSuccess
from ros_nodes.plans.mission import Mission
from sim.task import GroupCfg, TaskCfg
from sim.terms import Term
from sim.transition import Transition, windowed_mean


def task_criterion(task: TaskCfg) -> Criterion:
    """The criterion of a mission by the success and termination terms of `task`."""

    def criterion(mission: Mission, truth: GroundTruth) -> MissionSuccess:
        states = {group: _states(truth, mission.rows(group)) for group in task.groups}
        success = np.zeros((len(truth.time_s), len(mission.team)), bool)
        failures: dict[str, np.ndarray] = {}
        for group, cfg in task.groups.items():
            now, rows = _transition(group, cfg, mission, truth, states), mission.rows(group)
            step_s = float(np.median(np.diff(truth.time_s)))
            now.means = {
                name: windowed_mean(term.func(now, **term.params), round(term.window_s / step_s))
                for name, term in cfg.means.items()
            }
            success[:, rows] = _call(cfg.success, now)
            for name, term in cfg.terminations.items():
                failed = failures[name if len(task.groups) == 1 else f"{group}/{name}"] = np.zeros_like(success)
                failed[:, rows] = _call(term, now)
        return MissionSuccess(success, failures)

    return criterion


def _transition(
    group: str, cfg: GroupCfg, mission: Mission, truth: GroundTruth, states: Mapping[str, RobotState]
) -> Transition:
    state, rows = states[group], mission.rows(group)
    before = RobotState(*(torch.cat([x[:1], x[:-1]]) for x in (getattr(state, n) for n in RobotState.__slots__)))
    target = _tensor(np.stack([truth.target[row] for row in rows], axis=1))
    objects = {
        name: ObjectState(*(_tensor(getattr(found, field))[:, None] for field in ObjectState.__slots__))
        for name, found in truth.objects.items()
    }
    return Transition(
        robot=cfg.robot,
        state=state,
        last_state=before,
        objects=objects,
        command={name: _tensor(mission.command_at(name, truth.time_s, rows)) for name in cfg.commands},
        target=target,
        action=torch.zeros_like(target),  # not known from outside
        last_action=torch.zeros_like(target),
        memory={},
        plan=_plan(mission, truth.time_s, rows) if cfg.course else {},
        time_s=_tensor(truth.time_s),
        dt_s=1.0 / load_robot(cfg.robot).control_hz,
        others={other: found for other, found in states.items() if other != group},
    )


def _plan(mission: Mission, times_s: np.ndarray, rows: list[int]) -> dict[str, torch.Tensor]:
    """Courses (1, N, goals, 3) m of the robots `rows`, and which goal they flew to (T, N, 1), by the orders sent."""
    names = [mission.names[row] for row in rows]
    most = max(len(mission.courses[name].goals) for name in names)
    courses, flown_to = [], []
    for name in names:
        goals = mission.courses[name].goals
        before = most - len(goals)  # a shorter course has its first goal several times
        sent_s = [order.t_s for order in mission.orders if name in order.commands]
        courses.append(np.concatenate([goals[:1].repeat(before, 0), goals]))
        flown_to.append(before + np.searchsorted(sent_s[1:], times_s, side="right"))
    return {"course": _tensor(np.stack(courses))[None], "goal": _tensor(np.stack(flown_to, 1))[..., None]}


def _states(truth: GroundTruth, rows: list[int]) -> RobotState:
    """(T, N, ...) of the robots `rows`."""
    states = [truth.robots[row] for row in rows]
    return RobotState(*(_tensor(np.stack([getattr(s, name) for s in states], 1)) for name in RobotState.__slots__))


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values)).float()


def _call(term: Term, now: Transition) -> np.ndarray:
    return term.func(now, **term.params).numpy()
