"""Arguments of the launch files, checked before a process starts: ValueError with one line that names the argument.

Nothing of the launch library in here, so that this can be tested where only rclpy is installed.
"""

from dataclasses import replace
from pathlib import Path

from deploy.bundle import load_bundle
from ros_nodes.messages.names import is_name
from ros_nodes.plans.mission import CRAZYFLIE, LARGEST_TEAM, Mission, load_mission, plan_swap, swap_s


def names_in(text: str) -> list[str]:
    """The names in "[cf1, cf2]" or "cf1, cf2"."""
    names = [name.strip(" \"'") for name in text.strip().removeprefix("[").removesuffix("]").split(",")]
    if not all(map(is_name, names)) or len(set(names)) < len(names):
        raise ValueError(f"only:={text}: expected names such as [cf1, cf2], each once")
    return names


def seed_in(text: str) -> int:
    """A whole number, 0 or above."""
    if not text.isdecimal():
        raise ValueError(f"seed:={text}: expected a whole number, 0 or above")
    return int(text)


def robots_in(text: str) -> int:
    """How many drones swap places."""
    if not (text.isdecimal() and 1 <= int(text) <= LARGEST_TEAM):
        raise ValueError(f"robots:={text}: expected 1 to {LARGEST_TEAM}")
    return int(text)


def mission_for(bundle: str, path: str, robots: int, seed: int) -> Mission:
    """The mission in the file `path`, or the swap; `bundle`, where it is not empty, flies all of its robots."""
    mission = load_mission(path) if path else plan_swap(robots, swap_s(robots), None, seed)
    if bundle and not path and (robot := load_bundle(bundle).contract.robot.name) != CRAZYFLIE:
        raise ValueError(f"{bundle}: is for {robot!r}, only drones swap places: give mission:=<file>")
    if bundle:
        file = str(Path(bundle).resolve())
        mission = replace(mission, team=tuple(replace(member, bundle=file) for member in mission.team))
    for member in mission.team:
        if not member.bundle:
            raise ValueError(f"{member.name} has no policy: give bundle:=<file>, or a mission that names its files")
    return mission
