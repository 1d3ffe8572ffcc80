"""HASAC and VDN on games of one step whose solution is known, beside what they must equal where there is one robot."""

from math import sqrt

import pytest
import torch
from test_off_policy import learner_and_rows

from policies.algorithms.algorithm import Experience, Group, with_shared_reward
from policies.algorithms.hasac import HASAC, HASACCfg
from policies.algorithms.sac import SAC, SACCfg
from policies.algorithms.vdn import VDN, VDNCfg
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from sim.envs.observation import Observation

ROWS = 128


def seen(rows: int) -> Observation:
    """One robot that sees nothing but a 1."""
    own = torch.ones(rows, 1, 1)
    return Observation(own, own[..., None, :0][..., :0, :], own[..., :0], own[..., :0])


def game(kind, cfg, reward, steps: int):
    """An algorithm that has learned a game of two unlike robots, each with one number to choose."""
    net = NetworkCfg(hidden=32)
    torch.manual_seed(0)
    groups = {name: Group(seen(8), [True], net, cfg) for name in ("a", "b")}
    algorithm = kind(groups, torch.Generator().manual_seed(0), Workers(1))
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        acts = 2 * torch.rand(2, ROWS, 1, 1, generator=generator) - 1
        none, earned = torch.zeros(ROWS, 1), reward(*acts[..., 0])
        rest = {"obs": seen(ROWS), "next": seen(ROWS), "reward": earned, "discount": none, "acted": none == 0}
        algorithm.learn({name: {**rest, "action": act} for name, act in zip(("a", "b"), acts, strict=True)})
    return algorithm


@pytest.mark.slow
def test_hasac_reaches_the_quantal_response_equilibrium():
    """Each robot's density is that of exp(its expected reward / temperature), given what the other does.

    Of the reward -c (a + b - s)^2 - c (a - b)^2 that is a Gaussian about s / 2 of variance temperature / 4 c.
    """
    c, s, temperature = 2.0, 0.4, 0.08
    cfg = HASACCfg(gamma=0.0, temperature=temperature, learn_temperature=False, learning_rate=3e-3, critics=1)
    algorithm = game(HASAC, cfg, lambda a, b: -c * ((a + b - s).square() + (a - b).square()), 500)
    generator = torch.Generator().manual_seed(2)
    for policy in algorithm.policies.values():
        drawn = policy.act(policy.normaliser(seen(20_000)), generator)[0].detach()
        assert float(drawn.std()) == pytest.approx(sqrt(temperature / (4 * c)), rel=0.2)
        assert float(drawn.mean()) == pytest.approx(s / 2, abs=0.05)


def test_groups_move_beside_what_the_earlier_ones_now_do(monkeypatch):
    cfg = HASACCfg(gamma=0.0, learning_rate=0.1)
    algorithm = game(HASAC, cfg, lambda a, b: a * b, 1)
    order, shown, before = [], {}, {}
    for name, learner in algorithm.learners.items():

        def watched(batch, others, name=name, once=learner.improve_policy):
            order.append(name)
            (other,) = others
            acting = algorithm.policies[other].act(batch.features, algorithm.generator)[0]
            before[name] = float(acting.detach().mean())
            shown[name] = others[other][..., -1]
            return once(batch, others)

        monkeypatch.setattr(learner, "improve_policy", watched)
    for policy in algorithm.policies.values():
        torch.nn.init.constant_(policy.spread.bias, -15.0)  # hardly any chance
    rest = {"obs": seen(ROWS), "next": seen(ROWS), "discount": torch.zeros(ROWS, 1), "reward": torch.ones(ROWS, 1)}
    rest |= {"acted": torch.ones(ROWS, 1) > 0, "action": torch.zeros(ROWS, 1, 1)}
    algorithm.learn({"a": rest, "b": dict(rest)})
    assert sorted(order) == ["a", "b"]
    for name in order:  # what it was shown is what the other's policy does at that moment, not the action of the replay
        assert torch.allclose(shown[name], torch.tensor(before[name]), atol=1e-4) and before[name] != 0


def test_the_value_of_a_team_has_the_entropy_of_all_its_robots():
    algorithm = game(HASAC, HASACCfg(gamma=0.5, temperature=0.3), lambda a, b: a + b, 1)
    rows = {"obs": seen(4), "next": seen(4), "discount": torch.zeros(4, 1), "reward": torch.ones(4, 1)}
    rows |= {"acted": torch.ones(4, 1) > 0, "action": torch.zeros(4, 1, 1)}
    batches = {name: algorithm.batch_of(name, rows) for name in ("a", "b")}
    state = algorithm.generator.get_state()
    joint = {name: bonus for name, (_, bonus) in algorithm.propose(batches).items()}
    algorithm.generator.set_state(state)
    alone = {name: bonus for name, (_, bonus) in SAC.propose(algorithm, batches).items()}
    assert torch.equal(joint["a"], alone["a"] + alone["b"]) and torch.equal(joint["a"], joint["b"])


def test_with_one_robot_hasac_is_sac():
    found = []
    for kind, cfg in ((SAC, SACCfg()), (HASAC, HASACCfg())):
        torch.manual_seed(0)
        algorithm, rows = learner_and_rows(kind, cfg)
        algorithm.learn(rows)
        found.append([*algorithm.learners["point"].critic.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.slow
def test_vdn_recovers_the_parts_of_an_additive_game():
    """The team earns f(a) + g(b) and no robot knows which part is its own; each learns its part up to a constant."""

    def f(a: torch.Tensor) -> torch.Tensor:
        return -2.0 * (a - 0.5).square()

    def g(b: torch.Tensor) -> torch.Tensor:
        return b.square() * b - 0.5 * b

    cfg = VDNCfg(gamma=0.0, learning_rate=3e-3, critics=1, delay=10)  # critics learn first
    algorithm = game(VDN, cfg, lambda a, b: f(a) + g(b), 900)
    grid = torch.linspace(-0.95, 0.95, 39)
    for name, part in (("a", f), ("b", g)):
        learner = algorithm.learners[name]
        features = learner.policy.normaliser(seen(len(grid)))
        value = learner.critic(features, grid[:, None, None], {}).detach().mean(0)[:, 0]
        wanted = 2 * part(grid)  # the mean over two robots is the sum
        assert float((value - value.mean() - (wanted - wanted.mean())).abs().max()) < 0.15
    best = {name: policy.best(seen(1), {})[0].item() for name, policy in algorithm.policies.items()}
    assert best["a"] == pytest.approx(0.5, abs=0.15) and best["b"] > 0.9


def test_a_cooperative_team_earns_its_mean():
    none = torch.zeros(2, 1, dtype=torch.bool)
    team = {
        name: Experience(seen(2), {}, none, {}, torch.tensor(reward), none, none, ~none, seen(2))
        for name, reward in (("a", [[1.0], [0.0]]), ("b", [[2.0, 3.0], [0.0, 3.0]]))
    }
    shared = with_shared_reward(team)
    assert torch.equal(shared["a"].reward, torch.tensor([[2.0], [1.0]]))
    assert torch.equal(shared["b"].reward, torch.tensor([[2.0, 2.0], [1.0, 1.0]]))
