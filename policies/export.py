"""From a checkpoint to the policy file: graph, contract and probes."""

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from deploy.bundle import save_bundle
from deploy.contract import CommandSpec, Contract, MemorySpec, Provenance, TeamSpec, robot_interface
from deploy.probes import Probes, ProbeSequence, record_sequence
from deploy.runtime import PolicyRuntime
from deploy.shield import make_shield_params
from deploy.signals import MEMORY_OUTPUT_SUFFIX, PEER_INPUTS, TensorSpec, object_signals, peer_signals, state_signals
from hardware import load_robot
from policies.checkpoint import load_checkpoint
from policies.controller import Controller
from policies.graph import GraphController, step_function, to_onnx
from policies.networks import Actor
from policies.pilot import TorchPilot, graph_inputs
from sim.env import make_env
from sim.task import ObsLayout, TaskCfg
from sim.tasks import load_task

PROBE_STEPS = 8  # control periods of each probe
PROBE_LEAD = 40  # control periods flown before it, so that robots are moving and memory is not fresh


def export_policy(checkpoint: Path, out: Path, task: TaskCfg | None = None) -> Path:
    """Write the policy of a checkpoint (file or run directory) as one policy file and load it again to check it.

    `task` is needed when it is not one that `load_task` knows. Raises CheckpointError or BundleError.
    """
    content = load_checkpoint(checkpoint)
    controller = load_controller(checkpoint, task)
    contract = make_contract(controller, content)
    graph = GraphController(controller, contract.inputs, contract.outputs)
    onnx_bytes, used = to_onnx(graph)
    contract = replace(contract, inputs=tuple(tensor for tensor in contract.inputs if tensor.name in used))
    graph = GraphController(controller, contract.inputs, contract.outputs)
    save_bundle(onnx_bytes, contract, record_probes(graph, contract), out)
    PolicyRuntime.load(out, load_robot(controller.task.robot))
    return out


def load_controller(checkpoint: Path, task: TaskCfg | None = None) -> Controller:
    """The controller of a checkpoint (file or run directory), ready to fly. Raises CheckpointError."""
    content = load_checkpoint(checkpoint)
    layout, sizes = ObsLayout(**content["layout"]), content["ppo"]
    actor = Actor(layout, content["action_dim"], sizes["hidden"], sizes["peer_embed"])
    actor.load_state_dict(content["actor"])
    return Controller(task or load_task(content["config"]["task"]), actor).eval()


def make_contract(controller: Controller, content: Mapping[str, Any]) -> Contract:
    """What the policy of a checkpoint with `content` promises, with every input that it might look at."""
    task = controller.task
    robot = load_robot(task.robot)
    obs = task.observation
    commands = tuple(
        CommandSpec(name, ("batch", len(c.low)), c.unit, c.frame, c.meaning, c.low, c.high)
        for name, c in task.commands.items()
    )
    memory = tuple(
        TensorSpec(name, ("batch", len(t.initial)), "float32", "1", "none", first_sentence(t.func))
        for name, t in obs.memory.items()
    )
    inputs = (
        *state_signals(len(robot.joint_names)),
        *(signal for name in task.scene.objects for signal in object_signals(name)),
        *(peer_signals() if obs.peer else ()),
        *(TensorSpec(c.name, c.shape, "float32", c.unit, c.frame, c.meaning) for c in commands),
        *memory,
    )
    width = len(robot.channels)
    units = ", ".join(dict.fromkeys(channel.unit for channel in robot.channels))
    own = ", ".join(obs.own)
    outputs = (
        TensorSpec("target", ("batch", width), "float32", units, "body", "actuator command, one entry a channel"),
        TensorSpec("obs", ("batch", controller.actor.normaliser.own_dim), "float32", "SI", "body", f"seen: {own}"),
        TensorSpec("action", ("batch", width), "float32", "1", "none", "network output in [-1, 1] before decoding"),
        *(TensorSpec(m.name + MEMORY_OUTPUT_SUFFIX, m.shape, "float32", m.unit, m.frame, m.meaning) for m in memory),
    )
    return Contract(
        task=task.name,
        robot=robot_interface(robot),
        control_dt_s=1.0 / robot.control_hz,
        inputs=inputs,
        outputs=outputs,
        memory=tuple(MemorySpec(n, n + MEMORY_OUTPUT_SUFFIX, t.initial) for n, t in obs.memory.items()),
        commands=commands,
        objects=task.scene.objects,
        team=TeamSpec(content["num_agents"], obs.peer_range_m, obs.max_peers),
        shield=asdict(make_shield_params(robot, **task.shield)),
        provenance=_provenance(task, content),
    )


def record_probes(graph: GraphController, contract: Contract) -> Probes:
    """Flights of the team as trained and, where robots hear each other, of a pair and of a larger team than that."""
    trained = contract.team.trained_with
    hears = any(tensor.name in PEER_INPUTS for tensor in contract.inputs)
    sizes = (2, trained, 2 * trained + 1) if hears else (trained,)
    return Probes(tuple(_probe(graph, contract, robots) for robots in sizes))


def _probe(graph: GraphController, contract: Contract, robots: int) -> ProbeSequence:
    env = make_env(graph.controller.task, 1, seed=robots, num_agents=robots)
    pilot = TorchPilot(graph.controller)
    pilot.start(env)
    for _ in range(PROBE_LEAD):
        env.step(pilot.act(env)[0])
    memory = {name: value.flatten(0, 1).numpy() for name, value in pilot.memory.items()}
    rows = []
    for _ in range(PROBE_STEPS):
        rows.append({name: value.copy() for name, value in graph_inputs(contract, env).items()})
        env.step(pilot.act(env)[0])
    inputs = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    # Slots that hold nobody are part of every flight, whether or not someone was out of range in this one.
    if "peers_valid" in inputs and inputs["peers_valid"].shape[-1] > 1:
        inputs["peers_valid"][PROBE_STEPS // 2 :, :, -1] = False
    return record_sequence(step_function(graph), inputs, memory)


def _provenance(task: TaskCfg, content: Mapping[str, Any]) -> Provenance:
    return Provenance(
        phalanx_version=_version("phalanx"),
        task_config=describe(task),
        seed=content["config"]["seed"],
        env_steps=content["agent_steps"] // content["num_agents"],
        trained_at_utc=content["saved_at_utc"],
        git_commit=_git_commit(),
        versions={
            "python": platform.python_version(),
            **{n: _version(n) for n in ("torch", "mujoco", "numpy", "onnx")},
        },
    )


def describe(value: Any) -> Any:
    """A configuration as plain JSON data; a function is named by its module and name."""
    if is_dataclass(value):
        return {field.name: describe(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): describe(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [describe(item) for item in value]
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    return value


def first_sentence(func: Any) -> str:
    """First line of a term's docstring, without the full stop."""
    return (func.__doc__ or func.__name__).strip().splitlines()[0].rstrip(".")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _git_commit() -> str | None:
    """Commit of this source tree; None when it is not a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
