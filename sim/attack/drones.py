"""One flight of a team of multirotors, each behind the `Shield` object that its robot has, under attack."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from deploy.shield import Context, Mode, Shield, ShieldParams, safe_margin
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Peers, RobotState
from sim.attack.attackers import ATTACKERS, Request, View, request_of
from sim.attack.faults import FAULTS
from sim.attack.outcome import Outcome
from sim.attack.team import Team, random_starts

WORLDS = 2  # of one flight
SECONDS = 10.0
PRESSED_M = 0.4  # what robots that press each other against the fence may leave it by, but for its lower face
MOST_APART = 4  # robots of which any number keeps the guaranteed distance; more only do not touch
BEGAN_S = 100.0  # on the shields' clock
DOWN = [mode.value for mode in (Mode.LAND, Mode.OFF, Mode.ESTOP)]  # the ground is where they are going
OBEYS = [mode.value for mode in (Mode.NOMINAL, Mode.FILTERED)]
SPREAD_M = 1.2  # across, of the starts


@dataclass(frozen=True, slots=True)
class Limits:
    """What is guaranteed to a team, see `deploy.shield.drone.filter`."""

    touch_m: float | None  # distance of two centres where only contact is excluded; None where the ellipsoid holds
    fence_m: float  # outside the fence, but for its lower face


def limits_of(spec: RobotSpec, robots: int) -> Limits:
    """Of a team of `robots`."""
    touch_m = 2 * spec.radius_m if robots > MOST_APART else None
    return Limits(touch_m, PRESSED_M if robots > 1 else 0.0)


def fly(
    spec: RobotSpec, params: ShieldParams, fault: str, attacker: str, robots: int, seed: int, seconds: float = SECONDS
) -> Outcome:
    """A team of `robots` for `seconds` in `WORLDS` worlds, all policies under `attacker`, with `fault`."""
    rng = np.random.default_rng(seed)
    low, high = np.array(params.geofence_low), np.array(params.geofence_high)
    room = 4 * params.fence_buffer_m
    apart = 1.8 * params.separation_m * np.array([1.0, 1.0, params.downwash_ratio])
    spread = max(SPREAD_M, 1.2 * params.separation_m * robots**0.5)
    box = np.maximum(low + room, [-spread, -spread, -np.inf]), np.minimum(high - room, [spread, spread, np.inf])
    team = Team(spec, random_starts(rng, (WORLDS, robots), *box, apart), FAULTS[fault], rng)
    view = View(spec, params, rng, team.now)
    shields = [[Shield(params, spec) for _ in range(robots)] for _ in range(WORLDS)]
    judge = Judge(spec, params, team)
    modes = np.empty((WORLDS, robots), dtype=int)
    for step in range(round(seconds * spec.control_hz)):
        view.now, view.t_s = team.now, step * team.dt_s
        asked = request_of(ATTACKERS[attacker], view)
        command = through(shields, BEGAN_S + view.t_s, team.state(), team.peers(), asked, modes)
        judge.look(team.step(command), modes, view.t_s)
    out = judge.outcome
    out.ended.update(Mode(mode).name for mode in modes.flat)
    if out.first:
        out.first = f"{attacker} with {fault}, {robots} robots, seed {seed}: {out.first}"
    return out


def through(
    shields: list[list[Shield]], now_s: float, state: RobotState, peers: Peers, asked: Request, modes: np.ndarray
) -> np.ndarray:
    """Commands (W, N, 4) that the shields send; `modes` (W, N) takes the values of their modes."""
    sent = np.empty(asked.target.shape)
    for index in np.ndindex(modes.shape):
        own = RobotState(*(getattr(state, name)[index] for name in RobotState.__slots__))
        mates = Peers(*(getattr(peers, name)[index] for name in Peers.__slots__))
        wanted = ActuatorCommand(asked.target[index].astype(np.float32)) if asked.there[index] else None
        world, robot = index
        command, report = shields[world][robot].step(now_s, Context(own, mates), wanted, float(asked.age_s[index]))
        sent[index], modes[index] = command.target, report.mode.value
    return sent


class Judge:
    """Counts what the bodies did."""

    def __init__(self, spec: RobotSpec, params: ShieldParams, team: Team):
        self.params, self.team = params, team
        self.limits = limits_of(spec, team.robots)
        self.outcome = Outcome()

    def look(self, seen: np.ndarray, modes: np.ndarray, t_s: float) -> None:
        """One control period: true positions (T, W, N, 3) m on the way, and the modes (W, N) that led there."""
        out, params = self.outcome, self.params
        going_down = np.isin(modes, DOWN)
        low, high = np.array(params.geofence_low), np.array(params.geofence_high)
        side = np.maximum(seen - high, low - seen)  # (T, W, N, 3) m outside
        side[..., 2] = seen[..., 2] - high[2]
        below = np.where(going_down, -np.inf, low[2] - seen[..., 2])
        fence, floor = side.max(axis=(0, 3)), below.max(axis=0)
        bad = {"fence": fence > self.limits.fence_m, "floor": floor > 0.0}
        most = {"outside_fence_m": fence.max(), "below_fence_m": floor.max()}
        margin = np.minimum(self.limits.fence_m - fence, -floor).min() / (high - low)[:2].min()
        if self.team.robots > 1:
            mates = seen[..., self.team.others, :]
            over = safe_margin(params, seen, mates).min(axis=(0, -1))
            if self.limits.touch_m is not None:
                over = np.linalg.norm(seen[..., None, :] - mates, axis=-1).min(axis=(0, -1)) / self.limits.touch_m - 1.0
            bad["distance"] = over < 0.0
            margin = over.min()
        hurt = np.any(list(bad.values()), axis=0)
        out.add(
            Outcome(
                steps=modes.size,
                violations=int(hurt.sum()),
                least_margin=float(margin),
                changed=int((modes == Mode.FILTERED.value).sum()),
                held=int((~np.isin(modes, OBEYS)).sum()),
                most={name: float(value) for name, value in most.items() if np.isfinite(value)},
                broken=Counter({name: int(rows.sum()) for name, rows in bad.items() if rows.any()}),
                first=f"{t_s:.2f} s, world {np.argwhere(hurt)[0][0]}" if hurt.any() else "",
            )
        )
