"""Where simulated robots of a team begin: what would keep their shields from being armed, found before any starts."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import dist

import numpy as np

from deploy.shield import Context, JointShieldParams, ShieldParams
from deploy.shield.drone.distance import check_start
from deploy.shield.fallbacks import make_fallback
from deploy.shield.joints.arm_obstacles import arm_body, arm_obstacles
from deploy.shield.joints.capsules import link_rows
from deploy.shield.obstacles import Body, ball, check_clear, gaps
from deploy.shield.types import NO_PEERS, Obstacles, Sharing
from hardware import load_robot
from hardware.rotation import rotate
from hardware.types import Peers, RobotState
from ros_nodes.messages.conversion import empty_state
from ros_nodes.messages.scene import Scene
from ros_nodes.messages.subscriptions import place
from ros_nodes.plans.team import Robot


def check_starts(robots: Sequence[Robot], limits: Sequence[ShieldParams | JointShieldParams], scene: Scene) -> None:
    """ValueError for places where none is armed: drones outside their fence, robots in something, or in each other.

    `limits`: the parameters of each robot's shield. Of a real robot nothing is known but where an arm's base stands.
    """
    _check_drones(robots, limits, scene)
    _check_on_feet(robots, limits, scene)
    arms = [robot for robot in robots if link_rows(load_robot(robot.type)) is not None]
    for one, other in combinations(arms, 2):
        _check_bases(one, other)
    for robot in arms:
        if not robot.driver:
            _check_home(robot, [o for o in arms if o is not robot and not o.driver], scene.of(robot.name))


def _check_drones(robots: Sequence[Robot], limits: Sequence[ShieldParams | JointShieldParams], scene: Scene) -> None:
    """ValueError for simulated ones outside of their fence, or too near to something."""
    drones = [(r, p) for r, p in zip(robots, limits, strict=True) if isinstance(p, ShieldParams) and not r.driver]
    for robot, params in drones:
        others = [(other, theirs) for other, theirs in drones if other is not robot]
        count = len(others)
        peers = Peers(
            pos=np.array([other.place[:3] for other, _ in others]).reshape(-1, 3),
            lin_vel=np.zeros((count, 3)),
            age=np.zeros(count),
            valid=np.ones(count, dtype=bool),
        )
        seen = scene.of(robot.name)
        around = Context(
            replace(empty_state(0), base_pos=np.array(robot.place[:3])),
            peers,
            sharing=Sharing(np.ones(count, dtype=bool), np.array([theirs.separation_m for _, theirs in others])),
            peer_names=[other.name for other, _ in others],
            obstacles=seen.boxes(),
            obstacle_names=seen.names,
        )
        if reason := check_start(params, around):
            raise ValueError(f"base_pose of {robot.name}: {reason}")


def _check_on_feet(robots: Sequence[Robot], limits: Sequence[ShieldParams | JointShieldParams], scene: Scene) -> None:
    """ValueError for simulated ones that stand too near to something, or to each other."""
    specs = {robot.name: load_robot(robot.type) for robot in robots}
    stand = [r for r in robots if not (specs[r.name].flight or specs[r.name].fixed_base or r.driver)]
    for robot, params in zip(robots, limits, strict=True):
        if robot not in stand or not isinstance(params, JointShieldParams):
            continue
        others, seen = [other for other in stand if other is not robot], scene.of(robot.name)
        balls = [ball(np.array(o.place[:3]), np.zeros(3), specs[o.name].radius_m) for o in others]
        parts = [seen.boxes(), *balls]
        names = [*seen.names, *(other.name for other in others)]
        things = Obstacles(*(np.concatenate([getattr(part, name) for part in parts]) for name in Obstacles.__slots__))
        state = _at_home(robot)
        around = Context(state, NO_PEERS, obstacles=things, obstacle_names=names)
        if near := make_fallback(params, specs[robot.name]).check_start(state, around):
            named = next((other for other in others if f" {other.name}," in near), None)
            raise ValueError(f"base_pose of {robot.name}: {near}{_apart(robot, named) if named else ''}")


def _check_bases(one: Robot, other: Robot) -> None:
    """ValueError for two arms whose bases are in each other, whatever their joints do."""
    spec = load_robot(other.type)
    rows, stands = link_rows(spec), arm_obstacles(spec, _at_home(other))
    assert rows is not None and stands is not None
    stands.valid &= rows.links.link == 0
    base = _base(one)
    if stands.valid.any() and len(base.radius) and (gap_m := float(gaps(stands, base).min())) < 0.0:
        inside = f"its base is {-gap_m:.2f} m inside that of {other.name}"
        raise ValueError(f"base_pose of {one.name}: {inside}{_apart(one, other)}")


def _check_home(robot: Robot, others: Sequence[Robot], scene: Scene) -> None:
    """ValueError for a simulated arm that begins inside of what stands there, or of one of the `others`."""
    parts, names = [scene.boxes()], [*scene.names]
    for other in others:
        found = arm_obstacles(load_robot(other.type), _at_home(other), other.name == robot.lands_on)
        assert found is not None  # of arms there are some
        parts.append(found)
        names += [other.name] * len(found.valid)
    things = Obstacles(*(np.concatenate([getattr(part, name) for part in parts]) for name in Obstacles.__slots__))
    body = arm_body(load_robot(robot.type), _at_home(robot), fingers=False)
    assert body is not None
    if near := check_clear(Context(None, NO_PEERS, obstacles=things, obstacle_names=names), body, 0.0):
        named = next((other for other in others if f" {other.name}," in near), None)
        raise ValueError(f"base_pose of {robot.name}: in its home pose {near}{_apart(robot, named) if named else ''}")


def _at_home(robot: Robot) -> RobotState:
    """A robot with joints at rest in its home pose, where its base is."""
    spec = load_robot(robot.type)
    state = empty_state(len(spec.joints))
    place(state, *robot.place)
    state.joint_pos[:], state.joint_vel[:] = spec.home, 0.0
    return state


def _base(robot: Robot) -> Body:
    """The spheres of an arm's base; as many as none where its MJCF has no collision shape there."""
    spec, state = load_robot(robot.type), _at_home(robot)
    rows = link_rows(spec)
    assert rows is not None
    links, joints = rows.links, state.joint_pos[None, list(spec.joint_of_channel)]
    kept = links.link[links.sphere_of] == 0
    centres = (links.place(joints.astype(np.float64))[..., 0] @ links.spheres[kept].T).T
    return Body(rotate(state.base_quat, centres) + state.base_pos, links.sphere_radius[kept])


def _apart(one: Robot, other: Robot) -> str:
    apart_m = dist(one.place[:3], other.place[:3])
    return f"; {one.name} and {other.name} stand {apart_m:.2f} m apart, move one of them"
