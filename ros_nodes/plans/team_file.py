"""The team file: which robots there are, real or simulated, and what flies them; for `phalanx deploy` and launch files.

```yaml
robots:
  - name: cf1
    bundle: policy.onnx             # paths are relative to the file
    driver: my_robot.driver:MyDriver  # as PHALANX_DRIVERS allows; without one the robot is simulated
    options: {uri: radio://0}
  - {name: cf2, bundle: policy.onnx, base_pose: [0.5, 0, 0, 1.57]}  # m, yaw rad: start, place of a base
  - {name: cf4, bundle: policy.onnx, type: cf4@lab.yaml}  # as `phalanx identify` found it; by default as specified
  - {name: cf3, bundle: lander.onnx, lands_on: arm}  # may come near the last links of the arm
  - {name: cf5, bundle: policy.onnx, goals: [[0, 0, 1], [1, 0, 1.5]], within_m: 0.3}  # m: one after the other
  - {name: arm, bundle: tray.onnx, group: arm}  # of the task of its policy; by default that of the file
shield: {ramp_s: 0.4}               # limits of all shields; a robot may have its own
battery: {arm: 0.2, land: 0.1}      # charge below which none is armed, and in flight each lands; a robot its own
hosts: {policies: 1, shields: 2}    # processes
scene:                              # what stands there, see `messages.scene`
  obstacles: [{name: shelf, pose: [1.5, 0, 0.5, 0], size: [0.4, 1.2, 1]}]
mission: plan.json                  # orders over time; none: an operator gives them
recorder: true
trusted_keys: [me.pub]              # only policies signed with one of them, see `phalanx sign`; none: any
requires: verified                  # of their records by `phalanx verify --record`; or fly with care, fly; none: any
namespace: fleet                    # of the nodes that serve the whole team
```
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, Struct

from deploy.bundle import load_bundle
from deploy.bundle.signature import key_text, read_public_key
from deploy.bundle.verification import check_level
from deploy.contract import Contract
from deploy.runtime.compatibility import check_measured, check_robot
from deploy.shield import make_shield_params, narrowed_limits
from deploy.shield.drone.distance import least_margin
from deploy.shield.drone.params import ShieldParams
from deploy.shield.joints.capsules import link_rows
from hardware import load_robot
from hardware.drivers import check_options, device_of, driver_class, shared_link, unmeasured_by
from hardware.overlay import SUFFIX
from hardware.ranges import check_range
from hardware.types import Peers
from hardware.yaml_file import SHOWN, read_yaml
from ros_nodes.messages.battery import check_charges
from ros_nodes.messages.names import LONGEST_NAME, NAME
from ros_nodes.messages.scene import KeepOut, Obstacle, Scene
from ros_nodes.plans.course import check_goals
from ros_nodes.plans.mission import load_mission

LEAST_HEIGHT = 0.5  # of that in its home pose, below which a robot on legs would begin in the ground
PathText = Annotated[str, Meta(max_length=1000)]
NameText = Annotated[str, Meta(max_length=LONGEST_NAME)]
Count = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class TeamError(ValueError):
    """A team file that cannot be: one line names the file, the key, the value and what is allowed."""


class Hosts(Struct, forbid_unknown_fields=True, frozen=True):
    """How many processes carry the policies, and how many the shields; by default as `place_team` says."""

    policies: Count | None = None
    shields: Count | None = None

    def check(self, robots: int) -> None:
        """ValueError for more of either than there are robots."""
        for what in self.__struct_fields__:
            check_range(f"hosts.{what}", getattr(self, what), 1, robots)


class Charges(Struct, forbid_unknown_fields=True, frozen=True):
    """Of a battery, from 0 to 1: least for arming, and least in flight."""

    arm: Share | None = None
    land: Share | None = None

    def parameters(self) -> dict[str, float]:
        """Those given, as parameters of a shield."""
        given = {"least_charge": self.arm, "land_charge": self.land}
        return {name: charge for name, charge in given.items() if charge is not None}


class Robot(Struct, forbid_unknown_fields=True, frozen=True):
    """One robot; simulated where it has no driver."""

    name: Annotated[str, Meta(pattern=f"^{NAME}\\Z", max_length=LONGEST_NAME)]
    bundle: PathText
    type: PathText = ""  # specification by name; by default the one that the policy is for
    driver: PathText = ""  # a registered name, or module:Class of `hardware.drivers.ALLOWED`
    options: dict[str, Any] = {}
    group: NameText = ""  # of the task of its policy; by default that of the policy file
    base_pose: tuple[float, float, float, float] | None = None
    shield: dict[str, Any] = {}
    battery: Charges = Charges()
    lands_on: NameText = ""  # another robot, an arm
    goals: tuple[tuple[float, float, float], ...] = ()  # m, world: its course; the next is sent when one is passed
    within_m: Annotated[float, Meta(gt=0.0, le=5.0)] | None = None  # of a goal, flown slowly by its policy: passed


class Team(Struct, forbid_unknown_fields=True, frozen=True):
    """What a team file holds; paths are absolute, robots have type and group, and keys are base64."""

    robots: Annotated[tuple[Robot, ...], Meta(min_length=1)]
    shield: dict[str, Any] = {}
    battery: Charges = Charges()
    hosts: Hosts = Hosts()
    scene: Scene = Scene()
    mission: PathText = ""
    recorder: bool = True
    trusted_keys: tuple[PathText, ...] = ()  # base64, or files with them
    requires: str = ""  # of the verification of each policy: one of `deploy.bundle.verification.LEVELS`
    namespace: Annotated[str, Meta(pattern=f"^({NAME})?\\Z", max_length=LONGEST_NAME)] = ""

    @property
    def simulated(self) -> tuple[str, ...]:
        """Names of the robots without a driver."""
        return tuple(robot.name for robot in self.robots if not robot.driver)

    def links(self) -> dict[str, str]:
        """By robot, what its driver may share with that of another one, such as a radio."""
        links = {robot.name: shared_link(robot.driver, robot.options) for robot in self.robots if robot.driver}
        return {name: link for name, link in links.items() if link}

    def limits(self) -> dict[str, dict[str, Any]]:
        """What the file says about the shield of each robot, by name."""
        return {robot.name: {**self.shield, **robot.shield} for robot in self.robots}

    def charges(self, robot: Robot) -> dict[str, float]:
        """What the file says about the battery of `robot`, as parameters of its shield."""
        return {**self.battery.parameters(), **robot.battery.parameters()}

    def pick(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the robots, or all for no names; ValueError for one that is not in the team."""
        known = tuple(robot.name for robot in self.robots)
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"robot {unknown[0]!r} is not in the team: choose from {', '.join(known)}")
        return tuple(names) or known


