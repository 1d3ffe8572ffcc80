"""The vocabulary of raw quantities that a policy may ask a robot for: name, shape, unit and frame of each."""

from collections.abc import Iterable

from deploy.contract.types import Contract, TensorSpec

TARGET = "target"  # output (batch, U): the actuator command
OBS = "obs"  # output (batch, D): the network's observation
ACTION = "action"  # output (batch, U): the network's action, before decoding
REQUIRED_OUTPUTS = (TARGET, OBS, ACTION)
MEMORY_OUTPUT_SUFFIX = "_out"

STATE_INPUTS = ("joint_pos", "joint_vel", "base_pos", "base_quat", "base_lin_vel", "base_ang_vel")
PEER_INPUTS = {"peers_pos": "pos", "peers_lin_vel": "lin_vel", "peers_age": "age", "peers_valid": "valid"}  # -> Peers
CORRECTION = "correction"  # input of a policy that is shown what its shield did
OBJECT_FIELDS = ("pos", "quat", "lin_vel", "ang_vel")  # of ObjectState, of which `<object>_<field>` is an input


def state_tensor_specs(num_joints: int) -> tuple[TensorSpec, ...]:
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


def object_tensor_specs(name: str) -> tuple[TensorSpec, ...]:
    """The inputs that the ObjectState of the object `name` fills, of which a policy may use any."""
    what = f"of the {name.replace('_', ' ')}"
    return (
        TensorSpec(f"{name}_pos", ("batch", 3), "float32", "m", "world", f"position {what}"),
        TensorSpec(f"{name}_quat", ("batch", 4), "float32", "1", "body to world", f"attitude {what}, quaternion wxyz"),
        TensorSpec(f"{name}_lin_vel", ("batch", 3), "float32", "m/s", "body", f"linear velocity {what}"),
        TensorSpec(f"{name}_ang_vel", ("batch", 3), "float32", "rad/s", "body", f"angular velocity {what}"),
    )


def correction_tensor_spec(units: Iterable[str]) -> TensorSpec:
    """The input that says what came of the last `target`; `units` of the U channels."""
    units = tuple(units)
    unit = ", ".join(dict.fromkeys(units))
    meaning = "what the shield sent a period ago, less `target` then; 0 if unknown"
    return TensorSpec(CORRECTION, ("batch", len(units)), "float32", unit, "body", meaning)


def sees_correction(contract: Contract) -> bool:
    """Whether the policy is shown what its shield did."""
    return any(tensor.name == CORRECTION for tensor in contract.inputs)


def object_field(name: str) -> tuple[str, str]:
    """Object and field of its ObjectState that fill the input `name`; ("", "") where the name is of no such form."""
    ends = (field for field in OBJECT_FIELDS if name.endswith(f"_{field}"))
    return next(((name.removesuffix(f"_{field}"), field) for field in ends), ("", ""))


def peer_tensor_specs() -> tuple[TensorSpec, ...]:
    """The inputs that Peers fill; at least one slot."""
    nearest = "nearest first; who runs the file picks them, at most team.max_peers within team.peer_range_m"
    slots = (
        "whether the slot holds a peer; there is at least one slot, and one without a peer may hold anything, even NaN"
    )
    return (
        TensorSpec("peers_pos", ("batch", "peers", 3), "float32", "m", "world", f"positions of peers, {nearest}"),
        TensorSpec("peers_lin_vel", ("batch", "peers", 3), "float32", "m/s", "world", "velocities of those peers"),
        TensorSpec("peers_age", ("batch", "peers"), "float32", "s", "none", "time since each peer was measured"),
        TensorSpec("peers_valid", ("batch", "peers"), "bool", "1", "none", slots),
    )
