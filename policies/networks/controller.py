"""The controller: what a robot runs, from sensors to actuators, as one module that training and export share."""

from torch import Tensor, nn

from hardware import load_robot
from hardware.types import ActuatorCommand
from policies.networks.actor_critic import Actor, Features
from sim.envs.action import decode
from sim.envs.observation import Seen, initial_memory, remember, see
from sim.task import GroupCfg, PolicyInput


class Controller(nn.Module):
    """Deterministic policy of a role, or of a task for like robots: input -> (command, memory, obs, action).

    `see`, `decode` and `remember` are the environment's own functions, so that what was trained is what flies.
    """

    def __init__(self, role: GroupCfg, actor: Actor) -> None:
        super().__init__()
        self.role = role
        self.actor = actor
        self._robot = load_robot(role.robot)

    def forward(self, policy_input: PolicyInput) -> tuple[ActuatorCommand, dict[str, Tensor], Tensor, Tensor]:
        """Fields (..., n), peers (..., P, n) -> target (..., U), memory, obs (..., D), action (..., U) in [-1, 1]."""
        target, after, seen, action = self.decide(policy_input)
        return target, after, seen.flat(), action

    def decide(self, policy_input: PolicyInput) -> tuple[ActuatorCommand, dict[str, Tensor], Seen, Tensor]:
        """As `forward`, with the parts of the observation.

        They go to the network as they are: joining them only to split them again cost a tenth of the exported graph.
        """
        seen = see(self.role.observation, policy_input)
        parts = seen.own, seen.peers.movedim(-2, 0), seen.valid.movedim(-1, 0), seen.own[..., :0]
        features = Features(*self.actor.normaliser.standardise(*parts))
        action = self.actor.mean(features).clamp(-1.0, 1.0)
        after = remember(self.role.observation, policy_input, action)
        return decode(self.role.action, action, policy_input.state, self._robot), after, seen, action

    def initial_memory(self, *batch: int) -> dict[str, Tensor]:
        """Memory at the start of an episode, each (*batch, n)."""
        return initial_memory(self.role.observation, batch)