def load_team(path: Path | str) -> Team:
    """Read and check a team file. TeamError."""
    file = Path(path)
    if file.suffix == ".onnx":
        raise TeamError(f"{file}: is a policy file; a team file (.yaml) was expected")
    try:
        data = read_yaml(file)
    except ValueError as error:
        raise TeamError(str(error)) from error
    if data is None:
        raise TeamError(f"{file}: is empty; a team file lists its robots")
    try:
        team = msgspec.convert(data, Team)
    except msgspec.ValidationError as error:
        raise TeamError(f"{file}: {_explain(str(error), data)}") from error
    twice = [name for name, count in Counter(robot.name for robot in team.robots).items() if count > 1]
    if twice:
        raise TeamError(f"{file}: robots: {twice[0]!r} is there twice; every robot has a name of its own")
    try:
        team.scene.check([robot.name for robot in team.robots])
    except ValueError as error:
        raise TeamError(f"{file}: scene: {error}") from error
    try:
        keys = tuple(_key(text, file.parent) for text in team.trusted_keys)
    except ValueError as error:
        raise TeamError(f"{file}: trusted_keys: {error}") from error
    team = msgspec.structs.replace(team, trusted_keys=keys)
    try:
        team.hosts.check(len(team.robots))
        check_level(team.requires)
    except ValueError as error:
        raise TeamError(f"{file}: {error}") from error
    checked = [
        _checked(robot, team, file.parent, f"{file}: robots[{number}]") for number, robot in enumerate(team.robots)
    ]
    robots, limits = (tuple(each) for each in zip(*checked, strict=True))
    if not team.mission:  # which has starts of its own
        _check_apart(robots, limits, str(file))
    for number, robot in enumerate(robots):
        _check_landing(robot, robots, f"{file}: robots[{number}].lands_on of {robot.name}")
    try:
        _check_devices(robots)
    except ValueError as error:
        raise TeamError(f"{file}: robots: {error}") from error
    if team.mission and (course := [robot.name for robot in robots if robot.goals]):
        raise TeamError(f"{file}: goals of {course[0]}: the mission {team.mission} has orders of its own")
    mission = _path(team.mission, file.parent) if team.mission else ""
    team = msgspec.structs.replace(team, robots=robots, mission=mission)
    if mission:
        try:
            named, planned = [robot.name for robot in robots], load_mission(mission).names
        except ValueError as error:
            raise TeamError(f"{file}: mission: {error}") from error
        if different := sorted({*named} ^ {*planned}):
            raise TeamError(f"{file}: mission: is for {', '.join(planned)}; {different[0]!r} differs")
    return team


