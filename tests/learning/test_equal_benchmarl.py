"""The same team, weights and rollout as in BenchMARL's MAPPO give the same targets, losses, gradients and parameters.

In double precision. BenchMARL makes advantages and losses by its own code, around networks that are copies of ours:
`pip install benchmarl` beside this package, best in an environment of its own; without it this test is skipped.
"""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from policies.algorithms.algorithm import Experience, Group
from policies.algorithms.ppo import PPO, PPOCfg
from policies.algorithms.ppo_update import update
from policies.networks.trunk import NetworkCfg
from policies.threads import Workers
from sim.envs.observation import Observation

pytest.importorskip("benchmarl")
from benchmarl.algorithms import Mappo
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.data import Bounded, Composite, Unbounded

STEPS, WORLDS, ROBOTS, OBS, ACT, ROUNDS, RATE = 20, 6, 3, 5, 2, 4, 1e-2
CLOSE = dict(rtol=0, atol=1e-6)
CFG = PPOCfg(
    num_steps=STEPS, epochs=1, minibatch=STEPS * WORLDS * ROBOTS, gamma=0.97, gae_lambda=0.9, clip=0.2, value_coef=0.7,
    entropy_coef=0.01, learning_rate=RATE, schedule="constant", max_grad_norm=None, normalise_advantage=False,
    normalise_returns=False, min_std=0.0001, critic="team",
)  # fmt: skip


