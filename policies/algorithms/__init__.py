"""Algorithms by name: one file each and one line here."""

from typing import Any

from policies.algorithms.ppo import PPO

ALGORITHMS: dict[str, Any] = {
    "ppo": PPO,
}
