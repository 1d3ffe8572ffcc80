"""Teams of multirotors in MuJoCo, in many worlds at once, as noisy, late and unequal as hardware."""

from dataclasses import dataclass

import mujoco
import numpy as np

from deploy.shield.drone.guarantee import BOUNDS
from hardware.rotation import multiply, rotate_inverse
from hardware.spec import RobotSpec
from hardware.types import Peers, RobotState
from sim.attack.faults import Fault
from sim.attack.firmware import Firmware, Loop
from sim.scenes.scene import Members, compose_scene

BLIND_FROM_S = 4.0
TRIES = 2000  # of a place for a robot
REMEMBERED = 256  # control periods; nothing older is delivered


@dataclass(slots=True)
class Measured:
    """What the robots measure of themselves, each (W, N, ...): m, wxyz, m/s world, rad/s body."""

    pos: np.ndarray
    quat: np.ndarray
    lin_vel_w: np.ndarray
    rate: np.ndarray


class Team:
    """W worlds of N like robots, at rest in the air at first. What reaches a shield, and when, `fault` decides."""

    def __init__(
        self, spec: RobotSpec, starts: np.ndarray, fault: Fault, rng: np.random.Generator, loop: Loop | None = None
    ):
        """`starts` (W, N, 3) m; robots fly by their model's own loop, or by their firmware's, `loop`."""
        assert spec.flight is not None
        self.fault, self.rng = fault, rng
        self.worlds, self.robots = shape = starts.shape[:2]
        scene = compose_scene([Members(spec, self.robots)], loop.tick_s(spec) if loop else None)
        self._model, group = scene.model, scene.group
        rates = group.ctrl_index[:, 1:]
        # Lags of thrust and of the rates' set-points, and with the gains the other pole of the rate loop.
        self._model.actuator_dynprm[group.ctrl_index, 0] *= fault.slow
        self._model.actuator_gainprm[rates, 0] /= fault.slow
        self._model.actuator_biasprm[rates, 2] /= fault.slow
        tick_s = self._model.opt.timestep
        self.dt_s = 1.0 / spec.control_hz
        self._ticks = round(self.dt_s / tick_s)
        self._fresh_s = BOUNDS.age_s - self.dt_s  # age when it is used; that of the measurement before is the bound
        self._measured_after = self._ticks - round(self._fresh_s / tick_s)
        self._ctrl, self._qpos, self._qvel = group.ctrl_index, group.base_qpos, group.base_qvel
        self._datas = [mujoco.MjData(self._model) for _ in range(self.worlds)]
        hover = spec.flight.hover_thrust_n
        for data, start in zip(self._datas, starts, strict=True):
            data.qpos[self._qpos] = np.concatenate([start, np.tile([1.0, 0, 0, 0], (self.robots, 1))], axis=1)
            data.act[group.act_index[:, 0]] = hover
        self._sent = np.tile([hover, 0.0, 0.0, 0.0], (*shape, 1))
        low, high = (1.0 + share * BOUNDS.thrust for share in fault.strength)
        thrust = rng.choice([low, high], shape) if fault.extremes else rng.uniform(low, high, shape)
        self._strength = np.stack([thrust, *np.ones((3, *shape))], axis=-1)
        least, most = (round(share * BOUNDS.delay_s / tick_s) for share in fault.delay)
        self._delay = rng.integers(least, most + 1, self.worlds)  # physics steps
        self._bias = fault.bias * _directions(rng, (2, *shape))
        self.others = np.array([[j for j in range(self.robots) if j != i] for i in range(self.robots)], dtype=int)
        self.periods = 0
        self.now = self._measure()
        self._past = Measured(*(np.repeat(getattr(self.now, n)[None], REMEMBERED, axis=0) for n in Measured.__slots__))
        self._firmware = loop and Firmware(loop, group, self._model, fault, self._strength[..., 0], rng)
        self._state_lag = np.full(shape, fault.state_late)
        self._message_lag = np.full((*shape, self.robots - 1), fault.message_late)

    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """Poses (W, N, 7) and velocities (W, N, 6) of the bodies: m, wxyz; m/s world, rad/s body."""
        return np.stack([d.qpos[self._qpos] for d in self._datas]), np.stack([d.qvel[self._qvel] for d in self._datas])

    def state(self) -> RobotState:
        """What each robot knows of itself (W, N, ...); once a control period."""
        lag = self._later(self._state_lag, self.fault.state_late, self.fault.state_lost)
        if BLIND_FROM_S <= self.periods * self.dt_s < BLIND_FROM_S + self.fault.blind_s:
            lag[:, 0] = self._state_lag[:, 0] + 1
        self._state_lag = lag
        rows = (self._rows(lag), *np.indices(lag.shape, sparse=True))
        known = Measured(*(getattr(self._past, name)[rows] for name in Measured.__slots__))
        return state_of(known, self._fresh_s + lag * self.dt_s)

    def peers(self) -> Peers:
        """What each robot has received from its mates (W, N, N - 1, ...); once a control period."""
        lag = self._later(self._message_lag, self.fault.message_late, self.fault.message_lost)
        if self.fault.partitioned:
            half = 2 * np.arange(self.robots) // self.robots
            lag = np.where(half[:, None] == half[self.others], lag, self._message_lag + 1)
        self._message_lag = lag
        rows = (self._rows(lag), np.arange(self.worlds)[:, None, None], self.others)
        heard = np.ones(lag.shape, dtype=bool)
        return Peers(self._past.pos[rows], self._past.lin_vel_w[rows], self._fresh_s + lag * self.dt_s, heard)

    def step(self, command: np.ndarray) -> np.ndarray:
        """Fly `command` (W, N, 4) for one control period; true positions (2, W, N, 3) m on the way."""
        last, self._sent = self._sent, command
        self.periods += 1
        seen = []
        for part in ((0, self._measured_after), (self._measured_after, self._ticks)):
            for tick in range(*part):
                target = np.where((tick >= self._delay)[:, None, None], command, last)
                if self._firmware:
                    self._firmware.push(self._datas, target)
                for world, data in enumerate(self._datas):
                    data.ctrl[self._ctrl] = self._strength[world] * target[world]
                    mujoco.mj_step(self._model, data)
            if part[0] == 0:
                self.now = self._measure()
                for name in Measured.__slots__:
                    getattr(self._past, name)[self.periods % REMEMBERED] = getattr(self.now, name)
            seen.append(self.truth()[0][..., :3])
        return np.stack(seen)

    def _measure(self) -> Measured:
        pose, vel = self.truth()
        shape, share = pose.shape[:2], self.fault.noise
        normal = self.rng.normal
        tilt = np.concatenate([np.ones((*shape, 1)), normal(0, 0.5 * share * BOUNDS.tilt_rad, (*shape, 3))], axis=-1)
        quat = multiply(pose[..., 3:], tilt)
        return Measured(
            pose[..., :3] + BOUNDS.pos_m * (self._bias[0] + share * normal(size=(*shape, 3))),
            quat / np.linalg.norm(quat, axis=-1, keepdims=True),
            vel[..., :3] + BOUNDS.vel * (self._bias[1] + share * normal(size=(*shape, 3))),
            vel[..., 3:] + share * BOUNDS.rate * normal(size=(*shape, 3)),
        )

    def _later(self, lag: np.ndarray, least: int, lost: float) -> np.ndarray:
        """Periods by which what arrives now is late: `least`, or where it is lost one more than before."""
        gone = (self.rng.random(lag.shape) < lost) & (lag < least + self.fault.most_lost)
        return np.where(gone, lag + 1, least)

    def _rows(self, lag: np.ndarray) -> np.ndarray:
        return np.maximum(self.periods - np.minimum(lag, REMEMBERED - 1), 0) % REMEMBERED


def state_of(known: Measured, age_s: np.ndarray) -> RobotState:
    """What robots (..., ) know of themselves, in the stack's own type."""
    none = np.zeros((*known.pos.shape[:-1], 0))
    vel_b = rotate_inverse(known.quat, known.lin_vel_w)
    return RobotState(none, none, known.pos, known.quat, vel_b, known.rate, age_s)


def random_starts(
    rng: np.random.Generator, shape: tuple[int, int], low: np.ndarray, high: np.ndarray, apart: np.ndarray
) -> np.ndarray:
    """Positions (W, N, 3) m between `low` and `high` (3,), outside each other's ellipsoids of half axes `apart`.

    ValueError where no more robots fit.
    """
    starts = np.empty((*shape, 3))
    for world in starts:
        for index in range(shape[1]):
            for _ in range(TRIES):
                world[index] = rng.uniform(low, high)
                if (np.linalg.norm((world[:index] - world[index]) / apart, axis=-1) > 1.0).all():
                    break
            else:
                raise ValueError(f"{shape[1]} robots do not fit between {low} and {high} m: {index} do")
    return starts


def _directions(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Unit vectors (*shape, 3)."""
    vectors = rng.normal(size=(*shape, 3))
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
