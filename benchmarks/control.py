"""Step times of what runs on a robot: policy runtime, shield, and both, for one robot among neighbours."""

import gc
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.turns import Progress
from deploy.runtime import PolicyRuntime
from deploy.shield import Context, Shield, make_shield_params, narrowed_limits, native
from hardware import load_robot
from hardware.types import ActuatorCommand, Peers, RobotState

STEPS = 2000  # of one measurement
WARM_UP = 200
RESTED = 50  # steps of one measurement, each after a pause in which the processor's caches grow cold
PAUSE_S = 0.02
NEIGHBOUR_M = 0.9  # distance of the ring of neighbours: near enough that the shield has something to solve
CLOSING_M_S = 0.5


def bench_control(
    policy: Path = Path("zoo/swarm-swap.onnx"), neighbours: int = 8, repeats: int = 5, *, on_progress: Progress
) -> dict[str, Any]:
    """Microseconds a step of policy runtime, shield and both, on this machine: p50, p99, max.

    BundleError when the file cannot be used.

    Args:
        policy: Policy file of a drone.
        neighbours: Robots around it.
        repeats: Measurements; the median of each counts.
    """
    began = time.perf_counter()
    runtime = PolicyRuntime.load(policy)
    cold = {"load_and_self_test_s": time.perf_counter() - began}
    spec = load_robot(runtime.contract.robot.name)
    shield = Shield(make_shield_params(spec, **narrowed_limits(spec, runtime.contract.shield)[0]), spec)
    state, peers = situation(neighbours)
    command = {c.name: np.array([0.8, 0.0, 1.2], np.float32) for c in runtime.contract.commands}
    requested = runtime.step(state, peers, command).requested
    busy, periods = 0, count()

    def policy_step(k: int) -> None:
        runtime.step(state, peers, command)

    def shielded(request: ActuatorCommand) -> None:
        nonlocal busy
        period = next(periods)
        state.base_pos[0] += 0.006 if period % 2 else -0.006  # an estimate that stands still would be a frozen one
        state.base_lin_vel[0] *= -1.0
        busy += bool(shield.step(period * 0.02, Context(state, peers), request, 0.005)[1].intervention > 0)

    def shield_step(k: int) -> None:
        shielded(requested)

    def both(k: int) -> None:
        shielded(runtime.step(state, peers, command).requested)

    layers = {"policy runtime": policy_step, "shield": shield_step, "policy and shield": both}
    rows: dict[str, list[list[float]]] = {f"{name}{rest}": [] for rest in ("", ", after a pause") for name in layers}
    for _ in range(repeats):
        for name, call in layers.items():
            shield.reset()
            rows[name].append(percentiles_us(call, STEPS))
            rows[f"{name}, after a pause"].append(percentiles_us(call, RESTED, PAUSE_S))
        on_progress(repeats)
    return {
        "policy": str(policy),
        "neighbours": neighbours,
        "core": "compiled" if native.compiled else "NumPy",
        "steps": STEPS,
        "step_us": {
            name: dict(zip(("p50", "p99", "max"), np.median(values, axis=0).tolist(), strict=True))
            for name, values in rows.items()
        },
        "shield_intervened_share": busy / next(periods),
        "cold_start": cold,
    }


def situation(neighbours: int) -> tuple[RobotState, Peers]:
    """A robot in hover with a ring of neighbours around it, all coming closer."""
    angle = 2 * np.pi * np.arange(neighbours) / max(neighbours, 1)
    around = np.stack([np.cos(angle), np.sin(angle), 0.1 * np.sin(3 * angle)], axis=-1).astype(np.float32)
    centre = np.array([0.0, 0.0, 1.2], np.float32)
    state = RobotState(
        joint_pos=np.zeros(0, np.float32),
        joint_vel=np.zeros(0, np.float32),
        base_pos=centre,
        base_quat=np.array([1.0, 0.0, 0.0, 0.0], np.float32),
        base_lin_vel=np.array([0.3, 0.0, 0.0], np.float32),
        base_ang_vel=np.zeros(3, np.float32),
        age=np.float32(0.005),
    )
    peers = Peers(
        pos=centre + NEIGHBOUR_M * around,
        lin_vel=-CLOSING_M_S * around,
        age=np.full(neighbours, 0.01, np.float32),
        valid=np.ones(neighbours, bool),
    )
    return state, peers


def percentiles_us(
    call: Callable[[int], Any], steps: int, pause_s: float = 0.0, clock: Callable[[], int] = time.perf_counter_ns
) -> list[float]:
    """p50, p99 and worst of single calls, us, without the garbage collector, as the control loop runs."""
    times = np.empty(steps)
    for k in range(WARM_UP):
        call(k)
    gc.collect()
    gc.disable()
    try:
        for k in range(steps):
            if pause_s:
                time.sleep(pause_s)
            start = clock()
            call(WARM_UP + k)
            times[k] = 1e-3 * (clock() - start)
    finally:
        gc.enable()
    return [*np.percentile(times, [50, 99]).tolist(), float(times.max())]
