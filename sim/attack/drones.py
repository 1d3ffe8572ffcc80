"""One flight of a team of multirotors, each behind the `Shield` object that its robot has, under attack."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from deploy.shield import Context, Mode, Shield, ShieldParams, safe_margin
from deploy.shield.types import Sharing
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Peers, RobotState
from sim.attack.attackers import ATTACKERS, Request, View, request_of
from sim.attack.faults import FAULTS
from sim.attack.firmware import Loop
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
# From the time in s, what each robot knows, what it has heard and what its policy asks for, all (W, N, ...), to the
# commands that are sent (W, N, 4) and the values of the modes (W, N).
Guard = Callable[[float, RobotState, Peers, Request], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is guaranteed to a team, see `deploy.shield.drone.filter`."""

    touch_m: float | None  # distance of two centres where only contact is excluded; None where the ellipsoid holds
    fence_m: float  # outside the fence, but for its lower face


def limits_of(spec: RobotSpec, robots: int) -> Limits:
    """Of a team of `robots`."""
    touch_m = 2 * spec.radius_m if robots > MOST_APART else None
    return Limits(touch_m, PRESSED_M if robots > 1 else 0.0)


def flight(
    spec: RobotSpec, params: ShieldParams, fault: str, attacker: str, robots: int, seed: int, loop: Loop | None = None
) -> Outcome:
    """A team of `robots` in each of `WORLDS` worlds for `SECONDS`, all its policies under `attacker`, with `fault`.

    Under its model's own loop, or its firmware's, `loop`.
    """
    rng = np.random.default_rng(seed)
    starts = free_starts(spec, params, (WORLDS, robots), rng)
    team = Team(spec, starts, FAULTS[fault], rng, loop)
    shields = Shields(spec, params, starts.shape[:2])
    view = View(spec, params, rng, team.now)
    out = fly(team, view, partial(request_of, ATTACKERS[attacker]), shields, SECONDS)
    out.ended.update(Mode(mode).name for mode in shields.modes.flat)
    if out.first:
        out.first = f"{attacker} with {fault}, {robots} robots, seed {seed}: {out.first}"
    return out


def fly(team: Team, view: View, attack: Callable[[View], Request], guard: Guard, seconds: float) -> Outcome:
    """Fly `team` for `seconds`: what `attack` asks for, through `guard`."""
    check = GuaranteeCheck(view.spec, view.params, team)
    for step in range(round(seconds / team.dt_s)):
        view.now, view.t_s = team.now, step * team.dt_s
        command, modes = guard(view.t_s, team.state(), team.peers(), attack(view))
        check.add(team.step(command), modes, view.t_s)
    return check.outcome


def free_starts(spec: RobotSpec, params: ShieldParams, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Places (W, N, 3) m well inside the fence, at which robots are at rest outside each other's ellipsoids."""
    low, high = np.array(params.geofence_low), np.array(params.geofence_high)
    room, spread = 4 * params.fence_buffer_m, max(SPREAD_M, 1.2 * params.separation_m * shape[1] ** 0.5)
    apart = 1.8 * params.separation_m * np.array([1.0, 1.0, params.downwash_ratio])
    middle = np.array([spread, spread, np.inf])
    return random_starts(rng, shape, np.maximum(low + room, -middle), np.minimum(high - room, middle), apart)


class Shields:
    """The shield of each robot, W x N."""

    def __init__(self, spec: RobotSpec, params: ShieldParams, shape: tuple[int, ...]):
        self.modes = np.full(shape, Mode.OFF.value)
        self._shields = {index: Shield(params, spec) for index in np.ndindex(shape)}
        self._filtered = np.zeros(shape, dtype=bool)  # the last command, so that it does its half of keeping distances

    def __call__(self, t_s: float, state: RobotState, peers: Peers, asked: Request) -> tuple[np.ndarray, np.ndarray]:
        """Commands (W, N, 4) that the shields send, and the values of their modes (W, N)."""
        sent, says = np.empty(asked.target.shape), self._filtered.copy()
        for index, shield in self._shields.items():
            own = RobotState(*(getattr(state, name)[index] for name in RobotState.__slots__))
            mates = Peers(*(getattr(peers, name)[index] for name in Peers.__slots__))
            shares = np.delete(says[index[:-1]], index[-1])
            sharing = Sharing(shares, np.zeros(len(shares)))  # they keep no more than this one
            wanted = ActuatorCommand(asked.target[index].astype(np.float32)) if asked.there[index] else None
            context = Context(own, mates, sharing=sharing)
            command, report = shield.step(BEGAN_S + t_s, context, wanted, float(asked.age_s[index]))
            sent[index], self.modes[index] = command.target, report.mode.value
            self._filtered[index] = report.filtered
        return sent, self.modes


class GuaranteeCheck:
    """Counts in which robot-steps a guarantee did not hold, by where the bodies are."""

    def __init__(self, spec: RobotSpec, params: ShieldParams, team: Team):
        self.params, self.team = params, team
        self.limits = limits_of(spec, team.robots)
        self.outcome = Outcome()

    def add(self, seen: np.ndarray, modes: np.ndarray, t_s: float) -> None:
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
        size = (high - low)[:2].min()
        margins = {"fence": (self.limits.fence_m - fence).min() / size, "floor": -floor.max() / size}
        if self.team.robots > 1:
            mates = seen[..., self.team.others, :]
            over = safe_margin(params, seen, mates).min(axis=(0, -1))
            if self.limits.touch_m is not None:
                over = np.linalg.norm(seen[..., None, :] - mates, axis=-1).min(axis=(0, -1)) / self.limits.touch_m - 1.0
            bad["distance"] = over < 0.0
            margins["distance"] = over.min()
        hurt = np.any(list(bad.values()), axis=0)
        out.add(
            Outcome(
                steps=modes.size,
                violations=int(hurt.sum()),
                margins={name: float(value) for name, value in margins.items() if np.isfinite(value)},
                changed=int((modes == Mode.FILTERED.value).sum()),
                held=int((~np.isin(modes, OBEYS)).sum()),
                most={name: float(value) for name, value in most.items() if np.isfinite(value)},
                broken=Counter({name: int(rows.sum()) for name, rows in bad.items() if rows.any()}),
                first=f"{t_s:.2f} s, world {np.argwhere(hurt)[0][0]}" if hurt.any() else "",
            )
        )
