"""What the networks must not depend on: the order of peers, empty slots, how many there are."""

import pytest
import torch

from policies.networks.actor_critic import Actor, Critic
from sim.task import ObsLayout

LAYOUT = ObsLayout(own_dim=5, peer_dim=3)


def observation(rows: int, peers: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Own (rows, 5) and peers (rows, peers, 4), the last entry of each peer being its valid flag."""
    generator = torch.Generator().manual_seed(seed)
    own = torch.randn(rows, 5, generator=generator)
    seen = torch.randn(rows, peers, 4, generator=generator)
    seen[..., 3] = 1.0
    return own, seen


def join(own: torch.Tensor, peers: torch.Tensor) -> torch.Tensor:
    return torch.cat([own, peers.flatten(-2)], dim=-1)


@pytest.fixture
def actor() -> Actor:
    """An actor with large outputs and statistics that are not the identity."""
    torch.manual_seed(1)
    net = Actor(LAYOUT, 2)
    torch.nn.init.orthogonal_(net.head.weight, 1.0)
    own, peers = observation(64, 4, seed=9)
    peers[..., :3] = 2.0 * peers[..., :3] - 1.0
    net.normaliser.update(join(3.0 * own + 0.5, peers))
    return net


def test_order_of_peers_does_not_matter(actor):
    own, peers = observation(8, 5)
    before = actor(join(own, peers))
    after = actor(join(own, peers[:, torch.randperm(5)]))
    assert torch.allclose(before, after, atol=1e-6)
    changed = peers.clone()
    changed[:, 0, 0] += 1.0
    assert not torch.allclose(before, actor(join(own, changed)), atol=1e-3)  # but what they do does


def test_empty_slots_do_not_matter_whatever_they_hold(actor):
    own, peers = observation(8, 3)
    empty = torch.full((8, 4, 4), 77.0)
    empty[..., 3] = 0.0
    assert torch.allclose(actor(join(own, peers)), actor(join(own, torch.cat([empty, peers], dim=1))), atol=1e-6)


def test_nobody_around(actor):
    own, peers = observation(8, 3)
    peers[..., 3] = 0.0
    alone = actor(join(own, peers))
    assert torch.isfinite(alone).all()
    assert torch.allclose(alone, actor(own), atol=1e-6)  # no slot at all is the same as empty slots


def test_first_actions_are_near_zero():
    torch.manual_seed(0)
    assert Actor(LAYOUT, 2)(join(*observation(100, 3))).abs().max() < 0.1


def test_own_critic_sees_one_robot_and_team_critic_all():
    torch.manual_seed(0)
    actor = Actor(LAYOUT, 2)
    obs = join(*observation(7 * 3, 2)).view(7, 3, -1)
    other = obs.clone()
    other[:, 2] += 1.0
    for kind, sees in (("own", False), ("team", True)):
        critic = Critic(LAYOUT, kind)
        before, after = (critic(actor.features(x)) for x in (obs, other))
        assert before.shape == (7, 3)
        assert torch.allclose(before[:, :2], after[:, :2], atol=1e-6) is not sees


def test_team_critic_does_not_depend_on_the_order_of_team_mates_nor_their_number():
    torch.manual_seed(0)
    actor, critic = Actor(LAYOUT, 2), Critic(LAYOUT, "team")
    obs = join(*observation(7 * 5, 2)).view(7, 5, -1)
    value = critic(actor.features(obs))
    order = torch.tensor([0, 3, 1, 4, 2])
    assert torch.allclose(critic(actor.features(obs[:, order])), value[:, order], atol=1e-6)
    assert torch.isfinite(critic(actor.features(obs[:, :1]))).all()


def test_unknown_critic_is_refused():
    with pytest.raises(ValueError, match="'both': it is 'own' or 'team'"):
        Critic(LAYOUT, "both")
