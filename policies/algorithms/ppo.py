"""Proximal policy optimisation (Schulman et al. 2017) with parameters shared by all robots of a group.

With `critic="own"` every robot learns from its own view (IPPO); with "team" from that of all groups (MAPPO). With a
`lag` a rollout waits for so many updates before it is learned from, and may be learned from while the next one is
collected; advantages are V-trace's then, and the policy may move so far from what it is now, not from what acted
(decoupled PPO: Hilton et al. 2022, arXiv:2110.00641).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from hardware.ranges import check_fields
from policies.algorithms.algorithm import Clock, Experience, Group, common, labelled, over_rows, weights
from policies.algorithms.constraints import Limits
from policies.algorithms.gae import gae, next_values
from policies.algorithms.ppo_update import Samples, make_optimiser, update
from policies.algorithms.rollout import Rollout, parts_of
from policies.algorithms.smooth import SmoothCfg, check_chunk
from policies.algorithms.vtrace import vtrace
from policies.networks.critic import Critic
from policies.networks.normaliser import Features
from policies.networks.policy import GaussianPolicy, log_prob
from policies.threads import Workers
from sim.envs.observation import Observation
from sim.tree import on_tensors


@dataclass(frozen=True)
class PPOCfg(SmoothCfg):
    """Hyperparameters; a task overrides them by name in `GroupCfg.training["ppo"]`."""

    NAME: ClassVar[str] = "ppo"

    num_steps: int = 16  # control periods per iteration
    epochs: int = 4
    minibatch: int = 4096  # agent steps
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float | None = 0.2  # of the probability ratio; None for a plain policy gradient
    value_clip: float | None = None  # of the value's change, in standard deviations of the return
    value_coef: float = 1.0
    entropy_coef: float = 0.0
    learning_rate: float = 1e-3
    schedule: Literal["adaptive", "linear", "constant"] = "adaptive"
    target_kl: float = 0.01  # of the adaptive schedule
    max_learning_rate: float = 3e-3  # of the adaptive schedule
    max_grad_norm: float | None = 1.0
    normalise_advantage: bool = True
    normalise_per: Literal["group", "robot"] = "group"  # whose advantages have mean 0 and variance 1
    normalise_terms: bool = False  # each term of the reward has its value, and its advantage is normalised by itself
    normalise_returns: bool = True
    min_std: float = 0.05
    optimiser: Literal["adam", "sgd"] = "adam"
    critic: Literal["own", "team"] = "own"
    limits: Mapping[str, float] = field(default_factory=dict)  # term of the reward -> what it may cost a step, at most
    critic_first: int = 0  # agent steps in which only critics learn: those of policies that were taken over are new
    limit_rate: float = 0.05  # rise of a multiplier in an update where the cost is twice its limit
    lag: int = 0  # updates between a policy that acts and the one that learns from it
    rho_max: float = 1.0  # with a lag: truncates the weight of a step's own error
    c_max: float = 1.0  # with a lag: truncates the weight of what comes after a step
    corrected: bool = True  # with a lag; False: as if the policy that learns had acted

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(f"{self.NAME}.", self, num_steps=(1, 100_000), epochs=(1, 1000), minibatch=(1, inf))
        check_fields(f"{self.NAME}.", self, gamma=(0, 1), gae_lambda=(0, 1), clip=(1e-3, 10), value_clip=(1e-3, 1000))
        check_fields(f"{self.NAME}.", self, value_coef=(0, 1000), entropy_coef=(0, 1000), max_grad_norm=(1e-6, 1e6))
        check_fields(f"{self.NAME}.", self, learning_rate=(0, 1), max_learning_rate=(0, 1), min_std=(1e-6, 1))
        check_fields(f"{self.NAME}.", self, target_kl=(1e-6, 10))
        check_fields(f"{self.NAME}.", self, limit_rate=(0, 1000), critic_first=(0, inf))
        check_fields(f"{self.NAME}.", self, lag=(0, 1000), rho_max=(1e-3, 1e6), c_max=(1e-3, 1e6))
        for name, limit in self.limits.items():
            if not 0 < limit < inf:
                raise ValueError(f"{self.NAME}.limits {name} = {limit}: wanted more than 0")
        if self.limits and self.normalise_terms:
            raise ValueError(f"{self.NAME}.limits with normalise_terms: a limit sets how much its term counts")
        if self.normalise_terms and type(self).normalise_advantage and not self.normalise_advantage:
            raise ValueError(
                f"{self.NAME}.normalise_advantage = False: {self.NAME}.normalise_terms = True normalises each term's, "
                "and their sum once more: leave both on, or terms off"
            )


class PPO:
    """See `Algorithm`. Each group has its policy, its critic and one optimiser for both."""

    Cfg = PPOCfg
    Policy = GaussianPolicy
    replay = None

    def __init__(self, groups: Mapping[str, Group], generator: torch.Generator, workers: Workers) -> None:
        self.groups, self.generator, self.workers = groups, generator, workers
        self.horizon: int = common(groups, "num_steps")
        self.lag: int = common(groups, "lag")
        self.policies: dict[str, GaussianPolicy] = {}
        self.critics: dict[str, Critic] = {}
        for name, group in groups.items():
            net = group.network
            check_chunk(name, group)
            if self.lag and net.chunk > 1:
                lag = f"{group.cfg.NAME}.lag"
                both = f"network.chunk = {net.chunk} of {name!r} with {lag} = {self.lag}"
                raise ValueError(f"{both}: one of the two; --{lag} 0 lets no rollout wait")
            if net.chunk > self.horizon:
                steps = f"{group.cfg.NAME}.num_steps = {self.horizon}"
                raise ValueError(
                    f"network.chunk = {net.chunk} of {name!r} with {steps}: no longer, or rollouts hold no decision"
                )
            self.policies[name] = GaussianPolicy(**group.policy, init_std=net.init_std)
            others = {n: g.dims.policy + g.dims.privileged for n, g in groups.items() if n != name}
            self.critics[name] = Critic(
                group.dims, group.cfg.critic, net, group.shape[1], others, *parts_of(group),
                mirror=self.policies[name].mirror,
            )  # fmt: skip
        self.optimisers = {n: make_optimiser(p, self.critics[n], groups[n].cfg) for n, p in self.policies.items()}
        self.rollouts, self.limits = self.make_rollouts(), Limits(groups)
        self.waiting: list[tuple[dict[str, Rollout], Mapping[str, Observation]]] = []  # oldest first
        self.learned: tuple[dict[str, Rollout], dict[str, dict[str, float]]] | None = None  # and not settled yet
        self.agent_steps = 0  # taken before this update

    def make_rollouts(self) -> dict[str, Rollout]:
        """Room for one iteration's experience of every group."""
        return {name: Rollout(self.horizon, group) for name, group in self.groups.items()}

    def record(self, t: int, team: Mapping[str, Experience]) -> None:
        team = self.earned(team)
        for name, rollout in self.rollouts.items():
            rollout.record(t, team[name])

    def earned(self, team: Mapping[str, Experience]) -> Mapping[str, Experience]:
        """The same steps with the rewards that are learned from."""
        return self.limits.priced(team)

    def pending_update(self, clock: Clock) -> Callable[[], None] | None:
        return partial(self._learn_oldest, clock) if 0 < self.lag <= len(self.waiting) else None

    def update(self, last: Mapping[str, Observation], clock: Clock) -> dict[str, float]:
        self.waiting.append((self.rollouts, on_tensors(torch.clone, last)))
        if self.learned is None and len(self.waiting) > self.lag:
            self._learn_oldest(clock)
        if self.learned is None:
            self.rollouts = self.make_rollouts()
            return {}
        (self.rollouts, losses), self.learned = self.learned, None
        return self.settled(self.rollouts, losses)

    def _learn_oldest(self, clock: Clock) -> None:
        rollouts, then = self.waiting.pop(0)
        self.learned = rollouts, self.learn(rollouts, then, clock)

    def learn(
        self, rollouts: Mapping[str, Rollout], last: Mapping[str, Observation], clock: Clock
    ) -> dict[str, dict[str, float]]:
        """Gradient steps of all groups from `rollouts` that led to the observations `last`; returns what to log."""
        samples = self.samples(rollouts, last)
        self.agent_steps = clock.agent_steps
        return self.improve(samples, clock.fraction)

    def settled(self, rollouts: Mapping[str, Rollout], losses: dict[str, dict[str, float]]) -> dict[str, float]:
        """What changes once `rollouts` are learned from and the last one is recorded; returns what to log."""
        for name, said in losses.items():
            said.update(self.limits.update(name, self.workers.shards))
        # Only now: while the samples were taken and learned from, the statistics had to stand still.
        for name, policy in self.policies.items():
            policy.normaliser.update(rollouts[name].obs, self.workers.shards)
        return labelled(losses)

    def improve(self, samples: Mapping[str, Samples], fraction: float) -> dict[str, dict[str, float]]:
        """Gradient steps of every group from its samples; `fraction` of the training is over."""
        return {name: self.improve_group(name, samples[name], fraction) for name in self.policies}

    def improve_group(self, name: str, samples: Samples, fraction: float) -> dict[str, float]:
        """Gradient steps of one group; returns means of the losses."""
        return update(
            self.policies[name], self.critics[name], self.optimisers[name], samples, self.groups[name].cfg,
            self.generator, self.workers, fraction, self.agent_steps < self.groups[name].cfg.critic_first,
        )  # fmt: skip

    @torch.no_grad()
    def samples(self, rollouts: Mapping[str, Rollout], last: Mapping[str, Observation]) -> dict[str, Samples]:
        """Advantages, and everything flattened to (T x W, N, ...) with the observations normalised once."""
        features = self._features({name: rollout.rows() for name, rollout in rollouts.items()})
        after = self._features(last)
        finals = {name: rollout.finals() for name, rollout in rollouts.items()}
        ended = self._features(finals) if all(obs is not None for obs in finals.values()) else None
        out = {}
        for name, rollout in rollouts.items():
            critic = self.critics[name]

            def value(rows: slice, name: str = name, critic: Critic = critic) -> Tensor:
                return critic.value(*_team({n: sliced(f, rows) for n, f in features.items()}, name))

            shape = rollout.reward.shape
            values = over_rows(self.workers, value, shape[0] * shape[1]).reshape(shape)
            last_value = critic.value(*_team(after, name))
            terminal = critic.value(*_team(ended, name)).flatten(0, 1) if ended else last_value[:0, 0]
            following = next_values(values, last_value, rollout.ended, terminal)
            own, others = _team(features, name)
            density, advantages, returns, factor = self.targets(name, rollout, own, values, following)
            if rollout.terms:  # what a critic guesses of a term that did not occur is noise, and would be blown up
                advantages = advantages * self.workers.shards.joined(rollout.occurred()[None]).any(0)
            columns = (x.flatten(0, 1) for x in (rollout.action, density, values, advantages, returns))
            action, density, values, advantages, returns = columns
            out[name] = Samples(own, others if critic.groups else {}, action, density, values, advantages, returns)
            out[name].factor = None if factor is None else factor.flatten(0, 1)
            out[name].next_row = rollout.next_row() if self.groups[name].cfg.temporal_smoothness else None
            out[name].weight = weights(rollout.counts().flatten(0, 1), self.workers.shards)
        return out

    def targets(
        self, name: str, rollout: Rollout, own: Features, values: Tensor, following: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Log-probabilities that the policy is compared with, advantages, returns and a factor, each (T, W, N).

        Values, advantages and returns are (T, W, N, K) where K terms of the reward are learned apart.
        own (T x W, N, .) is what the robots see; `following` as in `gae`.
        """
        cfg, shaped = self.groups[name].cfg, rollout.as_reward
        terminated, ended = shaped(rollout.terminated), shaped(rollout.ended)
        if self.lag:
            now, ratio = self._log_prob_now(name, rollout, own)
            rho, c = ratio.clamp(max=cfg.rho_max), cfg.gae_lambda * ratio.clamp(max=cfg.c_max)
            weights = shaped(rho), shaped(c)
            found = vtrace(rollout.reward, values, following, *weights, terminated, ended, cfg.gamma)
            return now, *found, rho
        lam: Any = cfg.gae_lambda
        if rollout.decides is not None:  # the periods of a chunk are one step: between them there is no value
            lam = shaped(torch.where(rollout.decides.roll(-1, 0), lam, 1.0))
        found = gae(rollout.reward, values, following, terminated, ended, cfg.gamma, lam)
        return rollout.log_prob, *found, None

    def _log_prob_now(self, name: str, rollout: Rollout, own: Features) -> tuple[Tensor, Tensor]:
        """Log-probabilities (T, W, N) of what was done by the policy as it is now, and their ratios to those then."""
        policy, action = self.policies[name], rollout.action.flatten(0, 1)

        def density(rows: slice) -> Tensor:
            return log_prob(action[rows], policy.mean(sliced(own, rows)), policy.log_std, policy.driven)

        now = over_rows(self.workers, density, len(action)).view_as(rollout.log_prob)
        change = (now - rollout.log_prob) * rollout.acted  # an action that was not felt changes nothing
        return now, change.exp() if self.groups[name].cfg.corrected else torch.ones_like(now)

    def _features(self, obs: Mapping[str, Any]) -> dict[str, Features]:
        return {name: policy.normaliser(obs[name]) for name, policy in self.policies.items()}

    def networks(self) -> dict[str, nn.Module]:
        return labelled({name: {"policy": net, "critic": self.critics[name]} for name, net in self.policies.items()})

    def _parts(self) -> dict[str, Mapping[str, Any]]:
        return {"critics": self.critics, "optimisers": self.optimisers}

    def state_dict(self) -> dict[str, Any]:
        parts = {part: {n: value.state_dict() for n, value in held.items()} for part, held in self._parts().items()}
        waiting = [({name: vars(rollout) for name, rollout in team.items()}, last) for team, last in self.waiting]
        return {**parts, "limits": self.limits.state_dict(), "costs": self.limits.sums, "waiting": waiting}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for part, held in self._parts().items():
            for name, value in held.items():
                value.load_state_dict(state[part][name])
        self.limits.load_state_dict(state["limits"])
        self.limits.sums = {name: dict(held) for name, held in state["costs"].items()}
        self.waiting = []
        for team, last in on_tensors(lambda tensor: tensor.to(self.generator.device), state["waiting"]):
            rollouts = self.make_rollouts()
            for name, rollout in rollouts.items():
                vars(rollout).update(team[name])
            self.waiting.append((rollouts, last))

    def start_from(self, state: Mapping[str, Any] | None) -> None:
        """The critics; RuntimeError where they are of another size."""
        if state is None:
            return
        for name, critic in self.critics.items():
            critic.load_state_dict(state["critics"][name])


def sliced(features: Features, rows: slice) -> Features:
    """Some `rows` of features (S, N, .)."""
    return Features(features.own[rows], features.peers[:, rows], features.valid[:, rows], features.privileged[rows])


def _team(features: Mapping[str, Features], name: str) -> tuple[Features, dict[str, Tensor]]:
    """Features of the group `name`, and what all robots of each other group see and only critics are shown."""
    return features[name], {other: value.whole() for other, value in features.items() if other != name}
