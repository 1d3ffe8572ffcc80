"""Points with the interface of TeamEnv, and unlike ones with that of MixedEnv: they learn in seconds, for tests."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch

from sim.task import ObsLayout

Tensor = torch.Tensor


class PointTeam:
    """W worlds of N points, pushed by their action (2) towards the origin; leaving the arena ends the episode."""

    obs_layout = ObsLayout(own_dim=4, peer_dim=2)
    action_dim = 2

    def __init__(self, num_worlds: int = 16, num_agents: int = 2, seed: int = 0, episode_steps: int = 20) -> None:
        self.num_worlds, self.num_agents, self.episode_steps = num_worlds, num_agents, episode_steps
        self.generator = torch.Generator().manual_seed(seed)
        self.pos = torch.zeros(num_worlds, num_agents, 2)
        self.vel = torch.zeros(num_worlds, num_agents, 2)
        self.clock = torch.zeros(num_worlds, dtype=torch.long)

    def reset(self, seed: int | None = None) -> Tensor:
        """All worlds start afresh; observation (W, N, D)."""
        if seed is not None:
            self.generator.manual_seed(seed)
        self._start(torch.ones(self.num_worlds, dtype=torch.bool))
        return self._observe()

    def stagger(self) -> None:
        """Spread the worlds over the length of an episode."""
        self.clock = torch.randint(0, self.episode_steps, (self.num_worlds,), generator=self.generator)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Any]]:
        """Push each point by action (W, N, 2), clipped to [-1, 1]."""
        action = action.clamp(-1, 1)
        self.vel = 0.8 * self.vel + 0.2 * action
        self.pos = self.pos + 0.3 * self.vel
        self.clock += 1
        distance = self.pos.norm(dim=-1)
        terms = {"distance": -distance, "effort": -0.01 * action.square().sum(-1)}
        terminated = distance > 3.0
        ended = terminated.any(-1) | (self.clock >= self.episode_steps)
        truncated = ended[:, None] & ~terminated
        info = {
            "reward_terms": terms,
            "terminal_obs": self._observe(),
            "terminations": {"left_arena": terminated},
            "success": (distance < 0.3).all(-1),
            "min_separation_m": self._separation(),
            "episode_length": self.clock.clone(),
        }
        self._start(ended)
        return self._observe(), sum(terms.values()), terminated, truncated, info

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the next step depends on."""
        kept = {"pos": self.pos, "vel": self.vel, "clock": self.clock, "generator": self.generator.get_state()}
        return {name: value.clone() for name, value in kept.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Exactly what `state_dict` returned."""
        self.pos, self.vel, self.clock = (state[name].clone() for name in ("pos", "vel", "clock"))
        self.generator.set_state(state["generator"])

    def _start(self, worlds: Tensor) -> None:
        shape = (int(worlds.sum()), self.num_agents, 2)
        self.pos[worlds] = 2 * torch.rand(shape, generator=self.generator) - 1
        self.vel[worlds] = 0.0
        self.clock[worlds] = 0

    def _observe(self) -> Tensor:
        own = torch.cat([self.pos, self.vel], dim=-1)
        index = torch.arange(self.num_agents)
        others = torch.stack([index[index != i] for i in index])
        offset = self.pos[:, others] - self.pos[:, :, None]
        valid = (offset.norm(dim=-1, keepdim=True) < 2.0).float()
        return torch.cat([own, torch.cat([offset * valid, valid], dim=-1).flatten(-2)], dim=-1)

    def _separation(self) -> Tensor:
        gaps = (self.pos[:, :, None] - self.pos[:, None]).norm(dim=-1) + 99 * torch.eye(self.num_agents)
        return gaps.flatten(1).min(-1).values


class PointPair:
    """W worlds of one walker, pushed (2) towards the origin of a plane, and two carts, pushed (1) along x under it."""

    def __init__(self, num_worlds: int = 16, seed: int = 0, episode_steps: int = 20) -> None:
        self.num_worlds, self.episode_steps = num_worlds, episode_steps
        self.groups = {
            "walker": SimpleNamespace(obs_layout=ObsLayout(own_dim=4, peer_dim=0), action_dim=2),
            "cart": SimpleNamespace(obs_layout=ObsLayout(own_dim=3, peer_dim=0), action_dim=1),
        }
        self.generator = torch.Generator().manual_seed(seed)
        self.pos = {"walker": torch.zeros(num_worlds, 1, 2), "cart": torch.zeros(num_worlds, 2, 1)}
        self.vel = {name: torch.zeros_like(pos) for name, pos in self.pos.items()}
        self.clock = torch.zeros(num_worlds, dtype=torch.long)

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        """All worlds start afresh; observation (W, N, D) of each role."""
        if seed is not None:
            self.generator.manual_seed(seed)
        self._start(torch.ones(self.num_worlds, dtype=torch.bool))
        return self._observe()

    def stagger(self) -> None:
        """Spread the worlds over the length of an episode."""
        self.clock = torch.randint(0, self.episode_steps, (self.num_worlds,), generator=self.generator)

    def step(self, actions: Mapping[str, Tensor]) -> tuple[dict, dict, dict, dict, dict[str, Any]]:
        """Push each point by its role's action, clipped to [-1, 1]; a cart beyond 3 has failed, and ends its world."""
        for name, action in actions.items():
            self.vel[name] = 0.8 * self.vel[name] + 0.2 * action.clamp(-1, 1)
            self.pos[name] = self.pos[name] + 0.3 * self.vel[name]
        self.clock += 1
        gap = {"walker": self.pos["walker"].norm(dim=-1), "cart": self._aside().abs().squeeze(-1)}
        terms = {name: {"distance": -value} for name, value in gap.items()}
        terminated = {"walker": gap["walker"] > 9.0, "cart": self.pos["cart"].squeeze(-1).abs() > 3.0}
        ended = torch.cat(list(terminated.values()), dim=1).any(-1) | (self.clock >= self.episode_steps)
        info = {
            "reward_terms": terms,
            "terminal_obs": self._observe(),
            "terminations": {name: {"gone": value} for name, value in terminated.items()},
            "ended": ended,
            "success": (gap["walker"] < 0.3).all(-1) & (gap["cart"] < 0.3).all(-1),
            "episode_length": self.clock.clone(),
        }
        self._start(ended)
        truncated = {name: ended[:, None] & ~value for name, value in terminated.items()}
        return self._observe(), {name: -value for name, value in gap.items()}, terminated, truncated, info

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on."""
        points = {part: {n: v.clone() for n, v in getattr(self, part).items()} for part in ("pos", "vel")}
        return {**points, "clock": self.clock.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Exactly what `state_dict` returned."""
        for part in ("pos", "vel"):
            setattr(self, part, {name: value.clone() for name, value in state[part].items()})
        self.clock = state["clock"].clone()
        self.generator.set_state(state["generator"])

    def _start(self, worlds: Tensor) -> None:
        for name, pos in self.pos.items():
            new = 2 * torch.rand((int(worlds.sum()), *pos.shape[1:]), generator=self.generator) - 1
            self.pos[name], self.vel[name] = pos.clone(), self.vel[name].clone()
            self.pos[name][worlds], self.vel[name][worlds] = new, 0.0
        self.clock[worlds] = 0

    def _aside(self) -> Tensor:
        return self.pos["cart"] - self.pos["walker"][..., :1]

    def _observe(self) -> dict[str, Tensor]:
        walker = torch.cat([self.pos["walker"], self.vel["walker"]], dim=-1)
        return {"walker": walker, "cart": torch.cat([self._aside(), self.pos["cart"], self.vel["cart"]], dim=-1)}
