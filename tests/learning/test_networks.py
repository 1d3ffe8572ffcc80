"""What the networks must not depend on: the order of peers, empty slots, how many there are."""

import pytest
import torch

from policies.networks.critic import Critic, ReturnScale
from policies.networks.normaliser import ObsDims
from policies.networks.policy import GaussianPolicy, Policy
from sim.envs.observation import Observation

DIMS = ObsDims(5, 3)


def observation(rows: int, peers: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Own (rows, 5) and peers (rows, peers, 4), the last entry of each peer being its valid flag."""
    generator = torch.Generator().manual_seed(seed)
    own = torch.randn(rows, 5, generator=generator)
    seen = torch.randn(rows, peers, 4, generator=generator)
    seen[..., 3] = 1.0
    return own, seen


def join(own: torch.Tensor, peers: torch.Tensor) -> Observation:
    return Observation(own, peers[..., :3], peers[..., 3], own[..., :0])


def act(actor: GaussianPolicy, obs: Observation) -> torch.Tensor:
    return actor(obs, {})[0]


@pytest.fixture
def actor() -> GaussianPolicy:
    """An actor with large outputs and statistics that are not the identity."""
    torch.manual_seed(1)
    net = GaussianPolicy(DIMS, 2)
    torch.nn.init.orthogonal_(net.head.weight, 1.0)
    own, peers = observation(64, 4, seed=9)
    peers[..., :3] = 2.0 * peers[..., :3] - 1.0
    net.normaliser.update(join(3.0 * own + 0.5, peers))
    return net


def test_order_of_peers_does_not_matter(actor):
    own, peers = observation(8, 5)
    before = act(actor, join(own, peers))
    after = act(actor, join(own, peers[:, torch.randperm(5)]))
    assert torch.allclose(before, after, atol=1e-6)
    changed = peers.clone()
    changed[:, 0, 0] += 1.0
    assert not torch.allclose(before, act(actor, join(own, changed)), atol=1e-3)  # but what they do does


def test_empty_slots_do_not_matter_whatever_they_hold(actor):
    own, peers = observation(8, 3)
    empty = torch.full((8, 4, 4), 77.0)
    empty[..., 3] = 0.0
    assert torch.allclose(
        act(actor, join(own, peers)), act(actor, join(own, torch.cat([empty, peers], dim=1))), atol=1e-6
    )


def test_no_peer_around(actor):
    own, peers = observation(8, 3)
    peers[..., 3] = 0.0
    alone = act(actor, join(own, peers))
    assert torch.isfinite(alone).all()
    assert torch.allclose(
        alone, act(actor, join(own, peers[:, :0])), atol=1e-6
    )  # no slot at all is the same as empty slots


def test_first_actions_are_near_zero():
    torch.manual_seed(0)
    assert act(GaussianPolicy(DIMS, 2), join(*observation(100, 3))).abs().max() < 0.1


def test_own_critic_sees_one_robot_and_team_critic_all():
    torch.manual_seed(0)
    actor = GaussianPolicy(DIMS, 2)
    own, peers = (x.unflatten(0, (7, 3)) for x in observation(7 * 3, 2))
    changed = own.clone()
    changed[:, 2] += 1.0
    obs, other = join(own, peers), join(changed, peers)
    for kind, sees in (("own", False), ("team", True)):
        critic = Critic(DIMS, kind)
        before, after = (critic(actor.normaliser(x)) for x in (obs, other))
        assert before.shape == (7, 3)
        assert torch.allclose(before[:, :2], after[:, :2], atol=1e-6) is not sees


def test_team_critic_does_not_depend_on_the_order_of_team_mates_nor_their_number():
    torch.manual_seed(0)
    actor, critic = GaussianPolicy(DIMS, 2), Critic(DIMS, "team")
    own, peers = (x.unflatten(0, (7, 5)) for x in observation(7 * 5, 2))

    def value(robots) -> torch.Tensor:
        return critic(actor.normaliser(join(own[:, robots], peers[:, robots])))

    order = [0, 3, 1, 4, 2]
    assert torch.allclose(value(order), value(slice(None))[:, order], atol=1e-6)
    assert torch.isfinite(value([0, 1])).all()


def test_unknown_critic_is_refused():
    with pytest.raises(ValueError, match="'both': it is 'own' or 'team'"):
        Critic(DIMS, "both")


def test_a_component_that_moves_nothing_is_zero_drawn_or_not():
    torch.manual_seed(0)
    policy = GaussianPolicy(DIMS, 3, driven=[True, False, True])
    torch.nn.init.normal_(policy.head.weight)
    obs, generator = join(*observation(20, 2)), torch.Generator().manual_seed(0)
    for action in (policy.best(obs, {})[0], policy.sample(obs, {}, generator)[0]):
        assert not action[:, 1].any() and action[:, [0, 2]].all()


def test_the_scale_of_returns_forgets_and_one_glitch_does_not_move_it():
    scale, generator = ReturnScale(1), torch.Generator().manual_seed(0)

    def take(size: float, *glitches: float) -> float:
        scale.take(torch.cat([size * torch.randn(4000, generator=generator), torch.tensor(glitches)])[:, None])
        return float(scale.var.sqrt())

    for _ in range(20):
        take(100.0)
    assert 95.0 < take(100.0) < 105.0
    assert take(100.0, 1e8) < 110.0 and abs(float(scale.mean)) < 10.0
    for _ in range(300):  # returns of another size count after as many updates as it remembers
        last = take(1.0)
    assert last < 5.0


def test_a_policy_that_cannot_draw_is_refused_when_it_is_made():
    with pytest.raises(TypeError, match="draw"):
        Policy(DIMS, 2)


def test_rare_but_real_rewards_are_no_glitch():
    scale = ReturnScale(1)
    for _ in range(100):
        scale.take(torch.cat([torch.zeros(3960), torch.full((40,), 50.0)])[:, None])
    assert 4.0 < float(scale.var.sqrt()) < 6.0
