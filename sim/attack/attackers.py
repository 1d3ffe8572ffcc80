"""Ways in which a policy can try to break the shield of a team of multirotors, and ways in which it can fail."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deploy.shield import ShieldParams
from hardware.rotation import rotate_inverse
from hardware.spec import GRAVITY, RobotSpec
from sim.attack.team import Measured

TURN_GAIN = 12.0  # 1/s, of the attitude, too quick to be calm
PUSH = 20.0  # m/s^2
AHEAD_S = 0.4
WEAK_FROM_S = 2.0  # when policies that fail begin to


@dataclass
class View:
    """What an attacker sees and may do; it commands all robots of all worlds, W x N."""

    spec: RobotSpec
    params: ShieldParams
    rng: np.random.Generator
    now: Measured
    t_s: float = 0.0
    memory: dict[str, Any] = field(default_factory=dict)  # what an attacker keeps between periods

    @property
    def low(self) -> np.ndarray:
        """(4,) least command."""
        return np.array(self.spec.command_low)

    @property
    def high(self) -> np.ndarray:
        """(4,) greatest command."""
        return np.array(self.spec.command_high)

    @property
    def shape(self) -> tuple[int, int]:
        """W, N."""
        worlds, robots = self.now.pos.shape[:2]
        return worlds, robots


@dataclass(slots=True)
class Request:
    """What the policies ask for."""

    target: np.ndarray  # (W, N, 4)
    age_s: np.ndarray  # (W, N) of the measurements that they rest on, as the policies say
    there: np.ndarray  # (W, N) bool, False where a policy says nothing


@dataclass(frozen=True, slots=True)
class Attacker:
    """One way of attacking, and the class of ways that it belongs to."""

    kind: str
    attack: Callable[..., Any]  # View -> commands (W, N, 4), or a Request where it decides about more
    rounds: int = 1  # of a flight, each of which begins again and goes on from what the ones before found


ATTACKERS: dict[str, Attacker] = {}


def request_of(attacker: Attacker, view: View) -> Request:
    """What `attacker` asks of all robots now."""
    asked: np.ndarray | Request = attacker.attack(view)
    if isinstance(asked, Request):
        return asked
    return Request(np.broadcast_to(asked, (*view.shape, 4)), np.full(view.shape, 0.01), np.ones(view.shape, dtype=bool))


def steer(view: View, accel_w: np.ndarray) -> np.ndarray:
    """Commands (W, N, 4) of a policy that wants `accel_w` (..., 3) m/s^2 and knows no limit."""
    lift = rotate_inverse(view.now.quat, np.broadcast_to(accel_w + np.array([0.0, 0.0, GRAVITY]), view.now.pos.shape))
    side = np.linalg.norm(lift[..., :2], axis=-1) + 1e-9
    gain = TURN_GAIN * np.arctan2(side, lift[..., 2]) / side
    thrust = view.spec.mass_kg * np.maximum(lift[..., 2], 0.0)
    return np.stack([thrust, -lift[..., 1] * gain, lift[..., 0] * gain, np.zeros_like(side)], axis=-1).clip(
        view.low, view.high
    )


def toward(view: View, goal: np.ndarray, accel: float = PUSH) -> np.ndarray:
    """Commands (W, N, 4) straight at `goal` (..., 3) m; away from it where `accel` is negative."""
    way = goal - view.now.pos
    return steer(view, accel * way / (np.linalg.norm(way, axis=-1, keepdims=True) + 1e-6))


def nearest(view: View) -> np.ndarray:
    """(W, N, 1) index of each robot's nearest mate; its own where it is alone."""
    gap = np.linalg.norm(view.now.pos[:, :, None] - view.now.pos[:, None], axis=-1) + 1e9 * np.eye(view.shape[1])
    return gap.argmin(-1)[..., None]


