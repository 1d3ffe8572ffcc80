"""A run's generators: one for each thing that is drawn, so that more draws of one do not change another."""

from hashlib import sha256

import torch

LEARNING = ("action", "minibatch")  # what the trainer draws itself; "network" and "environment" have seeds too


def seed_of(seed: int, name: str, again: int = 0, shard: int = 0) -> int:
    """The seed of what is called `name` in a run with `seed`: 63 bits; another one for each time it begins `again`.

    Another one for each shard too, but for what all shards draw alike, which they ask for as shard 0.
    """
    words = [seed, name, again, *([shard] if shard else [])]
    return int.from_bytes(sha256(" ".join(map(str, words)).encode()).digest()[:8], "big") >> 1


def make_generators(seed: int, device: torch.device, again: int = 0, shard: int = 0) -> dict[str, torch.Generator]:
    """Generators on `device` by the names of `LEARNING`; all shards draw the same minibatches."""
    shards = dict.fromkeys(LEARNING, 0) | {"action": shard}
    return {n: torch.Generator(device=device).manual_seed(seed_of(seed, n, again, shards[n])) for n in LEARNING}
