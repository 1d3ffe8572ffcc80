"""Physics back ends: each steps many worlds of one scene and hands their states out as torch tensors."""

from typing import Protocol

import numpy as np
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

    def set_masses(self, world: int, bodies: np.ndarray, mass_kg: np.ndarray, inertia: np.ndarray) -> None:
        """Give `bodies` (N,) of one world masses (N,) kg and principal inertias (N, 3) kg m^2."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        """All that a bitwise continuation needs, the masses of every world included."""

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Restore `state_dict()`."""
