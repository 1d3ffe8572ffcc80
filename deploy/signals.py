"""The vocabulary of raw quantities that a policy may ask a robot for: name, shape, unit and frame of each."""

from dataclasses import dataclass

TARGET = "target"  # output (batch, U): the actuator command
OBS = "obs"  # output (batch, D): what the network saw
ACTION = "action"  # output (batch, U): what the network said, before decoding
REQUIRED_OUTPUTS = (TARGET, OBS, ACTION)
MEMORY_OUTPUT_SUFFIX = "_out"

STATE_INPUTS = ("joint_pos", "joint_vel", "base_pos", "base_quat", "base_lin_vel", "base_ang_vel")
PEER_INPUTS = {"peers_pos": "pos", "peers_lin_vel": "lin_vel", "peers_age": "age", "peers_valid": "valid"}  # -> Peers
OBJECT_FIELDS = {"_pos": "pos", "_quat": "quat", "_lin_vel": "lin_vel", "_ang_vel": "ang_vel"}  # suffix -> ObjectState


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One named input or output of the graph; `shape` starts with "batch" and may hold "peers"."""

    name: str
    shape: tuple[int | str, ...]
    dtype: str  # "float32" or "bool"
    unit: str
    frame: str
    meaning: str


def state_signals(num_joints: int) -> tuple[TensorSpec, ...]:
    """The inputs that a RobotState fills, of which a policy may use any; without joints there are no joint inputs."""
    joints = (
        TensorSpec("joint_pos", ("batch", num_joints), "float32", "rad", "joint", "joint positions, m for a slide"),
        TensorSpec(
            "joint_vel", ("batch", num_joints), "float32", "rad/s", "joint", "their velocities, m/s for a slide"
        ),
    )
    base = (
        TensorSpec("base_pos", ("batch", 3), "float32", "m", "world", "position of the base"),
        TensorSpec("base_quat", ("batch", 4), "float32", "1", "body to world", "attitude, unit quaternion wxyz"),
        TensorSpec("base_lin_vel", ("batch", 3), "float32", "m/s", "body", "linear velocity of the base"),
        TensorSpec("base_ang_vel", ("batch", 3), "float32", "rad/s", "body", "angular velocity of the base"),
    )
    return joints + base if num_joints else base


def object_signals(name: str) -> tuple[TensorSpec, ...]:
    """The inputs that the ObjectState of the object `name` fills, of which a policy may use any."""
    what = f"of the {name.replace('_', ' ')}"
    return (
        TensorSpec(f"{name}_pos", ("batch", 3), "float32", "m", "world", f"position {what}"),
        TensorSpec(f"{name}_quat", ("batch", 4), "float32", "1", "body to world", f"attitude {what}, quaternion wxyz"),
        TensorSpec(f"{name}_lin_vel", ("batch", 3), "float32", "m/s", "body", f"linear velocity {what}"),
        TensorSpec(f"{name}_ang_vel", ("batch", 3), "float32", "rad/s", "body", f"angular velocity {what}"),
    )


def peer_signals() -> tuple[TensorSpec, ...]:
    """The inputs that Peers fill: nearest first, at least one slot, slots without a peer all zero and not valid."""
    return (
        TensorSpec("peers_pos", ("batch", "peers", 3), "float32", "m", "world", "positions of the nearest peers"),
        TensorSpec("peers_lin_vel", ("batch", "peers", 3), "float32", "m/s", "world", "velocities of those peers"),
        TensorSpec("peers_age", ("batch", "peers"), "float32", "s", "none", "time since each peer was measured"),
        TensorSpec("peers_valid", ("batch", "peers"), "bool", "1", "none", "whether the slot holds a peer"),
    )
