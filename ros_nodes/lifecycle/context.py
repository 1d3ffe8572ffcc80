"""ROS inside a program that is not a node: a context of its own that leaves the program's environment as it was."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import rclpy
from rclpy.signals import SignalHandlerOptions

from ros_nodes.lifecycle.transport import LOCALHOST_ONLY, transport_settings

HIGHEST_DOMAIN = 232


@contextmanager
def quiet_context(domain_id: int, environment: Mapping[str, str]) -> Iterator[rclpy.Context]:
    """A context in `domain_id`, begun under `environment`; the program keeps its signal handlers."""
    before = {name: os.environ.get(name) for name in (*environment, LOCALHOST_ONLY)}
    os.environ.pop(LOCALHOST_ONLY, None)
    os.environ.update(environment)  # the middleware reads them when the context begins
    context = rclpy.Context()
    try:
        rclpy.init(args=[], context=context, domain_id=domain_id, signal_handler_options=SignalHandlerOptions.NO)
        yield context
    finally:
        context.try_shutdown()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def given_domain() -> int:
    """The ROS domain of the environment; ValueError for what is no number."""
    given = os.environ.get("ROS_DOMAIN_ID") or "0"
    if not given.isdecimal():
        raise ValueError(f"ROS_DOMAIN_ID={given}: expected 0 to {HIGHEST_DOMAIN}")
    return int(given)


@contextmanager
def domain_context(domain: int | None) -> Iterator[rclpy.Context]:
    """A context in `domain`, by default that of the environment; ValueError for one that there is not."""
    domain = given_domain() if domain is None else domain
    if not 0 <= domain <= HIGHEST_DOMAIN:
        raise ValueError(f"ROS domain {domain}: expected 0 to {HIGHEST_DOMAIN}")
    own = {name: os.environ[name] for name in (LOCALHOST_ONLY,) if name in os.environ}
    with quiet_context(domain, transport_settings(os.environ) or own) as context:
        yield context
