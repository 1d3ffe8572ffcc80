"""Games of two robots whose solution is known: what HASAC and VDN find in them."""

import pytest
import torch
from torch import Tensor

from policies.algorithms.algorithm import Experience, Group, with_shared_reward
from policies.algorithms.hasac import HASAC, HASACCfg
from policies.algorithms.vdn import VDN, VDNCfg
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from sim.envs.observation import Observation

ROWS = 256
NAMES = ("drone", "arm")


def seen(rows: int) -> Observation:
    """One robot that sees nothing but a 1."""
    return Observation.alone(torch.ones(rows, 1, 1))


def play(kind, cfg, payoff, updates: int):
    """The algorithm after `updates` on joint actions of chance, each paid with payoff(drone's, arm's) at once."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    groups = {name: Group(seen(ROWS), [True], NetworkCfg(hidden=32, init_std=0.3), cfg) for name in NAMES}
    algorithm = kind(groups, generator, Workers(1))
    fixed = {"obs": seen(ROWS), "next": seen(ROWS), "discount": torch.zeros(ROWS, 1)}
    for _ in range(updates):
        actions = 2 * torch.rand(2, ROWS, 1, 1, generator=generator) - 1
        earned = payoff(*actions)[..., 0]
        rows = {"reward": earned, "acted": torch.ones(ROWS, 1, dtype=torch.bool), **fixed}
        algorithm.learn({name: {**rows, "action": own} for name, own in zip(NAMES, actions, strict=True)})
    return algorithm


@pytest.mark.slow
def test_hasac_finds_the_quantal_response_equilibrium():
    """Each robot plays a Gaussian: the density that is proportional to exp(payoff beside the other's play / alpha).

    payoff -c (a - m)^2 of each and a_1 a_2 of both: mean m + the other's mean / 2 c, variance alpha / 2 c.
    """
    alpha, (c1, m1), (c2, m2) = 0.04, (1.0, 0.3), (2.0, -0.2)
    cfg = HASACCfg(gamma=0.0, temperature=alpha, learn_temperature=False, learning_rate=3e-3)
    game = play(HASAC, cfg, lambda a, b: -c1 * (a - m1) ** 2 - c2 * (b - m2) ** 2 + a * b, 700)
    mean_1 = (m1 + m2 / (2 * c1)) / (1 - 1 / (4 * c1 * c2))
    wanted = {"drone": (mean_1, c1), "arm": (m2 + mean_1 / (2 * c2), c2)}
    for name, (mean, c) in wanted.items():
        policy = game.policies[name]
        with torch.no_grad():
            actions = policy.act(policy.normaliser(seen(4000)), torch.Generator().manual_seed(1))[0]
        assert float(actions.mean()) == pytest.approx(mean, abs=0.04), "and not m, which is best beside chance"
        assert float(actions.std()) == pytest.approx((alpha / (2 * c)) ** 0.5, rel=0.2)


@pytest.mark.slow
def test_vdn_finds_what_each_robot_adds_to_what_the_team_earns():
    def drone(a: Tensor) -> Tensor:
        return -((a - 0.5) ** 2)

    def arm(a: Tensor) -> Tensor:
        return -2 * (a + 0.3) ** 2

    cfg = VDNCfg(gamma=0.0, learning_rate=2e-3, target_noise=0.0, delay=8)
    game = play(VDN, cfg, lambda a, b: (drone(a) + arm(b)) / 2, 600)  # it learns of the mean over robots
    places = torch.linspace(-1, 1, 41)[:, None, None]
    for name, part, best in (("drone", drone, 0.5), ("arm", arm, -0.3)):
        learner = game.learners[name]
        features = learner.policy.normaliser(seen(len(places)))
        with torch.no_grad():
            found, wanted = learner.critic(features, places, {})[0], part(places)[..., 0]
            assert float(learner.policy.act(features).mean()) == pytest.approx(best, abs=0.15)
        error = (found - found.mean()) - (wanted - wanted.mean())  # a constant may be of either
        assert float(error.abs().max()) < 0.15, "of 2.3 and 3.4 between best and worst"


def test_a_cooperative_team_earns_its_mean():
    none = torch.zeros(2, 1, dtype=torch.bool)
    team = {
        name: Experience(seen(2), {}, none, {}, torch.tensor(reward), none, none, ~none, seen(2))
        for name, reward in (("a", [[1.0], [0.0]]), ("b", [[2.0, 3.0], [0.0, 3.0]]))
    }
    shared = with_shared_reward(team)
    assert torch.equal(shared["a"].reward, torch.tensor([[2.0], [1.0]]))
    assert torch.equal(shared["b"].reward, torch.tensor([[2.0, 2.0], [1.0, 1.0]]))
