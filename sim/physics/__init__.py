"""Physics back ends: each steps many worlds of one scene and hands their states out as torch tensors."""

from typing import Protocol

import torch

from sim.scene import Scene


class Physics(Protocol):
    """Many worlds of one scene (W worlds, n physics steps in a control step).

    Columns number the entries of [qpos, qvel], so that position and velocity are read in one go.
    """

    scene: Scene
    num_worlds: int

    def reset(self, worlds: torch.Tensor, qpos: torch.Tensor, qvel: torch.Tensor, act: torch.Tensor) -> None:
        """Put `worlds` (K,) into the given states (K, nq), (K, nv), (K, na), as if they had always been there."""

    def step(self, ctrl: torch.Tensor, force: torch.Tensor | None = None) -> None:
        """Advance every world by n physics steps under ctrl (W, n, nu) and generalised forces (W, nv)."""

    def now(self, columns: torch.Tensor) -> torch.Tensor:
        """Entries `columns` (...) of every world's present state: (W, ...) float32."""

    def recall(self, worlds: torch.Tensor, ago: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """Entries `columns` (N, C) of `worlds` (K,) as they were `ago` (K, N) physics steps before: (K, N, C) float32.

        At least one control step and as many physics steps as `ago` asks for, up to 2 n - 1, are remembered.
        """

    def add_velocity(self, worlds: torch.Tensor, columns: torch.Tensor, change: torch.Tensor) -> None:
        """Add `change` (K, C) to the entries `columns` (C,) of qvel of `worlds` (K,): a push of no duration."""

    def finite(self) -> torch.Tensor:
        """Worlds (W,) whose state is still a state: finite, and no faster than anything real."""

    def field(self, name: str) -> torch.Tensor:
        """A copy of the model's array `name`, such as "body_mass", before any world changed it."""

    def set_field(self, name: str, worlds: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> None:
        """Give entries `index` (I,) of the model's array `name` the `values` (K, I, ...) in `worlds` (K,)."""

    def set_heights(self, worlds: torch.Tensor, shares: torch.Tensor) -> None:
        """Give the scene's height field the nodes `shares` (K, rows x columns), 0 to 1 of its height, in `worlds` (K,).

        They are no part of `state_dict`: whoever made them can make them again, and they are many.
        """

    def state_dict(self) -> dict:
        """All that a bitwise continuation needs, what fields were changed to included."""

    def load_state_dict(self, state: dict) -> None:
        """Restore `state_dict()`."""
