"""DSAC-T beside a reference that goes through the paper's formulas one sample at a time."""

import pytest
import torch
from point_team import PointTeam
from test_off_policy import anything, groups_of

from policies.algorithms.dsact import DSACT, DSACTCfg
from policies.threads import Workers

GAMMA, FLOOR, XI, TAU = 0.9, 0.1, 3.0, 0.3


def made(scale: float = 1.0):
    cfg = DSACTCfg(gamma=GAMMA, clip=XI, tau=TAU, temperature=0.1)
    groups = groups_of(PointTeam(8, num_agents=1), cfg)
    rows = anything(groups["point"], 12)
    rows["reward"] *= scale
    torch.manual_seed(0)
    algorithm = DSACT(groups, torch.Generator().manual_seed(0), Workers(1))
    learner = algorithm.learners["point"]
    with torch.no_grad():
        for net in learner.critic.nets:
            net.head.weight.mul_(40)  # so that means and deviations differ from sample to sample
    learner.take_targets()
    return algorithm, learner, rows


def outputs(critic, features, action) -> list[list[tuple[torch.Tensor, torch.Tensor]]]:
    """Mean and deviation of every critic for every sample."""
    return [[(out[0], (1 + out[1].exp()).log()) for out in each] for each in critic(features, action)[:, :, 0]]


def test_gradients_are_those_of_the_paper():
    algorithm, learner, rows = made()
    batch = algorithm.batch_of("point", rows)
    means: list[tuple[float, float] | None] = [None, None]
    for _ in range(3):  # the running means move from batch to batch
        action, bonus = (part.detach() for part in learner.propose(batch.after))
        state = learner.generator.get_state()
        loss, _ = learner.critic_loss(batch, {}, action, bonus, {})
        params = list(learner.critic.parameters())
        found = torch.autograd.grad(loss, params, retain_graph=True)

        learner.generator.set_state(state)
        noise = torch.randn(12, 1, generator=learner.generator)
        later, now = (
            outputs(learner.targets["critic"], batch.after, action),
            outputs(learner.critic, batch.features, batch.action),
        )
        wanted = [torch.zeros_like(parameter) for parameter in params]
        for i, critic in enumerate(now):
            deviations = [std.item() for _, std in critic]
            batch_mean = sum(deviations) / 12, sum(d * d for d in deviations) / 12
            before = means[i] or batch_mean
            b, omega = means[i] = tuple(old + TAU * (new - old) for old, new in zip(before, batch_mean, strict=True))
            for k, (q, std) in enumerate(critic):
                q_next, std_next = min((each[k] for each in later), key=lambda pair: pair[0].item())
                r, discount, entropy = float(batch.reward[k]), float(batch.discount[k]), float(bonus[k])
                drawn = q_next.item() + std_next.item() * max(-3.0, min(3.0, float(noise[k])))
                y_q, y_z = (r + discount * (future + entropy) for future in (q_next.item(), drawn))
                sigma, value = std.item(), q.item()
                clipped = max(value - XI * b, min(value + XI * b, y_z))
                of_mean = -(y_q - value) / (sigma**2 + FLOOR * omega)
                of_std = -((clipped - value) ** 2 - sigma**2) / (sigma**3 + FLOOR * omega**1.5)
                weight = omega * (1 + FLOOR) / 12
                for factor, number in ((weight * of_mean, q), (weight * of_std, std)):
                    grads = torch.autograd.grad(number, params, retain_graph=True, allow_unused=True)
                    wanted = [w if g is None else w + factor * g for w, g in zip(wanted, grads, strict=True)]
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
        learner.descend("critic", loss)


def test_a_larger_reward_with_larger_values_gives_the_same_pull():
    """Ten times the reward, values, deviations and temperature: ten times the gradient of the outputs, no other."""
    from policies.algorithms.dsact import pulls

    generator = torch.Generator().manual_seed(0)
    value, drawn = torch.randn(2, 2, 50, 1, generator=generator, dtype=torch.float64)
    std = torch.rand(2, 50, 1, generator=generator, dtype=torch.float64) + 0.1
    reach, variance = torch.full((2, 2, 1, 1), 0.5, dtype=torch.float64)
    for scale in (0.1, 10.0):
        one = pulls(value, std, drawn, reach, variance)
        other = pulls(scale * value, scale * std, scale * drawn, scale * reach, scale**2 * variance)
        torch.testing.assert_close(one[0], other[0])
        torch.testing.assert_close(scale * one[1], other[1])


def test_a_critic_begins_with_a_deviation_that_is_small_beside_values():
    """One of 0.7 fades by gamma only: with rewards times 0.1 a pendulum was then not swung up at all."""
    groups = groups_of(PointTeam(8, num_agents=1), DSACTCfg(gamma=0.99))
    learner = DSACT(groups, torch.Generator(), Workers(1)).learners["point"]
    batch = DSACT(groups, torch.Generator(), Workers(1)).batch_of("point", anything(groups["point"]))
    raw = learner.targets["critic"](batch.features, batch.action)[..., 1]
    assert float(torch.nn.functional.softplus(raw).max()) < 0.01


@pytest.mark.slow
def test_the_deviation_learns_how_much_a_return_varies():
    """Episodes of one step whose reward is 2 or -2 by chance: mean 0 and standard deviation 2, in averages / 10."""
    algorithm, learner, rows = made()
    rows["discount"] = torch.zeros_like(rows["discount"])
    generator = torch.Generator().manual_seed(1)
    for _ in range(1500):
        rows["reward"] = 4.0 * torch.randint(0, 2, rows["reward"].shape, generator=generator) - 2.0
        loss, _ = learner.critic_loss(algorithm.batch_of("point", rows), {}, rows["action"], 0.0, {})
        learner.descend("critic", loss)
    batch = algorithm.batch_of("point", rows)
    raw = learner.critic(batch.features, batch.action).detach()
    spread = (1 + raw[..., 1].exp()).log()
    assert float(raw[..., 0].abs().mean()) < 0.1
    assert float(spread.mean()) == pytest.approx(0.2, rel=0.15)
