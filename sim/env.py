"""TeamEnv: a task in W parallel worlds, as the learner sees it."""

from typing import Any

import torch

from deploy.shield import filter_command, make_shield_params
from hardware import load_robot
from sim.group import Noise
from sim.observe import decode, initial_memory, remember, see
from sim.scene import build_scene
from sim.task import Draw, ObsLayout, Percept, TaskCfg, Transition
from sim.tasks import load_task
from sim.world import World

Tensor = torch.Tensor
KEPT = ("steps", "held", "last_action", "shielded", "min_separation", "difficulty")  # of every world
NAMED = ("memory", "command", "plan", "due")  # dicts of tensors


def make_env(
    task: TaskCfg | str,
    num_envs: int,
    seed: int,
    num_agents: int | None = None,
    shield: bool = False,
    randomise: bool = True,
    curriculum: bool = False,
) -> "TeamEnv":
    """The environment of `task`, by name or as it is, with `num_envs` worlds; see `TeamEnv`."""
    cfg = load_task(task) if isinstance(task, str) else task
    return TeamEnv(cfg, num_envs, seed, num_agents, shield, randomise, curriculum)


class TeamEnv:
    """W worlds x N like robots. Tensors are (W, N, ...).

    A world ends for all of its robots at once. `terminated` marks the robots that failed, `truncated` all others of a
    world that ended; exactly one of them holds for every robot of such a world. Worlds that end start anew in the same
    call; `info["terminal_obs"]` keeps what was seen last before that. A world whose physics blows up fails as
    "unstable" and starts anew like any other; `unstable` keeps the state before it for study.
    """

    def __init__(
        self,
        task: TaskCfg,
        num_worlds: int,
        seed: int,
        num_agents: int | None = None,
        shield: bool = False,
        randomise: bool = True,
        curriculum: bool = False,
    ):
        """`shield` puts the safety filter before the actuators; without `randomise` nothing but the start varies.

        With `curriculum` worlds begin as easily as the task allows and grow harder with success, as in training.
        """
        self.task, self.num_worlds = task, num_worlds
        self.num_agents = task.num_agents if num_agents is None else num_agents
        self.robot = load_robot(task.robot)
        self.control_dt = 1.0 / self.robot.control_hz
        bases = task.scene.bases(self.num_agents) if task.scene.bases else None
        scene = build_scene(
            self.robot, self.num_agents, bases=bases, props=task.scene.props, objects=task.scene.objects
        )
        self.world = World(scene, num_worlds, self.control_dt)
        self.shield = make_shield_params(self.robot, **task.shield) if shield else None
        self.randomisation = task.randomisation if randomise else {}
        self.noise = task.noise if randomise else Noise()
        self.num_peers = min(task.observation.max_peers, self.num_agents - 1) if task.observation.peer else 0
        self.curriculum = task.curriculum if curriculum else None
        self.generator = torch.Generator()
        self.max_steps = round(task.episode_s / self.control_dt)
        self.hold_steps = round(task.success_hold_s / self.control_dt)
        self.unstable: dict[str, Tensor] | None = None
        self._all = torch.arange(num_worlds)
        self._joints = self.robot.joint_of_channel
        self.reset(seed)

    @property
    def action_dim(self) -> int:
        """Channels of one robot, U."""
        return len(self.robot.channels)

    @property
    def percept(self) -> Percept:
        """What every robot is given now: measurements, commands and memory, (W, N, ...)."""
        return Percept(*self.measured, self.command, self.memory)

    @property
    def obs_layout(self) -> ObsLayout:
        """How an observation is laid out."""
        cfg, percept = self.task.observation, self.percept
        own = sum(t.func(percept, **t.params).shape[-1] for t in cfg.own.values())
        peer = sum(t.func(percept, **t.params).shape[-1] for t in cfg.peer.values())
        critic = sum(t.func(self.now, **t.params).shape[-1] for t in cfg.critic.values())
        return ObsLayout(own, peer, critic)

    @property
    def obs_dim(self) -> int:
        """Length of one robot's observation, D."""
        layout = self.obs_layout
        return layout.own_dim + layout.critic_dim + self.num_peers * (layout.peer_dim + 1)

    def reset(self, seed: int | None = None) -> Tensor:
        """Start every world anew; with `seed` from a fresh generator. Returns obs (W, N, D)."""
        if seed is not None:
            self.generator.manual_seed(seed)
        w, n = self.num_worlds, self.num_agents
        task = self.task
        self.steps = torch.zeros(w, dtype=torch.long)
        self.held = torch.zeros(w, n, dtype=torch.long)
        self.last_action = torch.zeros(w, n, self.action_dim)
        self.memory = initial_memory(task.observation, (w, n))
        self.command = {name: torch.zeros(w, n, len(c.low)) for name, c in task.commands.items()}
        self.plan: dict[str, Tensor] = {}
        self.due = {name: torch.zeros(w) for name, t in self.randomisation.items() if t.every_s}
        self.min_separation = torch.full((w,), torch.inf)
        self.shielded = torch.zeros(w, n, dtype=torch.long)
        self.difficulty = torch.full((w,), self.curriculum.initial if self.curriculum else 1.0)
        self._restart(self._all)
        self.measured = self._measure(self._all)
        self.now = self._transition(self.last_action, self.world.robots.sent, self.world.truth())
        return self._observe(self.percept)

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
        command = decode(task.action, action, self.measured[0], self._joints)
        if self.shield is not None:
            command.target, report = filter_command(self.shield, self.robot, *self.measured[:2], command.target)
            self.shielded += report.intervention > 0
        self.world.step(command)
        unstable = self._look_for_instability()
        self.now = now = self._transition(action, command.target, self.now.state)
        terms = {name: t.weight * t.func(now, **t.params) for name, t in task.rewards.items()}
        failures = {name: t.func(now, **t.params) for name, t in task.failures.items()}
        success = task.success.func(now, **task.success.params)
        failures["unstable"] = unstable.expand(-1, self.num_agents)
        reward = torch.stack(list(terms.values())).sum(0)
        terminated = torch.stack(list(failures.values())).any(0)
        self.memory = remember(task.observation, self.percept, action)
        self.last_action = action
        self.steps += 1
        self.held = torch.where(success, self.held + 1, 0)
        if self.num_agents > 1:
            self.min_separation = torch.minimum(self.min_separation, now.distance.flatten(1).amin(-1))
        failed = terminated.any(-1)
        ended = failed | (self.steps >= self.max_steps)
        truncated = ended.unsqueeze(-1) & ~terminated
        self._between_steps()
        self.measured = self._measure(self._all)
        obs = self._observe(self.percept)
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
            obs = self._renew(ended.nonzero().squeeze(-1), info["success"], obs)
        return obs, reward, terminated, truncated, info

    def _transition(self, action: Tensor, target: Tensor, last_state: Any) -> Transition:
        """The true situation after a step."""
        world = self.world
        return Transition(
            robot=self.robot.name,
            state=world.truth(),
            last_state=last_state,
            objects=world.true_objects(),
            command=self.command,
            target=target,
            action=action,
            last_action=self.last_action,
            memory=self.memory,
            time_s=self.steps * self.control_dt,
            dt_s=self.control_dt,
        )

    def _observe(self, percept: Percept, worlds: Tensor | None = None) -> Tensor:
        """Observation of a percept of all worlds, or of `worlds` (K,), the critic's own part from the truth."""
        cfg = self.task.observation
        critic = None
        if cfg.critic:
            critic = torch.cat([t.func(self.now, **t.params) for t in cfg.critic.values()], dim=-1)
            critic = critic if worlds is None else critic[worlds]
        return see(cfg, percept).flat(critic)

    def _measure(self, worlds: Tensor) -> tuple:
        return self.world.measure(
            worlds, self.noise, self.generator, self.num_peers, self.task.observation.peer_range_m
        )

    def _between_steps(self) -> None:
        """Moving commands, and what is randomised in the course of an episode."""
        if self.task.motion is not None:
            self.command = self.task.motion(self.plan, (self.steps * self.control_dt).view(-1, 1, 1))
        for name, due in self.due.items():
            term = self.randomisation[name]
            due -= self.control_dt
            worlds = (due <= 0).nonzero().squeeze(-1)
            if len(worlds):
                term.func(self.world, worlds, self.generator, **term.params)
                due[worlds] = self._wait(term.every_s, len(worlds))

    def _wait(self, every_s: tuple[float, float] | None, count: int) -> Tensor:
        low, high = every_s or (0.0, 0.0)
        return low + (high - low) * torch.rand(count, generator=self.generator)

    def _look_for_instability(self) -> Tensor:
        """Worlds (W, 1) whose physics blew up in this step; each is put at a start, so that no NaN goes any further."""
        fine = self.world.physics.finite()
        if fine.all():
            return ~fine.unsqueeze(-1)
        worlds = (~fine).nonzero().squeeze(-1)
        self.unstable = {"worlds": worlds, "last_action": self.last_action[worlds]} | {
            name: getattr(self.now.state, name)[worlds] for name in ("base_pos", "base_quat", "joint_pos", "joint_vel")
        }
        self._start(worlds)
        return ~fine.unsqueeze(-1)

    def _renew(self, worlds: Tensor, success: Tensor, obs: Tensor) -> Tensor:
        """Restart `worlds` (K,) and return the observations with theirs replaced by first ones."""
        if self.curriculum is not None:
            change = torch.where(success[worlds], self.curriculum.up, -self.curriculum.down)
            self.difficulty[worlds] = (self.difficulty[worlds] + change).clamp(0.0, 1.0)
        self._restart(worlds)
        state, peers, objects = self._measure(worlds)
        pairs = [(self.measured[0], state), (self.measured[1], peers)]
        pairs += [(self.measured[2][name], value) for name, value in objects.items()]
        for full, part in pairs:
            for name in part.__slots__:
                value = getattr(full, name).clone()
                value[worlds] = getattr(part, name)
                setattr(full, name, value)
        self.now = self._transition(self.last_action, self.world.robots.sent, self.world.truth())
        command = {name: value[worlds] for name, value in self.command.items()}
        memory = {name: value[worlds] for name, value in self.memory.items()}
        obs = obs.clone()
        obs[worlds] = self._observe(Percept(state, peers, objects, command, memory), worlds)
        return obs

    def _restart(self, worlds: Tensor) -> None:
        """New start, commands, parameters and empty memory for `worlds` (K,)."""
        self._start(worlds)
        for name, value in initial_memory(self.task.observation, (len(worlds), self.num_agents)).items():
            self.memory[name][worlds] = value
        for name, term in self.randomisation.items():
            if term.every_s is None:
                term.func(self.world, worlds, self.generator, **term.params)
            else:
                self.due[name][worlds] = self._wait(term.every_s, len(worlds))
        self.steps[worlds] = 0
        self.held[worlds] = 0
        self.last_action[worlds] = 0.0
        self.shielded[worlds] = 0
        self.min_separation[worlds] = torch.inf

    def _start(self, worlds: Tensor) -> None:
        """Put `worlds` (K,) at a newly drawn start, with its commands."""
        start = self.task.start(Draw(self.generator, len(worlds), self.num_agents, self.difficulty[worlds]))
        self.world.reset(worlds, start)
        # New dicts and tensors: what a transition or a rollout holds of the last step must not change under its hands.
        self.command = {name: _replaced(self.command[name], worlds, value) for name, value in start.command.items()}
        for name, value in start.plan.items():
            if name not in self.plan:
                self.plan[name] = value.new_zeros(self.num_worlds, *value.shape[1:])
            self.plan[name][worlds] = value

    def state_dict(self) -> dict[str, Any]:
        """Everything that a bitwise continuation needs, the generator included."""
        named = {name: {key: value.clone() for key, value in getattr(self, name).items()} for name in NAMED}
        kept = {name: getattr(self, name).clone() for name in KEPT}
        return {
            "world": self.world.state_dict(),
            "generator": self.generator.get_state(),
            "measured": self.measured,
            **named,
            **kept,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self.world.load_state_dict(state["world"])
        self.generator.set_state(state["generator"])
        self.measured = state["measured"]
        for name in NAMED:
            setattr(self, name, {key: value.clone() for key, value in state[name].items()})
        for name in KEPT:
            setattr(self, name, state[name].clone())
        self.now = self._transition(self.last_action, self.world.robots.sent, self.world.truth())


def _replaced(old: Tensor, worlds: Tensor, value: Tensor) -> Tensor:
    new = old.clone()
    new[worlds] = value
    return new
