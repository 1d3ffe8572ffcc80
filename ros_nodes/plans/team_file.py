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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from deploy.bundle.signature import key_text, read_public_key
from deploy.bundle.verification import check_level
from hardware.names import nearest
from hardware.yaml_file import SHOWN, read_as_text, read_yaml
from ros_nodes.messages.names import ALLOWED
from ros_nodes.messages.scene import KeepOut, Obstacle, Scene
from ros_nodes.plans.mission import load_mission
from ros_nodes.plans.team import MOST_ROBOTS, Charges, Hosts, Robot, Team, TeamError, absolute
from ros_nodes.plans.team_checks import check_robots


def load_team(path: Path | str) -> Team:
    """Read and check a team file. TeamError."""
    file = Path(path)
    if file.suffix == ".onnx":
        raise TeamError(f"{file}: is a policy file; a team file (.yaml) was expected")
    try:
        data = read_yaml(file)  # names the file in its errors
    except ValueError as error:
        raise TeamError(str(error)) from error
    try:
        return _checked(_converted(data), file.parent)
    except ValueError as error:
        raise TeamError(f"{file}: {error}") from error


def _converted(data: Any) -> Team:
    if data is None:
        raise ValueError("is empty; a team file lists its robots")
    robots = data.get("robots") if isinstance(data, dict) else None
    if isinstance(robots, list) and len(robots) > MOST_ROBOTS:
        raise ValueError(f"robots: {len(robots)} of them, {MOST_ROBOTS} at most")
    try:
        return msgspec.convert(data, Team)
    except msgspec.ValidationError as error:
        raise ValueError(_explain(str(error), data)) from error


def _checked(team: Team, folder: Path) -> Team:
    """With what it names found below `folder`. ValueError."""
    twice = [name for name, count in Counter(robot.name for robot in team.robots).items() if count > 1]
    if twice:
        raise ValueError(f"robots: {twice[0]!r} is there twice; every robot has a name of its own")
    with _named("scene"):
        team.scene.check([robot.name for robot in team.robots])
    with _named("trusted_keys"):
        keys = tuple(_key(text, folder) for text in team.trusted_keys)
    team.hosts.check(len(team.robots))
    check_level(team.requires)
    team = msgspec.structs.replace(team, trusted_keys=keys)
    team = msgspec.structs.replace(team, robots=check_robots(team, folder))
    return _with_mission(team, folder) if team.mission else team


@contextmanager
def _named(field: str) -> Iterator[None]:
    """Begin what a ValueError says with the `field` that it is about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error


def _with_mission(team: Team, folder: Path) -> Team:
    """With the absolute path of its mission. ValueError for one that is not for these robots."""
    if course := [robot.name for robot in team.robots if robot.goals]:
        raise ValueError(f"goals of {course[0]}: the mission {team.mission} has orders of its own")
    mission = absolute(team.mission, folder)
    with _named("mission"):
        planned = load_mission(mission).names
    if different := sorted({robot.name for robot in team.robots} ^ {*planned}):
        raise ValueError(f"mission: is for {', '.join(planned)}; {different[0]!r} differs")
    return msgspec.structs.replace(team, mission=mission)


def _key(text: str, folder: Path) -> str:
    path = os.path.join(folder, os.path.expanduser(text))  # unlike pathlib's these take any text
    return key_text(read_public_key(path if os.path.isfile(path) else text))


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
        known = kind.__struct_fields__
        where, near = f"{key}{'.' if key else ''}", nearest(unknown[1], known)
        return f"{where}{unknown[1]}: unknown; choose from {', '.join(known)}{near}"
    said = ALLOWED if "matching regex" in reason else f"{reason[0].lower()}{reason[1:]}"  # only names have one
    return f"{key or 'the file'} = {str(data)[:SHOWN]}: {said}{read_as_text(data)}"
