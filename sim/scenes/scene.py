"""Compose robots, a floor and the things around them into one MuJoCo model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from hardware.spec import RobotSpec
from hardware.types import Array
from sim.scenes.overlay import apply_overlay

BODY, JOINT, ACTUATOR = mujoco.mjtObj.mjOBJ_BODY, mujoco.mjtObj.mjOBJ_JOINT, mujoco.mjtObj.mjOBJ_ACTUATOR
PropsFunc = Callable[[mujoco.MjSpec, int], None]  # (scene so far, robots N): adds pillars, loads, cables, ...


@dataclass(frozen=True)
class GroupIndex:
    """N like robots, J joints and U channels each, and where their quantities lie in the model's arrays."""

    robot: RobotSpec
    base_pose: np.ndarray  # (N, 7) m, wxyz: where fixed bases are bolted; unused for free ones
    base_qpos: np.ndarray  # (N, 7) columns of qpos: position, quaternion wxyz; (N, 0) for fixed bases
    base_qvel: np.ndarray  # (N, 6) columns of qvel: linear in world, angular in body; (N, 0) for fixed bases
    joint_qpos: np.ndarray  # (N, J)
    joint_qvel: np.ndarray  # (N, J)
    ctrl_index: np.ndarray  # (N, U) actuator of each channel
    act_index: np.ndarray  # (N, U) its activation state, -1 where it has none
    base_body: np.ndarray  # (N,)
    bodies: np.ndarray  # (N, B) every body of each robot, the base first

    @property
    def num_robots(self) -> int:
        return len(self.base_body)


@dataclass(frozen=True)
class Tracked:
    """A free body that robots can see, and where it lies in the model's arrays."""

    name: str
    body: int
    qpos: np.ndarray  # (7,) columns of qpos
    qvel: np.ndarray  # (6,) columns of qvel


@dataclass(frozen=True)
class Scene:
    """A compiled model, its robots and its tracked objects."""

    model: mujoco.MjModel
    groups: tuple[GroupIndex, ...]
    objects: tuple[Tracked, ...]
    spec: mujoco.MjSpec | None = None  # what the model was compiled from, for engines that need other shapes

    @property
    def group(self) -> GroupIndex:
        """The only group of a scene whose robots are all alike."""
        (group,) = self.groups
        return group


@dataclass(frozen=True)
class Members:
    """`count` like robots for a scene.

    `bases` (N, 4) x, y, z m and yaw rad says where fixed bases are bolted, by default a metre apart along y.
    """

    robot: RobotSpec
    count: int
    bases: np.ndarray | None = None


def robot_prefix(index: int) -> str:
    """Prefix of the names of robot `index` in the composed model, counted over all groups."""
    return f"robot{index}/"


def compose_scene(
    teams: Sequence[Members],
    timestep_s: float | None = None,
    visuals: bool = False,
    props: PropsFunc | None = None,
    objects: Sequence[str] = (),
) -> Scene:
    """Robots on one floor, with what `props` adds, of which robots see the free bodies `objects`.

    Without `visuals` everything that can neither collide nor weigh is left out, for speed. `timestep_s` overrides the
    robot files'. ValueError for an empty team or when an MJCF does not match its spec.
    """
    for team in teams:
        if team.count < 1:
            raise ValueError(f"a team needs at least one robot, not {team.count}")
    spec = mujoco.MjSpec()
    spec.modelname = ", ".join(f"{team.robot.name} x {team.count}" for team in teams)
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET  # a state that blows up must be seen to
    spec.worldbody.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[10, 10, 0.1], rgba=[0.93, 0.94, 0.95, 1]
    )
    spec.worldbody.add_light(pos=[0, 0, 6], dir=[0, 0, -1])
    _take_options(spec, [team.robot for team in teams], timestep_s)
    first, placed = 0, []
    for team in teams:
        placed.append((team.robot, _poses(team.count, team.bases), first))
        _attach(spec, *placed[-1], visuals)
        first += team.count
    if props is not None:
        props(spec, first)
    model = spec.compile()
    groups = tuple(_group(model, *each) for each in placed)
    return Scene(model, groups, tuple(_tracked(model, name) for name in objects), spec)


def _attach(spec: mujoco.MjSpec, robot: RobotSpec, poses: np.ndarray, first: int, visuals: bool) -> None:
    """Copies of `robot`, numbered from `first`, fixed ones at `poses` (N, 7)."""
    for index, pose in enumerate(poses, first):
        child = mujoco.MjSpec.from_file(str(robot.mjcf))
        if robot.overlay:
            apply_overlay(child, robot)
        if not visuals:
            for geom in [g for g in child.geoms if g.contype == 0 and g.conaffinity == 0]:
                child.delete(geom)
        base = child.body(robot.base_body)
        if base is not None:  # `_group` says what is missing
            base.simple = 0  # its centre of mass may be moved in some world
        child.option.timestep = spec.option.timestep  # or attaching warns that they differ
        frame = spec.worldbody.add_frame()
        if robot.fixed_base:
            frame.pos, frame.quat = pose[:3], pose[3:]
        spec.attach(child, prefix=robot_prefix(index), frame=frame)


