"""Terms for arms: what the tool is asked to do, where it is, and what moves it. Axes are those of the arm's base."""

from functools import lru_cache

import torch

from hardware import load_robot
from hardware.kinematics import Chain, load_chain
from hardware.rotation import multiply, rotate_inverse
from hardware.types import RobotState
from sim.task import PolicyInput
from sim.terms.observations import shortened
from sim.transition import Transition

Tensor = torch.Tensor


def tool_steps(
    state: RobotState, coordinates: Tensor, robot: str, elbow: str | None = None, damping: float = 0.05
) -> Tensor:
    """Steps of joint targets (..., U) that move the tool as `coordinates` (..., U) say.

    Coordinates are the tool's linear and angular velocity in m/s and rad/s, for an arm of seven joints also the speed
    of the joint `elbow`, then every other channel as it is. A step is the lead that the drive of a joint needs to run
    at that speed, see `drive`.
    """
    _, lead, _ = drive(robot)
    speeds = joint_speeds(state.joint_pos, coordinates[..., : len(lead)], robot, elbow, damping)
    return torch.cat([torch.tensor(lead) * speeds, coordinates[..., len(lead) :]], dim=-1)


def within_speed(state: RobotState, steps: Tensor, robot: str, share: float) -> Tensor:
    """Steps of joint targets (..., U), all of the arm's made smaller alike until none calls for more than its speed.

    That is `share` of the joint's limit: a joint runs no faster than its target's lead over damping / stiffness.
    """
    joints = load_robot(robot).joints[: len(drive(robot)[1])]
    most = steps.new_tensor([share * joint.max_velocity * joint.damping / joint.stiffness for joint in joints])
    arm, rest = steps[..., : len(most)], steps[..., len(most) :]
    excess = (arm.abs() / most).amax(-1, keepdim=True).clamp(min=1.0)
    return torch.cat([arm / excess, rest], dim=-1)


def joint_speeds(
    joint_pos: Tensor, coordinates: Tensor, robot: str, elbow: str | None, damping: float = 0.05
) -> Tensor:
    """Speeds (..., A) of the A joints of the arm for velocities (..., A) of the tool and the elbow.

    Extended Jacobian (Baillieul, "Kinematic programming alternatives for redundant manipulators", ICRA 1985), inverted
    with `damping`.
    """
    chain, lead, _ = drive(robot)
    rows = chain.jacobian(joint_pos)[..., : len(lead)]
    if elbow is not None:
        extra = torch.eye(len(lead))[load_robot(robot).joint_names.index(elbow)]
        rows = torch.cat([rows, extra.expand_as(rows[..., :1, :])], dim=-2)
    if rows.shape[-2] != len(lead):
        raise ValueError(f"robot {robot!r}: the tool and elbow {elbow!r} are no coordinates for {len(lead)} joints")
    weights = solve(rows @ rows.mT + damping**2 * torch.eye(rows.shape[-2]), coordinates)
    return (weights.unsqueeze(-2) @ rows).squeeze(-2)


def hold_attitude(state: RobotState, robot: str, quat: tuple[float, ...], elbow: str | None, rate: float) -> Tensor:
    """(..., U) in the coordinates of `tool_steps`: turns the tool to `quat` wxyz, base, and the elbow home.

    `rate` 1/s is how fast what is missing fades.
    """
    spec = load_robot(robot)
    _, own = forward(robot, state.joint_pos)
    turn = rate * turn_between(own, torch.tensor(quat).expand_as(own))
    parts = [torch.zeros_like(turn), turn]
    if elbow is not None:
        joint = spec.joint_names.index(elbow)
        parts.append(rate * (spec.joints[joint].home - state.joint_pos[..., joint : joint + 1]))
    coordinates = torch.cat(parts, dim=-1)
    return torch.nn.functional.pad(coordinates, (0, len(spec.channels) - coordinates.shape[-1]))


def solve(matrix: Tensor, right: Tensor) -> Tensor:
    """Solve matrix x = right for x (..., n) with what ONNX has; matrix (..., n, n) symmetric, positive definite."""
    rows, unit = torch.cat([matrix, right.unsqueeze(-1)], dim=-1), torch.eye(matrix.shape[-1])
    for i in range(matrix.shape[-1]):  # Gauss and Jordan; a pivot of such a matrix is never zero
        pivot = rows[..., i : i + 1, 1:] / rows[..., i : i + 1, :1]
        rows = rows[..., 1:] - (rows[..., :1] - unit[:, i : i + 1]) * pivot
    return rows.squeeze(-1)


