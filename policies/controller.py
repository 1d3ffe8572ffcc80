"""The controller: what a robot runs, from sensors to actuators, as one module that training and export share."""

from collections.abc import Mapping

from torch import Tensor, nn

from hardware.types import ActuatorCommand, Peers, RobotState
from policies.networks import Actor, Features
from sim.observe import Seen, decode, initial_memory, remember, see
from sim.task import TaskCfg


class Controller(nn.Module):
    """Deterministic policy of a task: (state, peers, command, memory) -> (actuator command, memory, obs, action).

    `see`, `decode` and `remember` are the environment's own functions, so that what was trained is what flies.
    """

    def __init__(self, task: TaskCfg, actor: Actor) -> None:
        super().__init__()
        self.task = task
        self.actor = actor

    def forward(
        self, state: RobotState, peers: Peers, command: Mapping[str, Tensor], memory: Mapping[str, Tensor]
    ) -> tuple[ActuatorCommand, dict[str, Tensor], Tensor, Tensor]:
        """Fields (..., n), peers (..., P, n) -> target (..., U), memory, obs (..., D), action (..., U) in [-1, 1]."""
        target, after, seen, action = self.decide(state, peers, command, memory)
        return target, after, seen.flat(), action

    def decide(
        self, state: RobotState, peers: Peers, command: Mapping[str, Tensor], memory: Mapping[str, Tensor]
    ) -> tuple[ActuatorCommand, dict[str, Tensor], Seen, Tensor]:
        """As `forward`, with the parts of the observation.

        They go to the network as they are: joining them only to split them again cost a tenth of the exported graph.
        """
        seen = see(self.task.observation, state, peers, command, memory)
        parts = seen.own, seen.peers.movedim(-2, 0), seen.valid.movedim(-1, 0)
        features = Features(*self.actor.normaliser.standardise(*parts))
        action = self.actor.mean(features).clamp(-1.0, 1.0)
        after = remember(self.task.observation, memory, state, command, action)
        return decode(self.task.action, action), after, seen, action

    def initial_memory(self, *batch: int) -> dict[str, Tensor]:
        """Memory at the start of an episode, each (*batch, n)."""
        return initial_memory(self.task.observation, batch)
