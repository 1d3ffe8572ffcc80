"""Like robots at work in W worlds: what they are told, see, remember and do, and how it is judged."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from deploy.shield import Context, filter_command, make_shield_params
from hardware.types import ActuatorCommand, ObjectState, Peers, RobotState
from sim.envs.action import decode
from sim.envs.observation import initial_memory, remember, see
from sim.envs.robots import RobotGroup
from sim.envs.world import World
from sim.noise import Noise
from sim.task import EventTerm, GroupCfg, ObsLayout, PolicyInput, Start
from sim.tracing import untraceable
from sim.transition import Transition

Tensor = torch.Tensor
Measured = tuple[RobotState, Peers, dict[str, ObjectState]]
Where = Callable[[Tensor, Callable[[Tensor], None]], None]
KEPT = ("held", "last_action", "shielded")  # of every world
NAMED = ("memory", "command", "plan", "due")  # dicts of tensors


class AgentGroup:
    """N like robots with one `GroupCfg`; `TeamEnv` and `MixedEnv` conduct it. Tensors are (W, N, ...)."""

    measured: Measured
    now: Transition

    def __init__(
        self, role: GroupCfg, world: World, robots: RobotGroup, control_dt: float, shield: bool, randomise: bool
    ):
        self.role, self.world, self.robots, self.robot = role, world, robots, robots.robot
        self.num_agents, self.control_dt = robots.num_robots, control_dt
        self.shield = make_shield_params(self.robot, **role.shield) if shield else None
        self.randomisation = role.randomisation if randomise else {}
        self.noise = role.noise if randomise else Noise()
        team = sum(group.num_robots for group in world.groups)
        self.num_peers = min(role.observation.max_peers, team - 1) if role.observation.peer else 0

    @property
    def num_worlds(self) -> int:
        """W."""
        return self.world.num_worlds

    @property
    def action_dim(self) -> int:
        """Channels of one robot, U."""
        return len(self.robot.channels)

    @property
    def policy_input(self) -> PolicyInput:
        """What every robot is given now: measurements, commands and memory."""
        return PolicyInput(*self.measured, self.command, self.memory)

    @property
    def obs_layout(self) -> ObsLayout:
        """How an observation is laid out."""
        cfg, policy_input = self.role.observation, self.policy_input
        own = sum(t.func(policy_input, **t.params).shape[-1] for t in cfg.own.values())
        peer = sum(t.func(policy_input, **t.params).shape[-1] for t in cfg.peer.values())
        critic = sum(t.func(self.now, **t.params).shape[-1] for t in cfg.privileged.values())
        return ObsLayout(own, peer, critic)

    @property
    def obs_dim(self) -> int:
        """Length of one robot's observation, D."""
        layout = self.obs_layout
        return layout.own_dim + layout.critic_dim + self.num_peers * (layout.peer_dim + 1)

    def clear(self) -> None:
        """Room for every world; `begin` fills it."""
        w, n, role = self.world.num_worlds, self.num_agents, self.role
        self.held = torch.zeros(w, n, dtype=torch.long)
        self.shielded = torch.zeros(w, n, dtype=torch.long)
        self.last_action = torch.zeros(w, n, self.action_dim)
        self.memory = initial_memory(role.observation, (w, n))
        self.command = {name: torch.zeros(w, n, len(c.low)) for name, c in role.commands.items()}
        self.plan: dict[str, Tensor] = {}
        self.due = {name: torch.zeros(w) for name, t in self.randomisation.items() if t.interval_range_s}

    def take(self, worlds: Tensor, start: Start) -> None:
        """The commands of a new start in `worlds` (K,)."""
        # New dicts and tensors: what a transition or a rollout holds of the last step must not change under its hands.
        self.command = {name: _replaced(self.command[name], worlds, value) for name, value in start.command.items()}
        for name, value in start.plan.items():
            if name not in self.plan:
                self.plan[name] = value.new_zeros(self.world.num_worlds, *value.shape[1:])
            self.plan[name][worlds] = value

    def begin(self, worlds: Tensor, generator: torch.Generator, difficulty: Tensor) -> None:
        """Empty memory and new parameters for `worlds` (K,), of a `difficulty` (K,) that randomisation may heed."""
        self.robots.difficulty[worlds] = difficulty
        for name, value in initial_memory(self.role.observation, (len(worlds), self.num_agents)).items():
            self.memory[name][worlds] = value
        for name, term in self.randomisation.items():
            if term.interval_range_s is None:
                term.func(self.robots, worlds, generator, **term.params)
            else:
                self.due[name][worlds] = _wait(term.interval_range_s, len(worlds), generator)
        self.held[worlds] = 0
        self.shielded[worlds] = 0
        self.last_action[worlds] = 0.0

    def decide(self, action: Tensor) -> ActuatorCommand:
        """What actuators are told for action (W, N, U) in [-1, 1], behind the shield if there is one."""
        state, peers, _ = self.measured
        command = decode(self.role.action, action, state, self.robot)
        if self.shield is not None:
            untraceable("the safety shield")
            command.target, report = filter_command(self.shield, self.robot, Context(state, peers), command.target)
            self.shielded += report.intervention > 0
        return command

    def look(
        self,
        state: RobotState,
        last_state: RobotState,
        time_s: Tensor,
        action: Tensor,
        target: Tensor,
        objects: Mapping[str, ObjectState],
        others: Mapping[str, RobotState],
    ) -> Transition:
        """The true situation after a step, kept as `now`."""
        self.now = Transition(
            robot=self.robot.name,
            state=state,
            last_state=last_state,
            objects=objects,
            command=self.command,
            target=target,
            action=action,
            last_action=self.last_action,
            memory=self.memory,
            time_s=time_s,
            dt_s=self.control_dt,
            others=others,
            ground=self.robots.ground,
        )
        return self.now

    def judge(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Weighted reward terms and terminations of `now`, each (W, N); success is counted in `held`."""
        now, role = self.now, self.role
        terms = {name: t.weight * t.func(now, **t.params) for name, t in role.rewards.items()}
        terminations = {name: t.func(now, **t.params) for name, t in role.terminations.items()}
        self.held = torch.where(role.success.func(now, **role.success.params), self.held + 1, 0)
        return terms, terminations

    def go_on(self, action: Tensor, time_s: Tensor, generator: torch.Generator, where: Where) -> None:
        """Remember what was seen and done; then commands move, and so does what is randomised in between.

        `where(condition (W,), change)` calls `change` of the worlds in which it holds.
        """
        self.memory = remember(self.role.observation, self.policy_input, action)
        self.last_action = action
        if self.role.update_commands is not None:
            self.command = self.role.update_commands(self.plan, time_s.view(-1, 1, 1))
        for name in self.due:
            self.due[name] -= self.control_dt
            where(self.due[name] <= 0, partial(self._happen, name, self.randomisation[name], generator))

    def _happen(self, name: str, term: EventTerm, generator: torch.Generator, worlds: Tensor) -> None:
        """What is randomised in between happens in `worlds` (K,), and will again."""
        term.func(self.robots, worlds, generator, **term.params)
        self.due[name][worlds] = _wait(term.interval_range_s, len(worlds), generator)

    def measure(self, worlds: Tensor, said: Tensor | None, generator: torch.Generator) -> Measured:
        """What robots of `worlds` (K,) sense, hear of what the team has `said` (K, M, 7), and see: (K, N, ...)."""
        state = self.robots.sense(worlds, self.noise, generator)
        none = state.base_pos.new_zeros(*state.base_pos.shape[:2], 0, 3)
        peers = Peers(none, none, none[..., 0], none[..., 0].bool())
        if self.num_peers and said is not None:
            range_m = self.role.observation.peer_range_m
            peers = self.robots.hear(worlds, state.base_pos, said, self.num_peers, range_m, generator)
        return state, peers, self.world.see(self.robots, worlds, self.noise, generator)

    def observe(self, policy_input: PolicyInput, worlds: Tensor | None = None) -> Tensor:
        """Observation of a policy_input of all worlds, or of `worlds` (K,), the critic's own part from the truth."""
        cfg = self.role.observation
        critic = None
        if cfg.privileged:
            now = self.now if worlds is None else self.now.of(worlds)
            critic = torch.cat([t.func(now, **t.params) for t in cfg.privileged.values()], dim=-1)
        return see(cfg, policy_input).flat(critic)

    def observe_anew(self, worlds: Tensor, measured: Measured, obs: Tensor) -> Tensor:
        """Obs (W, N, D) with that of `worlds` (K,) replaced by the first one, from what was `measured` there."""
        state, peers, objects = measured
        pairs: list[tuple[Any, Any]] = [(self.measured[0], state), (self.measured[1], peers)]
        pairs += [(self.measured[2][name], value) for name, value in objects.items()]
        for full, part in pairs:
            for name in part.__slots__:
                getattr(full, name)[worlds] = getattr(part, name)  # measured in this very step: nobody else holds it
        command = {name: value[worlds] for name, value in self.command.items()}
        memory = {name: value[worlds] for name, value in self.memory.items()}
        return _replaced(obs, worlds, self.observe(PolicyInput(state, peers, objects, command, memory), worlds))

    def tensors(self) -> dict[str, Any]:
        """All that changes from step to step but the robots themselves, (W, ...), nothing copied."""
        return {"measured": self.measured} | {name: getattr(self, name) for name in (*KEPT, *NAMED)}

    def put(self, tensors: Mapping[str, Any]) -> None:
        """Put such tensors in place of those that are there."""
        for name, value in tensors.items():
            setattr(self, name, value)

    def state_dict(self) -> dict[str, Any]:
        """Everything that a bitwise continuation needs."""
        named = {name: {key: value.clone() for key, value in getattr(self, name).items()} for name in NAMED}
        named["frames"] = dict(self.now.frames)
        return {"measured": self.measured, **named} | {name: getattr(self, name).clone() for name in KEPT}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict()`."""
        self.measured = state["measured"]
        for name in NAMED:
            setattr(self, name, {key: value.clone() for key, value in state[name].items()})
        for name in KEPT:
            setattr(self, name, state[name].clone())


def _replaced(old: Tensor, rows: Tensor, value: Tensor) -> Tensor:
    new = old.clone()
    new[rows] = value
    return new


def _wait(interval_range_s: tuple[float, float] | None, count: int, generator: torch.Generator) -> Tensor:
    low, high = interval_range_s or (0.0, 0.0)
    return low + (high - low) * torch.rand(count, generator=generator)
