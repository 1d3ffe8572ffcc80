"""The same weights and batch as in stable-baselines3 give the same losses, gradients and parameters, update by update.

In double precision. Ours are fed rewards / (1 - gamma), for their values are averages of rewards and not sums.
"""

from math import log

import numpy as np
import pytest
import torch
from torch import nn

from policies.algorithms import ppo_update
from policies.algorithms.algorithm import Group
from policies.algorithms.gae import gae, next_values
from policies.algorithms.ppo import PPOCfg
from policies.algorithms.sac import SAC, SACCfg
from policies.algorithms.td3 import TD3, TD3Cfg
from policies.networks.critic import Critic
from policies.networks.normaliser import Features, ObsDims
from policies.networks.policy import GaussianPolicy, log_prob
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from sim.envs.observation import Observation

sb3 = pytest.importorskip("stable_baselines3")
import gymnasium  # noqa: E402
from stable_baselines3.common.buffers import RolloutBuffer  # noqa: E402
from stable_baselines3.common.logger import Logger  # noqa: E402
from stable_baselines3.common.type_aliases import ReplayBufferSamples, RolloutBufferSamples  # noqa: E402

OBS, ACT, HIDDEN, BATCH, GAMMA, TAU, RATE, UPDATES = 5, 3, 16, 32, 0.97, 0.05, 1e-2, 6
NET = dict(net_arch=[HIDDEN] * 3, activation_fn=nn.ELU)
CLOSE = dict(rtol=0, atol=1e-6)