def _path(text: str, folder: Path) -> str:
    """An absolute path, from one that is relative to the file, or begins with the home of a user."""
    return str((folder / os.path.expanduser(text)).resolve())


def _key(text: str, folder: Path) -> str:
    path = os.path.join(folder, os.path.expanduser(text))  # unlike pathlib's these take any text
    return key_text(read_public_key(path if os.path.isfile(path) else text))


def _checked(robot: Robot, team: Team, folder: Path, where: str) -> tuple[Robot, Any]:
    """`robot` with its type and the path of its bundle, and its shield's parameters.

    TeamError for what its nodes would refuse.
    """
    bundle, key = _path(robot.bundle, folder), "bundle"
    try:
        contract = load_bundle(bundle, team.trusted_keys, team.requires).contract
        key = "type"
        kind = _path(robot.type, folder) if robot.type.endswith(SUFFIX) else robot.type
        spec = load_robot(kind or contract.robot.name)
        check_robot(contract, spec, bundle)
        key = "group"
        if robot.group and contract.group not in ("", robot.group):
            raise ValueError(f"{robot.group!r}; {bundle} is for {contract.group!r}")
        key = "shield"
        limits = {**narrowed_limits(spec, contract.shield)[0], **team.shield, **robot.shield}
        params = make_shield_params(spec, **limits)
        key = "goals"
        if robot.within_m is not None and not robot.goals:
            raise ValueError(f"none, so within_m = {robot.within_m:g} is of no goal: give goals, or leave it out")
        if robot.goals and (takes := [command.name for command in contract.commands]) != ["goal_pos"]:
            taken = " and ".join(takes) or "no commands"
            raise ValueError(f"{bundle} takes {taken}; a course is for a policy that takes goal_pos alone")
        check_goals(robot.goals, params, team.scene.of(robot.name))
        key = "battery"
        check_charges(**team.charges(robot))
        key = "driver"
        if robot.driver:
            _check_measured(contract, unmeasured_by(driver_class(robot.driver)), team, bundle)
            key = "options"
            check_options(robot.driver, robot.options)
            device_of(robot.driver, robot.options)  # which knows addresses that cannot be
    except (ValueError, TypeError) as error:
        raise TeamError(f"{where}.{key} of {robot.name}: {error}") from error
    if robot.base_pose is not None and not np.isfinite(robot.base_pose).all():
        raise TeamError(f"{where}.base_pose = {list(robot.base_pose)}: every number must be finite")
    legs = not (spec.flight or spec.fixed_base)
    if robot.base_pose is not None and legs and robot.base_pose[2] < (least := LEAST_HEIGHT * spec.home_height_m):
        stands = f"its base is {spec.home_height_m:.3g} m above what it stands on"
        raise TeamError(
            f"{where}.base_pose z of {robot.name} = {robot.base_pose[2]:g}: at least {least:.2g} m; {stands}"
        )
    group = robot.group or contract.group or spec.name
    return msgspec.structs.replace(robot, bundle=bundle, type=kind or spec.name, group=group), params


