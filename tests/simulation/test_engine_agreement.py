"""On any engine a policy meets the same robot: motion, returns, success and the forces under its feet are alike."""

from functools import cache

import mujoco
import numpy as np
import pytest
import torch
from one_group import make_env

from policies.evaluation.evaluate import make_policy_runner
from policies.threads import single_threaded_torch

WORLDS = {"stand": 16, "reach": 16}
SECONDS = {"stand": 2.0, "reach": 1.0}
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

# What native MuJoCo does is worked out once, and engines that compile do so in one worker
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("engine agreement")]


@cache
@single_threaded_torch()
def flown(task, engine):
    """Under the zoo's policy: return so far and failure of every world, coordinates and velocities (steps, W, n)."""
    env = make_env(task, WORLDS[task], seed=77, engine=engine)
    pilot = make_policy_runner(f"zoo/{task}.onnx")
    pilot.start(env)
    total, failed, moments = torch.zeros(env.num_envs), torch.zeros(env.num_envs, dtype=torch.bool), []
    columns = torch.arange(env.world.scene.model.nq + env.world.scene.model.nv)
    for _ in range(round(SECONDS[task] / env.control_dt)):
        _, reward, terminated, _, _ = env.step(pilot.act(env)[0])
        total += reward.mean(-1) * ~failed
        failed |= terminated.any(-1)
        moments.append(env.world.physics.now(columns).double().numpy())
    return total, failed, np.stack(moments), env


def apart(task, engine):
    """Each world's largest difference of a coordinate (W,) m, rad from native MuJoCo after 1 and 10 control steps."""
    (*_, here, env), (*_, there, _) = flown(task, "mujoco"), flown(task, engine)
    return [np.sort(np.abs(here - there)[step, :, : env.world.scene.model.nq].max(-1)) for step in (0, 9)]


def vertical_force(env, moments, alive):
    """What the ground pushes up with, from the balance of momentum: mass (g + change of the centre's velocity / dt)."""
    model, dt = env.world.scene.model, env.control_dt
    data, mass = mujoco.MjData(model), model.body_mass.sum()
    speed = np.empty(moments.shape[:2])
    for index in np.ndindex(speed.shape):
        data.qpos[:], data.qvel[:] = moments[index][: model.nq], moments[index][model.nq :]
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        mujoco.mj_subtreeVel(model, data)
        speed[index] = data.subtree_linvel[0, 2]
    return (mass * (9.81 + np.diff(speed, axis=0) / dt))[:, alive]


@pytest.mark.parametrize("engine", ["warp", "mjx"])
def test_standing_against_pushes_is_alike_where_contacts_carry_it(engine):
    (ours, fell, moments, env), (theirs, also_fell, others, _) = flown("stand", "mujoco"), flown("stand", engine)
    soon, later = apart("stand", engine)
    assert soon[-2] < 1e-6 and later[-2] < 2e-4 and np.median(later) < 1e-5, (soon, later)
    assert (
        soon[-1] < 5e-5 and later[-1] < 0.01
    )  # of one a sole just touches the ground, with one engine and not the other
    assert abs(int(fell.sum()) - int(also_fell.sum())) <= 1
    both = ~fell & ~also_fell
    spread = float((ours[both].var() / both.sum()).sqrt())
    assert abs(float(ours[both].mean() - theirs[both].mean())) < 2.0 * spread
    force, other = (vertical_force(env, each, both.numpy()) for each in (moments, others))
    here, there = (np.quantile(f, QUANTILES) for f in (force, other))
    weight = float(np.mean(force))
    assert np.abs(here - there).max() < 0.03 * weight, (here, there)
    assert np.mean(other) == pytest.approx(weight, rel=0.005)


@pytest.mark.parametrize("engine", ["warp", "mjx"])
def test_reaching_is_alike_to_a_thousandth(engine):
    (ours, *_), (theirs, *_) = flown("reach", "mujoco"), flown("reach", engine)
    soon, later = apart("reach", engine)
    assert soon[-1] < 1e-5 and later[-1] < 5e-5, (soon, later)
    assert float(theirs.mean()) == pytest.approx(float(ours.mean()), rel=1e-3)
    assert float((ours - theirs).abs().max()) < 0.02 * float(ours.mean())
