"""How a policy of the task `velocity` walks: `python -m benchmarks.humanoid_walk FILE-OR-RUN [--speed 0.6]`.

Every robot has one constant velocity command, with the task's noise, delays, pushes and randomised robots.
Printed as JSON: the share that never fell in ten seconds, how far they came and how straight.
"""

import argparse
import json
from pathlib import Path

import torch

from benchmarks.humanoid_shield import SEED, walking
from hardware.rotation import rotate, rotate_inverse
from policies.evaluation.evaluate import make_policy_runner, wilson
from policies.evaluation.trained import load_controller
from policies.threads import single_threaded_torch
from sim.envs.team_env import TeamEnv


@single_threaded_torch()
def walk(policy: Path, velocity: tuple[float, float, float], worlds: int, seconds: float) -> dict[str, object]:
    """Walk `worlds` robots at `velocity` (m/s, m/s, rad/s in the heading frame) for `seconds`."""
    task = walking(velocity, episode_s=seconds + 1.0)  # none ends on the last step
    env = TeamEnv(task, worlds, SEED)
    robots = env.group
    runner = make_policy_runner(policy if policy.suffix == ".onnx" else load_controller(policy))
    runner.start(robots)
    began = robots.now.state
    upright = torch.ones(worlds, dtype=torch.bool)
    came = torch.zeros(worlds, 3)
    turned = torch.zeros(worlds)
    survived_s = torch.zeros(worlds)
    for _ in range(round(seconds / env.control_dt)):
        step = env.step({task.group_name: runner.act(robots)[0]})
        upright &= ~step.terminated[task.group_name][:, 0]
        way = rotate_inverse(began.base_quat, robots.now.state.base_pos - began.base_pos)[:, 0]
        came = torch.where(upright[:, None], way, came)
        survived_s += upright * env.control_dt
        turned += upright * rotate(robots.now.state.base_quat, robots.now.state.base_ang_vel)[:, 0, 2] * env.control_dt
    return {
        "velocity": velocity,
        "seconds": seconds,
        "robots": worlds,
        "upright": upright.float().mean().item(),
        "upright_95": wilson(int(upright.sum()), worlds),
        "mean_upright_s": survived_s.mean().item(),
        "mean_forward_m": came[:, 0].mean().item(),
        "mean_left_m": came[:, 1].mean().item(),
        "mean_turn_rad_s": (turned / survived_s).mean().item(),
        "mean_forward_m_s": (came[:, 0] / survived_s).mean().item(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path, help="policy file, or folder of a training run")
    parser.add_argument("--speed", type=float, default=0.6, help="forward, m/s")
    parser.add_argument("--left", type=float, default=0.0, help="m/s")
    parser.add_argument("--turn", type=float, default=0.0, help="rad/s")
    parser.add_argument("--robots", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    velocity = (args.speed, args.left, args.turn)
    print(json.dumps(walk(args.policy, velocity, args.robots, args.seconds), indent=2))
