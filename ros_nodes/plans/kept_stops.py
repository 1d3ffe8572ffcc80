"""Stops of persons that outlived the processes of a team file's robots."""

from ros_nodes.lifecycle.stop_file import StopFile
from ros_nodes.plans.team import Robot

USERS_OWN = ""  # folder, as of the shield's parameter `stop_dir`


def stop_folder(robot: Robot, run: str) -> str:
    """Where its shield keeps a stop: of a real robot it outlives the `run`, that of a simulated one ends with it."""
    return USERS_OWN if robot.driver else run


def kept_stop(robot: Robot) -> str:
    """Why it will be STOPPED when its shield comes up; or an empty string. OSError where no stop could be kept."""
    return StopFile(USERS_OWN, robot.name).read() if robot.driver else ""
