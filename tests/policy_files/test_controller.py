"""The controller and the environment see, decide and remember alike."""

from dataclasses import replace

import torch
from one_group import make_env

from policies.evaluation.policy_runner import TorchRunner
from policies.networks.controller import Controller
from policies.networks.normaliser import dims_of
from policies.networks.policy import GaussianPolicy
from sim.task import PolicyInput
from sim.tasks import load_task


def make_controller(seed: int = 0) -> Controller:
    """An untrained but lively policy for swarm-swap."""
    torch.manual_seed(seed)
    env = make_env("swarm-swap", 2, seed=0)
    env.reset(3)
    obs = env.group.obs
    actor = GaussianPolicy(dims_of(obs), env.action_dim)
    torch.nn.init.normal_(actor.head.weight, std=0.3)
    actor.normaliser.update(obs)
    return Controller(load_task("swarm-swap").group, actor).eval()


def test_it_sees_what_the_environment_shows_and_remembers_what_it_remembers():
    controller = make_controller()
    env = make_env("swarm-swap", 4, seed=5)
    env.reset(5)
    pilot = TorchRunner(controller)
    pilot.start(env)
    for _ in range(30):
        with torch.no_grad():
            _, _, seen, action = controller(replace(env.policy_input, memory=pilot.memory))
        flown, target = pilot.act(env)
        parts = env.group.obs
        assert torch.equal(parts.policy, seen)
        assert torch.equal(action, controller.policy.best(parts, {})[0].detach())
        assert torch.equal(flown, action)
        low, high = torch.tensor(env.robot.command_low), torch.tensor(env.robot.command_high)
        assert ((target >= low) & (target <= high)).all()
        _, _, terminated, truncated, _ = env.step(flown)
        if (terminated | truncated).any():
            break
        assert all(torch.equal(pilot.memory[name], env.memory[name]) for name in env.memory)


def test_robots_are_independent_of_one_another_in_a_batch():
    controller = make_controller()
    env = make_env("swarm-swap", 3, seed=1)
    state, peers, _ = env.measured
    memory = controller.initial_memory(3, 4)
    whole = controller(PolicyInput(state, peers, {}, env.command, memory, env.group.last_correction))[3]
    state, peers = (type(x)(*(getattr(x, name)[1:2, 2:3] for name in x.__slots__)) for x in (state, peers))
    command, memory = ({name: value[1:2, 2:3] for name, value in x.items()} for x in (env.command, memory))
    alone = controller(PolicyInput(state, peers, {}, command, memory, torch.zeros(1, 1, 4)))[3]
    assert torch.allclose(whole[1:2, 2:3], alone, atol=1e-6)
