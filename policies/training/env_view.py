"""An environment as a learner sees it: one team of groups, observations in parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from policies.observation import Observation


@dataclass
class EnvStep:
    """What came of a control step."""

    obs: dict[str, Observation]
    final_obs: dict[str, Observation]  # what was seen last, before a restart
    reward: dict[str, Tensor]  # (W, N)
    reward_terms: dict[str, dict[str, Tensor]]  # (W, N), weighted
    terminations: dict[str, dict[str, Tensor]]  # (W, N) bool
    terminated: dict[str, Tensor]  # (W, N) bool
    truncated: dict[str, Tensor]  # (W, N) bool
    ended: Tensor  # (W,) bool
    success: Tensor  # (W,) bool, meaningful where the episode ended, as the next one
    episode_length: Tensor  # (W,)


class TeamView:
    """Groups by name, whether or not the environment has several."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.many = not hasattr(env, "obs_layout")
        self.groups: dict[str, Any] = env.groups if hasattr(env, "groups") else {"point": env}
        self.only: str = "" if self.many else next(iter(self.groups))
        self.task = getattr(env, "task", None)

    def reset(self, seed: int | None = None, **options: Any) -> dict[str, Observation]:
        """Start every world anew."""
        return self._parts(self.env.reset(seed, **options))

    def step(self, actions: Mapping[str, Tensor]) -> EnvStep:
        """One control step of every world."""
        return self.seen(self.env.step(actions if self.many else actions[self.only]))

    @property
    def obs(self) -> dict[str, Observation]:
        """What is seen now."""
        return self._parts(self.env.obs)

    def seen(self, outcome: tuple) -> EnvStep:
        """The step as data."""
        obs, reward, terminated, truncated, info = outcome
        terms, ways = info["reward_terms"], info["terminations"]
        return EnvStep(
            obs=self._parts(obs),
            final_obs=self._parts(info["terminal_obs"]),
            reward=self._named(reward),
            reward_terms=terms if self.many else {self.only: terms},
            terminations=ways if self.many else {self.only: ways},
            terminated=self._named(terminated),
            truncated=self._named(truncated),
            ended=info["ended"] if "ended" in info else (terminated | truncated).any(-1),
            success=info["success"],
            episode_length=info["episode_length"],
        )

    def _named(self, value: Any) -> dict[str, Any]:
        return dict(value) if isinstance(value, Mapping) else {self.only: value}

    def _parts(self, obs: Any) -> dict[str, Observation]:
        return {name: _split(value, self.groups[name].obs_layout) for name, value in self._named(obs).items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)


def _split(obs: Tensor, layout: Any) -> Observation:
    """An observation (..., D) as its parts."""
    both = layout.own_dim + layout.critic_dim
    peers = obs[..., both:].unflatten(-1, (-1, layout.peer_dim + 1))
    own, critic = obs[..., : layout.own_dim], obs[..., layout.own_dim : both]
    return Observation(own, peers[..., : layout.peer_dim], peers[..., layout.peer_dim], critic)
