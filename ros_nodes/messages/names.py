"""What a robot may be called, and where its policy is heard; imports nothing that takes time."""

import re

LONGEST_NAME = 100  # of a robot or namespace: with what follows it a topic of ROS has 247 characters at most
POLICY_STATUS = "policy/status"
DRIVER_STATUS = "driver/status"
NAME = "(?!.*__)[A-Za-z][A-Za-z0-9_]*"  # ROS takes no double underscore
ALLOWED = f"a name is letters, digits and single _, a letter first, {LONGEST_NAME} at most"


def is_name(name: str) -> bool:
    """Whether a robot can be called so: its topics and files are."""
    return len(name) <= LONGEST_NAME and re.fullmatch(NAME, name) is not None


def check_name(name: str) -> None:
    """ValueError for what is no name."""
    if not is_name(name):
        raise ValueError(f"robot {name[:60]!r}: {ALLOWED}")
