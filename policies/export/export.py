"""From a checkpoint to the policy file: graph, contract and probes."""

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from deploy.bundle import save_bundle
from deploy.bundle.probes import Probes, ProbeSequence, record_sequence
from deploy.contract import CommandSpec, Contract, MemorySpec, Provenance, TeamSpec, robot_interface
from deploy.contract.tensor_specs import (
    MEMORY_OUTPUT_SUFFIX,
    PEER_INPUTS,
    TensorSpec,
    object_tensor_specs,
    peer_tensor_specs,
    state_tensor_specs,
)
from deploy.runtime import PolicyRuntime
from deploy.shield import make_shield_params
from hardware import load_robot
from policies.checkpoint import CheckpointError, load_checkpoint
from policies.evaluation.policy_runner import TeamRunner, TorchRunner, graph_inputs
from policies.export.graph import GraphController, step_function, to_onnx
from policies.networks.actor_critic import Actor
from policies.networks.controller import Controller
from policies.training.learner import role_of
from sim.envs.team_env import MixedEnv, make_env
from sim.physics import packages_of
from sim.task import MixedTaskCfg, ObsLayout, TaskCfg
from sim.tasks import load_any_task

Task = TaskCfg | MixedTaskCfg

PROBE_STEPS = 8  # control periods of each probe
PROBE_LEAD = 40  # control periods flown before it, so that robots are moving and memory is not fresh


def export_policy(checkpoint: Path, out: Path, task: Task | None = None, role: str = "") -> Path:
    """Write the policy of a checkpoint (file or run directory) as one policy file and load it again to check it.

    `role` says whose, where the task has several; `task` is needed when it is not one that `load_any_task` knows.
    Raises CheckpointError or BundleError, and ValueError for a role that is not there.
    """
    content = load_checkpoint(checkpoint)
    task = task or load_any_task(content["config"]["task"])
    team = {name: _controller(content, task, name) for name in roles_of(content)}
    if role not in team:
        raise ValueError(f"{checkpoint} has no role {role!r}; it has: {', '.join(team)}")
    return _export(team, role, content, task, out)


def export_team(checkpoint: Path, folder: Path, task: Task | None = None) -> list[Path]:
    """Write the policy of every role of a checkpoint as `folder`/TASK-ROLE.onnx; see `export_policy`."""
    content = load_checkpoint(checkpoint)
    task = task or load_any_task(content["config"]["task"])
    team = {name: _controller(content, task, name) for name in roles_of(content)}
    names = {role: f"{task.name}-{role}.onnx" if role else f"{task.name}.onnx" for role in team}
    return [_export(team, role, content, task, folder / name) for role, name in names.items()]


def _export(team: Mapping[str, Controller], role: str, content: Mapping[str, Any], task: Task, out: Path) -> Path:
    controller = team[role]
    contract = make_contract(controller, content, task, role)
    onnx_bytes, used = to_onnx(GraphController(controller, contract.inputs, contract.outputs))
    contract = msgspec.structs.replace(
        contract, inputs=tuple(tensor for tensor in contract.inputs if tensor.name in used)
    )
    graph = GraphController(controller, contract.inputs, contract.outputs)
    contract = msgspec.structs.replace(contract, objects=graph.objects)
    probes = record_probes(graph, contract) if not role else record_team_probes(graph, contract, team, task)
    save_bundle(onnx_bytes, contract, probes, out)
    PolicyRuntime.load(out, load_robot(controller.role.robot))
    return out


def load_controller(checkpoint: Path, task: Task | None = None, role: str = "") -> Controller:
    """The controller of a checkpoint (file or run directory), of `role`, ready to fly. Raises CheckpointError."""
    content = load_checkpoint(checkpoint)
    return _controller(content, task or load_any_task(content["config"]["task"]), role)


def load_controllers(checkpoint: Path, task: Task | None = None) -> dict[str, Controller]:
    """As `load_controller`, of every role of the checkpoint."""
    return {role: load_controller(checkpoint, task, role) for role in roles_of(load_checkpoint(checkpoint))}