@pytest.fixture(autouse=True)
def in_double_precision(monkeypatch):
    monkeypatch.setattr(
        "stable_baselines3.common.policies.preprocess_obs", lambda obs, *_, **__: obs
    )  # a cast to float
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Spaces(gymnasium.Env):
    """Nothing but sizes."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACT,))

    def reset(self, **_):
        return np.zeros(OBS, dtype=np.float32), {}


def of_theirs(body: nn.Sequential, *heads: nn.Linear) -> list[nn.Linear]:
    return [*(layer for layer in body if isinstance(layer, nn.Linear)), *heads]


def of_ours(net) -> list[nn.Linear]:
    return [net.trunk.own, net.trunk.joint, net.trunk.last, net.head]


def take_over(pairs: list[tuple[nn.Linear, nn.Linear]]) -> None:
    with torch.no_grad():
        for ours, theirs in pairs:
            ours.weight.copy_(theirs.weight)
            ours.bias.copy_(theirs.bias)


def assert_equal(pairs, grads: bool = False) -> None:
    for ours, theirs in pairs:
        for one, other in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
            torch.testing.assert_close(one, other, **CLOSE)
            if grads:
                torch.testing.assert_close(one.grad, other.grad, **CLOSE)


def batch(seed: int) -> tuple[dict, ReplayBufferSamples]:
    """The same rows as our replay gives them and as theirs."""
    generator = torch.Generator().manual_seed(seed)
    obs, after = torch.randn(2, BATCH, OBS, generator=generator)
    action = torch.tanh(torch.randn(BATCH, ACT, generator=generator))
    reward, done = torch.randn(BATCH, generator=generator), torch.rand(BATCH, generator=generator) < 0.2
    ours = {
        "obs": seen(obs),
        "next": seen(after),
        "action": action[:, None],
        "reward": reward[:, None] / (1 - GAMMA),
        "discount": GAMMA * (~done)[:, None],
        "acted": torch.ones(BATCH, 1, dtype=torch.bool),
    }
    return ours, ReplayBufferSamples(obs, action, after, done[:, None].double(), reward[:, None], None)


def seen(own: torch.Tensor) -> Observation:
    return Observation.alone(own[:, None])


def made(kind, cfg):
    group = Group(seen(torch.zeros(BATCH, OBS)), [True] * ACT, NetworkCfg(hidden=HIDDEN), cfg)
    return kind({"robot": group}, torch.Generator(), Workers(1))


def update_theirs(model, seed: int, rows: ReplayBufferSamples) -> dict[str, float]:
    model.set_logger(Logger(None, []))
    model.replay_buffer.sample = lambda *_, **__: rows
    torch.manual_seed(seed)
    model.train(1, BATCH)
    return model.logger.name_to_value


def test_td3():
    model = sb3.TD3("MlpPolicy", Spaces(), learning_rate=RATE, gamma=GAMMA, tau=TAU, policy_kwargs=dict(NET))
    ours = made(TD3, TD3Cfg(learning_rate=RATE, gamma=GAMMA, tau=TAU))
    learner = ours.learners["robot"]
    actor = list(zip(of_ours(learner.policy), of_theirs(model.actor.mu), strict=True))
    nets = zip(learner.critic.nets, (model.critic.qf0, model.critic.qf1), strict=True)
    critics = [pair for net, theirs in nets for pair in zip(of_ours(net), of_theirs(theirs), strict=True)]
    take_over([*actor, *critics])
    learner.take_targets()
    model.actor_target.load_state_dict(model.actor.state_dict())
    model.critic_target.load_state_dict(model.critic.state_dict())
    slow = zip(learner.targets["critic"].nets, (model.critic_target.qf0, model.critic_target.qf1), strict=True)
    targets = [pair for net, theirs in slow for pair in zip(of_ours(net), of_theirs(theirs), strict=True)]
    targets += zip(of_ours(learner.targets["policy"]), of_theirs(model.actor_target.mu), strict=True)
    for k in range(UPDATES):
        mine, rows = batch(k)
        learner.generator.manual_seed(k)
        numbers, said = ours.learn({"robot": mine}), update_theirs(model, k, rows)
        moved = (k + 1) % 2 == 0
        assert float(numbers["loss/value"]) == pytest.approx(said["train/critic_loss"], abs=1e-6)
        assert ("loss/policy" in numbers) == moved
        if moved:
            assert float(numbers["loss/policy"]) == pytest.approx(said["train/actor_loss"], abs=1e-6)
        assert_equal(actor, grads=moved)
        assert_equal(critics, grads=not moved)  # theirs has the gradient of the policy's loss added
        assert_equal(targets)


def test_sac(monkeypatch):
    model = sb3.SAC(
        "MlpPolicy", Spaces(), learning_rate=RATE, gamma=GAMMA, tau=TAU, ent_coef="auto_0.1", policy_kwargs=dict(NET)
    )
    model.actor.action_dist.epsilon = 0.0  # what they add to the derivative of tanh; ours is exact
    ours = made(SAC, SACCfg(learning_rate=RATE, gamma=GAMMA, tau=TAU, temperature=0.1))
    learner, policy = ours.learners["robot"], model.actor
    theirs = of_theirs(policy.latent_pi, policy.mu, policy.log_std)
    actor = list(zip([*of_ours(learner.policy), learner.policy.spread], theirs, strict=True))
    nets = zip(learner.critic.nets, (model.critic.qf0, model.critic.qf1), strict=True)
    critics = [pair for net, theirs in nets for pair in zip(of_ours(net), of_theirs(theirs), strict=True)]
    take_over([*actor, *critics])
    learner.take_targets()
    model.critic_target.load_state_dict(model.critic.state_dict())
    slow = zip(learner.targets["critic"].nets, (model.critic_target.qf0, model.critic_target.qf1), strict=True)
    targets = [pair for net, theirs in slow for pair in zip(of_ours(net), of_theirs(theirs), strict=True)]
    for k in range(UPDATES):
        mine, rows = batch(k)
        generator = torch.Generator().manual_seed(k)
        drawn = [torch.randn(BATCH, 1, ACT, generator=generator) for _ in range(2)]  # they draw for the policy first
        with monkeypatch.context() as patch:
            patch.setattr(torch, "randn", lambda *_, drawn=drawn, **__: drawn.pop())
            numbers = ours.learn({"robot": mine})
        said = update_theirs(model, k, rows)
        for mine_is, theirs_is in (
            ("loss/value", "critic_loss"),
            ("loss/policy", "actor_loss"),
            ("temperature", "ent_coef"),
        ):
            assert float(numbers[mine_is]) == pytest.approx(said[f"train/{theirs_is}"], abs=1e-6), mine_is
        assert float(learner.log_temperature.detach()) == pytest.approx(float(model.log_ent_coef.detach()), abs=1e-6)
        assert_equal(actor, grads=True)
        assert_equal(critics)
        assert_equal(targets)


def test_ppo():
    options = dict(n_epochs=3, batch_size=BATCH, ent_coef=0.01, vf_coef=0.5, max_grad_norm=0.5, clip_range=0.2)
    net = dict(NET, net_arch=dict(pi=NET["net_arch"], vf=NET["net_arch"]), log_std_init=log(0.6))
    model = sb3.PPO("MlpPolicy", Spaces(), learning_rate=RATE, n_steps=BATCH, policy_kwargs=net, **options)
    policy, critic = GaussianPolicy(ObsDims(OBS, 0), ACT, HIDDEN), Critic(ObsDims(OBS, 0), "own", NetworkCfg(HIDDEN))
    theirs, body = model.policy, model.policy.mlp_extractor
    pairs = list(zip(of_ours(policy), of_theirs(body.policy_net, theirs.action_net), strict=True))
    pairs += zip(of_ours(critic), of_theirs(body.value_net, theirs.value_net), strict=True)
    take_over(pairs)
    cfg = PPOCfg(
        epochs=3, minibatch=BATCH, learning_rate=RATE, schedule="constant", entropy_coef=0.01, max_grad_norm=0.5,
        normalise_returns=False,
    )  # fmt: skip
    optimiser, workers = ppo_update.make_optimiser(policy, critic, cfg), Workers(1)
    for k in range(UPDATES):
        generator = torch.Generator().manual_seed(k)
        obs = torch.randn(BATCH, OBS, generator=generator)
        advantage, returns = torch.randn(2, BATCH, generator=generator)
        features = Features(obs[:, None], torch.zeros(0, BATCH, 1, 0), torch.zeros(0, BATCH, 1), obs[:, None, :0])
        with torch.no_grad():
            mean, value = policy.mean(features), critic(features)[:, 0]
            action = mean + policy.log_std.exp() * torch.randn(BATCH, 1, ACT, generator=generator)
            density = log_prob(action, mean, policy.log_std)
        columns = (x[:, None] for x in (value, advantage, returns))
        samples = ppo_update.Samples(features, {}, action, density, *columns)
        numbers = ppo_update.update(policy, critic, optimiser, samples, cfg, generator, workers)

        model.set_logger(Logger(None, []))
        rows = RolloutBufferSamples(obs, action[:, 0], value, density[:, 0], advantage, returns)
        model.rollout_buffer.get = lambda _, rows=rows: iter([rows])
        model.train()
        said = model.logger.name_to_value
        assert numbers["loss/policy"] == pytest.approx(said["train/policy_gradient_loss"], abs=1e-6)
        assert numbers["loss/value"] == pytest.approx(0.5 * said["train/value_loss"], abs=1e-6)
        assert numbers["entropy"] == pytest.approx(-said["train/entropy_loss"], abs=1e-6)
        assert_equal(pairs, grads=True)
        torch.testing.assert_close(policy.log_std, theirs.log_std, **CLOSE)
    workers.close()


def test_advantages():
    """Theirs adds the value at a time limit to the reward; ours bootstraps from it."""
    steps, worlds, lam = 40, 6, 0.9
    generator = torch.Generator().manual_seed(0)
    reward, value, terminal_value = torch.randn(3, steps, worlds, generator=generator)
    terminated, truncated = (torch.rand(2, steps, worlds, generator=generator) < 0.1).unbind()
    truncated = truncated & ~terminated
    ended, last = terminated | truncated, torch.randn(worlds, generator=generator)
    buffer = RolloutBuffer(steps, Spaces.observation_space, Spaces.action_space, "cpu", lam, GAMMA, worlds)
    buffer.values, buffer.advantages = value.numpy(), np.zeros((steps, worlds))
    buffer.rewards = (reward + GAMMA * terminal_value * truncated).numpy()
    buffer.episode_starts[1:] = ended[:-1].numpy()
    buffer.compute_returns_and_advantage(last, ended[-1].numpy())
    following = next_values(value, last, ended, terminal_value[ended])
    advantages, returns = gae(reward, value, following, terminated, ended, GAMMA, lam)
    torch.testing.assert_close(advantages, torch.as_tensor(buffer.advantages), **CLOSE)
    torch.testing.assert_close(returns, torch.as_tensor(buffer.returns), **CLOSE)
