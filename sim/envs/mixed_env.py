"""MixedEnv: a task in W parallel worlds, as the learner sees it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from hardware import load_robot
from sim.envs.agents import AgentGroup
from sim.envs.world import World
from sim.physics import on
from sim.scenes.scene import Members, Scene, compose_scene
from sim.task import Draw, MixedTaskCfg, TaskCfg
from sim.tracing import is_tracing
from sim.tree import on_tensors

Tensor = torch.Tensor
KEPT = ("steps", "min_separation", "difficulty")  # of every world


def task_scene(task: TaskCfg | MixedTaskCfg, num_agents: int | None = None, visuals: bool = False) -> Scene:
    """The scene of a task; `num_agents` replaces the team size of a task for like robots."""
    if num_agents is not None and len(task.roles) > 1:
        raise ValueError(
            f"task {task.name!r} is for a mixed team, whose size is fixed; {num_agents} robots were asked for"
        )
    members = []
    for role in task.roles.values():
        robot, count = load_robot(role.robot), role.num_agents if num_agents is None else num_agents
        bases = task.scene.bases(count) if task.scene.bases and robot.fixed_base else None
        members.append(Members(robot, count, bases))
    return compose_scene(members, visuals=visuals, props=task.scene.props, objects=task.scene.objects)


class MixedEnv:
    """W worlds of a team with several roles. Whatever belongs to one role is a dict entry, its tensors (W, N, ...).

    A world ends for all of its robots at once. `terminated` marks the robots that failed, `truncated` all others of a
    world that ended; exactly one of them holds for every robot of such a world. Worlds that end start anew in the same
    call; `info["terminal_obs"]` keeps what was seen last before that. A world whose physics blows up fails as
    "unstable" and starts anew like any other; `unstable` keeps the state before it for study.
    """

    def __init__(
        self,
        task: TaskCfg | MixedTaskCfg,
        num_worlds: int,
        seed: int,
        num_agents: int | None = None,
        shield: bool = False,
        randomise: bool = True,
        curriculum: bool = False,
        engine: str = "mujoco",
        device: str | None = None,
    ):
        """`shield` puts the safety filter before the actuators; without `randomise` nothing but the start varies.

        With `curriculum` worlds begin as easily as the task allows and grow harder with success, as in training. Which
        physics `engine` runs it, and on which `device`, is told to `sim.physics.make_physics`; tensors live there.
        """
        self.task, self.num_worlds = task, num_worlds
        rates = {load_robot(role.robot).control_hz for role in task.roles.values()}
        if len(rates) > 1:
            raise ValueError(f"task {task.name!r}: robots run at {sorted(rates)} Hz; a team needs one control rate")
        self.control_dt = 1.0 / rates.pop()
        self.world = World(task_scene(task, num_agents), num_worlds, self.control_dt, engine, device)
        self.device = self.world.physics.device
        with on(self.device):
            self.groups = {
                name: AgentGroup(role, self.world, robots, self.control_dt, shield, randomise)
                for (name, role), robots in zip(task.roles.items(), self.world.groups, strict=True)
            }
        self.curriculum = task.curriculum if curriculum else None
        self.generator = torch.Generator(self.device)
        self.max_steps = round(task.episode_s / self.control_dt)
        self.hold_steps = round(task.success_hold_s / self.control_dt)
        self.unstable: dict[str, Any] | None = None
        self._reset(seed)

    def reset(self, seed: int | None = None, difficulty: Tensor | None = None) -> dict[str, Tensor]:
        """Start every world anew; with `seed` from a fresh generator. Returns obs (W, N, D) of each role.

        The curriculum begins again, or goes on from a `difficulty` (W,) that it had reached elsewhere.
        """
        return self._reset(seed, difficulty)

    def step(
        self, actions: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
        """One control step under an action (W, N, U) for each role, clipped to [-1, 1].

        Returns obs (W, N, D), reward (W, N), terminated and truncated (W, N) bool of each role, and info. For each role
        it has `terminal_obs` (W, N, D), `reward_terms` {name: (W, N) weighted}, `terminations` {name: (W, N) bool};
        for the world `ended` (W,) bool and, meaningful where it ended, `success`, `min_separation_m`, `episode_length`,
        `interventions` (steps x robots), each (W,).
        """
        return self._step(actions)

    def stagger(self) -> None:
        """Spread the worlds over the length of an episode, so that they do not all end together; for training."""
        with on(self.device):
            self.steps = torch.randint(0, self.max_steps, (self.num_worlds,), generator=self.generator)

    def _reset(self, seed: int | None, difficulty: Tensor | None = None) -> dict[str, Tensor]:
        with on(self.device):
            return self._reset_there(seed, difficulty)

    def _reset_there(self, seed: int | None, difficulty: Tensor | None) -> dict[str, Tensor]:
        if seed is not None:
            self.generator.manual_seed(seed)
        self.steps = torch.zeros(self.num_worlds, dtype=torch.long)
        self.min_separation = torch.full((self.num_worlds,), torch.inf)
        self.difficulty = torch.full((self.num_worlds,), self.curriculum.initial if self.curriculum else 1.0)
        if difficulty is not None:
            self.difficulty.copy_(difficulty)
        for group in self.groups.values():
            group.clear()
        self._all = torch.arange(self.num_worlds)
        self._restart(self._all)
        self._look_around()
        self._measure()
        self.obs = {name: group.observe(group.policy_input) for name, group in self.groups.items()}
        return self.obs

    def _step(self, actions: Mapping[str, Tensor]) -> tuple:
        with on(self.device):
            return self._step_there({name: actions[name].to(self.device).clamp(-1.0, 1.0) for name in self.groups})

    def _step_there(self, actions: Mapping[str, Tensor]) -> tuple:
        groups = self.groups
        commands = {name: group.decide(actions[name]) for name, group in groups.items()}
        self.world.step(list(commands.values()))
        unstable = self._start_unstable_anew()
        self._look_around(actions, {name: command.target for name, command in commands.items()})
        judged = {name: group.judge() for name, group in groups.items()}
        terminations = {
            name: f | {"unstable": unstable.expand_as(groups[name].held)} for name, (_, f) in judged.items()
        }
        terminated = {name: torch.stack(list(f.values())).any(0) for name, f in terminations.items()}
        failed = torch.cat(list(terminated.values()), dim=1).any(-1)
        self.steps += 1
        ended = failed | (self.steps >= self.max_steps)
        for name, group in groups.items():
            group.go_on(actions[name], self.steps * self.control_dt, self.generator, self._where)
        self._measure()
        obs = {name: group.observe(group.policy_input) for name, group in groups.items()}
        held = torch.cat([group.held for group in groups.values()], dim=1)
        info: dict[str, Any] = {
            "terminal_obs": obs,
            "reward_terms": {name: terms for name, (terms, _) in judged.items()},
            "terminations": terminations,
            "ended": ended,
            "success": ~failed & (held >= self.hold_steps).all(-1),
            "min_separation_m": self.min_separation.clone(),
            "episode_length": self.steps.clone(),
            "interventions": torch.cat([group.shielded for group in groups.values()], dim=1).sum(-1),
        }
        reward = {name: torch.stack(list(terms.values())).sum(0) for name, (terms, _) in judged.items()}
        truncated = {name: ended.unsqueeze(-1) & ~value for name, value in terminated.items()}
        self.obs = obs
        self._where(ended, partial(self._renew, info["success"]))
        return self.obs, reward, terminated, truncated, info

    def _where(self, condition: Tensor, change: Callable[[Tensor], None]) -> None:
        """Call `change` of the worlds (K,) in which a `condition` (W,) holds.

        A trace changes all worlds, and keeps of that what belongs to those in which it holds. What the groups have seen
        of this step stays as it was: rewards and critics look at it.
        """
        if not is_tracing():
            if condition.any():
                change(condition.nonzero().squeeze(-1))
            return
        before = on_tensors(Tensor.clone, self.tensors())
        change(self._all)
        self._put(on_tensors(lambda new, old: torch.where(_over(condition, new), new, old), self.tensors(), before))

    def _look_around(self, actions: Mapping[str, Tensor] | None = None, targets: Mapping | None = None) -> None:
        """The truth as it is now, for every role; without `actions` (W, N, U) nothing has been done yet."""
        time_s, objects = self.steps * self.control_dt, self.world.true_objects()
        truths = {name: group.robots.truth() for name, group in self.groups.items()}
        for name, group in self.groups.items():
            state, others = truths[name], {other: truth for other, truth in truths.items() if other != name}
            if actions is None or targets is None:
                group.look(state, state, time_s, group.last_action, group.robots.sent, objects, others)
                continue
            before = group.now
            now = group.look(state, before.state, time_s, actions[name], targets[name], objects, others)
            now.last_frames = before.frames
            if group.num_agents > 1:
                self.min_separation = torch.minimum(self.min_separation, now.distance.flatten(1).amin(-1))

    def _measure(self) -> None:
        for group, measured in zip(self.groups.values(), self._measured(self._all), strict=True):
            group.measured = measured

    def _measured(self, worlds: Tensor) -> list[tuple]:
        """What each role measures in `worlds` (K,)."""
        groups = list(self.groups.values())
        talks = any(group.num_peers for group in groups)
        said = self.world.say(worlds, [group.noise for group in groups], self.generator) if talks else None
        return [group.measure(worlds, said, self.generator) for group in groups]

    def _start_unstable_anew(self) -> Tensor:
        """Worlds (W, 1) whose physics blew up in this step; each is put at a start, so that no NaN goes any further."""
        unstable = ~self.world.physics.finite()
        self._where(unstable, self._rescue)
        return unstable.unsqueeze(-1)

    def _rescue(self, worlds: Tensor) -> None:
        """Put `worlds` (K,) at a start, and keep where they had been."""
        if not is_tracing():
            self.unstable = {"worlds": worlds} | {
                name: {field: getattr(group.now.state, field)[worlds] for field in group.now.state.__slots__}
                for name, group in self.groups.items()
            }
        self._start(worlds)

    def _renew(self, success: Tensor, worlds: Tensor) -> None:
        """Restart `worlds` (K,) and replace their observations by first ones."""
        if self.curriculum is not None:
            change = torch.where(success[worlds], self.curriculum.up, -self.curriculum.down)
            self.difficulty[worlds] = (self.difficulty[worlds] + change).clamp(0.0, 1.0)
        self._restart(worlds)
        measured = self._measured(worlds)
        before = {name: group.now for name, group in self.groups.items()}
        self._look_around()
        for name, group in self.groups.items():
            group.now.know_frames(before[name], worlds)
        self.obs = {
            name: group.observe_anew(worlds, part, self.obs[name])
            for (name, group), part in zip(self.groups.items(), measured, strict=True)
        }

    def _restart(self, worlds: Tensor) -> None:
        """New start, commands, parameters and empty memory for `worlds` (K,)."""
        self._start(worlds)
        for group in self.groups.values():
            group.begin(worlds, self.generator, self.difficulty[worlds])
        self.steps[worlds] = 0
        self.min_separation[worlds] = torch.inf

    def _start(self, worlds: Tensor) -> None:
        """Put `worlds` (K,) at a newly drawn start, with its commands."""
        robots = sum(group.num_agents for group in self.groups.values())
        starts = self.task.starts(Draw(self.generator, len(worlds), robots, self.difficulty[worlds]))
        self.world.reset(worlds, [starts[name] for name in self.groups])
        for name, group in self.groups.items():
            group.take(worlds, starts[name])

    def tensors(self) -> dict[str, Any]:
        """All that changes from step to step, (W, ...), nothing copied; of a `TraceablePhysics`."""
        return {
            "world": self.world.tensors(),
            "groups": {name: group.tensors() for name, group in self.groups.items()},
            **{name: getattr(self, name) for name in (*KEPT, "obs")},
        }

    def put(self, tensors: Mapping[str, Any]) -> None:
        """Put such tensors in place of those that are there, and look at where that is."""
        self._put(tensors)
        self._look_around()

    def _put(self, tensors: Mapping[str, Any]) -> None:
        self.world.put(tensors["world"])
        for name, group in self.groups.items():
            group.put(tensors["groups"][name])
        for name in (*KEPT, "obs"):
            setattr(self, name, tensors[name])

    def state_dict(self) -> dict[str, Any]:
        """Everything that a bitwise continuation needs, the generator included."""
        return {
            "world": self.world.state_dict(),
            "generator": self.generator.get_state(),
            "groups": {name: group.state_dict() for name, group in self.groups.items()},
            "obs": {name: obs.clone() for name, obs in self.obs.items()},
            **{name: getattr(self, name).clone() for name in KEPT},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict()`."""
        with on(self.device):
            self._load(on_tensors(lambda tensor: tensor.to(self.device), state))

    def _load(self, state: Mapping[str, Any]) -> None:
        self.world.load_state_dict(state["world"])
        self.generator.set_state(state["generator"].cpu())
        for name, group in self.groups.items():
            group.load_state_dict(state["groups"][name])
            group.robots.difficulty = state["difficulty"].clone()
        for name in KEPT:
            setattr(self, name, state[name].clone())
        self._look_around()
        for name, group in self.groups.items():
            group.now.frames.update(state["groups"][name].get("frames", {}))  # others might differ in the last bit
        seen = {name: group.observe(group.policy_input) for name, group in self.groups.items()}
        self.obs = dict(state.get("obs", seen))  # an earlier version did not keep it


def _over(condition: Tensor, tensor: Tensor) -> Tensor:
    """A condition (W,) of whole worlds beside a tensor (W, ...)."""
    return condition.view(-1, *[1] * (tensor.ndim - 1))
