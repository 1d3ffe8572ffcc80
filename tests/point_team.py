"""Points, alike and unlike, that are stepped as a TeamEnv is: they learn in seconds, for tests."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch

from sim.envs.observation import Observation
from sim.envs.state import EnvStep

Tensor = torch.Tensor


class Points:
    """W worlds of points; what pushes them and what is good is for the kinds below."""

    task, device = None, torch.device("cpu")

    def __init__(self, num_envs: int, seed: int, episode_steps: int, shapes: Mapping[str, tuple[int, int]]) -> None:
        """`shapes`: group -> how many points, and along how many axes."""
        self.num_envs, self.episode_steps = num_envs, episode_steps
        self.groups = {name: SimpleNamespace(cfg=None, action_dim=axes) for name, (_, axes) in shapes.items()}
        self.generator = torch.Generator().manual_seed(seed)
        self.pos = {name: torch.zeros(num_envs, *shape) for name, shape in shapes.items()}
        self.vel = {name: torch.zeros_like(pos) for name, pos in self.pos.items()}
        self.clock = torch.zeros(num_envs, dtype=torch.long)

    def reset(self, seed: int | None = None) -> dict[str, Observation]:
        """All worlds start afresh."""
        if seed is not None:
            self.generator.manual_seed(seed)
        self._start(torch.ones(self.num_envs, dtype=torch.bool))
        return self.obs

    def stagger(self) -> None:
        """Spread the worlds over the length of an episode."""
        self.clock = torch.randint(0, self.episode_steps, (self.num_envs,), generator=self.generator)

    def step(self, actions: Mapping[str, Tensor]) -> EnvStep:
        """Push each point by its group's action, clipped to [-1, 1]."""
        for name, action in actions.items():
            self.vel[name] = 0.8 * self.vel[name] + 0.2 * action.clamp(-1, 1)
            self.pos[name] = self.pos[name] + 0.3 * self.vel[name]
        self.clock += 1
        terms, terminations, success = self._judge({n: a.clamp(-1, 1) for n, a in actions.items()})
        terminated = {name: torch.stack(list(found.values())).any(0) for name, found in terminations.items()}
        ended = torch.cat(list(terminated.values()), dim=1).any(-1) | (self.clock >= self.episode_steps)
        last, length, none = self.obs, self.clock.clone(), torch.zeros(self.num_envs)
        self._start(ended)
        return EnvStep(
            obs=self.obs,
            final_obs=last,
            reward={name: sum(parts.values()) for name, parts in terms.items()},
            reward_terms=terms,
            terminations=terminations,
            terminated=terminated,
            truncated={name: ended[:, None] & ~value for name, value in terminated.items()},
            acted={name: torch.ones_like(value) for name, value in terminated.items()},
            ended=ended,
            success=success,
            min_separation_m=none,
            episode_length=length,
            interventions=none,
        )

    def get_state(self) -> dict[str, Any]:
        """Everything that the next step depends on."""
        points = {part: {n: v.clone() for n, v in getattr(self, part).items()} for part in ("pos", "vel")}
        return {**points, "clock": self.clock.clone(), "generator": self.generator.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Exactly what `get_state` returned."""
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


class PointTeam(Points):
    """N points, pushed by their action (2) towards the origin; leaving the arena ends the episode."""

    def __init__(self, num_envs: int = 16, num_agents: int = 2, seed: int = 0, episode_steps: int = 20) -> None:
        self.num_agents = num_agents
        super().__init__(num_envs, seed, episode_steps, {"point": (num_agents, 2)})

    @property
    def obs(self) -> dict[str, Observation]:
        """Own position and velocity; the offset to every other point within 2."""
        pos, index = self.pos["point"], torch.arange(self.num_agents)
        others = torch.stack([index[index != i] for i in index])
        offset = pos[:, others] - pos[:, :, None]
        valid = (offset.norm(dim=-1) < 2.0).float()
        own = torch.cat([pos, self.vel["point"]], dim=-1)
        return {"point": Observation(own, offset * valid[..., None], valid, own[..., :0])}

    def _judge(self, actions: Mapping[str, Tensor]) -> tuple[dict, dict, Tensor]:
        distance = self.pos["point"].norm(dim=-1)
        terms = {"distance": -distance, "effort": -0.01 * actions["point"].square().sum(-1)}
        return {"point": terms}, {"point": {"left_arena": distance > 3.0}}, (distance < 0.3).all(-1)


class PointPair(Points):
    """One walker, pushed (2) towards the origin of a plane, and two carts, pushed (1) along x under it."""

    def __init__(self, num_envs: int = 16, seed: int = 0, episode_steps: int = 20) -> None:
        super().__init__(num_envs, seed, episode_steps, {"walker": (1, 2), "cart": (2, 1)})

    @property
    def obs(self) -> dict[str, Observation]:
        """The walker's position and velocity; how far each cart is from being under it."""
        walker = torch.cat([self.pos["walker"], self.vel["walker"]], dim=-1)
        cart = torch.cat([self._aside(), self.pos["cart"], self.vel["cart"]], dim=-1)
        return {"walker": Observation.alone(walker), "cart": Observation.alone(cart)}

    def _judge(self, actions: Mapping[str, Tensor]) -> tuple[dict, dict, Tensor]:
        """A cart beyond 3 has failed, and ends its world."""
        gap = {"walker": self.pos["walker"].norm(dim=-1), "cart": self._aside().abs().squeeze(-1)}
        gone = {"walker": gap["walker"] > 9.0, "cart": self.pos["cart"].squeeze(-1).abs() > 3.0}
        success = (gap["walker"] < 0.3).all(-1) & (gap["cart"] < 0.3).all(-1)
        return {n: {"distance": -g} for n, g in gap.items()}, {n: {"gone": g} for n, g in gone.items()}, success

    def _aside(self) -> Tensor:
        return self.pos["cart"] - self.pos["walker"][..., :1]
