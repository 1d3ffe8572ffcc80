"""How well the shield foresees a humanoid's fall: `python -m benchmarks.humanoid_falls [--robots 60 60 50]`.

G1s stand, walk, or have just lost their policy, with the noise, delays and randomisation of the task `velocity`; then
each is pushed, some of them over. Alarms are noted and not acted upon. Printed as JSON: of the robots that the shield
would have damped the share that fell (precision), of those that fell the share that it would have damped in time
(recall), and the time from then until the base is lower than `DOWN_M` (lead).
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from benchmarks.humanoid_shield import SEED, Walkers
from deploy.shield import JointShieldParams, Shield, make_shield_params
from deploy.shield.joints.guards import check_upright
from policies.threads import single_threaded_torch
from sim import randomisation
from sim.tasks.velocity import VELOCITY

DOWN_M = 0.4
BLIND_TO_FALLS = {"max_tilt_rad": 10.0, "min_height_share": 0.01}
CASES = ((0.0, (0.4, 1.8), False), (0.6, (0.4, 1.8), False), (0.8, (0.3, 1.2), True))  # m/s, push in m/s, policy dies


@single_threaded_torch()
def foresee(speed: float, push: tuple[float, float], dies: bool, worlds: int, seed: int) -> tuple[np.ndarray, ...]:
    """Times (W,) s of the first alarm that two measurements in a row raise and of the fall; infinite where none is."""
    walkers = Walkers(speed, worlds, Path("zoo/velocity.onnx"), seed=seed)
    spec, usual, dt_s = walkers.robots.robot, walkers.params, walkers.params.control_dt_s
    assert isinstance(usual, JointShieldParams)
    walkers.params = make_shield_params(spec, **{**VELOCITY.group.shield, **BLIND_TO_FALLS})
    walkers.shields = [Shield(walkers.params, spec) for _ in range(worlds)]
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    begin = 125 + rng.integers(0, 36, worlds)
    pushed = begin + rng.integers(0, 40, worlds)
    alarm, fall, before = np.full(worlds, np.inf), np.full(worlds, np.inf), np.zeros(worlds, bool)
    for step in range(int(begin.max()) + round(3.5 / dt_s)):
        if len(now := np.flatnonzero(pushed == step)):
            randomisation.push(walkers.robots.robots, torch.as_tensor(now), generator, speed_m_s=push)
        walkers.step((begin <= step) & dies)
        falls = np.array([bool(check_upright(usual, spec, state)) for state in walkers.states()])
        alarm = np.where(falls & before, np.minimum(alarm, step * dt_s), alarm)
        down = walkers.robots.now.state.base_pos[:, 0, 2].numpy() < DOWN_M
        fall = np.where(down, np.minimum(fall, step * dt_s), fall)
        before = falls
    return alarm, fall


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", type=int, nargs=3, default=(60, 60, 50), help="that stand, walk, lose their policy")
    robots = parser.parse_args().robots
    runs = [foresee(*case, robots[number], SEED + number) for number, case in enumerate(CASES)]
    alarm, fall = (np.concatenate(times) for times in zip(*runs, strict=True))
    right = np.isfinite(alarm) & (alarm <= fall) & np.isfinite(fall)
    lead = fall[right] - alarm[right]
    figures = {
        "robots": len(fall),
        "fell": int(np.isfinite(fall).sum()),
        "precision": float(right.sum() / max(np.isfinite(alarm).sum(), 1)),
        "recall": float(right.sum() / max(np.isfinite(fall).sum(), 1)),
        "lead_s_10_50_90": np.quantile(lead, [0.1, 0.5, 0.9]).round(2).tolist() if len(lead) else None,
    }
    print(json.dumps(figures, indent=2))
