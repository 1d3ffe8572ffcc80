"""Other plants for a task: in each world of one environment other terms vary the robots, or nothing but the task's own.

A fixed value is a randomisation term whose range has no width, so nothing here changes a robot by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import mujoco
import torch

from hardware import load_robot
from sim.envs.robots import RobotGroup
from sim.noise import Noise
from sim.task import TaskCfg
from sim.terms import EventTerm

Tensor = torch.Tensor
IMPRATIO = 10.0  # with elliptic cones, as MuJoCo Menagerie's ALOHA has it
Terms = Mapping[str, EventTerm]  # by the names that they have in a task's `randomisation`


@dataclass(frozen=True)
class Variant:
    """What cannot differ between the worlds of one environment."""

    rate_loop: bool = False  # drones fly by their firmware's rate loop even where the task takes their model's own
    noise: float = 1.0  # factor on the task's noise
    integrator: str = ""  # of `mujoco.mjtIntegrator`, such as "RK4"; "" for that of the robots' models
    substeps: int = 1  # physics steps in the place of each
    elliptic: bool = False  # friction's cones, and stiffer along the ground, in the place of pyramids

    def of(self, task: TaskCfg) -> TaskCfg:
        """The task so changed."""
        groups = {}
        for name, cfg in task.groups.items():
            noise = Noise(**{f.name: self.noise * getattr(cfg.noise, f.name) for f in fields(Noise)})
            flight = load_robot(cfg.robot).flight
            looped = cfg.rate_loop or (self.rate_loop and flight is not None and flight.rate_loop is not None)
            groups[name] = replace(cfg, noise=noise, rate_loop=looped)
        scene = task.scene
        if self.integrator or self.substeps > 1 or self.elliptic:
            scene = replace(scene, props=_solved(scene.props, self))
        return replace(task, groups=groups, scene=scene)


@dataclass(frozen=True)
class Condition:
    """One plant: terms of each group in the place of the task's, or beside them; and its variant."""

    terms: Mapping[str, Terms] = field(default_factory=dict)
    variant: Variant = Variant()


def under_conditions(task: TaskCfg, conditions: Sequence[Condition], owner: Tensor) -> TaskCfg:
    """`task` with condition `owner[w]` in world w, for an environment of `len(owner)` worlds.

    All conditions are of one variant, which is not applied here.
    """
    groups = {}
    for name, cfg in task.groups.items():
        others = [condition.terms.get(name, {}) for condition in conditions]
        events = {}
        for event in dict.fromkeys([*cfg.randomisation, *(each for terms in others for each in terms)]):
            chosen = [terms.get(event, cfg.randomisation.get(event)) for terms in others]
            interval = next(term.interval_range_s for term in chosen if term is not None)
            events[event] = EventTerm(_apply, {"terms": chosen, "owner": owner}, interval)
        groups[name] = replace(cfg, randomisation=events)
    return replace(task, groups=groups)


def _apply(
    robots: RobotGroup, worlds: Tensor, generator: torch.Generator, terms: Sequence[EventTerm | None], owner: Tensor
) -> None:
    """Each of the `terms`, one a condition, to those of `worlds` that its condition owns."""
    of_term: dict[int, list[int]] = {}
    for index, term in enumerate(terms):
        of_term.setdefault(id(term), []).append(index)
    whose = owner[worlds]
    for indices in of_term.values():
        term, mine = terms[indices[0]], worlds[torch.isin(whose, torch.tensor(indices))]
        if term is not None and len(mine):
            term.func(robots, mine, generator, **term.params)


def _solved(props: Callable[..., Any] | None, variant: Variant) -> Callable[..., None]:
    """What `props` adds to a scene, which is then integrated and its contacts solved as the `variant` says."""

    def add(spec: mujoco.MjSpec, robots: int) -> None:
        if props is not None:
            props(spec, robots)
        spec.option.timestep /= variant.substeps
        if variant.integrator:
            spec.option.integrator = getattr(mujoco.mjtIntegrator, f"mjINT_{variant.integrator}")
        if variant.elliptic:
            spec.option.cone, spec.option.impratio = mujoco.mjtCone.mjCONE_ELLIPTIC, IMPRATIO

    return add
