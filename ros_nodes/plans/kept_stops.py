"""Stops of persons that outlived the processes of a team file's robots."""

from ros_nodes.lifecycle.stop_file import StopFile, stops_elsewhere
from ros_nodes.plans.team import Robot

USERS_OWN = ""  # folder, as of the shield's parameter `stop_dir`


def stop_folder(robot: Robot, run: str) -> str:
    """Where its shield keeps a stop: of a real robot it outlives the `run`, that of a simulated one ends with it."""
    return USERS_OWN if robot.driver else run


def kept_stop(robot: Robot, domain_id: int) -> str:
    """Why it will be STOPPED when its shield comes up; or an empty string. OSError where no stop could be kept."""
    return StopFile(USERS_OWN, robot.name, domain_id).read() if robot.driver else ""


def kept_elsewhere(robot: Robot, domain_id: int) -> str:
    """That a robot of its name is stopped in another ROS domain, which may be this one; or an empty string."""
    found = stops_elsewhere(USERS_OWN, robot.name, domain_id) if robot.driver else {}
    where = " and ".join(f"{domain} ({why})" for domain, why in found.items())
    return f"a robot of this name is STOPPED still in ROS domain {where}: is it this one?" if found else ""
