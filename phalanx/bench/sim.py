"""Physics steps a second: MuJoCo alone, our back end, the whole environment, training; one run, taken in turns."""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout

from phalanx.machine import machine, versions
from policies.parallel import single_threaded_torch
from policies.train import TrainCfg, Trainer
from sim.env import TeamEnv, make_env
from sim.group import rest_command
from sim.physics.native import NativePhysics

MIN_SPAN_S = 0.4  # a measurement lasts at least this long


@single_threaded_torch()
def bench_sim(task: str, num_envs: int, repeats: int, on_progress: Callable[[], None]) -> dict[str, Any]:
    """Rates in physics steps of a world a second, and each as a ratio of the raw rate; `on_progress` once a repeat."""
    began = time.perf_counter()
    env = make_env(task, num_envs, seed=0)
    actions = 2.0 * torch.rand(16, num_envs, env.num_agents, env.action_dim) - 1.0
    env.step(actions[0])
    cold = {"env_s": time.perf_counter() - began}
    substeps = env.world.decimation
    with TemporaryDirectory() as folder:
        began = time.perf_counter()
        trainer = Trainer(TrainCfg(task=task, num_envs=num_envs, out=Path(folder)))
        trainer.iterate(0.0)
        cold["training_s"] = time.perf_counter() - began
        per_iteration = trainer.steps_per_iteration // env.num_agents
        layers: dict[str, tuple[Callable[[int], Any], int]] = {
            "raw_rollout": (_raw(env, substeps), num_envs),
            "physics": (_physics(env, substeps), num_envs),
            "env_random_actions": (lambda k: env.step(actions[k % len(actions)]), num_envs),
            "training": (lambda k: trainer.iterate(0.0), per_iteration),
        }
        rates: dict[str, list[float]] = {name: [] for name in layers}
        for _ in range(repeats):  # in turns, so that a busy minute of the machine hits all of them
            for name, (call, worlds) in layers.items():
                rates[name].append(substeps * worlds * _calls_per_s(call))
            on_progress()
    return {
        "bench": "sim",
        "task": task,
        "num_envs": num_envs,
        "num_agents": env.num_agents,
        "physics_steps_per_control_step": substeps,
        "repeats": repeats,
        "physics_steps_per_s": {name: statistics.median(values) for name, values in rates.items()},
        "agent_steps_per_s": {
            name: statistics.median(rates[name]) * env.num_agents / substeps
            for name in ("env_random_actions", "training")
        },
        "ratio_to_raw": {
            name: statistics.median(a / b for a, b in zip(values, rates["raw_rollout"], strict=True))
            for name, values in rates.items()
        },
        "cold_start": cold,
        "versions": versions(),
        "machine": machine(),
    }


def _raw(env: TeamEnv, substeps: int) -> Callable[[int], Any]:
    """`mujoco.rollout` as its documentation calls it, on the same model and control, from the task's own starts."""
    model = env.world.scene.model
    threads = len(os.sched_getaffinity(0))
    models = [model] * env.num_worlds
    pool, data = Rollout(nthread=threads), [mujoco.MjData(model) for _ in range(threads)]
    start = env.world.physics.state_dict()["start"].numpy().copy()
    state = np.zeros((len(start), substeps, start.shape[1]))
    control = np.tile(_hover(env), (len(start), substeps, 1))

    def step(_: int) -> None:
        pool.rollout(models, data, start, control, state=state, skip_checks=True, nstep=substeps)
        start[:] = state[:, -1]

    return step


def _physics(env: TeamEnv, substeps: int) -> Callable[[int], Any]:
    physics = NativePhysics(env.world.scene, env.num_worlds, substeps)
    physics.load_state_dict(env.world.physics.state_dict())
    control = torch.from_numpy(np.tile(_hover(env), (env.num_worlds, substeps, 1)))
    columns = torch.arange(env.world.scene.model.nq + env.world.scene.model.nv)

    def step(_: int) -> None:
        physics.step(control)
        physics.now(columns)

    return step


def _hover(env: TeamEnv) -> np.ndarray:
    """Control (nu,) that keeps every robot near where it is, so that long runs stay in the air."""
    control = np.zeros(env.world.scene.model.nu)
    control[env.world.scene.group.ctrl_index] = np.array(rest_command(env.robot))
    return control


def _calls_per_s(call: Callable[[int], Any]) -> float:
    count, began = 0, time.perf_counter()
    while (span := time.perf_counter() - began) < MIN_SPAN_S:
        call(count)
        count += 1
    return count / span
