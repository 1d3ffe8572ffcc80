"""How long a policy of the task `velocity` keeps its commands: `python -m benchmarks.humanoid_track FILE-OR-RUN`.

Held-out commands in every direction, changed on the way, with the task's noise, delays, pushes and randomised robots,
behind the shield. The task's success asks for the last second; here the mean velocity over two gait periods counts
from a second after each command on: how far it may be off, in how many of the episodes, and for how much of the time.
Printed as JSON. Without --pushes nothing pushes.
"""

import argparse
import json
from pathlib import Path

import torch

from benchmarks.humanoid_shield import SEED
from policies.evaluation.evaluate import make_policy_runner, wilson
from policies.evaluation.trained import load_controller
from policies.threads import single_threaded_torch
from sim.envs.team_env import TeamEnv
from sim.tasks.velocity import GAIT_S, SWITCH_S, VELOCITY
from sim.terms.humanoids import tracks

TOLERANCES = ((0.2, 0.3), (0.15, 0.2))  # m/s, rad/s: of the task, and a stricter one
SETTLING_S = 1.0 + 2 * GAIT_S  # after a command: a second, and what means are taken over


@single_threaded_torch()
def track(policy: Path, worlds: int, pushes: bool) -> dict[str, object]:
    """Follow held-out commands in `worlds` worlds, one episode in each."""
    randomisation = {name: term for name, term in VELOCITY.group.randomisation.items() if pushes or name != "push"}
    task = VELOCITY.changed(randomisation=randomisation, terminations={})
    env = TeamEnv(task, worlds, SEED, shield=True)
    robots = env.group
    fallen = VELOCITY.group.terminations["fallen"]
    runner = make_policy_runner(policy if policy.suffix == ".onnx" else load_controller(policy))
    runner.start(robots)
    upright = torch.ones(worlds, dtype=torch.bool)
    within = {tolerance: torch.zeros(worlds) for tolerance in TOLERANCES}  # steps
    steps_counted, errors = 0, []
    for step in range(round(task.episode_s / env.control_dt) - 1):  # none starts again
        env.step({task.group_name: runner.act(robots)[0]})
        upright &= ~fallen.func(robots.now, **fallen.params)[:, 0]
        time_s = (step + 1) * env.control_dt
        if (time_s if time_s < SWITCH_S else time_s - SWITCH_S) < SETTLING_S:
            continue
        steps_counted += 1
        errors.append(robots.now.means["velocity_error"][:, 0])
        for speed, turn in TOLERANCES:
            within[speed, turn] += (upright & tracks(robots.now, speed, turn)[:, 0]).float()
    error = torch.stack(errors)[:, upright]  # (T, K, 3)
    shares = {}
    for (speed, turn), steps in within.items():
        always = int((steps == steps_counted).sum())
        shares[f"{speed:g} m/s, {turn:g} rad/s"] = {
            "of_episodes_always": always / worlds,
            "of_episodes_always_95": wilson(always, worlds),
            "of_time": (steps / steps_counted).mean().item(),
        }
    return {
        "robots": worlds,
        "pushed": pushes,
        "upright": upright.float().mean().item(),
        "within": shares,
        "rms_error_m_s": error[..., :2].square().sum(-1).mean().sqrt().item(),
        "rms_error_rad_s": error[..., 2].square().mean().sqrt().item(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", type=Path, help="policy file, or folder of a training run")
    parser.add_argument("--robots", type=int, default=256)
    parser.add_argument("--pushes", action="store_true", help="push as in training")
    args = parser.parse_args()
    print(json.dumps(track(args.policy, args.robots, args.pushes), indent=2))
