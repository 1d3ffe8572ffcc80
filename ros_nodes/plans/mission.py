"""A mission as a JSON file: team, starts of robots and objects, commands over time, and which policy is killed.

The simulated robots and the mission node read the same file. `plan_swap` is the mission that needs no simulator to be
planned: a team swaps places through one middle, and back. Units: m, rad, s; quaternions wxyz; world frame.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import atan2
from pathlib import Path
from typing import Any

import numpy as np

from deploy.contract.groups import one_of
from hardware import load_robot
from ros_nodes.messages.names import check_name
from ros_nodes.plans.course import Course

FORMAT, OLDER_FORMAT = "phalanx-mission/3", "phalanx-mission/2"
CRAZYFLIE = "crazyflie"
SWAP = "swarm-swap"  # the task that `plan_swap` plans by itself
LEAST_RADIUS_M = 0.7
LARGEST_TEAM = 16  # on the widest circle, 2.2 m: the shield's fence is at 2.4 m
NEIGHBOUR_M = 0.64  # distance of neighbours on the circle, at least
HEIGHT_M = (0.9, 1.5)
SWAP_S, SWAP_ROBOT_S = 18.0, 2.25  # a swap there and back, and the least for each robot: many wait for one another
HOLD_S = 1.0  # for this long a robot has to be at its goal before a leg of the swap ends
KILL_INTO_LEG_S = 0.8  # the policy dies this long after the way back has begun
SHORTEST_S, LONGEST_S = 4.0, 600.0
FIRST_KILL_S = 3.0  # before, no robot has moved far


class MissionError(ValueError):
    """A mission file cannot be read; one line names the file and the reason."""


@dataclass(frozen=True, slots=True)
class Member:
    """One robot of the team."""

    name: str  # its namespace
    robot: str  # specification by name
    group: str  # of its task; in one for like robots the robot's specification
    base_pose: np.ndarray  # (7,) position m and quaternion of its base
    joint_pos: np.ndarray  # (J,) rad
    bundle: str = ""  # policy file
    lands_on: str = ""  # arm on what it holds it lands: the links that carry that may be near it


Commands = Mapping[str, Mapping[str, np.ndarray]]  # robot by name -> command of its contract -> (n,)


@dataclass(frozen=True, slots=True)
class Order:
    """Commands to robots from `t_s` of the mission on; what is not named stays as it was."""

    t_s: float
    commands: Commands


@dataclass(frozen=True, slots=True)
class Mission:
    """All of it is decided before it begins."""

    team: tuple[Member, ...]
    orders: tuple[Order, ...]  # in the order of their times
    duration_s: float
    checks_s: tuple[float, ...]  # success has to hold for `hold_s` before each of these times
    hold_s: float
    courses: Mapping[str, Course] = field(default_factory=dict)  # robot by name; its first goal is in the orders too
    task: str = ""  # whose terms evaluate the mission
    scene: str = ""  # the task whose scene is set up around the robots; empty for nothing but a floor
    objects: Mapping[str, np.ndarray] = field(default_factory=dict)  # name -> (7,) pose
    noise: Mapping[str, float] = field(default_factory=dict)  # of the sensors, fields of `sim.noise.Noise`
    kill_s: float | None = None  # when one policy is killed, None for never
    kill_robot: int = 0
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The robots by name."""
        return tuple(member.name for member in self.team)

    @property
    def command_names(self) -> list[str]:
        """Names of all commands in the orders, sorted."""
        return sorted({name for order in self.orders for commands in order.commands.values() for name in commands})

    @property
    def legs_s(self) -> tuple[float, ...]:
        """When each leg begins: at the start, and after each check but the last."""
        return (0.0, *self.checks_s[:-1])

    def rows(self, group: str) -> list[int]:
        """Which of the robots are of `group`."""
        return [row for row, member in enumerate(self.team) if member.group == group]

    def part(self, names: Sequence[str]) -> "Mission":
        """The mission of some of its robots."""
        orders = (Order(o.t_s, {n: commands for n, commands in o.commands.items() if n in names}) for o in self.orders)
        courses = {name: course for name, course in self.courses.items() if name in names}
        team = tuple(m for m in self.team if m.name in names)
        return replace(self, team=team, orders=tuple(orders), courses=courses)

    def flown_by(self, bundles: Mapping[str, Path | str]) -> "Mission":
        """The mission with the policy file of each group, or of each robot of one."""
        files = {name: str(Path(file).resolve()) for name, file in bundles.items()}
        found = {member.name: files.get(self.own_policy(member)) or files[member.group] for member in self.team}
        return replace(self, team=tuple(replace(member, bundle=found[member.name]) for member in self.team))

    def own_policy(self, member: Member) -> str:
        """The name of the policy that is for this robot alone, where robots of its group share none."""
        like = [other.name for other in self.team if other.group == member.group]
        return one_of(member.group, 1 + like.index(member.name))

    def command_at(self, name: str, times_s: np.ndarray, rows: Sequence[int]) -> np.ndarray:
        """The command `name` (T, N, n) that was in force at `times_s` (T,) for the robots `rows`; NaN before any."""
        return np.stack([self._command_at(self.team[row].name, name, times_s) for row in rows], axis=1)

    def _command_at(self, robot: str, name: str, times_s: np.ndarray) -> np.ndarray:
        orders = [(order.t_s, order.commands.get(robot, {})) for order in self.orders]
        sent = [(t_s, commands[name]) for t_s, commands in orders if name in commands]
        values = np.stack([np.full_like(sent[0][1], np.nan), *(value for _, value in sent)])
        return values[np.searchsorted([t_s for t_s, _ in sent], times_s, side="right")]


