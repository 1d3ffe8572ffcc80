"""A group of like robots in W worlds: commands, observations, memory, actions and rewards."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from deploy.shield import Context, filter_request, make_shield_params
from deploy.shield.filter import row_kinds
from deploy.shield.types import FilterInfo, Obstacles
from hardware.once import worked_out_once
from hardware.types import ActuatorCommand, ObjectState, Peers, RobotState
from sim.envs.action import decode
from sim.envs.observation import Observation, initial_memory, observe, update_memory
from sim.envs.robots import RobotGroup
from sim.envs.world import World
from sim.noise import Noise
from sim.task import GroupCfg, PolicyInput, Start
from sim.terms import EventTerm, MeanTerm, courses
from sim.tracing import may_hold, untraceable
from sim.transition import Transition

Tensor = torch.Tensor
Measured = tuple[RobotState, Peers, dict[str, ObjectState]]
Where = Callable[[Tensor, Callable[[Tensor], None]], None]


class AgentGroup:
    """N like robots with one `GroupCfg`, a part of `TeamEnv`. Tensors are (W, N, ...).

    What changes from step to step are the attributes that `GroupState` names.
    """

    measured: Measured
    obs: Observation
    now: Transition  # the true situation

    def __init__(
        self, cfg: GroupCfg, world: World, robots: RobotGroup, control_dt: float, shield: bool, randomise: bool
    ):
        self.cfg, self.world, self.robots, self.robot = cfg, world, robots, robots.robot
        self.num_agents, self.num_envs, self.control_dt = robots.num_robots, world.num_worlds, control_dt
        self.action_dim = len(self.robot.channels)
        self.shield = make_shield_params(self.robot, **cfg.shield) if shield else None
        # Rewards that are terminations too, which are computed once
        self._shared = {
            name: other
            for name, reward in cfg.rewards.items()
            for other, term in cfg.terminations.items()
            if reward.func is term.func and reward.params == term.params
        }
        self.randomisation = cfg.randomisation if randomise else {}
        self.noise = cfg.noise if randomise else Noise()
        team = sum(group.num_robots for group in world.groups)
        self.num_peers = min(cfg.observation.max_peers, team - 1) if cfg.observation.peer else 0
        # As on the robot, the shield of a drone hears all drones of the team, whatever the policy looks at. Of other
        # robots' bodies see `bodies_near`.
        flies = [group.robot.flight is not None for group in world.groups for _ in range(group.num_robots)]
        self._no_peer = ~torch.tensor(flies).unsqueeze(-1)  # (M, 1) of the team
        self.num_shield_peers = sum(flies) - 1 if shield and self.robot.flight is not None else 0
        self.shield_peers = _no_peers(self.num_envs, self.num_agents)
        self.correction: Tensor | None = None  # (W, N) of the last command by the shield
        self._filtered: tuple[Context, FilterInfo] | None = None  # and how it came to it

    @property
    def policy_input(self) -> PolicyInput:
        """What every robot is given now: measurements, commands and memory."""
        return PolicyInput(*self.measured, self.command, self.memory, self.last_correction)

    def clear(self) -> None:
        """Room for every world; `begin` fills it."""
        w, n, cfg = self.num_envs, self.num_agents, self.cfg
        self.held = torch.zeros(w, n, dtype=torch.long)  # steps for which success has held
        self.shielded = torch.zeros(w, n, dtype=torch.long)  # steps in which the shield intervened
        self.last_action = torch.zeros(w, n, self.action_dim)
        self.last_correction = self._change = torch.zeros(w, n, self.action_dim)  # in units of the channels
        self.memory = initial_memory(cfg.observation, (w, n))
        self.command = {name: torch.zeros(w, n, len(c.low)) for name, c in cfg.commands.items()}
        self.plan: dict[str, Tensor] = {}
        self.windows: dict[str, Tensor] = {}  # (W, N, steps, k) of what means are taken
        self.due = {name: torch.zeros(w) for name, t in self.randomisation.items() if t.interval_range_s}  # s

    def open_windows(self) -> None:
        """Room for what means are taken of, now that there is a first situation."""
        for name, term in self.cfg.means.items():
            value, steps = term.func(self.now, **term.params), round(term.window_s / self.control_dt)
            self.windows[name] = value.new_full((*value.shape[:2], steps, value.shape[-1]), torch.nan)
        self.now.means = {name: window.mean(2) for name, window in self.windows.items()}

    def take_commands(self, worlds: Tensor, start: Start) -> None:
        """The commands of a new start in `worlds` (K,)."""
        # New dicts and tensors: a transition or a rollout still holds those of the last step.
        self.command = {name: _replaced(self.command[name], worlds, value) for name, value in start.command.items()}
        room = {name: value.new_zeros(self.num_envs, *value.shape[1:]) for name, value in start.plan.items()}
        self.plan = {n: _replaced(self.plan.get(n, room[n]), worlds, value) for n, value in start.plan.items()}

    def begin(self, worlds: Tensor, generator: torch.Generator, difficulty: Tensor) -> None:
        """Empty memory and new parameters for `worlds` (K,), of a `difficulty` (K,) that randomisation may heed."""
        self.robots.difficulty[worlds] = difficulty
        for name, value in initial_memory(self.cfg.observation, (len(worlds), self.num_agents)).items():
            self.memory[name][worlds] = value
        for name, term in self.randomisation.items():
            if term.interval_range_s is None:
                self._apply(name, term, worlds, generator)
            else:
                self.due[name][worlds] = _wait(term.interval_range_s, len(worlds), generator)
        for window in self.windows.values():
            window[worlds] = torch.nan
        self.held[worlds] = 0
        self.shielded[worlds] = 0
        self.last_action[worlds] = 0.0
        if self.shield is not None:  # else it is zero for ever
            self.last_correction[worlds] = 0.0

    def actuator_command(
        self, action: Tensor, target: Tensor | None = None, obstacles: Obstacles | None = None
    ) -> ActuatorCommand:
        """What actuators are given for action (W, N, U) in [-1, 1], or for a `target`, behind the shield if any.

        `obstacles` (W, N, B, ...): what that shield keeps off.
        """
        state = self.measured[0]
        command = decode(self.cfg.action, action, state, self.robot) if target is None else ActuatorCommand(target)
        if self.shield is not None:
            untraceable("the safety shield")
            context = Context(state, self.shield_peers, obstacles=obstacles, sent=self.robots.sent)
            requested = command.target
            command.target, report = filter_request(self.shield, self.robot, context, requested)
            self.correction, self._filtered = report.intervention, (context, report)
            self._change = command.target - requested
            self.shielded += report.intervention > 0
        return command

    def held_back(self) -> dict[str, Tensor]:
        """Which robots' last command (W, N) bool the shield changed for rows of each kind; empty without a shield."""
        if self._filtered is None:
            return {}
        context, report = self._filtered
        changed, kinds = report.intervention > 0, row_kinds(self.robot, context)
        rows = report.active & changed.unsqueeze(-1)
        held = {kind: rows[..., [each == kind for each in kinds]].any(-1) for kind in dict.fromkeys(kinds)}
        return {**held, "mixer": changed & ~rows.any(-1)}  # met once thrust and rates were what the rotors can do

    def update_transition(self, **situation: Any) -> Transition:
        """The true situation after a step, kept as `now`; `situation` holds what is not this group's own."""
        self.now = Transition(
            robot=self.robot.name,
            command=self.command,
            last_action=self.last_action,
            memory=self.memory,
            plan=self.plan,
            dt_s=self.control_dt,
            ground=self.robots.ground,
            correction=self.correction,
            **situation,
        )
        return self.now

    @worked_out_once()
    def compute_rewards_and_terminations(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Weighted reward terms and terminations of `now`, each (W, N); success is counted in `held`."""
        now, cfg = self.now, self.cfg
        now.means = {name: self._mean(name, term) for name, term in cfg.means.items()}
        terminations = {name: t.func(now, **t.params) for name, t in cfg.terminations.items()}
        terms = {
            name: t.weight * (terminations[self._shared[name]] if name in self._shared else t.func(now, **t.params))
            for name, t in cfg.rewards.items()
        }
        self.held = torch.where(cfg.success.func(now, **cfg.success.params), self.held + 1, 0)
        return terms, terminations

    def _mean(self, name: str, term: MeanTerm) -> Tensor:
        """Mean (W, N, k) over the term's window, which slides on by this step."""
        value = term.func(self.now, **term.params)
        self.windows[name] = torch.cat([self.windows[name][:, :, 1:], value.unsqueeze(2)], dim=2)
        return self.windows[name].mean(2)

    def advance(self, action: Tensor, time_s: Tensor, generator: torch.Generator, where: Where) -> None:
        """Update memory; then move the commands, and apply the events that are due.

        `where(condition (W,), change)` calls `change` of the worlds in which it holds.
        """
        self.memory = update_memory(self.cfg.observation, self.policy_input, action)
        self.last_action = action
        if self.shield is not None:
            self.last_correction = self._change
        if self.cfg.update_commands is not None:
            self.command = self.cfg.update_commands(self.plan, time_s.view(-1, 1, 1))
        if self.cfg.course is not None:
            self.plan = courses.advance(self.cfg.course, self.now)
            self.command = {**self.command, "goal_pos": courses.goal_of(self.plan)}
        for name in self.due:
            self.due[name] -= self.control_dt
            where(self.due[name] <= 0, partial(self._happen, name, self.randomisation[name], generator))

    def _happen(self, name: str, term: EventTerm, generator: torch.Generator, worlds: Tensor) -> None:
        """Apply an event to `worlds` (K,), and draw when it comes again."""
        self._apply(name, term, worlds, generator)
        self.due[name][worlds] = _wait(term.interval_range_s, len(worlds), generator)

    def _apply(self, name: str, term: EventTerm, worlds: Tensor, generator: torch.Generator) -> None:
        """ValueError that names the term of a range which is impossible."""
        try:
            term.func(self.robots, worlds, generator, **term.params)
        except ValueError as error:
            raise ValueError(f"randomisation {name!r}: {error}") from error

    def measure(self, worlds: Tensor, messages: Tensor | None, generator: torch.Generator) -> Measured:
        """What robots of `worlds` (K,) sense, receive of the team's `messages` (K, M, 7), and see: (K, N, ...)."""
        state = self.robots.sense(worlds, self.noise, generator)
        held = may_hold(self.robots.held_states)
        if held:
            state = self._held(worlds, state, self.measured[0])
        peers, pos = _no_peers(*state.base_pos.shape[:2]), state.base_pos
        if self.hears and messages is not None:
            known = self.robots.receive(worlds, messages, generator)
            if self.num_peers:
                peers = self.robots.nearest(known, pos, self.num_peers, self.cfg.observation.peer_range_m)
            if self.num_shield_peers:
                drones = torch.where(self._no_peer, torch.inf, known)
                self._show_shield(worlds, self.robots.nearest(drones, pos, self.num_shield_peers))
        objects = self.world.see(self.robots, worlds, self.noise, generator)
        if held:
            objects = {name: self._held(worlds, seen, self.measured[2][name]) for name, seen in objects.items()}
        return state, peers, objects

    def _held(self, worlds: Tensor, new: Any, last: Any) -> Any:
        """What was measured `last` (W, N, ...), a control step older, where that is held; else `new` (K, N, ...)."""
        held = self.robots.held_states[worlds] > 0
        kept = {name: getattr(last, name)[worlds] for name in last.__slots__}
        kept["age"] = kept["age"] + self.control_dt
        return type(new)(
            **{
                name: torch.where(held.view(*held.shape, *[1] * (value.ndim - 2)), value, getattr(new, name))
                for name, value in kept.items()
            }
        )

    @property
    def hears(self) -> bool:
        """Whether the policy or the shield of these robots asks for what the team sends."""
        return bool(self.num_peers or self.num_shield_peers)

    def _show_shield(self, worlds: Tensor, peers: Peers) -> None:
        if len(worlds) == self.num_envs:
            self.shield_peers = peers
            return
        for name in Peers.__slots__:
            getattr(self.shield_peers, name)[worlds] = getattr(peers, name)

    def observe(self, given: PolicyInput, now: Transition | None) -> Observation:
        """What is seen of `given`, and what critics see of the truth `now`: None where they see nothing of it."""
        cfg = self.cfg.observation
        hidden = [t.func(now, **t.params) for t in cfg.privileged.values()]
        return observe(cfg, given, torch.cat(hidden, dim=-1) if hidden else None)

    def observe_after_start(self, worlds: Tensor, measured: Measured) -> None:
        """Replace what was measured and seen in `worlds` (K,) by the first of an episode."""
        state, peers, objects = measured
        pairs: list[tuple[Any, Any]] = [(self.measured[0], state), (self.measured[1], peers)]
        pairs += [(self.measured[2][name], value) for name, value in objects.items()]
        for full, part in pairs:
            for name in part.__slots__:
                getattr(full, name)[worlds] = getattr(part, name)  # measured in this very step: it is not shared
        command = {name: value[worlds] for name, value in self.command.items()}
        memory = {name: value[worlds] for name, value in self.memory.items()}
        now = self.now.of(worlds) if self.cfg.observation.privileged else None
        first = self.observe(PolicyInput(state, peers, objects, command, memory, self.last_correction[worlds]), now)
        self.obs = Observation(
            *(_replaced(getattr(self.obs, name), worlds, getattr(first, name)) for name in Observation.__slots__)
        )


def _no_peers(worlds: int, robots: int) -> Peers:
    none = torch.zeros(worlds, robots, 0, 3)
    return Peers(none, none, none[..., 0], none[..., 0].bool())


def _replaced(old: Tensor, rows: Tensor, value: Tensor) -> Tensor:
    if not value.numel():
        return old
    new = old.clone()
    new[rows] = value
    return new


def _wait(range_s: tuple[float, float] | None, count: int, generator: torch.Generator) -> Tensor:
    low, high = range_s or (0.0, 0.0)
    return low + (high - low) * torch.rand(count, generator=generator)
