"""Teams of Crazyflies whose policies are adversaries, in the physics of `phalanx attack`, behind the filter alone."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from deploy.shield import Context, Mode, ShieldParams, filter_command
from hardware import Peers, RobotState, load_robot
from sim.attack.attackers import ATTACKERS, Request, View, request_of
from sim.attack.drones import Guard, fly, free_starts
from sim.attack.faults import FAULTS
from sim.attack.outcome import Outcome
from sim.attack.team import Team

SPEC = load_robot("crazyflie")
LOW, HIGH = np.array(SPEC.command_low), np.array(SPEC.command_high)


def filtered_with(params: ShieldParams) -> Guard:
    """The filter, for all worlds and robots at once."""

    def guard(t_s: float, state: RobotState, peers: Peers, asked: Request) -> tuple[np.ndarray, np.ndarray]:
        sent, info = filter_command(params, SPEC, Context(state, peers), asked.target.astype(np.float32))
        return sent, np.where(info.intervention > 0, Mode.FILTERED.value, Mode.NOMINAL.value)

    return guard


def unguarded(t_s: float, state: RobotState, peers: Peers, asked: Request) -> tuple[np.ndarray, np.ndarray]:
    """What is asked for, inside the channels' limits."""
    return np.nan_to_num(asked.target).clip(LOW, HIGH), np.full(asked.there.shape, Mode.NOMINAL.value)


def one_each(names: Sequence[str]) -> Callable[[View], Request]:
    """An attacker for each world, in turn."""
    memories: dict[str, dict] = {name: {} for name in names}

    def attack(view: View) -> Request:
        out = request_of(ATTACKERS[names[0]], replace(view, memory=memories[names[0]]))
        target = out.target.copy()
        for number, name in enumerate(names[1:], 1):
            rows = slice(number, None, len(names))
            target[rows] = request_of(ATTACKERS[name], replace(view, memory=memories[name])).target[rows]
        return replace(out, target=target)

    return attack


def attacked(
    params: ShieldParams, names: Sequence[str], fault: str, robots: int, seconds: float, guard: Guard | None = None
) -> Outcome:
    """A world for each of the attackers `names`, with `robots` in it."""
    rng = np.random.default_rng(robots)
    starts = free_starts(SPEC, params, (len(names), robots), rng)
    team = Team(SPEC, starts, FAULTS[fault], rng)
    view = View(SPEC, params, rng, team.now)
    result = fly(team, view, one_each(names), guard or filtered_with(params), seconds)
    print(f"{robots} robots, {fault}: {result}")
    return result
