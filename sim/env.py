"""TeamEnv: a task in W parallel worlds, as the learner sees it."""

from typing import Any

import torch

from deploy.shield import filter_command, make_shield_params
from hardware import load_robot
from hardware.rotation import rotate
from sim.observe import decode, initial_memory, observe, remember
from sim.scene import build_scene
from sim.task import ObsLayout, TaskCfg, Transition
from sim.tasks import load_task
from sim.world import World

Tensor = torch.Tensor


def make_env(
    task: TaskCfg | str,
    num_envs: int,
    seed: int,
    num_agents: int | None = None,
    shield: bool = False,
    randomise: bool = True,
) -> "TeamEnv":
    """The environment of `task`, by name or as it is, with `num_envs` worlds; see `TeamEnv`."""
    cfg = load_task(task) if isinstance(task, str) else task
    return TeamEnv(cfg, num_envs, seed, num_agents, shield, randomise)


class TeamEnv:
    """W worlds x N like robots. Tensors are (W, N, ...).

    A world ends for all of its robots at once. `terminated` marks the robots that failed, `truncated` all others of a
    world that ended; exactly one of them holds for every robot of such a world. Worlds that end start anew in the same
    call; `info["terminal_obs"]` keeps what was seen last before that.
    """

    def __init__(
        self,
        task: TaskCfg,
        num_worlds: int,
        seed: int,
        num_agents: int | None = None,
        shield: bool = False,
        randomise: bool = True,
    ):
        """`shield` puts the safety filter before the actuators; without `randomise` nothing but the start varies."""
        self.task, self.num_worlds = task, num_worlds
        self.num_agents = task.num_agents if num_agents is None else num_agents
        self.robot = load_robot(task.robot)
        self.control_dt = 1.0 / self.robot.control_hz
        scene = build_scene(self.robot, self.num_agents)
        self.world = World(
            scene, num_worlds, self.control_dt, task.observation.max_peers, task.observation.peer_range_m
        )
        self.shield = make_shield_params(self.robot, **task.shield) if shield else None
        self.randomisation = task.randomisation if randomise else {}
        self.noise = task.noise if randomise else type(task.noise)()
        self.generator = torch.Generator()
        self.max_steps = round(task.episode_s / self.control_dt)
        self.hold_steps = round(task.success_hold_s / self.control_dt)
        self._all = torch.arange(num_worlds)
        self._diagonal = torch.diag(torch.full((self.num_agents,), torch.inf))
        self.reset(seed)

    @property
    def action_dim(self) -> int:
        """Channels of one robot, U."""
        return len(self.robot.channels)

    @property
    def obs_layout(self) -> ObsLayout:
        """How an observation is laid out."""
        state, peers = self.measured
        own = sum(
            t.func(state, self.command, self.memory, **t.params).shape[-1] for t in self.task.observation.own.values()
        )
        peer = sum(t.func(state, peers, **t.params).shape[-1] for t in self.task.observation.peer.values())
        return ObsLayout(own, peer)

    def reset(self, seed: int | None = None) -> Tensor:
        """Start every world anew; with `seed` from a fresh generator. Returns obs (W, N, D)."""
        if seed is not None:
            self.generator.manual_seed(seed)
        w, n = self.num_worlds, self.num_agents
        self.steps = torch.zeros(w, dtype=torch.long)
        self.held = torch.zeros(w, n, dtype=torch.long)
        self.last_action = torch.zeros(w, n, self.action_dim)
        self.memory = initial_memory(self.task.observation, (w, n))
        self.command = {name: torch.zeros(w, n, len(c.low)) for name, c in self.task.commands.items()}
        self.min_separation = torch.full((w,), torch.inf)
        self.shielded = torch.zeros(w, n, dtype=torch.long)
        self._restart(self._all)
        self.measured = self.world.measure(self._all, self.noise, self.generator)
        return observe(self.task.observation, *self.measured, self.command, self.memory)

    def stagger(self) -> None:
        """Spread the worlds over the length of an episode, so that they do not all end together; for training."""
        self.steps = torch.randint(0, self.max_steps, (self.num_worlds,), generator=self.generator)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """One control step under action (W, N, U), clipped to [-1, 1].

        Returns obs (W, N, D), reward (W, N), terminated (W, N) bool, truncated (W, N) bool and info: `terminal_obs`
        (W, N, D), `reward_terms` {name: (W, N) weighted}, `failures` {name: (W, N) bool}, `ended` (W,) bool, and for
        each world, meaningful where it ended: `success`, `min_separation_m`, `episode_length`, `interventions` (steps
        x robots), each (W,).
        """
        task = self.task
        action = action.clamp(-1.0, 1.0)
        command = decode(task.action, action)
        if self.shield is not None:
            command.target, report = filter_command(self.shield, self.robot, *self.measured, command.target)
            self.shielded += report.intervention > 0
        self.world.step(command)
        now = self.transition(action)
        terms = {name: t.weight * t.func(now, **t.params) for name, t in task.rewards.items()}
        reward = torch.stack(list(terms.values())).sum(0)
        failures = {name: t.func(now, **t.params) for name, t in task.failures.items()}
        terminated = torch.stack(list(failures.values())).any(0)
        self.last_action = action
        self.steps += 1
        self.held = torch.where(task.success.func(now, **task.success.params), self.held + 1, 0)
        self.min_separation = torch.minimum(self.min_separation, now.distance.flatten(1).amin(-1))
        failed = terminated.any(-1)
        ended = failed | (self.steps >= self.max_steps)
        truncated = ended.unsqueeze(-1) & ~terminated
        self.memory = remember(task.observation, self.memory, self.measured[0], self.command, action)
        self.measured = self.world.measure(self._all, self.noise, self.generator)
        obs = observe(task.observation, *self.measured, self.command, self.memory)
        info: dict[str, Any] = {
            "terminal_obs": obs,
            "reward_terms": terms,
            "failures": failures,
            "ended": ended,
            "success": ~failed & (self.held >= self.hold_steps).all(-1),
            "min_separation_m": self.min_separation.clone(),
            "episode_length": self.steps.clone(),
            "interventions": self.shielded.sum(-1),
        }
        if ended.any():
            obs = self._renew(ended.nonzero().squeeze(-1), obs)
        return obs, reward, terminated, truncated, info

    def transition(self, action: Tensor) -> Transition:
        """The true situation after a step."""
        state = self.world.truth()
        pos, vel = state.base_pos, rotate(state.base_quat, state.base_lin_vel)
        offset = pos[:, None] - pos[:, :, None]
        distance = torch.linalg.vector_norm(offset, dim=-1) + self._diagonal
        return Transition(
            state, self.command, action, self.last_action, offset, vel[:, None] - vel[:, :, None], distance
        )

    def _renew(self, worlds: Tensor, obs: Tensor) -> Tensor:
        """Restart `worlds` (K,) and return the observations with theirs replaced by first ones."""
        self._restart(worlds)
        state, peers = self.world.measure(worlds, self.noise, self.generator)
        for full, part in ((self.measured[0], state), (self.measured[1], peers)):
            for name in part.__slots__:
                value = getattr(full, name).clone()
                value[worlds] = getattr(part, name)
                setattr(full, name, value)
        command = {name: value[worlds] for name, value in self.command.items()}
        memory = {name: value[worlds] for name, value in self.memory.items()}
        obs = obs.clone()
        obs[worlds] = observe(self.task.observation, state, peers, command, memory)
        return obs

    def _restart(self, worlds: Tensor) -> None:
        """New start, commands, parameters and empty memory for `worlds` (K,)."""
        start = self.task.start(self.generator, len(worlds), self.num_agents)
        self.world.reset(worlds, start)
        for name, value in start.command.items():
            self.command[name][worlds] = value
        for name, value in initial_memory(self.task.observation, (len(worlds), self.num_agents)).items():
            self.memory[name][worlds] = value
        for term in self.randomisation.values():
            term.func(self.world, worlds, self.generator, **term.params)
        self.steps[worlds] = 0
        self.held[worlds] = 0
        self.last_action[worlds] = 0.0
        self.shielded[worlds] = 0
        self.min_separation[worlds] = torch.inf

    def state_dict(self) -> dict[str, Any]:
        """Everything that a bitwise continuation needs, the generator included."""
        return {
            "world": self.world.state_dict(),
            "generator": self.generator.get_state(),
            "memory": dict(self.memory),
            "command": dict(self.command),
            "measured": self.measured,
            **{name: getattr(self, name) for name in ("steps", "held", "last_action", "shielded", "min_separation")},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self.world.load_state_dict(state["world"])
        self.generator.set_state(state["generator"])
        self.memory, self.command, self.measured = dict(state["memory"]), dict(state["command"]), state["measured"]
        for name in ("steps", "held", "last_action", "shielded", "min_separation"):
            setattr(self, name, state[name].clone())
