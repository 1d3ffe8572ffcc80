"""Physics back ends: each steps many worlds of one scene and hands their states out as torch tensors."""

from typing import Protocol

import torch

from sim.scene import Scene


class Physics(Protocol):
    """Many worlds of one scene (W worlds, n physics steps in a control step)."""

    scene: Scene
    num_worlds: int

    def reset(self, worlds: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor, act: torch.Tensor) -> None:
        """Put `worlds` (K,) into the given states (K, nq), (K, nv), (K, na)."""

    def step(self, ctrl: torch.Tensor) -> None:
        """Advance every world by n physics steps under ctrl (W, n, nu)."""

    def trajectory(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Positions (W, n, nq) and velocities (W, n, nv) after each physics step of the last control step."""
