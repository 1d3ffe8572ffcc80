"""ROS inside a program that is not a node: a context of its own that leaves the program's environment as it was."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import rclpy
from rclpy.signals import SignalHandlerOptions

from ros_nodes.lifecycle.transport import LOCALHOST_ONLY


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
