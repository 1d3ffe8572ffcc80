"""What every algorithm is to the rest: something that records a team's steps and makes its policies better."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from policies.networks.mirror import Flips
from policies.networks.normaliser import ObsDims, dims_of
from policies.networks.trunk import NetworkCfg
from policies.shards import ALONE, Shards
from policies.threads import Workers
from sim.envs.observation import Observation


@dataclass
class Experience:
    """One control step of the robots of one group, (W, N, ...)."""

    obs: Observation  # with its past, where the policy has a history
    memory: Mapping[str, Tensor]  # of the policy, before the step
    action: Tensor  # as drawn, not clipped; the extra "chunk" is the whole one that it is of
    extras: Mapping[str, Tensor]  # what the policy said of the draw
    reward: Tensor  # (W, N)
    terminated: Tensor  # (W, N) bool
    truncated: Tensor  # (W, N) bool
    acted: Tensor  # (W, N) bool, see `EnvStep`: of the others nothing is to be learned
    final_obs: Observation  # what the step led to; where the episode ended, before the restart
    reward_terms: Mapping[str, Tensor] = field(default_factory=dict)  # (W, N) each, whose sum is the reward


class Clock(NamedTuple):
    """How far the training is."""

    fraction: float  # 0 to 1, by steps or by time, whichever is farther
    agent_steps: int


@dataclass(frozen=True)
class Group:
    """Like robots of a team, as an algorithm has to know them."""

    obs: Observation  # the first, with its past, as an example of shapes and device
    driven: Sequence[bool]  # (U,) whether a component of an action moves anything
    network: NetworkCfg
    cfg: Any  # the algorithm's
    terms: Sequence[str] = ()  # of the reward
    mirror: Flips | None = None  # how what it sees and does mirrors, where networks know no left and right

    @property
    def dims(self) -> ObsDims:
        return dims_of(self.obs)

    @property
    def width(self) -> int:
        """Numbers in a decision: an action, or a chunk of them."""
        return len(self.driven) * self.network.chunk

    @property
    def policy(self) -> dict[str, Any]:
        """Keywords of a new `Policy`."""
        asked = ("hidden", "peer_embed", "activation", "chunk", "history")
        network = {name: getattr(self.network, name) for name in asked}
        layout = {"dims": self.dims, "action_dim": len(self.driven), "driven": self.driven, "mirror": self.mirror}
        return {**layout, **network}

    @property
    def shape(self) -> tuple[int, int]:
        """Worlds W and robots N."""
        worlds, robots = self.obs.policy.shape[:2]
        return worlds, robots


class Algorithm(Protocol):
    """Learns for all groups of a team at once. A class of this kind is one line in `ALGORITHMS`, or module:NAME.

    It is made with (groups by name, generator, workers); `Cfg` is its frozen dataclass of hyperparameters, whose `NAME`
    its options begin with; `Policy` is what it makes of a policy's `spec`.
    """

    policies: Mapping[str, Any]  # group -> Policy
    horizon: int  # control periods between two updates
    lag: int  # updates between a rollout and the one that learns from it: from 1 on it may learn while one is collected
    replay: Any  # a `Replay`, which is written in segments beside checkpoints; None of what learns on policy

    def record(self, t: int, team: Mapping[str, Experience]) -> None:
        """Keep step `t` of `horizon`; tensors that it keeps are copied."""

    def pending_update(self, clock: Clock) -> Callable[[], None] | None:
        """What can be learned, in another thread, while the next `horizon` is recorded; None for nothing.

        It has to be over when `update` is called. Copies of the policies act meanwhile.
        """

    def update(self, last: Mapping[str, Observation], clock: Clock) -> dict[str, float]:
        """Learn, after `horizon` steps that led to the observations `last`; returns numbers to log, by name."""

    def networks(self) -> dict[str, nn.Module]:
        """Everything that learns, by a name for a person."""

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on, but the policies: tensors, numbers and strings, in dicts and lists.

        `critics` and `learners` have an entry for each group. Each shard keeps its own `replay`, `waiting` and `costs`.
        """

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken."""

    def start_from(self, state: Mapping[str, Any] | None) -> None:
        """The policies are now another run's; take over of its state what else a new run should begin with.

        None where that is of another algorithm.
        """


Result = TypeVar("Result")


def with_shared_reward(team: Mapping[str, Experience]) -> dict[str, Experience]:
    """The same steps, each robot rewarded by the mean of all robots of the team: a fully cooperative game."""
    shared = torch.cat([step.reward for step in team.values()], dim=1).mean(1, keepdim=True)
    return {name: replace(step, reward=shared.expand_as(step.reward)) for name, step in team.items()}


def over_rows(workers: Workers, func: Callable[[slice], Tensor], rows: int) -> Tensor:
    """`func` of slices of `rows`, on the workers, joined; they do not inherit no_grad from the caller."""

    def piece(part: slice) -> Tensor:
        with torch.no_grad():
            return func(part)

    return torch.cat(workers.over_rows(piece, rows))


def resolve(cfg: type, name: str, given: Mapping[str, Any], owner: str) -> Any:
    """The configuration `cfg` with the values `given`; ValueError names one of `owner`'s that does not exist.

    A list, as a record of a run has it, is a tuple.
    """
    known = {field.name for field in fields(cfg)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(f"{owner} sets {name}.{unknown[0]}; there are {', '.join(sorted(known))}")
    return replace(cfg(), **{n: tuple(value) if isinstance(value, list) else value for n, value in given.items()})


def common(groups: Mapping[str, Group], field: str) -> Any:
    """A hyperparameter that the groups share; ValueError where they differ in it."""
    first, *others = (getattr(group.cfg, field) for group in groups.values())
    if any(other != first for other in others):
        raise ValueError(f"groups {', '.join(groups)} differ in {field}: they share one rollout")
    return first


def weights(acted: Tensor, shards: Shards = ALONE) -> Tensor | None:
    """Weights of samples of which `acted` (...) says what is to be learned from; None where that is all.

    Their mean over all `shards` is 1.
    """
    everywhere = shards.joined(acted)
    if bool(everywhere.all()):
        return None
    return acted.float() / everywhere.float().mean().clamp(min=1e-12)


def mean(values: Tensor, weight: Tensor | None) -> Tensor:
    """Mean of `values` (...), by `weight` (...) where samples count differently."""
    return values.mean() if weight is None else (values * weight).mean()


def labelled(parts: Mapping[str, Mapping[str, Result]]) -> dict[str, Result]:
    """Each group's numbers, or networks, in one dict, with its name before theirs where there are several."""
    if len(parts) == 1:
        return dict(*parts.values())
    return {f"{group}/{name}": value for group, part in parts.items() for name, value in part.items()}
