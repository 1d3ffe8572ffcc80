"""One update of PPO and SAC by stable-baselines3 and by skrl, and what all learn from; for `benchmarks.updates`."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

SEES, MOVES, RATE, GAMMA = 17, 6, 1e-8, 0.99
PPO_WORLDS, PPO_STEPS, EPOCHS, MINIBATCH = 8, 256, 10, 64
BATCH, REMEMBERED = 256, 10_000
HIDDEN = {"ppo": 64, "sac": 256}
LAYERS = 3


class Sizes(gymnasium.Env):
    """Nothing but sizes."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (SEES,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (MOVES,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Zeros."""
        return np.zeros(SEES, dtype=np.float32), {}


def chance(*shapes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Normally distributed numbers of each of the `shapes`, the same in every run."""
    generator = np.random.default_rng(0)
    return tuple(generator.standard_normal(shape, dtype=np.float32) for shape in shapes)


def stable_baselines3(algo: str) -> Callable[[int], Any]:
    """One update of stable-baselines3's."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv

    settings: dict[str, Any] = {
        "learning_rate": RATE,
        "gamma": GAMMA,
        "seed": 0,
        "device": "cpu",
        "policy_kwargs": {"net_arch": [HIDDEN[algo]] * LAYERS, "activation_fn": nn.ELU},
    }
    if algo == "sac":
        model: Any = sb3.SAC("MlpPolicy", Sizes(), batch_size=BATCH, buffer_size=REMEMBERED, **settings)
        seen, then, moves, reward = chance(*((REMEMBERED, 1, width) for width in (SEES, SEES, MOVES, 1)))
        for row in zip(seen, then, np.tanh(moves), reward[..., 0], strict=True):
            model.replay_buffer.add(*row, np.zeros(1), [{}])
        model.set_logger(Logger(None, []))
        return lambda _: model.train(1, BATCH)
    worlds: Any = DummyVecEnv([Sizes] * PPO_WORLDS)
    size: dict[str, Any] = {"n_steps": PPO_STEPS, "batch_size": MINIBATCH, "n_epochs": EPOCHS}
    model = sb3.PPO("MlpPolicy", worlds, **size, **settings)
    buffer, policy = model.rollout_buffer, model.policy
    for obs, reward in zip(*chance((PPO_STEPS, PPO_WORLDS, SEES), (PPO_STEPS, PPO_WORLDS)), strict=True):
        with torch.no_grad():
            action, value, density = policy(torch.as_tensor(obs))
        buffer.add(obs, action.numpy(), reward, np.zeros(PPO_WORLDS), value, density)
    model.set_logger(Logger(None, []))
    buffer.compute_returns_and_advantage(value, np.zeros(PPO_WORLDS))  # once: its buffer is then another
    return lambda _: model.train()


def skrl(algo: str) -> Callable[[int], Any]:
    """One update of skrl's, whose defaults normalise nothing, as above."""
    from skrl.agents.torch.ppo import PPO
    from skrl.agents.torch.sac import SAC
    from skrl.memories.torch import RandomMemory
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model

    spaces = {"observation_space": Sizes.observation_space, "action_space": Sizes.action_space, "device": "cpu"}

    def layers(width: int, outputs: int) -> nn.Sequential:
        sizes = [width] + [HIDDEN[algo]] * LAYERS
        hidden = [(nn.Linear(a, b), nn.ELU()) for a, b in pairwise(sizes)]
        return nn.Sequential(*(part for pair in hidden for part in pair), nn.Linear(sizes[-1], outputs))

    class Actor(GaussianMixin, Model):
        """A mean, and a spread that depends on what is seen for SAC."""

        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            GaussianMixin.__init__(self)
            self.net = layers(SEES, MOVES if algo == "ppo" else 2 * MOVES)
            self.log_std = nn.Parameter(torch.zeros(MOVES))

        def compute(self, inputs: dict[str, Tensor], role: str) -> tuple[Tensor, dict[str, Any]]:
            """See skrl."""
            found = self.net(inputs["observations"])
            spread = self.log_std if algo == "ppo" else found[:, MOVES:]
            return found[:, :MOVES], {"log_std": spread}

    class Value(DeterministicMixin, Model):
        """Of what is seen, and for SAC of what is done."""

        def __init__(self) -> None:
            Model.__init__(self, **spaces)
            DeterministicMixin.__init__(self)
            self.net = layers(SEES if algo == "ppo" else SEES + MOVES, 1)

        def compute(self, inputs: dict[str, Tensor], role: str) -> tuple[Tensor, dict[str, Any]]:
            """See skrl."""
            seen = inputs["observations"]
            return self.net(seen if algo == "ppo" else torch.cat([seen, inputs["taken_actions"]], dim=1)), {}

    cfg: dict[str, Any] = {
        "discount_factor": GAMMA,
        "learning_rate": RATE,
        "experiment": {"write_interval": 0, "checkpoint_interval": 0},
    }
    if algo == "ppo":
        size = {"rollouts": PPO_STEPS, "learning_epochs": EPOCHS, "mini_batches": PPO_WORLDS * PPO_STEPS // MINIBATCH}
        models: dict[str, Any] = {"policy": Actor(), "value": Value()}
        agent: Any = PPO(models=models, memory=RandomMemory(memory_size=PPO_STEPS, num_envs=PPO_WORLDS, device="cpu"),
                         **spaces, cfg=cfg | size)  # fmt: skip
        rows, worlds = PPO_STEPS, PPO_WORLDS
    else:
        critics = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
        models = {"policy": Actor(), **{name: Value() for name in critics}}
        agent = SAC(models=models, memory=RandomMemory(memory_size=REMEMBERED, device="cpu"),
                    **spaces, cfg=cfg | {"batch_size": BATCH})  # fmt: skip
        rows, worlds = REMEMBERED, 1
    agent.init()
    agent.enable_training_mode(True)
    no = torch.zeros(worlds, 1, dtype=torch.bool)
    seen, then, reward = map(torch.from_numpy, chance(*((rows, worlds, width) for width in (SEES, SEES, 1))))
    for step in range(rows):
        at = {"timestep": step, "timesteps": rows}
        with torch.no_grad():
            action, _ = agent.act(seen[step], None, **at)
        agent.record_transition(
            observations=seen[step], states=None, actions=action, rewards=reward[step],
            next_observations=then[step], next_states=None, terminated=no, truncated=no, infos={}, **at,
        )  # fmt: skip
    agent.enable_models_training_mode(True)
    return lambda _: agent.update(timestep=rows, timesteps=rows)
