"""Running statistics against those of all the data at once."""

import torch

from policies.networks.normaliser import EPSILON, ObsDims, ObsNormaliser, RunningMoments
from sim.envs.observation import Observation


def test_batches_merge_to_the_statistics_of_everything():
    torch.manual_seed(0)
    data = torch.randn(1000, 3) * torch.tensor([1.0, 10.0, 0.1]) + torch.tensor([5.0, -100.0, 0.0])
    moments = RunningMoments(3)
    for batch in data.split([1, 9, 500, 490]):
        moments.update(batch)
    assert torch.allclose(moments.mean, data.mean(0), rtol=1e-4, atol=1e-5)
    assert torch.allclose(moments.var, data.var(0, correction=0), rtol=1e-3)
    normal = moments(data)
    assert torch.allclose(normal.mean(0), torch.zeros(3), atol=1e-3)
    assert torch.allclose(normal.std(0)[:2], torch.ones(2), atol=1e-2)


def test_inverse_undoes_it():
    moments = RunningMoments(2)
    moments.update(torch.randn(50, 2) * 7 + 3)
    x = torch.randn(10, 2)
    assert torch.allclose(moments.inverse(moments(x)), x, atol=1e-5)


def test_a_constant_feature_is_not_blown_up():
    moments = RunningMoments(1)
    moments.update(torch.full((100, 1), 2.0))
    assert torch.allclose(moments(torch.tensor([[2.001]])), torch.tensor([[0.001 / EPSILON**0.5]]), atol=1e-2)


def test_peers_share_statistics_and_absent_ones_have_no_part():
    torch.manual_seed(0)
    normaliser = ObsNormaliser(ObsDims(1, 2))
    own, peers = torch.randn(200, 1), torch.randn(200, 4, 3) * 3 + 1
    peers[..., 2] = (torch.rand(200, 4) < 0.5).float()
    present = peers[peers[..., 2] > 0][:, :2].clone()
    peers[peers[..., 2] == 0] = torch.tensor([1e6, 1e6, 0.0])
    parts = own, peers[..., :2], peers[..., 2], own[..., :0]
    for half in zip(*(part.split(100) for part in parts), strict=True):
        normaliser.update(Observation(*half))
    assert normaliser.neighbours.count == len(present)
    assert torch.allclose(normaliser.neighbours.mean, present.mean(0), atol=1e-4)
    assert torch.allclose(normaliser.neighbours.var, present.var(0, correction=0), rtol=1e-3)
    _, seen, valid, _ = normaliser(Observation(*parts))
    assert (seen[valid == 0] == 0).all()


def test_no_peer_ever_seen_leaves_the_statistics_alone():
    normaliser = ObsNormaliser(ObsDims(1, 2))
    no_peers = Observation(torch.zeros(10, 1), torch.zeros(10, 1, 2), torch.zeros(10, 1), torch.zeros(10, 0))
    normaliser.update(no_peers)
    assert normaliser.neighbours.count == 0
    assert torch.isfinite(normaliser(no_peers).peers).all()
