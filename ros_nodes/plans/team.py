"""A team: its robots, real or simulated, what flies them, and what their shields are to keep."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from hardware import load_robot
from hardware.drivers import shared_link
from hardware.names import nearest
from hardware.ranges import check_range
from ros_nodes.messages.names import LONGEST_NAME, NAME
from ros_nodes.messages.scene import Scene

MOST_ROBOTS = 256  # each hears all others: two cores fly 16, and did not bring up 32
PathText = Annotated[str, Meta(max_length=1000)]
NameText = Annotated[str, Meta(max_length=LONGEST_NAME)]
Count = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class TeamError(ValueError):
    """A team file that cannot be: one line names the file, the key, the value and what is allowed."""


def absolute(text: str, folder: Path) -> str:
    """An absolute path, from one that is relative to `folder`, or begins with the home of a user."""
    return str((folder / os.path.expanduser(text)).resolve())


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

    @property
    def place(self) -> tuple[float, float, float, float]:
        """x, y, z m and yaw rad, world, of its base: at the origin in its home pose where the file gives none."""
        return self.base_pose or (0.0, 0.0, load_robot(self.type).home_height_m, 0.0)


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
            near = nearest(unknown[0], known)
            raise ValueError(f"robot {unknown[0]!r} is not in the team: choose from {', '.join(known)}{near}")
        return tuple(names) or known
