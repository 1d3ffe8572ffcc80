"""swarm-swap-firmware: as swarm-swap, by drones that fly by their firmware's rate loop, as real ones do.

It takes three times as long to learn. `zoo/swarm-swap.onnx`, which knows the model's own, slower loop, succeeds in 92 %
of 256 starts of four drones here, behind the shield: `phalanx eval zoo/swarm-swap.onnx --task swarm-swap-firmware`.
"""

from dataclasses import replace

from sim.tasks.parts.crazyflie import GOAL_OFFSET_SUM, HEARD, ROBOT
from sim.tasks.parts.links import in_time
from sim.tasks.parts.multirotor import FRAMES, firmware
from sim.tasks.swarm_swap import GROUP, SWARM_SWAP
from sim.terms import RewardTerm, Term, observations, rewards

# Not learned yet: with lost messages the zoo's policy is shown 94 % of 256 starts of eight drones, 95 are asked.
LEFT_OUT = {**in_time(ROBOT), **HEARD}
OF_MODEL = {name: term for name, term in GROUP.randomisation.items() if name not in LEFT_OUT}
SEEN = {name: term for name, term in GROUP.observation.own.items() if name != "last_action"}

SWARM_SWAP_FIRMWARE = replace(
    SWARM_SWAP,
    name="swarm-swap-firmware",
    summary="as swarm-swap, under the rate loop of the drones' firmware",
    groups={
        ROBOT.name: replace(
            GROUP,
            observation=replace(
                GROUP.observation,
                own={**SEEN, "frames": Term(observations.remembered, {"name": "frames"})},
                memory={"frames": FRAMES, "goal_offset_sum": GOAL_OFFSET_SUM},
            ),
            randomisation={**OF_MODEL, **firmware(ROBOT)},
            # In turns, from its own starts, at its own cost of a correction: what swarm-swap has was not tried
            training={**GROUP.training, "ppo": {"gamma": 0.98, "minibatch": 2048, "init_std": 0.5}},
            rewards={**GROUP.rewards, "correction": RewardTerm(rewards.correction, {"scale": 1.0}, weight=-0.5)},
            rate_loop=True,
        )
    },
    curriculum=None,
    num_envs=512,
    train_steps=8_000_000,
)
