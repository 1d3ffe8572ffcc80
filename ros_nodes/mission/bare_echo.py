"""What messages take on this machine while nothing of ours runs: a bare echo, before a mission and after it."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from ros_nodes.lifecycle.bring_up import ACTIVATE, CONFIGURE, DEACTIVATE, BringUp, BringUpError
from ros_nodes.lifecycle.context import quiet_context
from ros_nodes.lifecycle.processes import ProcessError, Processes, free_domain_id, ros_environment
from ros_nodes.lifecycle.series import read_series

SIDES = ("ping", "pong")
SPAN_S = 2.0  # of one measurement
BRING_UP_S = 20.0
PERCENTILES = (50, 95, 99, 100)
Measure = Callable[[], dict[str, float] | None]


@contextmanager
def bare_echo(out: Path, rate_hz: float, config: Path) -> Iterator[Measure]:
    """Two processes that echo `rate_hz` messages a second while they are asked to, and are silent else.

    What is yielded measures for `SPAN_S` and returns `PERCENTILES` by name, as p50, in ms from the moment at which a
    message should have left; None where a process fails, which is no reason not to fly.
    """
    domain_id, parameters = free_domain_id(), out / "echo.json"
    environment = ros_environment(domain_id)
    ping = {"series_dir": str(out / "series"), "rate_hz": rate_hz}
    parameters.write_text(json.dumps({f"/{SIDES[0]}/echo": {"ros__parameters": ping}}))
    with (
        Processes([config, parameters], out / "logs", environment) as processes,
        quiet_context(domain_id, environment) as context,
    ):
        for side in SIDES:
            processes.start(side, "echo_node", namespace=side)
        node, executor = Node("echo_operator", context=context), SingleThreadedExecutor(context=context)
        executor.add_node(node)
        driver, names = BringUp(node, executor), [f"/{side}/echo" for side in SIDES]
        done = 0

        def change(*transitions: int) -> None:
            for transition in transitions:
                driver.transition(names, transition, BRING_UP_S, processes.check)

        def measure() -> dict[str, float] | None:
            nonlocal done
            try:
                change(*[CONFIGURE] * (not done), ACTIVATE)
                time.sleep(SPAN_S)
                change(DEACTIVATE)
            except (BringUpError, ProcessError):
                return None
            cycles_ms = read_series(out / "series" / "ping_echo.npy")["cycle_ms"]
            done, span_ms = len(cycles_ms), cycles_ms[done:]
            if not len(span_ms):
                return None
            return {f"p{q}": round(float(np.percentile(span_ms, q)), 3) for q in PERCENTILES}

        yield measure
        executor.shutdown()
        node.destroy_node()
