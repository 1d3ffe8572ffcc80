"""TeamEnv: a task in W parallel worlds, as a learner sees it."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from hardware import load_robot
from hardware.types import ActuatorCommand
from sim.envs.agents import AgentGroup
from sim.envs.bodies_near import bodies_near
from sim.envs.faulty_term import check_terms, check_values, in_term
from sim.envs.observation import Observation
from sim.envs.state import EnvState, EnvStep, read_env, write_env
from sim.envs.world import World, task_scene
from sim.physics import on, on_its_device
from sim.task import Draw, TaskCfg
from sim.tasks import load_task
from sim.tracing import is_tracing
from sim.tree import on_tensors

Tensor = torch.Tensor
CAMERA_PERIODS = 7  # control steps that are remembered of objects, of which pictures may be 100 ms old at 50 Hz


class TeamEnv:
    """W worlds of a team. Whatever belongs to one group of like robots is a dict entry, its tensors (W, N, ...).

    A world ends for all of its robots at once. `terminated` marks the robots that failed, `truncated` all others of a
    world that ended; exactly one of them holds for every robot of such a world. Worlds that end start again in the same
    call; `final_obs` keeps what was seen last before that. A world whose physics blows up fails as "unstable" and
    starts again like any other; `unstable` keeps the state before it for study.
    """

    def __init__(
        self,
        task: TaskCfg | str,
        num_envs: int,
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
        physics `engine` runs it, and on which `device`, is for `sim.physics.make_physics`; tensors live there.
        """
        self.task = task = load_task(task) if isinstance(task, str) else task
        check_terms(task)
        self.num_envs = num_envs
        rates = {load_robot(cfg.robot).control_hz for cfg in task.groups.values()}
        if len(rates) > 1:
            raise ValueError(f"task {task.name!r}: robots run at {sorted(rates)} Hz; a team needs one control rate")
        self.control_dt = 1.0 / rates.pop()
        looped = [cfg.rate_loop for cfg in task.groups.values()]
        scene = task_scene(task, num_agents)
        periods = CAMERA_PERIODS if scene.objects else 2
        self.world = World(scene, num_envs, self.control_dt, engine, device, task.scene.downwash, looped, periods)
        self.device = self.world.physics.device
        with on(self.device):
            self.groups = {
                name: AgentGroup(cfg, self.world, robots, self.control_dt, shield, randomise)
                for (name, cfg), robots in zip(task.groups.items(), self.world.groups, strict=True)
            }
        self.curriculum = task.curriculum if curriculum else None
        self.generator = torch.Generator(self.device)
        self.max_steps = round(task.lasts_s(sum(g.num_agents for g in self.groups.values())) / self.control_dt)
        self.hold_steps = round(task.success_hold_s / self.control_dt)
        self.unstable: dict[str, Any] | None = None
        try:
            self.reset(seed)
            for name, group in self.groups.items():
                check_values(task, name, group)
        except ValueError:
            raise
        except Exception as error:
            self._name_term(error)
            raise

    def _name_term(self, error: Exception) -> None:
        """ValueError that names the term which has raised `error`, if one has; what tracing refuses is its own."""
        if not is_tracing() and (said := in_term(error, self.task)):
            raise ValueError(said) from error

    @property
    def group(self) -> AgentGroup:
        """The only group; ValueError where there are several."""
        return self.groups[self.task.group_name]

    @property
    def obs(self) -> dict[str, Observation]:
        return {name: group.obs for name, group in self.groups.items()}

    @on_its_device
    def reset(self, seed: int | None = None, difficulty: Tensor | None = None) -> dict[str, Observation]:
        """Start every world again; with `seed` from a fresh generator. Returns what each group sees.

        The curriculum begins again, or goes on from a `difficulty` (W,) that it had reached elsewhere.
        """
        if seed is not None:
            self.generator.manual_seed(seed)
        self.steps = torch.zeros(self.num_envs, dtype=torch.long)
        self.min_separation = torch.full((self.num_envs,), torch.inf)
        self.difficulty = torch.full((self.num_envs,), self.curriculum.initial if self.curriculum else 1.0)
        if difficulty is not None:
            self.difficulty.copy_(difficulty)
        for group in self.groups.values():
            group.clear()
        self._all = torch.arange(self.num_envs)
        self._restart(self._all)
        self._update_transitions()
        for group in self.groups.values():
            group.open_windows()
        self._observe()
        return self.obs

    @on_its_device
    def step(self, actions: Mapping[str, Tensor], targets: Mapping[str, Tensor] | None = None) -> EnvStep:
        """One control step under an action (W, N, U) for each group, clipped to [-1, 1].

        A NaN makes its world `unstable`. A group with an entry in `targets` (W, N, U) is commanded that, whatever its
        action would be decoded to.
        """
        groups = self.groups
        for name, group in groups.items():
            action, shape = actions.get(name), (self.num_envs, group.num_agents, group.action_dim)
            if not isinstance(action, Tensor) or action.shape != shape:
                found = f"shape {tuple(action.shape)}" if isinstance(action, Tensor) else type(action).__name__
                raise ValueError(f"action of {name!r}: wanted a torch tensor of shape {shape}, not {found}")
        actions = {name: actions[name].to(self.device).clamp(-1.0, 1.0) for name in groups}
        broken = torch.stack([action.isnan().flatten(1).any(1) for action in actions.values()]).any(0)
        actions = {name: action.nan_to_num() for name, action in actions.items()}
        targets = {name: target.to(self.device) for name, target in (targets or {}).items()}
        commands = {
            name: group.actuator_command(actions[name], targets.get(name), bodies_near(groups, name))
            for name, group in groups.items()
        }
        try:
            return self._stepped(actions, commands, broken)
        except Exception as error:
            self._name_term(error)
            raise

    def _stepped(
        self, actions: Mapping[str, Tensor], commands: Mapping[str, ActuatorCommand], broken: Tensor
    ) -> EnvStep:
        """The step under what actuators are given, and all that it comes to; `broken` worlds (W,) were given a NaN."""
        groups = self.groups
        self.world.step(list(commands.values()))
        unstable = ~self.world.physics.finite() | broken
        self._where(unstable, self._rescue)  # so that no NaN goes any further
        self._update_transitions(actions, {name: command.target for name, command in commands.items()})
        rewards, terminations = {}, {}
        for name, group in groups.items():
            rewards[name], terminations[name] = group.compute_rewards_and_terminations()
            terminations[name]["unstable"] = unstable.unsqueeze(-1).expand_as(group.held)
        acted = {name: ~(group.robots.dead | unstable.unsqueeze(-1)) for name, group in groups.items()}
        terminated = {name: torch.stack(list(terms.values())).any(0) for name, terms in terminations.items()}
        failed = torch.cat(list(terminated.values()), dim=1).any(-1)
        self.steps += 1
        ended = failed | (self.steps >= self.max_steps)
        for name, group in groups.items():
            group.advance(actions[name], self.steps * self.control_dt, self.generator, self._where)
        self._observe()
        step = EnvStep(
            obs=self.obs,
            final_obs=self.obs,
            reward={name: torch.stack(list(terms.values())).sum(0) for name, terms in rewards.items()},
            reward_terms=rewards,
            terminations=terminations,
            terminated=terminated,
            truncated={name: ended.unsqueeze(-1) & ~value for name, value in terminated.items()},
            acted=acted,
            ended=ended,
            success=~failed & (torch.cat([group.held for group in groups.values()], dim=1) >= self.hold_steps).all(-1),
            min_separation_m=self.min_separation.clone(),
            episode_length=self.steps.clone(),
            interventions=torch.cat([group.shielded for group in groups.values()], dim=1).sum(-1),
        )
        self._where(ended, partial(self._renew, step.success))
        step.obs = self.obs
        return step

    @on_its_device
    def stagger(self) -> None:
        """Spread the worlds over the length of an episode, so that they do not all end together; for training."""
        self.steps = torch.randint(0, self.max_steps, (self.num_envs,), generator=self.generator)

    def _where(self, condition: Tensor, change: Callable[[Tensor], None]) -> None:
        """Call `change` of the worlds (K,) in which a `condition` (W,) holds.

        A trace changes all worlds, and keeps of that what belongs to those in which it holds. What the groups have seen
        of this step stays as it was: rewards and critics look at it.
        """
        if not is_tracing():
            if condition.any():
                change(condition.nonzero().squeeze(-1))
            return
        before = on_tensors(Tensor.clone, self.get_state(traced=True))
        change(self._all)

        def chosen(new: Tensor, old: Tensor) -> Tensor:
            return torch.where(condition.view(-1, *[1] * (new.ndim - 1)), new, old)

        write_env(self, on_tensors(chosen, self.get_state(traced=True), before))

    def _update_transitions(self, actions: Mapping[str, Tensor] | None = None, targets: Mapping | None = None) -> None:
        """The truth as it is now, for every group; without `actions` (W, N, U) nothing has been done yet."""
        shared = {"time_s": self.steps * self.control_dt, "objects": self.world.true_objects()}
        truths = {name: group.robots.truth() for name, group in self.groups.items()}
        for name, group in self.groups.items():
            shared |= {"state": truths[name], "others": {n: truth for n, truth in truths.items() if n != name}}
            if actions is None or targets is None:
                sent = group.robots.sent
                group.update_transition(last_state=truths[name], action=group.last_action, target=sent, **shared)
                continue
            last = group.now
            now = group.update_transition(last_state=last.state, action=actions[name], target=targets[name], **shared)
            now.last_frames = last.frames
            if group.num_agents > 1:
                self.min_separation = torch.minimum(self.min_separation, now.distance.flatten(1).amin(-1))

    def _observe(self) -> None:
        """Every group measures and sees."""
        for group, measured in zip(self.groups.values(), self._measured(self._all), strict=True):
            group.measured = measured
        for group in self.groups.values():
            group.obs = group.observe(group.policy_input, group.now)

    def _measured(self, worlds: Tensor) -> list[tuple]:
        """What each group measures in `worlds` (K,)."""
        groups = list(self.groups.values())
        messages = None
        if any(group.hears for group in groups):
            messages = self.world.broadcast(worlds, [group.noise for group in groups], self.generator)
        return [group.measure(worlds, messages, self.generator) for group in groups]

    def _rescue(self, worlds: Tensor) -> None:
        """Put `worlds` (K,), whose physics blew up, at a start, and keep where they had been."""
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
        self._update_transitions()
        for (name, group), part in zip(self.groups.items(), measured, strict=True):
            group.now.know_frames(before[name], worlds)
            group.observe_after_start(worlds, part)

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
            group.take_commands(worlds, starts[name])

    def get_state(self, traced: bool = False) -> EnvState:
        """All that changes from step to step, as a copy of its own; for `traced` see `read_env`."""
        state = read_env(self, traced)
        return state if traced else on_tensors(Tensor.clone, state)

    @on_its_device
    def set_state(self, state: EnvState) -> None:
        """Put back what `get_state` gave, in an environment of the same task, size and engine."""
        write_env(self, state)
        self._update_transitions()
        for name, frames in state.frames.items():
            self.groups[name].now.frames.update(frames)
