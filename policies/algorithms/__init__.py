"""Algorithms by name: one file each and one line here."""

from typing import Any

from policies.algorithms.ppo import PPO
from policies.algorithms.td3 import TD3

ALGORITHMS: dict[str, Any] = {
    "ppo": PPO,
    "td3": TD3,
}
