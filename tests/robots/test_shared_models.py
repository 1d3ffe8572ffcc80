"""Worlds share what their models have in common, and nothing else."""

import copy
import gc

import mujoco
import numpy as np
import pytest
import torch

from sim.envs.team_env import TeamEnv
from sim.envs.world import task_scene
from sim.physics.derived import DERIVED, INERTIAL
from sim.physics.mujoco import shared_models
from sim.physics.mujoco.shared_models import SharedModels
from sim.tasks import load_task, task_names


def arrays(model):
    named = {name: getattr(model, name) for name in dir(model) if not name.startswith("_")}
    return {name: value for name, value in named.items() if isinstance(value, np.ndarray)}


def simulated(models, ctrl, steps=40):
    """Final qpos of each model from its zero position under `ctrl` (K, nu)."""
    ends = []
    for model, held in zip(models, ctrl, strict=True):
        data = mujoco.MjData(model)
        data.ctrl[:] = held
        mujoco.mj_step(model, data, steps)
        ends.append(data.qpos.copy())
    return np.stack(ends)


@pytest.mark.parametrize("task", ["swarm-swap", "reach", "velocity", "payload-lift"])
def test_a_world_moves_as_with_a_model_of_its_own(task):
    env = TeamEnv(load_task(task), 6, seed=3)
    physics, base = env.world.physics, env.world.scene.model
    for _ in range(3):
        env.step({name: torch.zeros(6, c.num_agents, c.action_dim) for name, c in env.groups.items()})
    whole = []
    for model in physics.models:
        own = copy.copy(base)
        for name, value in arrays(model).items():
            getattr(own, name)[...] = value
        whole.append(own)
    ctrl = np.random.default_rng(0).uniform(0.0, 0.2, (6, base.nu))
    found, wanted = simulated(physics.models, ctrl), simulated(whole, ctrl)
    assert (found == wanted).all()
    assert len({end.tobytes() for end in found}) == 6, "every world has drawn its own"


def test_only_what_is_owned_can_differ():
    base = task_scene(load_task("swarm-swap").changed(rate_loop=False)).model
    mass = base.body_mass.copy()
    shared = SharedModels(base, 2)
    light, heavy = shared.models
    rest = np.zeros((2, base.nu))
    heavy.body_mass[:] *= 3.0  # goes nowhere yet
    assert (np.diff(simulated(shared.models, rest), axis=0) == 0.0).all()
    shared.own(("body_mass", "body_mass", "no_such_array"))
    heavy.body_mass[:] = 3.0 * mass
    rest[:, 0] = 0.5  # N
    heights = simulated(shared.models, rest)[:, 2]
    assert heights[0] > heights[1] + 0.01
    assert (base.body_mass == mass).all() and (light.body_mass == mass).all()


@pytest.mark.parametrize(
    ("name", "value"),
    [("LONGEST", 800), ("_structure", lambda model, words: np.arange(words, dtype=np.uint64)[::-1])],
    ids=["a pointer is missing", "pointers are in another order"],
)
def test_where_the_layout_is_unknown_every_copy_is_whole(name, value, monkeypatch):
    base = task_scene(load_task("hover")).model
    monkeypatch.setattr(shared_models, name, value)
    with pytest.warns(UserWarning, match=f"MuJoCo {mujoco.__version__}"):
        shared = SharedModels(base, 2)
    shared.models[1].body_mass[:] *= 3.0
    shared.own(("body_mass",))
    light, heavy = (mujoco.mj_getTotalmass(model) for model in shared.models)
    assert heavy == pytest.approx(3.0 * light) and light == mujoco.mj_getTotalmass(base)


@pytest.mark.parametrize("task", task_names())
def test_everything_that_follows_from_masses_is_known(task):
    base = task_scene(load_task(task)).model
    model, random = copy.copy(base), np.random.default_rng(0)
    for value in (model.body_mass, model.body_inertia, model.dof_armature):
        value.T[...] *= random.uniform(0.5, 2.0, len(value))
    model.body_ipos[model.body_simple == 0] += 0.01
    mujoco.mj_setConst(model, mujoco.MjData(model))
    before, after = arrays(base), arrays(model)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert {name for name in changed if not name.startswith(("light_", "cam_"))} <= {*INERTIAL, *DERIVED}


@pytest.mark.slow
def test_a_copy_outlives_everything_else():
    env = TeamEnv(load_task("hover"), 3, seed=0)
    model = env.world.physics.models[2]
    del env
    gc.collect()
    data = mujoco.MjData(model)
    mujoco.mj_step(copy.copy(model), data, 5)
    assert np.isfinite(data.qpos).all()


def test_a_loaded_state_knows_nothing_of_what_was_changed_since():
    env = TeamEnv(load_task("hover"), 3, seed=0)
    physics, saved = env.world.physics, env.world.physics.state_dict()
    everyone, entries = torch.arange(3), torch.arange(6)
    physics.set_field("dof_damping", everyone, entries, torch.full((3, 6), 5.0))
    physics.load_state_dict(saved)
    assert all((model.dof_damping == physics.scene.model.dof_damping).all() for model in physics.models)
