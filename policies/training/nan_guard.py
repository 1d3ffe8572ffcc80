"""Stops training at the first number that is not finite, names where it came from and keeps the state for study."""

from collections.abc import Mapping
from dataclasses import asdict
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

    def check_step(self, env: Any, action: Tensor, step: Any, group: str, several: bool) -> None:
        """Raise NonFiniteError when an action (W, N, U), or what an `EnvStep` brought to its group, is not finite."""
        # One sum over each is the cheapest complete test: a single NaN or infinity makes it non-finite.
        obs, reward = step.obs[group], step.reward[group]
        label = f" of {group!r}" if several else ""
        seen = {name: getattr(obs, name) for name in ("policy", "neighbours", "privileged")}
        if isfinite(float(sum(tensor.sum() for tensor in seen.values()) + reward.sum() + action.sum())):
            return
        suspects = [("action", action)]
        suspects += [(f"reward term {name!r}", value) for name, value in step.reward_terms[group].items()]
        suspects += [("reward", reward), *((f"observation ({name})", value) for name, value in seen.items())]
        path = self._dump(env=env, action=action, step=asdict(step))
        for name, value in suspects:
            bad = (~torch.isfinite(value)).nonzero()
            if len(bad):
                place = f"{_place(bad[0].tolist())} ({len(bad)} values in all)"
                raise NonFiniteError(f"{name}{label} is not finite in {place}; state saved in {path}")
        raise NonFiniteError(f"observations{label} overflow float32; state saved in {path}")

    def check_update(self, losses: Mapping[str, float], networks: Mapping[str, nn.Module]) -> None:
        """Raise NonFiniteError when a loss or a parameter of the `networks` is not finite; they are saved."""
        culprit = next((name for name, value in losses.items() if not isfinite(value)), None)
        for label, network in networks.items():
            for name, parameter in network.named_parameters():
                if culprit is None and not bool(torch.isfinite(parameter).all()):
                    culprit = f"parameter {label}.{name}"
        if culprit is not None:
            path = self._dump(losses=losses, **{label: network.state_dict() for label, network in networks.items()})
            raise NonFiniteError(f"{culprit} is not finite after the update; state saved in {path}")

    def _dump(self, env: Any = None, **content: Any) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "nan_state.pt"
        if env is not None:
            content["env"] = env.get_state()
        torch.save(content, path)
        return path


def _place(index: list[int]) -> str:
    """Readable index of a (W, N, ...) tensor."""
    names = ("world", "robot", "component")
    return ", ".join(f"{name} {i}" for name, i in zip(names, index, strict=False))
