"""A Unitree G1 stands and walks on its emulated device in ROS 2, pushed as its task pushes it: of `benchmarks.flights`.

A gantry holds it until its policy has it, then lets it go; what the device says is what counts.
"""

from collections import deque
from collections.abc import Callable, Iterator
from math import cos, inf, pi, sin
from typing import Any

import numpy as np

from benchmarks.flights import Flight

READY = ("POLICY", "FAULT", "STOPPED", "DISARMED")
SETTLE_S, AGAIN = 1.0, 4


def episodes(team: Any, device: Any, bundle: str, count: int) -> Iterator[Flight]:
    """`count` episodes of the task of `bundle`, each from the gantry; success as that task has it."""
    import torch

    from sim.task import Draw
    from sim.tasks import load_task

    task = load_task(bundle)
    group, robot = task.groups[task.group_name], team.names[0]
    draw = Draw(torch.Generator().manual_seed(7), count, 1, torch.ones(count))
    plans = task.starts(draw)[task.group_name].plan or {}
    first, second = (plans[key][:, 0].numpy() if key in plans else np.zeros((count, 3)) for key in ("first", "second"))
    push, amiss = group.randomisation["push"], _amiss(group, task.success_hold_s)
    rng = np.random.default_rng(7)
    for episode in range(count):
        yield _episode(team, device, robot, task, (first[episode], second[episode]), push, amiss, rng)


def _episode(
    team: Any, device: Any, robot: str, task: Any, velocities: Any, push: Any, amiss: Callable[..., str], rng: Any
) -> Flight:
    """From the gantry to the end; `amiss` says of what the device said last what is not as it should be."""
    from sim.tasks.velocity import SWITCH_S

    def command(velocity: np.ndarray) -> Callable[[float], None]:
        return lambda _: team.node.send(robot, {"velocity": velocity})

    _hang(team, device, robot, command(velocities[0]))
    device.order(held=False, lowest_m=inf, push=_shove(rng, (0.0, 0.2)))
    said: deque[tuple[float, dict[str, Any], np.ndarray]] = deque(maxlen=200)
    due_s = rng.uniform(*push.interval_range_s)

    def act(now_s: float) -> None:
        nonlocal due_s
        asked = velocities[int(now_s >= SWITCH_S)]
        command(asked)(now_s)
        orders = {}
        if now_s > due_s:
            orders["push"] = _shove(rng, push.params["speed_m_s"])
            due_s = now_s + rng.uniform(*push.interval_range_s)
        said.append((now_s, device.order(**orders), asked))

    ages_ms = team.sent_ages_ms(robot, task.episode_s, act)
    taken = "" if team.authority(robot) == "POLICY" else f"{team.authority(robot)}: {team.node.shields[0].reason}"
    missed = taken or amiss(said)
    return Flight(not missed, taken, list(ages_ms), missed=missed)


def _hang(team: Any, device: Any, robot: str, act: Callable[[float], None]) -> None:
    """In the gantry, its policy begun again; again where a busy machine was late."""
    device.order(held=True)
    for _ in range(AGAIN):
        team.watch(robot, SETTLE_S, act)
        team.asked(robot, "hold", 1.0, act)
        team.asked(robot, "start", 2.0, act)
        if team.authority(robot) not in ("POLICY", "STARTING"):
            team.restart(robot, act)
        team.watch_until(robot, lambda: team.authority(robot) in READY, 20.0, act)
        if team.authority(robot) == "POLICY":
            team.watch(robot, 0.5, act)
            return


def _shove(rng: Any, speed_m_s: tuple[float, float]) -> list[float]:
    speed, way = rng.uniform(*speed_m_s), rng.uniform(-pi, pi)
    return [speed * cos(way), speed * sin(way)]


def _amiss(group: Any, hold_s: float) -> Callable[..., str]:
    """What is amiss with what the device said, by the terms of the task; an empty string for nothing."""
    numbers, fallen = group.success.params, group.terminations["fallen"].params

    def amiss(said: deque) -> str:
        end_s, last, _ = said[-1]
        held = [each for at_s, each, _ in said if at_s > end_s - hold_s]
        if last["lowest_m"] < fallen["height_m"] or max(each["tilt"] for each in held) > fallen["tilt_rad"]:
            return f"fell: it was {last['lowest_m']:.2f} m low"
        if "height_m" in numbers:
            lowest, away = (f(each) for f, each in ((lambda s: s["position"][2], last), (_away, last)))
            low = min(each["position"][2] for each in held) < numbers["height_m"]
            far = max(map(_away, held)) > numbers["distance_m"]
            leans = max(each["tilt"] for each in held) > numbers["tilt_rad"]
            return f"{lowest:.2f} m high, {away:.2f} m away, leans {last['tilt']:.2f}" if low or far or leans else ""
        return _off_velocity(said, hold_s, group.means["velocity_error"].window_s, numbers)

    return amiss


def _away(said: dict[str, Any]) -> float:
    return float(np.hypot(*said["position"][:2]))


def _off_velocity(said: deque, hold_s: float, window_s: float, numbers: Any) -> str:
    """Of the mean over `window_s` of how fast it walks, at any moment of the last `hold_s`."""
    times = np.array([at_s for at_s, _, _ in said])
    errors = np.array([np.subtract(each["walks"], asked) for _, each, asked in said])
    for end_s in times[times > times[-1] - hold_s]:
        ahead, left, turn = errors[(times <= end_s) & (times > end_s - window_s)].mean(0)
        if np.hypot(ahead, left) >= numbers["speed_m_s"] or abs(turn) >= numbers["turn_rad_s"]:
            return f"off by {ahead:.2f} and {left:.2f} m/s and {turn:.2f} rad/s of {np.round(said[-1][2], 2)}"
    return ""
