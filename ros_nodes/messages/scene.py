"""What stands around a team, as its team file says and as a shield's parameter `surroundings` has it: JSON is YAML.

```yaml
scene:
  obstacles:  # rounded boxes: `size` m along its own axes, grown by `radius` m on all sides; either may be left out
    - {name: shelf, pose: [1.5, 0, 0.5, 0.3], size: [0.4, 1.2, 1.0]}  # x, y, z m of its middle and yaw rad, world
    - {name: pillar, pose: [-1, 0, 1, 0], size: [0, 0, 2], radius: 0.1}  # a capsule; without a size, a sphere
  keep_out:
    - {name: walkway, low: [1, -3, 0], high: [3, 3, 3], robots: [cf1]}  # m, world; for all robots where none is named
```
"""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from deploy.shield.types import Obstacles
from hardware.names import nearest
from ros_nodes.messages.conversion import MOST_M
from ros_nodes.messages.names import LONGEST_NAME

MOST_THINGS = 256  # obstacles and zones of one team file: each of them costs time in every period
NotNegative = Annotated[float, Meta(ge=0)]
Name = Annotated[str, Meta(pattern="^[A-Za-z][A-Za-z0-9_]*\\Z", max_length=LONGEST_NAME)]
Pose = tuple[float, float, float, float]  # x, y, z m and yaw rad, world


class Obstacle(Struct, forbid_unknown_fields=True, frozen=True):
    """A rounded box that stands there."""

    name: Name
    pose: Pose
    size: tuple[NotNegative, NotNegative, NotNegative] = (0.0, 0.0, 0.0)
    radius: NotNegative = 0.0


class KeepOut(Struct, forbid_unknown_fields=True, frozen=True):
    """A box that robots are kept out of, though nothing stands there."""

    name: Name
    low: tuple[float, float, float]
    high: tuple[float, float, float]
    robots: tuple[str, ...] = ()  # whom it is for; empty for all


class Scene(Struct, forbid_unknown_fields=True, frozen=True):
    """What stands around the team."""

    obstacles: tuple[Obstacle, ...] = ()
    keep_out: tuple[KeepOut, ...] = ()

    def check(self, team: Sequence[str]) -> None:
        """ValueError, one line with key, value and what is allowed; `team`: the names of its robots."""
        names = self.names
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"{twice[0]!r} is there twice; everything has a name of its own")
        if len(names) > MOST_THINGS:
            raise ValueError(f"{len(names)} obstacles and zones: {MOST_THINGS} at most")
        for number, thing in enumerate(self.obstacles):
            where = f"obstacles[{number}] {thing.name}"
            _check_numbers(where, [*thing.pose, *thing.size, thing.radius])
            if not (all(thing.size) or thing.radius):
                raise ValueError(f"{where}: needs a radius above 0, or a size of which no side is 0")
        for number, zone in enumerate(self.keep_out):
            where = f"keep_out[{number}] {zone.name}"
            _check_numbers(where, [*zone.low, *zone.high])
            if not all(low < high for low, high in zip(zone.low, zone.high, strict=True)):
                raise ValueError(f"{where}: low = {list(zone.low)} must be below high = {list(zone.high)}")
            if unknown := [name for name in zone.robots if name not in team]:
                near = nearest(unknown[0], team)
                raise ValueError(
                    f"{where}: robot {unknown[0]!r} is not in the team: choose from {', '.join(team)}{near}"
                )

    def lines(self) -> list[str]:
        """What there is, a line each."""
        found = []
        for thing in self.obstacles:
            size = f"{' x '.join(f'{side:g}' for side in thing.size)} m" if any(thing.size) else ""
            round_ = f"radius {thing.radius:g} m" if thing.radius else ""
            where = ", ".join(f"{value:g}" for value in thing.pose)
            found.append(f"obstacle {thing.name}: {', '.join(filter(None, [size, round_]))} at ({where})")
        for zone in self.keep_out:
            low, high = (", ".join(f"{value:g}" for value in corner) for corner in (zone.low, zone.high))
            found.append(f"keep out of {zone.name}: ({low}) to ({high}) m, {', '.join(zone.robots) or 'all robots'}")
        return found

    def of(self, robot: str) -> "Scene":
        """What of it is about this robot; its zones name no robot."""
        zones = (zone for zone in self.keep_out if not zone.robots or robot in zone.robots)
        return msgspec.structs.replace(self, keep_out=tuple(msgspec.structs.replace(zone, robots=()) for zone in zones))

    @property
    def names(self) -> tuple[str, ...]:
        """Of everything in `boxes`."""
        return (*(thing.name for thing in self.obstacles), *(zone.name for zone in self.keep_out))

    def boxes(self) -> Obstacles:
        """Everything that stands there, and zones like it, as shields take it."""
        rows = [[*thing.pose, *(0.5 * side for side in thing.size), thing.radius] for thing in self.obstacles]
        for zone in self.keep_out:
            low, high = np.array(zone.low), np.array(zone.high)
            rows.append([*(0.5 * (low + high)), 0.0, *(0.5 * (high - low)), 0.0])
        table = np.array(rows, dtype=np.float64).reshape(-1, 8)
        half_turn, none = 0.5 * table[:, 3], np.zeros(len(table))
        quat = np.stack([np.cos(half_turn), none, none, np.sin(half_turn)], axis=-1)
        return Obstacles(table[:, :3], quat, table[:, 4:7], table[:, 7], none, np.ones(len(table), bool))


def _check_numbers(where: str, numbers: Sequence[float]) -> None:
    if wrong := [number for number in numbers if not abs(number) <= MOST_M]:  # NaN is not less either
        raise ValueError(f"{where}: {wrong[0]:g}: every number must be from {-MOST_M:g} to {MOST_M:g}")


NO_SCENE = Scene()


class Neighbour(Struct, forbid_unknown_fields=True, frozen=True):
    """Another robot of the team, that a shield keeps off by its links, or by a ball around it: legs, or a drone."""

    name: str
    type: str  # specification by name
    base_pose: Sequence[float]  # x, y, z m and yaw rad, world, of a fixed base
    lands_on: bool = False  # whether this shield's robot lands on its tool: then the links that carry it may be near


class Surroundings(Struct, forbid_unknown_fields=True, frozen=True):
    """The parameter `surroundings` of one robot's shield."""

    scene: Scene = NO_SCENE
    neighbours: tuple[Neighbour, ...] = ()


def read_surroundings(text: str) -> Surroundings:
    """The parameter's text; ValueError, one line, for what it cannot be."""
    try:
        found = msgspec.json.decode(text or "{}", type=Surroundings)
        found.scene.check([])
        for neighbour in found.neighbours:
            _check_numbers(f"neighbour {neighbour.name}", neighbour.base_pose)
    except ValueError as error:
        raise ValueError(f"parameter 'surroundings': {error}") from error
    return found
