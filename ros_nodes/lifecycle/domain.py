"""Which ROS domain is meant; imports nothing that takes time."""

import os

HIGHEST_DOMAIN = 232


def chosen_domain(domain: int | None) -> int:
    """`domain`, by default that of the environment; ValueError for one that there is not."""
    domain = given_domain() if domain is None else domain
    if not 0 <= domain <= HIGHEST_DOMAIN:
        raise ValueError(f"ROS domain {domain}: expected 0 to {HIGHEST_DOMAIN}")
    return domain


def given_domain() -> int:
    """The ROS domain of the environment; ValueError for what is no number."""
    given = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not given.isdecimal():
        raise ValueError(f"ROS_DOMAIN_ID={given}: expected 0 to {HIGHEST_DOMAIN}")
    return int(given)
