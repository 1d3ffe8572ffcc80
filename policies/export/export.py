"""From a checkpoint to the policy file: graph, contract and probes."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from deploy.bundle.probes import Probes, ProbeSequence, record_sequence
from deploy.contract import Contract, MemorySpec, Provenance, TeamSpec, make_plant, robot_interface
from deploy.contract.groups import robots_of
from deploy.contract.tensor_specs import CORRECTION, MEMORY_OUTPUT_SUFFIX, PEER_INPUTS
from deploy.shield import make_shield_params
from hardware import load_robot
from policies.evaluation.policy_runner import TeamRunner, TorchRunner, graph_inputs
from policies.evaluation.trained import chosen_group, load_trained
from policies.export.graph import GraphController, step_function, to_onnx
from policies.export.save import save_bundle
from policies.networks.controller import Controller
from policies.task_data import describe
from policies.threads import single_threaded_torch
from policies.training.run_record import git_state, versions
from sim.envs.one_robot import joined, part_of
from sim.envs.team_env import TeamEnv
from sim.task import TaskCfg
from sim.tasks import without_overlay

STAGES = ("graph, which takes longest", "probes", "check")
PROBE_STEPS = 8  # control periods of each probe
PROBE_LEAD = 40  # control periods flown before it, so that robots are moving and memory is not fresh
PROBE_CORRECTION = 0.1  # of a channel's range

Say = Callable[[str], object]  # hears what is done next: STAGES for every file


def export_policy(
    checkpoint: Path,
    out: Path,
    task: TaskCfg | None = None,
    group: str = "",
    accept_change: bool = False,
    on_progress: Say | None = None,
) -> Path:
    """Write the policy of a checkpoint (file or run directory) as one policy file, checked before it is written.

    `group` says whose, where the task has several; `task` is needed when it is not one that `load_task` knows.
    Raises CheckpointError, also where the task is not what was trained unless `accept_change`, BundleError, and
    ValueError for a group that is not there.
    """
    content, task, team = load_trained(checkpoint, task, accept_change)
    return _export(team, chosen_group(team, group, checkpoint), content, task, out, on_progress)


def export_team(
    checkpoint: Path,
    folder: Path,
    task: TaskCfg | None = None,
    accept_change: bool = False,
    on_progress: Say | None = None,
) -> list[Path]:
    """Write the policy of every group of a checkpoint as `folder`/TASK-GROUP.onnx; see `export_policy`."""
    content, task, team = load_trained(checkpoint, task, accept_change)
    names = {group: f"{task.name}-{group}.onnx" if len(team) > 1 else f"{task.name}.onnx" for group in team}
    return [_export(team, group, content, task, folder / name, on_progress) for group, name in names.items()]


def export_beside(checkpoint: Path, accept_change: bool = False, on_progress: Say | None = None) -> list[Path]:
    """Write the policies of a checkpoint beside it, under its own name: best.onnx, or best-GROUP.onnx of each group.

    Files that are as new as the checkpoint stay. See `export_policy`.
    """
    content, task, team = load_trained(checkpoint, None, accept_change)
    names = {group: f"-{group}" if len(team) > 1 else "" for group in team}
    paths = {group: checkpoint.with_name(f"{checkpoint.stem}{name}.onnx") for group, name in names.items()}
    for group, path in paths.items():
        if not path.exists() or path.stat().st_mtime < checkpoint.stat().st_mtime:
            _export(team, group, content, task, path, on_progress)
    return list(paths.values())


@single_threaded_torch()
def _export(
    team: Mapping[str, Controller],
    group: str,
    content: Mapping[str, Any],
    task: TaskCfg,
    out: Path,
    on_progress: Say | None,
) -> Path:
    say = on_progress or (lambda _: None)
    say(STAGES[0])
    graph = GraphController(team[group], task.scene.objects)
    onnx_bytes = to_onnx(graph)  # before the contract, which lists what the graph really uses
    contract = make_contract(graph, content, task, group if len(team) > 1 else "")
    say(STAGES[1])
    probes = record_probes(graph, contract, team, task)
    say(STAGES[2])
    save_bundle(onnx_bytes, contract, probes, out)
    return out


def make_contract(graph: GraphController, content: Mapping[str, Any], task: TaskCfg, group: str = "") -> Contract:
    """What the policy in `graph`, of a checkpoint with `content`, promises.

    `task` is the whole team's; `group` is the group's name where it has several.
    """
    cfg = graph.controller.group
    robot = load_robot(cfg.robot)
    return Contract(
        task=without_overlay(content["run"].get("from") or task.name),  # by which it is found again
        group=group,
        robot=robot_interface(robot),
        control_dt_s=1.0 / robot.control_hz,
        inputs=graph.inputs,
        outputs=graph.outputs,
        memory=tuple(MemorySpec(t.name, t.name + MEMORY_OUTPUT_SUFFIX, initial) for t, initial in graph.memory),
        commands=graph.commands,
        objects=graph.objects,
        team=TeamSpec(content["run"]["num_agents"], cfg.observation.peer_range_m, cfg.observation.max_peers),
        shield=asdict(make_shield_params(robot, **cfg.shield)),
        plant=make_plant(robot, describe(cfg.randomisation), cfg.rate_loop),
        provenance=_provenance(task, content),
    )


def record_probes(graph: GraphController, contract: Contract, team: Mapping[str, Controller], task: TaskCfg) -> Probes:
    """Flights of the team, of which `graph` sees what its group sees.

    Like robots that hear each other also fly as a pair and as a larger team than was trained; for a file of several,
    more and fewer peers are made of those that were there.
    """
    trained = contract.team.trained_with
    hears = any(tensor.name in PEER_INPUTS for tensor in contract.inputs)
    if len(team) == 1:
        sizes = (2, trained, _room_for(task, 2 * trained + 1)) if hears else (trained,)
        return Probes(tuple(_recorded(graph, *_like_robots(graph, contract, task, robots)) for robots in sizes))
    runners = {name: TorchRunner(controller) for name, controller in team.items()}
    env = TeamEnv(task, 1, seed=trained, num_agents=robots_of(task.groups, runners))
    whole = _flight(contract, env, part_of(env, contract.group), TeamRunner(runners), runners[contract.group])
    if not hears:
        return Probes((_recorded(graph, *whole),))
    inputs, memory = whole
    seen = inputs["peers_pos"].shape[2]
    numbers = sorted({1, seen, trained})  # a file must show what it does with more than it knew
    return Probes(tuple(_recorded(graph, _with_peers(inputs, number), memory) for number in numbers))


def _room_for(task: TaskCfg, robots: int) -> int:
    """The largest team of the task, of at most so many `robots`: its space may have room for fewer."""
    for count in range(robots, 1, -1):
        try:
            TeamEnv(task, 1, seed=count, num_agents=count).reset(0)
        except ValueError:
            continue
        return count
    return 1


def _like_robots(graph: GraphController, contract: Contract, task: TaskCfg, robots: int) -> tuple[dict, dict]:
    env, runner = TeamEnv(task, 1, seed=robots, num_agents=robots), TorchRunner(graph.controller)
    return _flight(contract, env, env.group, TeamRunner({task.group_name: runner}), runner)


def _flight(
    contract: Contract, env: Any, group: Any, team: Any, runner: TorchRunner
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs (T, N, ...) of the robots of `group`, flown by `runner` in a `team`, and their memory (N, n) before."""
    team.start(env)
    for _ in range(PROBE_LEAD):
        env.step(joined(team.act(env)[0], env.groups))
    memory = {name: value.flatten(0, 1).numpy() for name, value in runner.memory.items()}
    rows = []
    for _ in range(PROBE_STEPS):
        rows.append({name: value.copy() for name, value in graph_inputs(contract, group).items()})
        env.step(joined(team.act(env)[0], env.groups))
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, memory


