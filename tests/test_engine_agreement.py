"""On any engine a policy meets the same robot: returns, success and the forces under its feet are alike."""

import mujoco
import numpy as np
import pytest
import torch

from policies.evaluation.evaluate import make_policy_runner
from policies.threads import single_threaded_torch
from sim.envs.team_env import make_env

WORLDS, SECONDS = 48, 2.0
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@single_threaded_torch()
def flown(task, engine):
    """Return so far and failure of every world, and vertical contact force (steps, W) N, under the zoo's policy."""
    env = make_env(task, WORLDS, seed=77, engine=engine)
    pilot = make_policy_runner(f"zoo/{task}.onnx")
    pilot.start(env)
    total, failed, moments = torch.zeros(WORLDS), torch.zeros(WORLDS, dtype=torch.bool), []
    columns = torch.arange(env.world.scene.model.nq + env.world.scene.model.nv)
    for _ in range(round(SECONDS / env.control_dt)):
        _, reward, terminated, _, _ = env.step(pilot.act(env)[0])
        total += reward.mean(-1) * ~failed
        failed |= terminated.any(-1)
        moments.append(env.world.physics.now(columns).double().numpy())
    return total, failed, vertical_force(env.world.scene.model, np.stack(moments), env.control_dt, ~failed.numpy())


def vertical_force(model, moments, dt, alive):
    """What the ground pushes up with, from the balance of momentum: mass (g + change of the centre's velocity / dt)."""
    data, mass = mujoco.MjData(model), model.body_mass.sum()
    speed = np.empty(moments.shape[:2])
    for index in np.ndindex(speed.shape):
        data.qpos[:], data.qvel[:] = moments[index][: model.nq], moments[index][model.nq :]
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        mujoco.mj_subtreeVel(model, data)
        speed[index] = data.subtree_linvel[0, 2]
    return (mass * (9.81 + np.diff(speed, axis=0) / dt))[:, alive]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["warp", "mjx"])
def test_standing_against_pushes_is_alike_where_contacts_carry_it(engine):
    (ours, fell, force), (theirs, also_fell, other) = flown("stand", "mujoco"), flown("stand", engine)
    assert abs(int(fell.sum()) - int(also_fell.sum())) <= 3
    both = ~fell & ~also_fell
    spread = float((ours[both].var() / both.sum()).sqrt())
    assert abs(float(ours[both].mean() - theirs[both].mean())) < 2.0 * spread
    here, there = (np.quantile(f, QUANTILES) for f in (force, other))
    weight = float(np.mean(force))
    assert np.abs(here - there).max() < 0.03 * weight, (here, there)
    assert np.mean(other) == pytest.approx(weight, rel=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["warp", "mjx"])
def test_reaching_is_alike_to_a_thousandth(engine):
    (ours, _, _), (theirs, _, _) = flown("reach", "mujoco"), flown("reach", engine)
    assert float(theirs.mean()) == pytest.approx(float(ours.mean()), rel=1e-3)
    assert float((ours - theirs).abs().max()) < 0.02 * float(ours.mean())
