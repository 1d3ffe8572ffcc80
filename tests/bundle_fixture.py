"""A small but complete team policy, exported for real: what the tests of the deployed side fly."""

import io
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
from msgspec.structs import replace
from torch import nn

from deploy.bundle import BundleError
from deploy.bundle.probes import Probes, StepFn, record_sequence
from deploy.contract import CommandSpec, Contract, MemorySpec, Provenance, TeamSpec, make_plant, robot_interface
from deploy.contract.tensor_specs import TensorSpec, peer_tensor_specs, state_tensor_specs
from deploy.runtime import PolicyRuntime
from hardware import Peers, RobotState, load_robot
from policies.export.save import save_bundle

GATE = {"name": "probes", "value": 0.0, "sign": "<=", "limit": 1e-5, "passed": True}  # of a record of verification
WIDTH = 64
MAX_PEERS = 8
GOAL = TensorSpec("goal_pos", ("batch", 3), "float32", "m", "world", "where to hover")
LAST_ACTION = TensorSpec("last_action", ("batch", 4), "float32", "1", "none", "action of the period before")


def make_contract(**changes) -> Contract:
    robot = load_robot("crazyflie")
    contract = Contract(
        task="swarm-swap",
        robot=robot_interface(robot),
        control_dt_s=1 / robot.control_hz,
        inputs=(*state_tensor_specs(0), *peer_tensor_specs(), GOAL, LAST_ACTION),
        outputs=(
            TensorSpec("target", ("batch", 4), "float32", "N, rad/s", "body", "actuator command"),
            TensorSpec("obs", ("batch", 13), "float32", "1", "body", "what the network saw of its own robot"),
            TensorSpec("action", ("batch", 4), "float32", "1", "none", "what the network said"),
            replace(LAST_ACTION, name="last_action_out", meaning="action of this period"),
        ),
        memory=(MemorySpec("last_action", "last_action_out", (0.0, 0.0, 0.0, 1 / 3)),),
        commands=(
            CommandSpec("goal_pos", ("batch", 3), "m", "world", "where to hover", (-3.0, -3.0, 0.2), (3.0,) * 3),
        ),
        team=TeamSpec(trained_with=4, peer_range_m=5.0, max_peers=MAX_PEERS),
        plant=make_plant(robot, {}),
        shield={"separation_m": 0.3, "geofence_low": (-4.0, -4.0, 0.1), "gain": 1 / 3},
        provenance=Provenance(
            "0.1.0",
            {"name": "swarm-swap", "rewards": ({"term": "goal", "weight": 0.1},)},
            7,
            1_000_000,
            "2026-01-02T03:04:05Z",
            None,
            {"torch": torch.__version__},
        ),
    )
    return replace(contract, **changes)


class TeamPolicy(nn.Module):
    """Raw sensors to actuator command: rotation, attention over the valid peers, one step of memory, decoding."""

    def __init__(self, seed: int = 0):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.own = nn.Linear(17, WIDTH)
            self.peer = nn.Linear(7, WIDTH)
            self.query = nn.Linear(WIDTH, WIDTH)
            self.trunk = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ELU(), nn.Linear(WIDTH, WIDTH), nn.ELU())
            self.head = nn.Linear(WIDTH, 4)
        channels = load_robot("crazyflie").channels
        self.register_buffer("low", torch.tensor([c.low for c in channels]))
        self.register_buffer("high", torch.tensor([c.high for c in channels]))

    def forward(self, base_pos, base_quat, base_lin_vel, base_ang_vel, peers_pos, peers_lin_vel, peers_age,
                peers_valid, goal_pos, last_action):  # fmt: skip
        w, v = base_quat[:, :1], -base_quat[:, 1:]
        to_goal = goal_pos - base_pos
        turn = 2.0 * torch.cross(v, to_goal, dim=-1)
        goal_b = to_goal + w * turn + torch.cross(v, turn, dim=-1)
        obs = torch.cat([goal_b, base_quat, base_lin_vel, base_ang_vel], dim=-1)
        own = torch.nn.functional.elu(self.own(torch.cat([obs, last_action], dim=-1)))
        relative = torch.cat([peers_pos - base_pos[:, None], peers_lin_vel, peers_age[..., None]], dim=-1)
        keys = torch.nn.functional.elu(self.peer(relative))
        score = (keys * self.query(own)[:, None]).sum(-1).masked_fill(~peers_valid, -1e9)
        weight = torch.softmax(score, dim=-1) * peers_valid
        heard = (weight[..., None] * keys).sum(1)
        action = torch.tanh(self.head(self.trunk(torch.cat([own, heard], dim=-1))))
        target = self.low + 0.5 * (action + 1.0) * (self.high - self.low)
        return target, obs, action, action.clone()