def _recorded(graph: GraphController, inputs: dict[str, np.ndarray], memory: dict[str, np.ndarray]) -> ProbeSequence:
    # Empty slots are part of every flight, whether or not someone was out of range in this one.
    if "peers_valid" in inputs and inputs["peers_valid"].shape[-1] > 1:
        inputs["peers_valid"][PROBE_STEPS // 2 :, :, -1] = False
    if CORRECTION in inputs:  # these flights have no shield
        low, high = np.array([(c.low, c.high) for c in graph.robot.channels], np.float32).T
        inputs[CORRECTION][1::2] = PROBE_CORRECTION * (high - low)
    return record_sequence(step_function(graph), inputs, memory)


def _with_peers(inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """Inputs with `count` peers: the nearest of them, or all and the first ones once more."""
    slots = np.arange(count) % inputs["peers_pos"].shape[2]
    return {name: value[:, :, slots] if name in PEER_INPUTS else value.copy() for name, value in inputs.items()}


def _provenance(task: TaskCfg, content: Mapping[str, Any]) -> Provenance:
    """That of the training; what an earlier version's checkpoint does not know is that of today."""
    run, data = content["run"], content["run"]["task_data"]
    git = run["git"] or (git_state() if content.get("made_before") else None) or {"commit": None}
    now = versions(run["engines"][0])
    return Provenance(
        phalanx_version=run["versions"].get("phalanx", now.pop("phalanx")),
        task_config=data["config"] if data is not None else describe(task),
        seed=run["seed"],
        env_steps=content["progress"]["agent_steps"] // run["num_agents"],
        trained_at_utc=content["saved_at_utc"],
        git_commit=git["commit"],
        versions={name: value for name, value in (run["versions"] or now).items() if name != "phalanx"},
    )
