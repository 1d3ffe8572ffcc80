"""The controller: what a robot runs, from sensors to actuators, as one module that training and export share."""

from collections.abc import Mapping

from torch import Tensor, nn

from hardware.types import ActuatorCommand, Peers, RobotState
from policies.networks import Actor
from sim.observe import decode, initial_memory, observe, remember
from sim.task import TaskCfg


class Controller(nn.Module):
    """Deterministic policy of a task: (state, peers, command, memory) -> (actuator command, memory, obs, action).

    `observe`, `decode` and `remember` are the environment's own functions, so that what was trained is what flies.
    """

    def __init__(self, task: TaskCfg, actor: Actor) -> None:
        super().__init__()
        self.task = task
        self.actor = actor

    def forward(
        self, state: RobotState, peers: Peers, command: Mapping[str, Tensor], memory: Mapping[str, Tensor]
    ) -> tuple[ActuatorCommand, dict[str, Tensor], Tensor, Tensor]:
        """Fields (..., n), peers (..., P, n) -> target (..., U), memory, obs (..., D), action (..., U) in [-1, 1]."""
        obs = observe(self.task.observation, state, peers, command, memory)
        action = self.actor(obs).clamp(-1.0, 1.0)
        after = remember(self.task.observation, memory, state, command, action)
        return decode(self.task.action, action), after, obs, action

    def initial_memory(self, *batch: int) -> dict[str, Tensor]:
        """Memory at the start of an episode, each (*batch, n)."""
        return initial_memory(self.task.observation, batch)