def roles_of(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the roles that a checkpoint with `content` has learned; one empty name where robots are all alike."""
    return tuple(content["learners"])


def _controller(content: Mapping[str, Any], task: Task, role: str) -> Controller:
    if role not in content["learners"]:
        raise CheckpointError(f"the run has no role {role!r}; it has: {', '.join(content['learners'])}")
    state = content["learners"][role]
    actor = Actor(ObsLayout(**state["layout"]), state["action_dim"], state["ppo"]["hidden"], state["ppo"]["peer_embed"])
    actor.load_state_dict(state["actor"])
    return Controller(role_of(task, role), actor).eval()


def make_contract(
    controller: Controller, content: Mapping[str, Any], task: Task | None = None, role: str = ""
) -> Contract:
    """What the policy of a checkpoint with `content` promises, with every input that it might look at.

    `task` is the whole team's, needed where the policy is of one `role` of several.
    """
    cfg = controller.role
    if task is None:
        assert isinstance(cfg, TaskCfg), "a role alone does not know its task"
        task = cfg
    robot = load_robot(cfg.robot)
    obs = cfg.observation
    commands = tuple(
        CommandSpec(name, ("batch", len(c.low)), c.unit, c.frame, c.meaning, c.low, c.high)
        for name, c in cfg.commands.items()
    )
    memory = tuple(
        TensorSpec(name, ("batch", len(t.initial)), "float32", "1", "none", first_sentence(t.func))
        for name, t in obs.memory.items()
    )
    inputs = (
        *state_tensor_specs(len(robot.joint_names)),
        *(signal for name in task.scene.objects for signal in object_tensor_specs(name)),
        *(peer_tensor_specs() if obs.peer else ()),
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
        group=role,
        robot=robot_interface(robot),
        control_dt_s=1.0 / robot.control_hz,
        inputs=inputs,
        outputs=outputs,
        memory=tuple(MemorySpec(n, n + MEMORY_OUTPUT_SUFFIX, t.initial) for n, t in obs.memory.items()),
        commands=commands,
        objects=task.scene.objects,
        team=TeamSpec(content["num_agents"], obs.peer_range_m, obs.max_peers),
        shield=asdict(make_shield_params(robot, **cfg.shield)),
        provenance=_provenance(task, content),
    )


def record_probes(graph: GraphController, contract: Contract) -> Probes:
    """Flights of the team as trained and, where robots hear each other, of a pair and of a larger team than that."""
    trained = contract.team.trained_with
    hears = any(tensor.name in PEER_INPUTS for tensor in contract.inputs)
    sizes = (2, trained, 2 * trained + 1) if hears else (trained,)
    return Probes(tuple(_probe(graph, contract, robots) for robots in sizes))


def record_team_probes(
    graph: GraphController, contract: Contract, team: Mapping[str, Controller], task: Task
) -> Probes:
    """A flight of the whole team, of which `graph` sees what its role sees; with more and fewer peers made of it."""
    env = MixedEnv(task, 1, seed=contract.team.trained_with)
    runners = {role: TorchRunner(controller) for role, controller in team.items()}
    whole = _flight(graph, contract, env, env.groups[contract.group], TeamRunner(runners), runners[contract.group])
    if not any(tensor.name in PEER_INPUTS for tensor in contract.inputs):
        return Probes((_recorded(graph, *whole),))
    inputs, memory = whole
    seen = inputs["peers_pos"].shape[2]
    sizes = sorted({1, seen, contract.team.trained_with})  # a file must show what it does with more than it knew
    return Probes(tuple(_recorded(graph, _with_peers(inputs, size), memory) for size in sizes))


def _probe(graph: GraphController, contract: Contract, robots: int) -> ProbeSequence:
    task = graph.controller.role
    assert isinstance(task, TaskCfg)
    env, runner = make_env(task, 1, seed=robots, num_agents=robots), TorchRunner(graph.controller)
    return _recorded(graph, *_flight(graph, contract, env, env, runner, runner))


def _flight(
    graph: GraphController, contract: Contract, env: Any, group: Any, team: Any, runner: TorchRunner
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs (T, N, ...) of the robots of `group`, flown by `runner` in a `team`, and their memory (N, n) before."""
    team.start(env)
    for _ in range(PROBE_LEAD):
        env.step(team.act(env)[0])
    memory = {name: value.flatten(0, 1).numpy() for name, value in runner.memory.items()}
    rows = []
    for _ in range(PROBE_STEPS):
        rows.append({name: value.copy() for name, value in graph_inputs(contract, group).items()})
        env.step(team.act(env)[0])
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, memory


def _recorded(graph: GraphController, inputs: dict[str, np.ndarray], memory: dict[str, np.ndarray]) -> ProbeSequence:
    # Slots that hold nobody are part of every flight, whether or not someone was out of range in this one.
    if "peers_valid" in inputs and inputs["peers_valid"].shape[-1] > 1:
        inputs["peers_valid"][PROBE_STEPS // 2 :, :, -1] = False
    return record_sequence(step_function(graph), inputs, memory)


def _with_peers(inputs: Mapping[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """Inputs with `count` peers: the nearest of them, or all and the first ones once more."""
    slots = np.arange(count) % inputs["peers_pos"].shape[2]
    return {name: value[:, :, slots] if name in PEER_INPUTS else value.copy() for name, value in inputs.items()}


def _provenance(task: Task, content: Mapping[str, Any]) -> Provenance:
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
            **{n: _version(n) for engine in content.get("engines", ()) for n in packages_of(engine)},
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
