"""What papers name as algorithms of their own and is here a setting of another: the options that give it."""

import re

_DDPG = "--algo td3 --td3.critics 1 --td3.delay 1 --td3.target-noise 0"
_HUMANOIDS = (
    "velocity --algo {0} --num-envs 1024 --{0}.num-steps 1 --{0}.updates 2 --{0}.batch 32768 --{0}.replay 1000000 "
    "--{0}.warm-up 10240 --{0}.learning-rate 3e-4 --{0}.tau 0.1 --{0}.gamma 0.97 --{0}.{1} --network.hidden 512"
)
CONFIGURATIONS = {
    "a2c": (
        "TASK --ppo.epochs 1 --ppo.clip None --ppo.no-normalise-advantage --ppo.no-normalise-returns "
        "--ppo.schedule constant --ppo.minibatch 1000000"
    ),
    "appo": "TASK --ppo.lag 1",
    "caps": "TASK --ppo.temporal-smoothness 1 --ppo.spatial-smoothness 1",
    "ddpg": f"TASK {_DDPG}",
    "drmas": "TASK --ppo.normalise-per robot",
    "fastsac": _HUMANOIDS.format("sac", "delay 2"),
    "fasttd3": _HUMANOIDS.format("td3", "target-noise 0.001"),
    "gdpo": "TASK --ppo.normalise-terms",
    "ippo": "TASK",
    "maddpg": f"TASK {_DDPG} --td3.critic team",
    "mappo": "TASK --ppo.critic team",
    "masac": "TASK --algo sac --sac.critic team",
    "matd3": "TASK --algo td3 --td3.critic team",
    "redq": "TASK --algo sac --sac.critics 10 --sac.subset 2",
}  # as in docs/algorithms.md


def configuration(name: str) -> str:
    """The command line for what a paper calls `name`, however spelled ("MA-PPO", "Dr. MAS"); "" where there is none."""
    options = CONFIGURATIONS.get(re.sub(r"[\W_]", "", name.lower()))
    return f"phalanx train {options}" if options else ""
