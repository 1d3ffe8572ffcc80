"""A mistake in a term of a task is said in one line that names the term, before anything is learned."""

import traceback
from collections.abc import Iterator, Mapping
from inspect import signature
from math import inf
from typing import Any

from torch import Tensor

from hardware.names import one_line
from sim.envs.agents import AgentGroup
from sim.randomisation import lost_states
from sim.task import GroupCfg, TaskCfg
from sim.terms import EventTerm, RewardTerm, Term


def check_terms(task: TaskCfg) -> None:
    """ValueError for a term that is none, or whose function does not take its parameters."""
    for group, cfg in task.groups.items():
        for kind, name, term in _terms(cfg):
            where = f"task {task.name!r}: {group}: {kind} {name!r}"
            wanted: Any = {"reward": RewardTerm, "randomisation": EventTerm}.get(kind, Term)
            if not isinstance(term, wanted):
                raise ValueError(f"{where} is a {type(term).__name__}, wanted {wanted.__name__}(function, parameters)")
            if not isinstance(term.params, Mapping):
                raise ValueError(
                    f"{where}: params = {term.params!r}: wanted a dict; a weight is weight={term.params!r}"
                )
            if isinstance(term, EventTerm):
                _check_interval(where, term)
            try:
                signature(term.func).bind_partial(**term.params)
            except TypeError as error:
                raise ValueError(f"{where}: {_called(term)}: {error}") from error


def _check_interval(where: str, term: EventTerm) -> None:
    interval = term.interval_range_s
    if interval is not None and not 0.0 <= interval[0] <= interval[1] < inf:
        raise ValueError(
            f"{where}: interval_range_s = {interval}: wanted two numbers of 0 s or more, the smaller first"
        )
    if interval is None and term.func is lost_states:
        raise ValueError(f"{where}: interval_range_s = None: lost_states wants (0.0, 0.0), for every control step")


def check_values(task: TaskCfg, group_name: str, group: AgentGroup) -> None:
    """ValueError for a reward or termination that is not (W, N)."""
    wanted = (group.num_envs, group.num_agents)
    for kind, name, term in _terms(group.cfg):
        if kind in ("reward", "termination"):
            found = term.func(group.now, **term.params)
            if getattr(found, "shape", None) != wanted:
                found = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
                raise ValueError(
                    f"task {task.name!r}: {group_name}: {kind} {name!r}: {_called(term)} returns {found}, "
                    f"wanted a tensor {wanted}: (worlds, robots)"
                )


def in_term(error: Exception, task: TaskCfg) -> str:
    """Which term has raised `error`, and where; "" where none has."""
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    for group, cfg in task.groups.items():
        for kind, name, term in _terms(cfg):
            code = getattr(term.func, "__code__", None)
            if lines := [f"{found.co_filename}:{line}" for found, line in frames if found is code]:
                return f"task {task.name!r}: {group}: {kind} {name!r}: {lines[-1]}: {one_line(error)}"
    return ""


def _terms(cfg: GroupCfg) -> Iterator[tuple[str, str, Any]]:
    """Kind, name and term of all terms of a group."""
    seen = cfg.observation
    for kind, terms in (
        ("reward", cfg.rewards),
        ("termination", cfg.terminations),
        ("success", {"success": cfg.success}),
        ("mean", cfg.means),
        *(("observation", terms) for terms in (seen.own, seen.peer, seen.privileged, seen.memory)),
        ("randomisation", cfg.randomisation),
    ):
        for name, term in terms.items():
            yield kind, name, term


def _called(term: Any) -> str:
    return f"{getattr(term.func, '__module__', '')}.{getattr(term.func, '__qualname__', term.func)}"
