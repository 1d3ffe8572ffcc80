"""PPO: it learns, it is A2C when its extras are off, the same seed gives the same run."""

from dataclasses import replace
from math import log, pi
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from point_team import PointTeam
from small_run import train_cfg

from policies.algorithms import ALGORITHMS
from policies.algorithms import ppo_update as ppo
from policies.algorithms.ppo import PPOCfg
from policies.algorithms.ppo_update import Samples
from policies.networks.critic import Critic
from policies.networks.normaliser import Features, ObsDims
from policies.networks.policy import GaussianPolicy, log_prob
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from policies.training.train import Trainer, train

QUICK = dict(num_steps=20, minibatch=320, hidden=32, peer_embed=16)


def experience(actor: GaussianPolicy, rows: int, seed: int) -> Samples:
    """Random samples of two robots with one peer each, with the log-probabilities that `actor` gives them."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    features = Features(draw(rows, 2, 4), draw(1, rows, 2, 2), torch.ones(1, rows, 2).double(), draw(rows, 2, 0))
    action = draw(rows, 2, 3)
    with torch.no_grad():
        density = log_prob(action, actor.mean(features), actor.log_std)
    return Samples(features, {}, action, density, draw(rows, 2), draw(rows, 2), draw(rows, 2))


@pytest.mark.parametrize("epochs", [1, 2])
def test_one_epoch_without_clip_and_normalisation_is_a2c_and_two_are_not(epochs: int):
    layout = ObsDims(4, 2)
    cfg = PPOCfg(
        epochs=epochs, clip=None, normalise_advantage=False, normalise_returns=False, max_grad_norm=None,
        value_coef=0.5, entropy_coef=0.01, schedule="constant", optimiser="sgd", learning_rate=0.05, minibatch=10**6,
    )  # fmt: skip
    torch.manual_seed(0)
    nets = [
        net.double() for net in (GaussianPolicy(layout, 3), Critic(layout), GaussianPolicy(layout, 3), Critic(layout))
    ]
    actor, critic, actor_a2c, critic_a2c = nets
    actor_a2c.load_state_dict(actor.state_dict())
    critic_a2c.load_state_dict(critic.state_dict())
    optimiser = ppo.make_optimiser(actor, critic, cfg)
    optimiser_a2c = torch.optim.SGD([*actor_a2c.parameters(), *critic_a2c.parameters()], lr=0.05)
    workers = Workers(2)
    for k in range(5):
        samples = experience(actor, 50, seed=k)
        ppo.update(actor, critic, optimiser, samples, cfg, torch.Generator().manual_seed(k), workers)

        gaussian = torch.distributions.Normal(actor_a2c.mean(samples.features), actor_a2c.log_std.exp())
        score = gaussian.log_prob(samples.action).sum(-1)
        entropy = gaussian.entropy().sum(-1).mean()
        value_error = 0.5 * (critic_a2c(samples.features) - samples.returns).square().mean()
        optimiser_a2c.zero_grad()
        (-(score * samples.advantage).mean() + 0.5 * value_error - 0.01 * entropy).backward()
        optimiser_a2c.step()
    workers.close()
    for one, other in ((actor, actor_a2c), (critic, critic_a2c)):
        for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
            assert torch.allclose(a, b, rtol=1e-9, atol=1e-12) == (epochs == 1), name


def test_log_prob_is_that_of_a_gaussian():
    action, mean, log_std = torch.tensor([1.0, 3.0]), torch.tensor([0.0, 3.0]), torch.tensor([0.0, 1.0])
    assert log_prob(action, mean, log_std).item() == pytest.approx(-0.5 - 1.0 - log(2 * pi), abs=1e-6)


def test_a_component_that_moves_nothing_gives_no_gradient():
    torch.manual_seed(0)
    actor = GaussianPolicy(ObsDims(4, 2), 3, driven=[True, False, True]).double()
    samples = experience(actor, 20, seed=0)
    critic = Critic(ObsDims(4, 2)).double()
    ppo.loss(actor, critic, samples, PPOCfg(clip=None, entropy_coef=0.1))[0].backward()
    for grad in (actor.head.weight.grad, actor.log_std.grad):
        assert grad is not None and (grad[1] == 0).all() and (grad[[0, 2]] != 0).all()


def test_robots_whose_action_was_not_felt_are_not_learned_from():
    torch.manual_seed(0)
    cfg = PPOCfg(epochs=1, minibatch=10**6, schedule="constant")
    samples, weight = experience(GaussianPolicy(ObsDims(4, 2), 3).double(), 20, seed=2), torch.ones(20, 2).double()
    weight[:5, 1] = 0.0
    learned = []
    for nonsense in (1.0, 1e9):  # of the dead, anything may be said
        torch.manual_seed(1)
        actor, critic = GaussianPolicy(ObsDims(4, 2), 3).double(), Critic(ObsDims(4, 2)).double()
        own = {name: getattr(samples, name).clone() for name in ("advantage", "returns")}
        for value in own.values():
            value[:5, 1] = nonsense
        workers = Workers(1)
        some, optimiser = replace(samples, **own, weight=weight / weight.mean()), ppo.make_optimiser(actor, critic, cfg)
        ppo.update(actor, critic, optimiser, some, cfg, torch.Generator().manual_seed(0), workers)
        workers.close()
        learned.append([*actor.state_dict().values(), *critic.state_dict().values()])
    assert all(torch.equal(one, other) for one, other in zip(*learned, strict=True))


def test_a_ratio_outside_the_clip_gives_no_gradient():
    torch.manual_seed(0)
    actor, critic = GaussianPolicy(ObsDims(4, 2), 3).double(), Critic(ObsDims(4, 2)).double()
    samples = experience(actor, 20, seed=1)
    samples = replace(samples, log_prob=samples.log_prob - 1.0, advantage=samples.advantage.abs())  # ratio e > 1.2
    total, _ = ppo.loss(actor, critic, samples, PPOCfg(value_coef=0.0))
    assert all(float(g.abs().max()) == 0 for g in torch.autograd.grad(total, list(actor.head.parameters())))


@pytest.mark.slow
@pytest.mark.parametrize("critic", ["own", "team"])
def test_it_learns(tmp_path: Path, critic: str):
    cfg = train_cfg(task="point", out=tmp_path, total_steps=40_000, critic=critic, **QUICK)
    seen: list[dict[str, float]] = []
    result = train(cfg, on_progress=seen.append, env=PointTeam(32))
    assert result.finished
    returns = [point["mean_return"] for point in result.return_curve if "mean_return" in point]
    assert returns[-1] > -5 > -7 > returns[0]
    assert result.return_curve[-1]["success_rate"] > 0.9
    assert result.env_steps == result.agent_steps // 2
    assert seen[-1]["explained_variance"] > 0.3
    assert {"reward/distance", "reward/effort", "kl", "lr", "entropy", "success_rate"} <= seen[-1].keys()
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_same_seed_same_run_and_another_seed_another(tmp_path: Path):
    def run(seed: int) -> tuple[list[dict[str, float]], dict[str, torch.Tensor]]:
        trainer = Trainer(train_cfg(task="point", out=tmp_path, seed=seed, **QUICK), PointTeam(16))
        for _ in range(3):
            trainer.iterate(0.0)
        trainer.close()
        return trainer.curve, trainer.policy.state_dict()

    (curve, weights), (curve_again, weights_again), (other, _) = run(3), run(3), run(4)
    assert curve == curve_again != other
    assert all(torch.equal(weights[name], weights_again[name]) for name in weights)


def test_statistics_stand_still_while_samples_are_learned_from(tmp_path: Path):
    trainer = Trainer(train_cfg(task="point", out=tmp_path, **{**QUICK, "learning_rate": 0.0}), PointTeam(16))
    for _ in range(3):
        # At a learning rate of 0 nothing but a change of the statistics could move the policy.
        assert abs(trainer.iterate(0.0)["kl"]) < 1e-6
    trainer.close()
    assert trainer.policy.normaliser.policy.count == 3 * trainer.steps_per_iteration


@pytest.mark.slow
def test_a_team_of_one_learns_too(tmp_path: Path):
    result = train(train_cfg(task="point", out=tmp_path, total_steps=10_000, **QUICK), env=PointTeam(32, num_agents=1))
    returns = [point["mean_return"] for point in result.return_curve if "mean_return" in point]
    assert returns[-1] > returns[0] + 1


def test_a_task_overrides_hyperparameters_by_name():
    def resolved(**asked):
        return train_cfg(epochs=2).hyperparameters(SimpleNamespace(training={"ppo": asked}), "task 't'")

    assert resolved(gamma=0.9, hidden=8, epochs=3) == (NetworkCfg(hidden=8), PPOCfg(gamma=0.9, epochs=2))
    with pytest.raises(ValueError, match=r"task 't' sets ppo.gama; there are "):
        resolved(gama=0.9)
    with pytest.raises(ValueError, match=r"there are .*gamma.*hidden.*init_std"):  # of the network too
        resolved(gama=0.9)
    on_policy = {"gamma": 0.9, "epochs": 7, "lag": 1, "hidden": 8}
    for algo, own in (("happo", {"epochs": 7, "lag": 0}), ("impala", {"epochs": 1, "lag": 1}), ("sac", {})):
        network, cfg = train_cfg(algo=algo).hyperparameters(SimpleNamespace(training={"ppo": on_policy}), "task 't'")
        inherits = own and {"gamma": 0.9, "hidden": 8}  # of the algorithm that it is a kind of
        wanted = {**vars(NetworkCfg()), **vars(ALGORITHMS[algo].Cfg()), **inherits, **own}
        assert {**vars(network), **vars(cfg)} == wanted, algo
    set_for_it = SimpleNamespace(training={"ppo": on_policy, "happo": {"gamma": 0.8}})
    assert train_cfg(algo="happo").hyperparameters(set_for_it, "task 't'")[1] == ALGORITHMS["happo"].Cfg(gamma=0.8)
    for training, says in (
        ({"collection": {"shields": True}}, "sets collection.shields; there are shield; did you mean"),
        ({"poo": {}}, "sets training of poo; there are .*collection.*ppo"),
    ):
        with pytest.raises(ValueError, match=says):
            train_cfg().hyperparameters(SimpleNamespace(training=training), "task 't'")
    for algorithm in ALGORITHMS.values():  # so that a name means one thing
        assert not algorithm.Cfg.__dataclass_fields__.keys() & NetworkCfg.__dataclass_fields__.keys()
    with pytest.raises(ValueError, match=r"ppo.gamma = 1.2: 0 to 1"):
        PPOCfg(gamma=1.2)