def yaw_of(pose: np.ndarray) -> list[float]:
    """x, y, z m and yaw rad of a pose (7,) that stands upright."""
    return [*pose[:3].tolist(), 2.0 * atan2(pose[6], pose[3])]


def save_mission(mission: Mission, path: Path) -> None:
    """Write the file."""
    path.write_text(json.dumps({"format": FORMAT, **asdict(mission)}, default=np.ndarray.tolist), encoding="utf-8")


def load_mission(path: Path | str) -> Mission:
    """Read what `save_mission` wrote; MissionError for anything else."""
    try:
        if not Path(path).is_file() and Path(path).exists():
            raise MissionError(f"{path}: is no file")
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        if (found := data.pop("format", None)) not in (FORMAT, OLDER_FORMAT):
            raise MissionError(f"{path}: format {found!r} is not {FORMAT!r}")
        if found == OLDER_FORMAT:
            data["team"] = [{"group" if key == "role" else key: v for key, v in m.items()} for m in data["team"]]
        mission = _mission(data)
        _check(mission)
        return mission
    except MissionError:
        raise
    except OSError as error:
        raise MissionError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise MissionError(f"{path}: is not a mission: {error}") from error


def _mission(data: dict[str, Any]) -> Mission:
    return Mission(
        team=tuple(_member(**member) for member in data.pop("team")),
        orders=tuple(
            Order(order["t_s"], {name: _arrays(commands) for name, commands in order["commands"].items()})
            for order in data.pop("orders")
        ),
        checks_s=tuple(data.pop("checks_s")),
        objects=_arrays(data.pop("objects")),
        courses={name: _course(**course) for name, course in data.pop("courses", {}).items()},
        **data,
    )


def _check(mission: Mission) -> None:
    """ValueError for what would fail only once the nodes run."""
    for name in mission.names:
        check_name(name)
    if not mission.team or len(set(mission.names)) < len(mission.team):
        raise ValueError(f"robots {', '.join(mission.names) or '(none)'}: at least one, each with a name of its own")
    for member in mission.team:
        if member.lands_on and (member.lands_on == member.name or member.lands_on not in mission.names):
            raise ValueError(f"{member.name} lands on {member.lands_on!r}, which is no other robot of the team")
    places = [(member.name, member.base_pose) for member in mission.team] + list(mission.objects.items())
    for name, pose in places:
        if not (np.isfinite(pose).all() and np.linalg.norm(pose[3:]) > 0.5):
            raise ValueError(f"{name}: pose {pose.tolist()} is not a finite place with a quaternion")
    check_times(mission.duration_s, mission.kill_s)
    if not 0 <= mission.kill_robot < len(mission.team):
        raise ValueError(f"kill_robot = {mission.kill_robot}: there are {len(mission.team)} robots, counted from 0")
    if unknown := {name for order in mission.orders for name in order.commands} - set(mission.names):
        raise ValueError(f"an order is for {sorted(unknown)[0]!r}, which is not in the team")
    for name, course in mission.courses.items():
        if name not in mission.names:
            raise ValueError(f"a course is for {name!r}, which is not in the team")
        if not len(course.goals) or not np.isfinite(course.goals).all():
            raise ValueError(f"the course of {name} needs goals, each of three finite numbers")
    times = [order.t_s for order in mission.orders]
    if not np.isfinite(times).all() or times != sorted(times):
        raise ValueError("orders must have finite times, in order")


