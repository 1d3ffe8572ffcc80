"""A team of points on a plane with the interface of TeamEnv: a task that learns in seconds, for tests of learning."""

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
            "failures": {"left_arena": terminated},
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
