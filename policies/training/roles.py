"""Every environment as one of several roles: whatever belongs to a role is a dict entry."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

OF_A_ROLE = ("terminal_obs", "reward_terms", "terminations")  # in the info of a step


class OneRole:
    """An environment of like robots, such as `TeamEnv`, as a `MixedEnv` with one role, whose name is empty."""

    def __init__(self, env: Any) -> None:
        self.env, self.groups = env, {"": env}

    def reset(self, seed: int | None = None, **options: Any) -> dict[str, Tensor]:
        """See `MixedEnv.reset`."""
        return {"": self.env.reset(seed, **options)}

    def step(self, actions: Mapping[str, Tensor]) -> tuple[dict, dict, dict, dict, dict[str, Any]]:
        """See `MixedEnv.step`."""
        *parts, info = self.env.step(actions[""])
        obs, reward, terminated, truncated = ({"": part} for part in parts)
        return obs, reward, terminated, truncated, info | {name: {"": info[name]} for name in OF_A_ROLE}

    @property
    def obs(self) -> dict[str, Tensor]:
        """See `MixedEnv.obs`."""
        (obs,) = self.env.obs.values()
        return {"": obs}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)


def by_role(env: Any) -> Any:
    """`env` as it is when it has several roles, like `MixedEnv`; as `OneRole` when it lays out one observation."""
    return OneRole(env) if hasattr(env, "obs_layout") else env