def _member(base_pose: Sequence[float], joint_pos: Sequence[float], **names: str) -> Member:
    pose = np.array(base_pose, float).reshape(7)
    return Member(base_pose=pose, joint_pos=np.array(joint_pos, float).reshape(-1), **names)


def _course(goals: Sequence[Sequence[float]], **limits: float) -> Course:
    return Course(np.array(goals, float).reshape(-1, 3), **limits)


def _arrays(data: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.array(value, float) for name, value in data.items()}


def team_names(robots: Sequence[str]) -> list[str]:
    """What robots of these specifications are called: cf1, cf2, ... for Crazyflies, panda_1, g1_1, ... for others."""
    count, names = Counter[str](), []
    for robot in robots:
        count[robot] += 1
        names.append(f"cf{count[robot]}" if robot == CRAZYFLIE else f"{robot}_{count[robot]}")
    return names


def swap_s(robots: int) -> float:
    """How long a swap of so many robots lasts by default."""
    return max(SWAP_S, SWAP_ROBOT_S * robots)


def plan_swap(robots: int, duration_s: float, kill_s: float | None, seed: int) -> Mission:
    """Crazyflies on the ground, on a circle of random phase, radius and headings; goals in the air opposite, and back.

    ValueError when there are no robots or the times do not fit.
    """
    if robots < 1:
        raise ValueError(f"a team needs at least one robot, not {robots}")
    if robots > LARGEST_TEAM:
        raise ValueError(f"the mission has room for {LARGEST_TEAM} robots, not {robots}")
    check_times(duration_s, kill_s, FIRST_KILL_S)
    rng = np.random.default_rng(seed)
    least = max(LEAST_RADIUS_M, NEIGHBOUR_M / 2 / np.sin(np.pi / max(robots, 2)))
    radius = least + 0.5 * rng.random()
    angle = 2 * np.pi * (np.arange(robots) / robots + rng.random())
    xy = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    height, goal_height = rng.uniform(*HEIGHT_M, (2, robots, 1))
    yaw = rng.uniform(-np.pi, np.pi, (robots, 1))
    none = np.zeros_like(yaw)
    ground = np.full_like(yaw, load_robot(CRAZYFLIE).home_height_m)
    poses = np.hstack([xy, ground, np.cos(yaw / 2), none, none, np.sin(yaw / 2)])
    names = team_names([CRAZYFLIE] * robots)
    there, back = np.hstack([-xy, goal_height]), np.hstack([xy, height])
    back_s = duration_s / 2 if kill_s is None else kill_s - KILL_INTO_LEG_S
    return Mission(
        team=tuple(Member(n, CRAZYFLIE, CRAZYFLIE, pose, np.zeros(0)) for n, pose in zip(names, poses, strict=True)),
        orders=tuple(
            Order(t_s, {name: {"goal_pos": goal} for name, goal in zip(names, goals, strict=True)})
            for t_s, goals in ((0.0, there), (back_s, back))
        ),
        duration_s=duration_s,
        checks_s=(back_s, duration_s),
        hold_s=HOLD_S,
        kill_s=kill_s,
        seed=seed,
    )


def check_times(duration_s: float, kill_s: float | None, first_kill_s: float = 0.0) -> None:
    """ValueError for a mission too short or too long, and for a kill too early or too late in it."""
    if not SHORTEST_S <= duration_s <= LONGEST_S:
        raise ValueError(f"duration_s = {duration_s:g}: must be from {SHORTEST_S:g} to {LONGEST_S:g}")
    if kill_s is not None and not first_kill_s <= kill_s <= duration_s - 1.0:
        span = f"from {first_kill_s:g} to {duration_s - 1:g} for a mission of {duration_s:g} s"
        raise ValueError(f"kill_after_s = {kill_s:g}: must be {span}")
