"""Stops training at the first number that is not finite, names where it came from and keeps the state for study."""

from collections.abc import Iterable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class NonFiniteError(ValueError):
    """A NaN or infinity appeared; the message names the term, the world and the file with the state."""


class NanGuard:
    """Checks what goes into learning; `folder` receives `nan_state.pt` when a check fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def check_step(
        self, env: Any, obs: Tensor, reward: Tensor, info: Mapping[str, Any], action: Tensor, role: str = ""
    ) -> None:
        """Raise NonFiniteError when an observation (W, N, D), a reward (W, N) or an action (W, N, U) is not finite.

        `info` is what the step said of these robots, of `role` where there are several.
        """
        # One sum over each is the cheapest complete test: a single NaN or infinity makes it non-finite.
        if isfinite(float(obs.sum() + reward.sum() + action.sum())):
            return
        suspects = [("action", action), *((f"reward term {k!r}", v) for k, v in info["reward_terms"].items())]
        suspects += [("reward", reward), ("terminal observation", info["terminal_obs"]), ("observation", obs)]
        for name, value in suspects:
            bad = (~torch.isfinite(value)).nonzero()
            if len(bad):
                place = _place(bad[0].tolist())
                path = self._dump(env=env, obs=obs, reward=reward, action=action, info=info)
                raise NonFiniteError(
                    f"{name}{_of(role)} is not finite in {place} ({len(bad)} values in all); state saved in {path}"
                )
        path = self._dump(env=env, obs=obs, info=info)
        raise NonFiniteError(f"observations{_of(role)} overflow float32; state saved in {path}")

    def check_update(
        self, losses: Mapping[str, float], modules: Iterable[tuple[str, nn.Module]], role: str = "", **state: Any
    ) -> None:
        """Raise NonFiniteError when a loss or a parameter of `modules` is not finite; `state` is saved with them."""
        named = list(modules)
        culprit = next((name for name, value in losses.items() if not isfinite(value)), None)
        for label, module in named:
            for name, parameter in module.named_parameters():
                if culprit is None and not bool(torch.isfinite(parameter).all()):
                    culprit = f"parameter {label}.{name}"
        if culprit is not None:
            path = self._dump(losses=losses, **{label: module.state_dict() for label, module in named}, **state)
            raise NonFiniteError(f"{culprit}{_of(role)} is not finite after the update; state saved in {path}")

    def _dump(self, env: Any = None, **content: Any) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "nan_state.pt"
        if env is not None:
            content["env"] = env.state_dict()
        torch.save(content, path)
        return path


def _of(role: str) -> str:
    return f" of {role!r}" if role else ""


def _place(index: list[int]) -> str:
    """Readable index of a (W, N, ...) tensor."""
    names = ("world", "robot", "component")
    return ", ".join(f"{name} {i}" for name, i in zip(names, index, strict=False))
