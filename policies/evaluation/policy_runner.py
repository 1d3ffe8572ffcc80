"""Who flies the robots of an environment: a controller in torch, or a policy file in ONNX Runtime.

Both start from what the robots measure and carry their own memory; neither looks at the environment's observations.
What they are given as an environment is one of like robots, or one group of a team.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from deploy.contract import Contract
from deploy.contract.groups import group_and_number, needed, robots_of
from deploy.contract.tensor_specs import CORRECTION, PEER_INPUTS, object_field
from deploy.runtime import PolicyRuntime
from policies.networks.controller import Controller
from sim.envs.one_robot import joined, part_of
from sim.physics import on
from sim.task import PolicyInput


class PolicyRunner(Protocol):
    """Gives every robot of an environment its action, period after period."""

    def start(self, env: Any) -> None:
        """An episode begins in every world."""

    def act(self, env: Any) -> tuple[Tensor, Tensor]:
        """Action (W, N, U) in [-1, 1] for what the robots measure now, and the actuator target (W, N, U) it means."""


class TeamRunner:
    """A runner for each group of a `TeamEnv`, or for each robot of a group; what belongs to one is a dict entry."""

    def __init__(self, runners: Mapping[str, PolicyRunner]) -> None:
        self.runners = runners

    def fly(self, env: Any) -> Any:
        """One control step of `env`; what policy files command is what is flown, not what their action would mean."""
        actions, targets = self.act(env)
        files = {name for name, runner in self.runners.items() if isinstance(runner, BundleRunner)}
        actions, targets = joined(actions, env.groups), joined(targets, env.groups)
        return env.step(actions, {name: targets[name] for name in {group_and_number(file)[0] for file in files}})

    def start(self, env: Any) -> None:
        """An episode begins in every world; ValueError unless every group, or robot of one, has its runner."""
        needs = needed({name: group.num_agents for name, group in env.groups.items()}, self.runners)
        if sorted(self.runners) != sorted(needs):
            wanted, given = (", ".join(names) for names in (needs, sorted(self.runners)))
            raise ValueError(
                f"task {env.task.name!r} needs policies for {wanted}; there are those for {given}; give a file of each"
            )
        self.runners = {name: self.runners[name] for name in needs}  # in the order of the robots
        for name, runner in self.runners.items():
            runner.start(part_of(env, name))

    def act(self, env: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """As `PolicyRunner.act`, for each runner."""
        acts = {name: runner.act(part_of(env, name)) for name, runner in self.runners.items()}
        actions, targets = ({name: act[part] for name, act in acts.items()} for part in (0, 1))
        return actions, targets


def robots_flown(groups: Iterable[str], runners: Mapping[str, PolicyRunner]) -> int | None:
    """Robots of the team that `runners` are for, where each robot has its own; None for any number."""
    files = [runner.runtime.contract for runner in runners.values() if isinstance(runner, BundleRunner)]
    return robots_of(groups, runners, [contract.team.trained_with for contract in files])


class TorchRunner:
    """A controller, as it came from training."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.memory: dict[str, Tensor] = {}

    def start(self, env: Any) -> None:
        device = env.policy_input.state.joint_pos.device
        self.controller.to(device)
        with on(device):
            self.memory = self.controller.initial_memory(env.num_envs, env.num_agents)

    @torch.no_grad()
    def act(self, env: Any) -> tuple[Tensor, Tensor]:
        target, self.memory, _, action = self.controller(replace(env.policy_input, memory=self.memory))
        return action, target.target


class BundleRunner:
    """A policy file; all robots of all worlds in one batch."""

    def __init__(self, runtime: PolicyRuntime) -> None:
        self.runtime = runtime
        self.memory: dict[str, np.ndarray] = {}

    def start(self, env: Any) -> None:
        self.memory = self.runtime.initial_memory(env.num_envs * env.num_agents)

    def act(self, env: Any) -> tuple[Tensor, Tensor]:
        outputs = self.runtime.step_batch(graph_inputs(self.runtime.contract, env) | self.memory)
        self.memory = {m.input: outputs[m.output] for m in self.runtime.contract.memory}
        shape = (env.num_envs, env.num_agents, -1)
        return torch.from_numpy(outputs["action"]).view(shape), torch.from_numpy(outputs["target"]).view(shape)


def graph_inputs(contract: Contract, env: Any) -> dict[str, np.ndarray]:
    """What the robots of `env` measure now as inputs of the graph, one row a robot, without memory."""
    policy_input = env.policy_input
    inputs = {}
    for name in {tensor.name for tensor in contract.inputs} - {m.input for m in contract.memory}:
        heard = PEER_INPUTS.get(name)
        value = _padded(getattr(policy_input.peers, heard)) if heard else raw_input(policy_input, name)
        inputs[name] = value.flatten(0, 1).cpu().numpy()
    return inputs


def raw_input(policy_input: PolicyInput, name: str) -> Tensor:
    """The command, correction, state or part of an object's state that a graph calls `name`."""
    if name in policy_input.command:
        return policy_input.command[name]
    if name == CORRECTION:
        return policy_input.correction
    thing, field = object_field(name)
    return (
        getattr(policy_input.objects[thing], field)
        if thing in policy_input.objects
        else getattr(policy_input.state, name)
    )


def _padded(peers: Tensor) -> Tensor:
    """Peer field (W, N, P, ...) with one empty slot when P = 0: a graph has at least one."""
    if peers.shape[2]:
        return peers
    return peers.new_zeros(*peers.shape[:2], 1, *peers.shape[3:])