@pytest.fixture(autouse=True)
def in_double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Logits(nn.Module):
    """Our policy as BenchMARL has one: observations -> mean and log deviation, side by side."""

    def __init__(self, policy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        mean = self.policy(Observation.alone(obs), {})[0]
        return torch.cat([mean, self.policy.log_std.expand_as(mean)], dim=-1)


class Value(nn.Module):
    """Our critic of the team: observations (..., N, D) -> values (..., N, 1)."""

    def __init__(self, critic, normaliser) -> None:
        super().__init__()
        self.critic, self.normalise = critic, [normaliser]  # which is nothing to learn

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.critic(self.normalise[0](Observation.alone(obs)))[..., None]


def of_benchmarl(policy, critic) -> Mappo:
    """Its MAPPO of a group "robot" whose networks are these."""

    def config(network: nn.Module, key: str) -> SimpleNamespace:
        module = TensorDictModule(network, in_keys=[("robot", "observation")], out_keys=[("robot", key)])
        return SimpleNamespace(get_model=lambda **_: module, is_rnn=False)

    def spec(key: str, width: int, kind: type, **limits: float) -> Composite:
        inner = Composite({key: kind(shape=(ROBOTS, width), **limits)}, shape=(ROBOTS,))
        return Composite({"robot": inner})

    experiment = SimpleNamespace(
        config=SimpleNamespace(train_device="cpu", buffer_device="cpu", gamma=CFG.gamma, share_policy_params=True),
        model_config=config(Logits(policy), "logits"),
        critic_model_config=config(Value(critic, policy.normaliser), "state_value"),
        algorithm_config=SimpleNamespace(
            has_independent_critic=lambda: False, has_centralized_critic=lambda: True, has_critic=True
        ),
        on_policy=True,
        group_map={"robot": [f"robot_{i}" for i in range(ROBOTS)]},
        observation_spec=spec("observation", OBS, Unbounded),
        action_spec=spec("action", ACT, Bounded, low=-1.0, high=1.0),
        state_spec=None,
        action_mask_spec=None,
    )
    return Mappo(
        share_param_critic=False, clip_epsilon=CFG.clip, entropy_coef=CFG.entropy_coef, critic_coef=CFG.value_coef / 2,
        loss_critic_type="l2", lmbda=CFG.gae_lambda, scale_mapping="exp", use_tanh_normal=False,
        minibatch_advantage=False, experiment=experiment,
    )  # fmt: skip


def rollout(algorithm: PPO, generator: torch.Generator) -> tuple[TensorDict, dict]:
    """Steps of chance that our policy acts in, recorded by ours and written down as theirs (W, T, ...)."""
    policy, rows = algorithm.policies["robot"], []
    obs = torch.randn(WORLDS, ROBOTS, OBS, generator=generator)
    for t in range(STEPS):
        with torch.no_grad():
            mean = policy(Observation.alone(obs), {})[0]
            action = mean + policy.log_std.exp() * torch.randn(mean.shape, generator=generator)
            density = torch.distributions.Normal(mean, policy.log_std.exp()).log_prob(action).sum(-1)
        after, fresh = torch.randn(2, WORLDS, ROBOTS, OBS, generator=generator)
        reward = torch.randn(WORLDS, ROBOTS, generator=generator)
        end = torch.rand(2, WORLDS, 1, generator=generator).expand(2, WORLDS, ROBOTS) < 0.1
        terminated, truncated = end[0], end[1] & ~end[0]
        done, felt = terminated | truncated, torch.ones_like(terminated)
        extras = {"log_prob": density}
        step = Experience(
            Observation.alone(obs), {}, action, extras, reward, terminated, truncated, felt, Observation.alone(after)
        )
        algorithm.record(t, {"robot": step})
        rows.append({
            ("robot", "observation"): obs, ("robot", "action"): action, ("robot", "log_prob"): density,
            ("next", "robot", "observation"): after, ("next", "robot", "reward"): reward[..., None],
            ("next", "robot", "done"): done[..., None], ("next", "robot", "terminated"): terminated[..., None],
        })  # fmt: skip
        obs = torch.where(done[..., None], fresh, after)
    batch = TensorDict({}, batch_size=(WORLDS, STEPS))
    for part in (("robot",), ("next", "robot")):
        batch[part] = TensorDict({}, batch_size=(WORLDS, STEPS, ROBOTS))
    for key in rows[0]:
        batch[key] = torch.stack([row[key] for row in rows], dim=1)
    return batch, {"robot": Observation.alone(obs)}


def test_mappo():
    torch.manual_seed(0)
    first = Observation.alone(torch.zeros(WORLDS, ROBOTS, OBS))
    group = Group(first, [True] * ACT, NetworkCfg(hidden=16), CFG)
    ours, workers = PPO({"robot": group}, torch.Generator(), Workers(1)), Workers(1)
    policy, critic = ours.policies["robot"].double(), ours.critics["robot"].double()  # the deviation is in single else
    nn.init.orthogonal_(policy.head.weight)
    theirs = deepcopy((policy, critic))
    mappo = of_benchmarl(*theirs)
    loss, _ = mappo.get_loss_and_updater("robot")
    parameters = mappo.get_parameters("robot")
    mine, other = [*policy.parameters(), *critic.parameters()], of_loss(loss, theirs)
    steps = [torch.optim.Adam(some, lr=RATE, eps=1e-5) for some in parameters.values()]
    for k in range(ROUNDS):
        batch, last = rollout(ours, torch.Generator().manual_seed(k))
        samples = ours.samples(ours.rollouts, last)["robot"]
        batch = mappo.process_batch("robot", batch)
        for found, key in ((samples.advantage, "advantage"), (samples.returns, "value_target")):
            as_theirs = found.unflatten(0, (STEPS, WORLDS)).transpose(0, 1)[..., None]
            torch.testing.assert_close(as_theirs, batch["robot", key], **CLOSE)
        for epoch in range(2):  # in the second the ratio is no longer 1, and some of it is clipped
            said = mappo.process_loss_vals("robot", loss(batch.reshape(-1)))
            numbers = update(policy, critic, ours.optimisers["robot"], samples, CFG, ours.generator, workers)
            objective = numbers["loss/policy"] - CFG.entropy_coef * numbers["entropy"]
            assert objective == pytest.approx(said["loss_objective"].item(), abs=1e-6)
            assert CFG.value_coef * numbers["loss/value"] == pytest.approx(said["loss_critic"].item(), abs=1e-6)
            assert epoch == 0 or float(said["clip_fraction"]) > 0
            for optimiser in steps:
                optimiser.zero_grad()
            (said["loss_objective"] + said["loss_critic"]).backward()
            for one, two in zip(mine, other, strict=True):
                torch.testing.assert_close(one.grad, two.grad, **CLOSE)
            for optimiser in steps:
                optimiser.step()
            for one, two in zip(mine, other, strict=True):
                torch.testing.assert_close(one, two, **CLOSE)
    workers.close()


def of_loss(loss, networks) -> list[torch.Tensor]:
    """Parameters that BenchMARL's loss module learns, in the order of ours."""
    held_by_loss = loss.actor_network_params, loss.critic_network_params
    found = []
    for network, held in zip(networks, (dict(h.flatten_keys(".").items()) for h in held_by_loss), strict=True):
        for name, _ in network.named_parameters():
            (value,) = [v for key, v in held.items() if key.endswith("." + name)]
            found.append(value)
    return found
