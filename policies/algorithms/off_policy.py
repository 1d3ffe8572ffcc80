"""What algorithms share that learn from a replay of what any of their policies did."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from policies.algorithms.algorithm import Clock, Experience, Group, common, labelled, weights
from policies.algorithms.learner import Batch, Learner, Others, shown, without
from policies.algorithms.replay import Replay
from policies.algorithms.smooth import check_chunk
from policies.threads import Workers
from sim.envs.observation import Observation


class OffPolicy:
    """See `Algorithm`. All groups learn from the same control steps of one replay."""

    Learner: type[Learner]
    lag = 0

    def __init__(self, groups: Mapping[str, Group], generator: torch.Generator, workers: Workers) -> None:
        shared = ("num_steps", "gamma", "n_step", "batch", "updates", "replay", "warm_up", "delay", "critic")
        self.horizon, self.gamma, self.n_step, self.batch, self.updates, replay, self.warm_up, self.delay, _ = (
            common(groups, field) for field in shared
        )
        self.generator, self.steps, self.shards = generator, 0, workers.shards
        for name, group in groups.items():
            check_chunk(name, group)
            if self.n_step > 1 and group.network.chunk > 1:
                raise ValueError(
                    f"n_step = {self.n_step} with network.chunk = {group.network.chunk} of {name!r}: one of the two"
                )
        sizes = {name: g.dims.policy + g.dims.privileged + g.width for name, g in groups.items()}
        self.learners = {
            name: self.Learner(group, {n: size for n, size in sizes.items() if n != name}, generator)
            for name, group in groups.items()
        }
        for learner in self.learners.values():
            learner.shards = self.shards
        self.policies = {name: learner.policy for name, learner in self.learners.items()}
        self.replay = Replay(groups, replay // self.shards.count)  # of this shard's worlds

    def record(self, t: int, team: Mapping[str, Experience]) -> None:
        """Into the replay, and into the statistics of observations."""
        self.replay.add(team)
        for name, policy in self.policies.items():
            policy.normaliser.update(team[name].obs, self.shards)

    def pending_update(self, clock: Clock) -> Callable[[], None] | None:
        """Nothing."""
        return None

    def update(self, last: Mapping[str, Observation], clock: Clock) -> dict[str, float]:
        """Gradient steps, once enough has been seen; returns means of what is logged."""
        if self.replay.agent_steps * self.shards.count < self.warm_up:
            return {}
        for policy in self.policies.values():
            policy.by_chance.fill_(False)
        sums: dict[str, list[Tensor]] = {}
        for _ in range(self.updates):
            rows = self.replay.sample(self.batch // self.shards.count, self.generator, self.gamma, self.n_step)
            for name, value in self.learn(rows).items():
                sums.setdefault(name, []).append(value)
        means = self.shards.mean([torch.stack(values).mean() for values in sums.values()])
        return {name: float(value) for name, value in zip(sums, means, strict=True)}

    def learn(self, rows: Mapping[str, Any]) -> dict[str, Tensor]:
        """One gradient step from rows of the replay; returns what to log."""
        batches = {name: self.batch_of(name, part) for name, part in rows.items()}
        proposed = self.propose(batches)
        now = {name: shown(batch.features, batch.action) for name, batch in batches.items()}
        later = {name: shown(batch.after, proposed[name][0]) for name, batch in batches.items()}
        said = self.improve_critics(batches, proposed, now, later)
        self.steps += 1
        if self.steps % self.delay == 0:
            self.improve_policies(batches, now, said)
            for each in self.learners.values():
                each.follow()
        return labelled(said)

    @torch.no_grad()
    def propose(self, batches: Mapping[str, Batch]) -> dict[str, tuple[Tensor, Any]]:
        """What every group would do next, and what its entropy adds to the value of that."""
        return {name: each.propose(batches[name].after) for name, each in self.learners.items()}

    def improve_critics(
        self, batches: Mapping[str, Batch], proposed: Mapping[str, Any], now: Others, later: Others
    ) -> dict[str, dict[str, Tensor]]:
        """One step of every group's critics; returns what to log."""
        said = {}
        for name, each in self.learners.items():
            others = without(now, name), without(later, name)
            action, bonus = proposed[name]
            loss, said[name] = each.critic_loss(batches[name], others[0], action, bonus, others[1])
            each.descend("critic", loss)
        return said

    def improve_policies(self, batches: Mapping[str, Batch], now: Others, said: Mapping[str, Any]) -> None:
        """One step of every policy, while the others do what they did."""
        for name, each in self.learners.items():
            said[name].update(each.improve_policy(batches[name], without(now, name)))

    @torch.no_grad()
    def batch_of(self, name: str, rows: Mapping[str, Any]) -> Batch:
        """Rows of the replay as the group `name` learns from them."""
        normalise = self.policies[name].normaliser
        return Batch(
            normalise(rows["obs"]),
            normalise(rows["next"]),
            rows["action"],
            (1 - self.gamma) * rows["reward"],
            rows["discount"],
            weights(rows["acted"], self.shards),
        )

    def networks(self) -> dict[str, nn.Module]:
        return labelled({name: {"policy": each.policy, "critic": each.critic} for name, each in self.learners.items()})

    def state_dict(self) -> dict[str, Any]:
        learners = {name: learner.state_dict() for name, learner in self.learners.items()}
        return {"learners": learners, "steps": self.steps, "replay": self.replay.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, learner in self.learners.items():
            learner.load_state_dict(state["learners"][name])
        self.steps = state["steps"]
        self.replay.load_state_dict(state["replay"])

    def start_from(self, state: Mapping[str, Any] | None) -> None:
        """The critics; RuntimeError where they are of another size. Slow copies are of the new networks in any case.

        Policies of another algorithm have learned: they act, and not chance, while the replay fills.
        """
        if state is None:
            for policy in self.policies.values():
                policy.by_chance.fill_(False)
        for name, learner in self.learners.items():
            if state is not None:
                learner.critic.load_state_dict(state["learners"][name]["critic"])
            learner.take_targets()
