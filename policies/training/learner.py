"""What robots of one role learn with: networks, optimiser and the experience of an iteration."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from policies.algorithms import ppo
from policies.algorithms.ppo import PPOCfg
from policies.algorithms.rollout import Episodes, Rollout
from policies.checkpoint import CheckpointError
from policies.networks.actor_critic import Actor, Critic
from policies.networks.normaliser import ObsLayout
from policies.threads import Workers
from policies.training.nan_guard import NanGuard
from sim.task import GroupCfg, MixedTaskCfg, TaskCfg

WORLD = ("success_rate", "episode_steps")  # what an episode comes to for all roles alike
KEPT = ("obs", "action", "log_prob", "reward")  # of the rollout, for study when an update goes wrong


class AgentGroup(Protocol):
    """What a learner must know of the robots it learns for."""

    @property
    def obs_layout(self) -> ObsLayout:
        """How their observation is laid out."""

    @property
    def action_dim(self) -> int:
        """Channels of one robot."""


class Learner:
    """Learns for all robots of one role; `name` is the role's, empty where a team has only one."""

    def __init__(
        self, name: str, group: AgentGroup, obs: Tensor, role: GroupCfg | None, hyper: PPOCfg, team_critic: bool
    ) -> None:
        """`obs` (W, N, D) is their first observation; `role` tells which components of an action move anything."""
        self.name, self.hyper = name, hyper
        self.layout, self.action_dim = group.obs_layout, group.action_dim
        driven = [scale != 0.0 for scale in role.action.scale] if role is not None else None
        self.actor = Actor(self.layout, self.action_dim, hyper.hidden, hyper.peer_embed, hyper.init_std, driven)
        self.critic = Critic(self.layout, "team" if team_critic else "own", hyper.hidden, hyper.peer_embed)
        self.optimiser = ppo.make_optimiser(self.actor, self.critic, hyper)
        self.rollout = Rollout(hyper.num_steps, obs, self.action_dim)
        self.episodes = Episodes(obs.new_zeros(obs.shape[0]))

    @property
    def steps(self) -> int:
        """Agent steps of one rollout."""
        return self.rollout.log_prob.numel()

    def learn(
        self, last_obs: Tensor, generator: torch.Generator, guard: NanGuard, workers: Workers, fraction: float
    ) -> dict[str, float]:
        """Improve on what was collected up to `last_obs` (W, N, D); returns what `ppo.update` says."""
        rollout = self.rollout
        samples = rollout.samples(self.actor, self.critic, last_obs, self.hyper, workers)
        losses = ppo.update(self.actor, self.critic, self.optimiser, samples, self.hyper, generator, workers, fraction)
        seen = {name: getattr(rollout, name) for name in KEPT}
        guard.check_update(losses, (("actor", self.actor), ("critic", self.critic)), self.name, **seen)
        # Only now: while the samples were taken and learned from, the statistics had to stand still.
        self.actor.normaliser.update(rollout.obs)
        return losses

    def state_dict(self) -> dict[str, Any]:
        """All that the next iteration depends on, and what the networks are built from."""
        return {
            "ppo": asdict(self.hyper),
            "layout": asdict(self.layout),  # type: ignore[call-overload]
            "action_dim": self.action_dim,
            "actor": self.actor.state_dict(),
            "critic": self.critic.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "running": self.episodes.running,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken; CheckpointError when it was with other hyperparameters."""
        changed = [name for name, value in asdict(self.hyper).items() if state["ppo"].get(name) != value]
        if changed:
            raise CheckpointError(f"cannot resume with other hyperparameters: {', '.join(changed)} differ")
        for name in ("actor", "critic", "optimiser"):
            getattr(self, name).load_state_dict(state[name])
        self.episodes.running.copy_(state["running"])

    def take_networks(self, state: Mapping[str, Any], source: object) -> None:
        """Begin with the networks of another run's learner, normalisers and spread of the actions included.

        CheckpointError, which names `source`, when they are of another size. That robots see and do the same there, in
        the same order, is for the caller to know.
        """
        try:
            for name in ("actor", "critic"):
                getattr(self, name).load_state_dict(state[name])
        except RuntimeError as error:
            theirs, mine = _sizes(state), _sizes(self.state_dict())
            raise CheckpointError(
                f"cannot start from {source}: own, peer and critic features, channels, hidden units and inputs of the "
                f"critic are {theirs} there and {mine} here"
            ) from error


def _sizes(state: Mapping[str, Any]) -> tuple[int, ...]:
    """What the networks of a saved learner were built from."""
    critic = sum(value.shape[-1] for name, value in state["critic"].items() if name.endswith("own.weight"))
    return (*state["layout"].values(), state["action_dim"], state["ppo"]["hidden"], critic)


def role_of(task: TaskCfg | MixedTaskCfg, name: str) -> GroupCfg:
    """The role `name` of a task; the task itself where robots are all alike and the name is empty."""
    if isinstance(task, TaskCfg):
        return task
    if name not in task.roles:
        raise ValueError(f"task {task.name!r} has no role {name!r}; it has: {', '.join(task.roles)}")
    return task.roles[name]


def hyperparameters(role: Any, owner: str) -> PPOCfg:
    """Defaults with the overrides of a GroupCfg (or None); ValueError names one of `owner`'s that does not exist."""
    overrides = dict(role.training.get("ppo", {})) if role is not None else {}
    known = {field.name for field in fields(PPOCfg)}
    unknown = sorted(set(overrides) - known)
    if unknown:
        raise ValueError(f"{owner} overrides ppo.{unknown[0]}; there are {', '.join(sorted(known))}")
    return replace(PPOCfg(), **overrides)


def together(numbers: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Each role's numbers in one dict, under its name where there are several; an episode's outcome is all the same."""
    if len(numbers) == 1:
        return dict(*numbers.values())
    out = {name: value for part in numbers.values() for name, value in part.items() if name in WORLD}
    for role, part in numbers.items():
        out |= {f"{role}/{name}": value for name, value in part.items() if name not in WORLD}
    return out
