"""Terms of courses: a plan has `course` (..., goals, 3) m, world, and `goal` (..., 1), which of them is flown to."""

from collections.abc import Mapping

import torch

from sim.task import CourseCfg
from sim.terms.terminations import reached, settled
from sim.transition import Transition

Tensor = torch.Tensor


def goal_of(plan: Mapping[str, Tensor]) -> Tensor:
    """The point (..., 3) m, world, that is flown to."""
    course, goal = plan["course"], plan["goal"].long().unsqueeze(-1)
    return course.gather(-2, goal.expand(*goal.shape[:-1], 3)).squeeze(-2)


def goals_left(t: Transition) -> Tensor:
    """How many goals come after that which is flown to, (W, N, 1)."""
    return t.plan["course"].shape[-2] - 1 - t.plan["goal"]


def passed(t: Transition, within_m: float, below_m_s: float) -> Tensor:
    """Near its goal and slow, with more of them to come, (W, N) bool."""
    return settled(t, within_m, below_m_s) & (goals_left(t)[..., 0] > 0)


def finished(t: Transition, distance_m: float) -> Tensor:
    """Within `distance_m` of the last goal, all others passed in order, (W, N) bool."""
    return reached(t, distance_m) & (goals_left(t)[..., 0] == 0)


def advance(cfg: CourseCfg, t: Transition) -> dict[str, Tensor]:
    """The plan after `t`."""
    return {**t.plan, "goal": t.plan["goal"] + passed(t, cfg.within_m, cfg.below_m_s).unsqueeze(-1)}