def export_onnx(policy: nn.Module, contract: Contract) -> bytes:
    """The module as ONNX bytes with the contract's names and dynamic batch and peers."""
    sizes = {"batch": 2, "peers": 3}
    example = tuple(
        torch.zeros([sizes.get(d, d) for d in tensor.shape], dtype=getattr(torch, tensor.dtype))
        for tensor in contract.inputs
    )
    axes = {
        tensor.name: {i: d for i, d in enumerate(tensor.shape) if isinstance(d, str)}
        for tensor in (*contract.inputs, *contract.outputs)
    }
    file = io.BytesIO()
    torch.onnx.export(
        policy.eval(), example, file, dynamo=False, opset_version=17, dynamic_axes=axes,
        input_names=[t.name for t in contract.inputs], output_names=[t.name for t in contract.outputs],
    )  # fmt: skip
    return file.getvalue()


def random_inputs(seed: int, steps: int, batch: int, peers: int) -> dict[str, np.ndarray]:
    """Sensor inputs and goal (steps, batch, ...) float32; about one peer slot in four is not valid."""
    rng = np.random.default_rng(seed)
    n, p = (steps, batch), (steps, batch, peers)
    quat = rng.normal(size=(*n, 4))
    inputs = {
        "base_pos": rng.uniform(-1, 1, (*n, 3)),
        "base_quat": quat / np.linalg.norm(quat, axis=-1, keepdims=True),
        "base_lin_vel": rng.normal(size=(*n, 3)),
        "base_ang_vel": rng.normal(size=(*n, 3)),
        "peers_pos": rng.uniform(-1, 1, (*p, 3)),
        "peers_lin_vel": rng.normal(size=(*p, 3)),
        "peers_age": rng.uniform(0, 0.1, p),
        "goal_pos": rng.uniform(0.5, 1.5, (*n, 3)),
    }
    return {name: value.astype(np.float32) for name, value in inputs.items()} | {"peers_valid": rng.random(p) < 0.75}


def robot_view(inputs, step=0, robot=0):
    """State, peers and command of one robot at one step of `random_inputs`."""
    x = {name: value[step, robot] for name, value in inputs.items()}
    none = np.zeros(0, np.float32)
    state = RobotState(none, none, x["base_pos"], x["base_quat"], x["base_lin_vel"], x["base_ang_vel"], np.float32(0.0))
    peers = Peers(x["peers_pos"], x["peers_lin_vel"], x["peers_age"], x["peers_valid"])
    return state, peers, {"goal_pos": x["goal_pos"]}


def torch_step(policy: nn.Module, contract: Contract) -> StepFn:
    """The torch module as a step function of named arrays: the reference that the file has to reproduce."""

    def step(inputs):
        with torch.no_grad():
            outputs = policy(*(torch.from_numpy(inputs[tensor.name]) for tensor in contract.inputs))
        return {tensor.name: value.numpy() for tensor, value in zip(contract.outputs, outputs, strict=True)}

    return step


def record_probes(policy: nn.Module, contract: Contract, more: Callable[..., dict] = lambda *sizes: {}) -> Probes:
    """`more(steps, batch)`: values of further inputs."""
    initial = np.array(contract.memory[0].initial, np.float32)
    sizes = ((4, 1, 1), (4, 3, 3), (4, 2, 12))
    return Probes(
        tuple(
            record_sequence(
                torch_step(policy, contract),
                random_inputs(seed, *size) | more(*size[:2]),
                {"last_action": np.tile(initial, (size[1], 1))},
            )
            for seed, size in enumerate(sizes)
        )
    )


@cache
def exported_policy() -> tuple[TeamPolicy, bytes]:
    """The torch module and its policy file: exported once for all tests of a process."""
    policy, contract = TeamPolicy(), make_contract()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "policy.onnx"
        save_bundle(export_onnx(policy, contract), contract, record_probes(policy, contract), path)
        return policy, path.read_bytes()


def save_policy(path: Path) -> TeamPolicy:
    """Write the sample policy file; returns the torch module that it came from."""
    policy, data = exported_policy()
    path.write_bytes(data)
    return policy


def refusal(place: Path, data: bytes, trusted: Sequence[str] = (), requires: str = "") -> str:
    """Why a policy file with these bytes, at `place` or in that folder, is not flown: one line, after its path."""
    path = place / "policy.onnx" if place.is_dir() else place
    path.write_bytes(data)
    with pytest.raises(BundleError) as error:
        PolicyRuntime.load(path, trusted=trusted, requires=requires)
    message = str(error.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message.removeprefix(f"{path}: ")
