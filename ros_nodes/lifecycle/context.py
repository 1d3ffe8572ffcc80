"""ROS inside a program that is not a node: a context of its own that leaves the program's environment as it was."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

import rclpy
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.signals import SignalHandlerOptions

from ros_nodes.lifecycle.domain import chosen_domain
from ros_nodes.lifecycle.transport import LOCALHOST_ONLY, transport_settings

RCLError = rclpy_implementation.RCLError


def end_process(code: int) -> NoReturn:
    """End without the middleware's destructors: that of Fast DDS 2.14 can wait for ever, on a whole core."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def quiet_context(domain_id: int, environment: Mapping[str, str]) -> Iterator[rclpy.Context]:
    """A context in `domain_id`, begun under `environment`; the program keeps its signal handlers."""
    before = {name: os.environ.get(name) for name in (*environment, LOCALHOST_ONLY)}
    os.environ.pop(LOCALHOST_ONLY, None)
    os.environ.update(environment)  # the middleware reads them when the context begins
    context = rclpy.Context()
    try:
        try:
            rclpy.init(args=[], context=context, domain_id=domain_id, signal_handler_options=SignalHandlerOptions.NO)
        except RCLError as error:
            if "log directory" not in str(error):
                raise
            said = str(error).partition(", at /")[0]
            raise OSError(f"{said}: set ROS_LOG_DIR to a folder that can be written") from error
        yield context
    finally:
        context.try_shutdown()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def domain_context(domain: int | None) -> Iterator[rclpy.Context]:
    """A context in `chosen_domain`."""
    domain = chosen_domain(domain)
    own = {name: os.environ[name] for name in (LOCALHOST_ONLY,) if name in os.environ}
    with quiet_context(domain, transport_settings(os.environ) or own) as context:
        yield context