def _poses(num_robots: int, bases: np.ndarray | None) -> np.ndarray:
    """(N, 7) poses from (N, 4) x, y, z, yaw."""
    if bases is None:
        bases = np.zeros((num_robots, 4))
        bases[:, 1] = np.arange(num_robots) - (num_robots - 1) / 2
    if bases.shape != (num_robots, 4):
        raise ValueError(f"bases has shape {bases.shape}, not ({num_robots}, 4)")
    poses = np.zeros((num_robots, 7))
    poses[:, :3], poses[:, 3], poses[:, 6] = bases[:, :3], np.cos(bases[:, 3] / 2), np.sin(bases[:, 3] / 2)
    return poses


def _take_options(spec: mujoco.MjSpec, robots: Sequence[RobotSpec], timestep_s: float | None) -> None:
    """The robot files decide how the scene is integrated and solved; where they differ, the most careful one does."""
    options = [mujoco.MjSpec.from_file(str(robot.mjcf)).option for robot in robots]
    spec.option.timestep = timestep_s or min(option.timestep for option in options)
    spec.option.tolerance = min(option.tolerance for option in options)
    for name in ("integrator", "solver", "iterations", "ls_iterations", "cone", "impratio"):
        setattr(spec.option, name, max(getattr(option, name) for option in options))


def _group(model: mujoco.MjModel, robot: RobotSpec, poses: np.ndarray, first: int) -> GroupIndex:
    """Find every robot's coordinates by name; ValueError when the MJCF lacks one that the spec promises."""
    robots = [_coordinates(model, robot, robot_prefix(index)) for index in range(first, first + len(poses))]
    found = {name: np.array([each[name] for each in robots], dtype=np.int64) for name in robots[0]}
    return GroupIndex(robot, poses, act_index=model.actuator_actadr[found["ctrl_index"]], **found)


def _coordinates(model: mujoco.MjModel, robot: RobotSpec, prefix: str) -> dict[str, Any]:
    """Of one robot what a `GroupIndex` has of each."""
    body = mujoco.mj_name2id(model, BODY, prefix + robot.base_body)
    free = body >= 0 and model.body_dofnum[body] == 6
    if body < 0 or free == robot.fixed_base:
        kind = "fixed" if robot.fixed_base else "free"
        raise ValueError(
            f"{robot.mjcf.name}: no {kind} body {robot.base_body!r}, which the spec of {robot.name!r} names"
        )
    root = model.body_jntadr[body]
    joints = [_find(model, robot, JOINT, "joint", prefix, name) for name in robot.joint_names]
    _check_ranges(model, robot, joints)
    return {
        "base_qpos": model.jnt_qposadr[root] + np.arange(7 if free else 0),
        "base_qvel": model.jnt_dofadr[root] + np.arange(6 if free else 0),
        "joint_qpos": model.jnt_qposadr[joints],
        "joint_qvel": model.jnt_dofadr[joints],
        "ctrl_index": [_find(model, robot, ACTUATOR, "actuator", prefix, name) for name in robot.channel_names],
        "base_body": body,
        "bodies": [b for b in range(model.nbody) if model.body(b).name.startswith(prefix)],
    }


def _find(model: mujoco.MjModel, robot: RobotSpec, kind: mujoco.mjtObj, word: str, prefix: str, name: str) -> int:
    index = mujoco.mj_name2id(model, kind, prefix + name)
    if index < 0:
        raise ValueError(f"{robot.mjcf.name}: no {word} {name!r}, which the spec of {robot.name!r} names")
    return index


def _check_ranges(model: mujoco.MjModel, robot: RobotSpec, joints: list[int]) -> None:
    """ValueError where a joint may move otherwise than its spec says: the shield would guard the wrong limits."""
    for joint, spec in zip(joints, robot.joints, strict=True):
        low, high = model.jnt_range[joint]
        if abs(low - spec.low) > 1e-6 or abs(high - spec.high) > 1e-6:
            raise ValueError(
                f"{robot.mjcf.name}: joint {spec.name!r} has range [{low:g}, {high:g}], "
                f"the spec of {robot.name!r} says [{spec.low:g}, {spec.high:g}]"
            )


def _tracked(model: mujoco.MjModel, name: str) -> Tracked:
    body = mujoco.mj_name2id(model, BODY, name)
    if body < 0 or model.body_dofnum[body] != 6:
        raise ValueError(f"the scene has no free body {name!r} to track")
    joint = model.body_jntadr[body]
    return Tracked(name, body, model.jnt_qposadr[joint] + np.arange(7), model.jnt_dofadr[joint] + np.arange(6))


def close_loops(model: mujoco.MjModel, qpos: Array) -> None:
    """Let joints of `qpos` (..., nq) that mirror another one start where they belong, in place.

    MuJoCo's joint equality, its linear part: first - its zero = offset + slope * (second - its zero).
    """
    for equality in range(model.neq):
        if model.eq_type[equality] == mujoco.mjtEq.mjEQ_JOINT and model.eq_obj2id[equality] >= 0:
            first, second = (model.jnt_qposadr[ids[equality]] for ids in (model.eq_obj1id, model.eq_obj2id))
            offset, slope = model.eq_data[equality, :2]
            qpos[..., first] = model.qpos0[first] + offset + slope * (qpos[..., second] - model.qpos0[second])


def rest_command(robot: RobotSpec, joint_pos: Sequence[float]) -> list[float]:
    """The command (U,) that holds a robot with `joint_pos` (J,) as it is: hover thrust for a drone, else zero."""
    rest = []
    for channel, joint in zip(robot.channels, robot.joint_of_channel, strict=True):
        hover = robot.flight.hover_thrust_n if robot.flight and channel.name == "thrust" else 0.0
        rest.append(joint_pos[joint] if joint >= 0 else hover)
    return rest