def _check_apart(robots: Sequence[Robot], limits: Sequence[Any], file: str) -> None:
    """TeamError for simulated drones that stand where none of them is armed: too near to each other."""
    drones = [(r, p) for r, p in zip(robots, limits, strict=True) if isinstance(p, ShieldParams) and not r.driver]
    places = [np.array((r.base_pose or (0.0, 0.0, load_robot(r.type).home_height_m))[:3]) for r, _ in drones]
    for ((one, params), here), ((other, _), there) in combinations(zip(drones, places, strict=True), 2):
        peer = Peers(there[None], np.zeros((1, 3)), np.zeros(1), np.ones(1, dtype=bool))
        if least_margin(np, params, here, peer) < 0.0:
            apart_m = float(np.linalg.norm(here - there))
            raise TeamError(
                f"{file}: base_pose of {one.name} and {other.name}: {apart_m:.2f} m apart, "
                f"at least {params.separation_m:.2f} needed"
            )


def _check_measured(contract: Contract, unmeasured: Sequence[str], team: Team, bundle: str) -> None:
    """ValueError where policy, scene or team mates need what the driver of a robot does not measure."""
    check_measured(contract, unmeasured, bundle)
    if "base_pos" not in unmeasured:
        return
    if team.scene.names:
        raise ValueError(f"does not measure base_pos, which its shield needs for {team.scene.names[0]!r} of the scene")
    if len(team.robots) > 1:
        raise ValueError(f"does not measure base_pos, which team mates need; there are {len(team.robots)} robots")


def _check_devices(robots: Sequence[Robot]) -> None:
    """ValueError where two robots are one device, which would have two commanders."""
    owners: dict[tuple[Any, str], str] = {}
    for robot in robots:
        device = device_of(robot.driver, robot.options) if robot.driver else ""
        key = device and driver_class(robot.driver), device
        if device and (other := owners.setdefault(key, robot.name)) != robot.name:
            raise ValueError(f"{other} and {robot.name} are one device ({robot.driver}, {device}); each has its own")


def _check_landing(robot: Robot, team: Sequence[Robot], where: str) -> None:
    """TeamError where it lands on what is no arm of the team."""
    arms = [other.name for other in team if other is not robot and link_rows(load_robot(other.type)) is not None]
    if robot.lands_on and robot.lands_on not in arms:
        raise TeamError(f"{where}: {robot.lands_on!r} is no arm of the team: choose from {', '.join(arms) or 'none'}")


def _explain(error: str, data: Any) -> str:
    """Msgspec's reason as key, value and what is allowed."""
    reason, _, path = error.partition(" - at `$")
    keys = re.findall(r"\.(\w+)|\[(\d+)\]", path)
    key = path.removeprefix(".").rstrip("`")
    for name, index in keys:
        data = data[name] if name else data[int(index)]
    if unknown := re.search("unknown field `(.+)`", reason):
        kinds = {
            "robots": Robot,
            "hosts": Hosts,
            "battery": Charges,
            "scene.obstacles": Obstacle,
            "scene.keep_out": KeepOut,
            "scene": Scene,
        }
        start = "battery" if key.endswith(".battery") else key  # a robot may have charges of its own
        kind = next((kind for name, kind in kinds.items() if start.startswith(name)), Team)
        allowed = ", ".join(kind.__struct_fields__)
        return f"{key}{'.' if key else ''}{unknown[1]}: unknown; choose from {allowed}"
    return f"{key or 'the file'} = {str(data)[:SHOWN]}: {reason[0].lower()}{reason[1:]}"
