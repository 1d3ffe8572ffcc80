"""The controller: what a robot runs, from sensors to actuators, as one module that training and export share."""

from typing import Any

from torch import Tensor, nn

from hardware import load_robot
from hardware.once import worked_out_once
from hardware.types import ActuatorCommand
from policies.networks.policy import Policy
from sim.envs.action import decode
from sim.envs.observation import initial_memory, observe, update_memory
from sim.task import PolicyInput


class Controller(nn.Module):
    """Deterministic policy of a group: what it is given -> (actuator command, memory, own features, action).

    `observe`, `decode` and `update_memory` are the environment's own functions, so that what was trained is what flies.
    """

    def __init__(self, group: Any, policy: Policy) -> None:
        """`group` is the `GroupCfg` that says what the robots see and do."""
        super().__init__()
        self.group, self.policy = group, policy
        self._robot = load_robot(group.robot)

    @worked_out_once()
    def forward(self, policy_input: PolicyInput) -> tuple[ActuatorCommand, dict[str, Tensor], Tensor, Tensor]:
        """Fields (..., n), peers (..., P, n) -> target (..., U), memory, own (..., D), action (..., U) in [-1, 1].

        ValueError where the task shows another number of features than the policy knows.
        """
        obs = observe(self.group.observation, policy_input)
        if (shown := obs.policy.shape[-1]) != (known := self.policy.own_dim):
            raise ValueError(f"a policy of {known} features is shown {shown}: its task was another one then")
        kept = {name: policy_input.memory[name] for name in self.policy.memory}
        action, after = self.policy.best(obs, kept)
        memory = {**update_memory(self.group.observation, policy_input, action), **after}
        return decode(self.group.action, action, policy_input.state, self._robot), memory, obs.policy, action

    def initial_memory(self, *batch: int) -> dict[str, Tensor]:
        """Memory at the start of an episode, each (*batch, n)."""
        return initial_memory(self.group.observation, batch) | self.policy.initial_memory(*batch)
