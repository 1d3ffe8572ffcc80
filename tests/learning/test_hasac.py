"""HASAC beside a reference written out: the value of a team, policies that move in turn; SAC where a robot is alone."""

import pytest
import torch
from point_team import PointPair
from test_off_policy import anything, groups_of, learner_and_rows
from torch.distributions import Normal

from policies.algorithms.hasac import HASAC, HASACCfg
from policies.algorithms.sac import SAC, SACCfg
from policies.threads import Workers

NAMES = ("walker", "cart")


def made() -> tuple[HASAC, dict]:
    torch.manual_seed(0)
    groups = groups_of(PointPair(8), HASACCfg(temperature=0.3, learning_rate=0.01))
    algorithm = HASAC(groups, torch.Generator().manual_seed(0), Workers(1))
    for learner in algorithm.learners.values():  # critics that tell actions apart, and another temperature for each
        for net in learner.critic.nets:
            torch.nn.init.orthogonal_(net.head.weight)
        learner.take_targets()
    with torch.no_grad():
        algorithm.learners["cart"].log_temperature -= 1.0
    return algorithm, {name: anything(group) for name, group in groups.items()}


def test_the_value_of_what_comes_next_takes_in_the_entropy_of_all_robots():
    algorithm, rows = made()
    batches = {name: algorithm.batch_of(name, part) for name, part in rows.items()}
    generator = torch.Generator()
    generator.set_state(algorithm.generator.get_state())
    after, entropy = {}, torch.zeros(64)
    with torch.no_grad():
        for name in NAMES:
            learner, seen = algorithm.learners[name], batches[name].after
            mean, log_std = learner.policy.gaussian(seen)
            raw = mean + torch.randn(mean.shape, generator=generator) * log_std.exp()
            after[name] = torch.tanh(raw)
            density = Normal(mean, log_std.exp()).log_prob(raw) - torch.log1p(-after[name].square())
            entropy -= float(learner.temperature) * density.sum((1, 2))
        wanted = {}
        for name, other in (NAMES, NAMES[::-1]):
            learner, batch = algorithm.learners[name], batches[name]
            shown = {other: torch.cat([batches[other].after.own, after[other]], dim=-1)}
            least = torch.minimum(*learner.targets["critic"](batch.after, after[name], shown))
            target = batch.reward + batch.discount * (least + entropy[:, None])
            shown = {other: torch.cat([batches[other].features.own, batches[other].action], dim=-1)}
            one, two = learner.critic(batch.features, batch.action, shown)
            wanted[name] = float(((one - target) ** 2).mean() / 2 + ((two - target) ** 2).mean() / 2)
    said = algorithm.learn(rows)
    for name in NAMES:
        assert float(said[f"{name}/loss/value"]) == pytest.approx(wanted[name], rel=1e-4)


def test_a_policy_moves_beside_what_those_before_it_now_do_and_those_after_it_did(monkeypatch):
    algorithm, rows = made()
    for policy in algorithm.policies.values():  # which hardly draw: what they do is their mean
        torch.nn.init.constant_(policy.spread.bias, -15.0)
        torch.nn.init.zeros_(policy.spread.weight)
    batches = {name: algorithm.batch_of(name, part) for name, part in rows.items()}

    def does(name: str) -> torch.Tensor:
        with torch.no_grad():
            return torch.tanh(algorithm.policies[name].mean(batches[name].features))

    before, order = {name: does(name) for name in NAMES}, []
    for name, learner in algorithm.learners.items():

        def improve(batch, others, name=name, once=learner.improve_policy):
            ((other, shown),) = others.items()
            action = shown[..., -before[other].shape[-1] :]
            moved = not torch.allclose(does(other), before[other], atol=1e-4)
            order.append((name, moved))
            torch.testing.assert_close(action, does(other), rtol=0, atol=1e-4)
            return once(batch, others)

        monkeypatch.setattr(learner, "improve_policy", improve)
    for _ in range(6):
        order.clear()
        before = {name: does(name) for name in NAMES}
        algorithm.learn(rows)
        assert [moved for _, moved in order] == [False, True] and {name for name, _ in order} == set(NAMES)


@torch.no_grad()
def reference_loss(algorithm: HASAC, batches: dict, name: str, others: dict, seed: torch.Tensor) -> float:
    """What a group's policy loss is: the team's value as its robots believe it, and all its robots' entropy."""
    learner, batch = algorithm.learners[name], batches[name]
    mean, log_std = learner.policy.gaussian(batch.features)
    generator = torch.Generator()
    generator.set_state(seed)
    raw = mean + torch.randn(mean.shape, generator=generator) * log_std.exp()
    density = Normal(mean, log_std.exp()).log_prob(raw) - torch.log1p(-torch.tanh(raw).square())
    value = torch.minimum(*learner.critic(batch.features, torch.tanh(raw), others))
    return float((float(learner.temperature) * density.sum((1, 2)) - value.mean(1)).mean())


def test_a_policy_is_paid_for_the_entropy_of_all_robots_of_its_group_as_the_value_counts_it():
    algorithm, rows = made()
    batches = {name: algorithm.batch_of(name, part) for name, part in rows.items()}
    for name, other in (NAMES, NAMES[::-1]):
        others = {other: algorithm.acting(other, batches[other])}
        wanted = reference_loss(algorithm, batches, name, others, algorithm.generator.get_state())
        said = algorithm.learners[name].improve_policy(batches[name], others)
        assert float(said["loss/policy"]) == pytest.approx(wanted, rel=1e-4), name


def test_with_one_robot_it_is_sac():
    found = []
    for kind, cfg in ((SAC, SACCfg()), (HASAC, HASACCfg())):
        torch.manual_seed(0)
        algorithm, rows = learner_and_rows(kind, cfg)
        algorithm.learn(rows)
        found.append([*algorithm.learners["point"].critic.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