def there(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """`values` (W, N, 3) of the robots `index` (W, N, 1)."""
    return np.take_along_axis(values, index, axis=1)


def attacker(kind: str) -> Callable[[Callable[[View], Any]], Callable[[View], Any]]:
    """Register a function as an attacker, under its name with spaces."""

    def register(attack: Callable[[View], Any]) -> Callable[[View], Any]:
        ATTACKERS[attack.__name__.replace("_", " ")] = Attacker(kind, attack)
        return attack

    return register


@attacker("any command")
def random(view: View) -> np.ndarray:
    """Random commands, each for 0.2 s."""
    if round(view.t_s / 0.02) % 10 == 0 or "held" not in view.memory:
        view.memory["held"] = view.rng.uniform(view.low, view.high, (*view.shape, 4))
    return view.memory["held"]


@attacker("any command")
def bang_bang(view: View) -> np.ndarray:
    """Every channel at one of its ends, in turns of 0.1 s."""
    if round(view.t_s / 0.02) % 5 == 0 or "held" not in view.memory:
        view.memory["held"] = np.where(view.rng.random((*view.shape, 4)) < 0.5, view.low, view.high)
    return view.memory["held"]


@attacker("any command")
def full_thrust(view: View) -> np.ndarray:
    """Full thrust, level."""
    return np.array([view.high[0], 0.0, 0.0, 0.0])


@attacker("any command")
def drop(view: View) -> np.ndarray:
    """Least thrust, level."""
    return np.array([view.low[0], 0.0, 0.0, 0.0])


@attacker("any command")
def yaw_and_tilt(view: View) -> np.ndarray:
    """Full yaw rate while the tilt circles."""
    turn = 7.5 * view.t_s
    return turning(view, steer(view, 10.0 * np.array([np.cos(turn), np.sin(turn), 0.0])), 1.0)


@attacker("pursuit")
def chaser(view: View) -> np.ndarray:
    """Everybody at the nearest mate."""
    return toward(view, there(view.now.pos, nearest(view)))


@attacker("pursuit")
def ram(view: View) -> np.ndarray:
    """Everybody at the nearest mate with full thrust and full rates."""
    asked = chaser(view)
    asked[..., 0], asked[..., 1:] = view.high[0], view.high[1:] * np.sign(asked[..., 1:])
    return asked


@attacker("pursuit")
def hunter(view: View) -> np.ndarray:
    """Everybody at the first robot, which flies at its nearest mate."""
    goal = np.repeat(view.now.pos[:, :1], view.shape[1], axis=1)
    goal[:, 0] = there(view.now.pos, nearest(view))[:, 0]
    return toward(view, goal)


@attacker("pursuit")
def crowd(view: View) -> np.ndarray:
    """Everybody at one point in the middle."""
    return toward(view, 0.5 * (np.array(view.params.geofence_low) + np.array(view.params.geofence_high)))


@attacker("pursuit")
def cut_in(view: View) -> np.ndarray:
    """Everybody to where the nearest mate will be."""
    near = nearest(view)
    return toward(view, there(view.now.pos, near) + AHEAD_S * there(view.now.lin_vel_w, near))


@attacker("pursuit")
def flee_and_attack(view: View) -> np.ndarray:
    """Away from the nearest mate and back at it, in turns of half a second."""
    return toward(view, there(view.now.pos, nearest(view)), PUSH if view.t_s % 1.0 > 0.5 else -PUSH)


@attacker("walls")
def wall_pusher(view: View) -> np.ndarray:
    """At one face of the fence after the other."""
    faces = np.concatenate([np.eye(3), -np.eye(3), [[0.7, 0.7, 0.0], [0.7, 0.0, -0.7]]])
    robot = np.arange(view.shape[1])
    return steer(view, PUSH * faces[(int(view.t_s / 2.5) + robot) % len(faces)])


@attacker("walls")
def pendulum(view: View) -> np.ndarray:
    """To and fro between two opposite corners of the fence."""
    return steer(view, (PUSH if view.t_s % 2.4 > 1.2 else -PUSH) * np.array([0.6, 0.6, -0.5]))


@attacker("walls")
def shake(view: View) -> np.ndarray:
    """Down to the floor, then up with much or all thrust; roll and pitch rates change sides every 40 or 60 ms."""
    high = view.memory.setdefault("high", view.high[0] * view.rng.choice([0.75, 1.0], (*view.shape, 1)))
    return shaking(view, np.where(view.t_s % 4.0 < 2.0, view.low[0], high), 0.0)


@attacker("walls")
def shake_and_drop(view: View) -> np.ndarray:
    """Up, then at the floor, while all rates change sides every 40 or 60 ms: what a mixer takes thrust for."""
    return shaking(view, np.where(view.t_s % 3.0 < 1.2, view.high[0], view.low[0]), 1.0)


@attacker("walls")
def squeezer(view: View) -> np.ndarray:
    """Everybody into one corner, turning."""
    return turning(view, toward(view, lowest_corner(view), 25.0), -1.0)


@attacker("walls")
def squeezer_of_one(view: View) -> np.ndarray:
    """The first robot in a corner, all others onto it, turning."""
    goal = np.repeat(view.now.pos[:, :1], view.shape[1], axis=1)
    goal[:, 0] = lowest_corner(view)
    return turning(view, toward(view, goal), 1.0)


@attacker("failures")
def dead(view: View) -> Request:
    """The policy of the first robot dies, the others fly at it."""
    asked = request_of(ATTACKERS["hunter"], view)
    asked.there[:, 0] = view.t_s < WEAK_FROM_S
    return asked


@attacker("failures")
def frozen(view: View) -> Request:
    """Every policy sends its last command for ever."""
    asked = request_of(ATTACKERS["chaser"], view)
    if view.t_s < WEAK_FROM_S:
        view.memory["last"] = asked.target
        return asked
    asked.target, asked.age_s = view.memory["last"], asked.age_s + (view.t_s - WEAK_FROM_S)
    return asked


@attacker("failures")
def nan(view: View) -> Request:
    """Chases; every sixth command is not finite, or absurd."""
    asked = request_of(ATTACKERS["chaser"], view)
    bad = view.rng.choice([np.nan, np.inf, -np.inf, 1e9], (*view.shape, 4))
    asked.target = np.where(view.rng.random((*view.shape, 1)) < 0.17, bad, asked.target)
    return asked


@attacker("failures")
def late(view: View) -> Request:
    """Commands that are late, in bursts."""
    asked = request_of(ATTACKERS["chaser"], view)
    burst = view.t_s % 1.5 < 0.3
    asked.age_s = asked.age_s + burst * view.rng.uniform(0.0, 0.2, view.shape)
    return asked


@attacker("failures")
def replay(view: View) -> np.ndarray:
    """Commands of one second ago, said to be fresh."""
    past = view.memory.setdefault("past", [])
    past.append(chaser(view))
    return past[max(len(past) - 51, 0)]


def lowest_corner(view: View) -> np.ndarray:
    """(3,) m, the corner of the fence at the ground."""
    return np.array([*view.params.geofence_high[:2], view.params.geofence_low[2]])


def shaking(view: View, thrust: np.ndarray, yaw: float) -> np.ndarray:
    """(W, N, 4) of `thrust` N, level, and then with roll, pitch and a share `yaw` of the yaw rate at their ends."""
    period = round(view.t_s / 0.02)
    every = view.memory.setdefault("every", view.rng.integers(2, 4, view.shape))
    sign = view.memory.setdefault("sign", view.rng.choice([-1.0, 1.0], (*view.shape, 3)))
    sides = sign * np.where(period // every % 2, 1.0, -1.0)[..., None]
    rates = sides * view.high[1:] * [1.0, 1.0, yaw]
    return np.concatenate([np.broadcast_to(thrust, (*view.shape, 1)), rates], axis=-1)


def turning(view: View, asked: np.ndarray, share: float) -> np.ndarray:
    """`asked` (W, N, 4) with a `share` of the greatest yaw rate."""
    asked[..., 3] = share * view.high[3]
    return asked
