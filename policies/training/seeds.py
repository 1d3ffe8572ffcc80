"""A run's generators: one for each thing that is drawn, so that more draws of one do not change another."""

from hashlib import sha256

import torch

LEARNING = ("action", "minibatch")  # what the trainer draws itself; "network" and "environment" have seeds too


def seed_of(seed: int, name: str, again: int = 0) -> int:
    """The seed of what is called `name` in a run with `seed`: 63 bits; another one for each time it begins `again`."""
    return int.from_bytes(sha256(f"{seed} {name} {again}".encode()).digest()[:8], "big") >> 1


def make_generators(seed: int, device: torch.device, again: int = 0) -> dict[str, torch.Generator]:
    """Generators on `device` by the names of `LEARNING`."""
    return {name: torch.Generator(device=device).manual_seed(seed_of(seed, name, again)) for name in LEARNING}