@lru_cache
def drive(robot: str) -> tuple[Chain, tuple[float, ...], tuple[float, ...]]:
    """Chain to the tool; of each joint of the arm the lead of its target over its speed, s; home of all joints.

    An evenly moving joint lags by damping over stiffness, and comes half a control period nearer while a target stands.
    """
    spec = load_robot(robot)
    arm = [joint for channel, joint in zip(spec.channels, spec.joint_of_channel, strict=True) if channel.unit == "rad"]
    if arm != list(range(len(arm))):
        raise ValueError(f"robot {robot!r}: its arm is not what its joints and channels begin with")
    half = 0.5 / spec.control_hz
    lead = tuple(spec.joints[joint].damping / spec.joints[joint].stiffness + half for joint in arm)
    return load_chain(spec, "tool"), lead, spec.home


def forward(robot: str, joint_pos: Tensor) -> tuple[Tensor, Tensor]:
    """Pose of the tool in the arm's base at `joint_pos` (..., J): (..., 3) m and (..., 4) wxyz."""
    return drive(robot)[0].forward(joint_pos)


def tool_pos(p: PolicyInput, robot: str) -> Tensor:
    """Where the tool is, (..., 3) m, base."""
    return forward(robot, p.state.joint_pos)[0]


def tool_turn(p: PolicyInput, robot: str, quat: tuple[float, ...]) -> Tensor:
    """How the tool is turned away from `quat` wxyz, base: `turn_between`, (..., 3)."""
    _, own = forward(robot, p.state.joint_pos)
    return turn_between(torch.tensor(quat).expand_as(own), own)


def tool_to_goal(p: PolicyInput, robot: str, limit_m: float) -> Tensor:
    """What is missing to `goal_pos` and `goal_quat`, (..., 6), base: m, shortened to `limit_m`, and `turn_between`."""
    pos, quat = forward(robot, p.state.joint_pos)
    goal = rotate_inverse(p.state.base_quat, p.command["goal_pos"] - p.state.base_pos)
    upright = multiply(p.state.base_quat * torch.tensor([1.0, -1.0, -1.0, -1.0]), p.command["goal_quat"])
    return torch.cat([shortened(goal - pos, limit_m), turn_between(quat, upright)], dim=-1)


def turn_between(quat: Tensor, goal: Tensor) -> Tensor:
    """(..., 3) axis of the short turn from `quat` to `goal` (..., 4), as long as twice the sine of half its angle."""
    turn = multiply(goal, quat * torch.tensor([1.0, -1.0, -1.0, -1.0]))
    return torch.where(turn[..., :1] < 0.0, -2.0, 2.0) * turn[..., 1:]


def tool_distance(t: Transition) -> Tensor:
    """From the tool to `goal_pos`, (W, N) m."""
    return torch.linalg.vector_norm(t.command["goal_pos"] - t.frame("tool")[0], dim=-1)


def tool_angle(t: Transition) -> Tensor:
    """From the tool's attitude to `goal_quat`, (W, N) rad."""
    half = torch.linalg.vector_norm(turn_between(t.frame("tool")[1], t.command["goal_quat"]), dim=-1) / 2
    return 2.0 * half.clamp(max=1.0).asin()


def tool_near(t: Transition, scale_m: float) -> Tensor:
    """exp(-distance / scale) of the tool from `goal_pos`."""
    return torch.exp(-tool_distance(t) / scale_m)


def tool_aligned(t: Transition, scale_rad: float) -> Tensor:
    """exp(-angle / scale) of the tool from `goal_quat`."""
    return torch.exp(-tool_angle(t) / scale_rad)


def tool_there(t: Transition, distance_m: float, angle_rad: float) -> Tensor:
    """Whether the tool is at the goal, to `distance_m` and `angle_rad`."""
    return (tool_distance(t) < distance_m) & (tool_angle(t) < angle_rad)


def tool_low(t: Transition, height_m: float) -> Tensor:
    """Whether the tool is below `height_m`, world: about to scrape the table."""
    return t.frame("tool")[0][..., 2] < height_m


def near_joint_limit(t: Transition, margin_rad: float) -> Tensor:
    """How deep the joints that turn are in the last `margin_rad` before their limits, summed; 1 each at the limit."""
    turning = [joint for joint in load_robot(t.robot).joints if joint.max_velocity > 1.0]
    low, high = (torch.tensor([getattr(joint, side) for joint in turning]) for side in ("low", "high"))
    pos = t.state.joint_pos[..., : len(turning)]
    room = torch.minimum(pos - low, high - pos)
    return (1.0 - room / margin_rad).clamp(min=0.0).sum(-1)
