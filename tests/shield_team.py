"""A team of Crazyflies in MuJoCo whose policies are adversaries, as noisy, late and unequal as hardware. For tests."""

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from one_scene import build_scene

from deploy.shield import Context, ShieldParams, filter_command, safe_margin
from deploy.shield.drone.guarantee import BOUNDS
from hardware import Peers, RobotState, load_robot
from hardware.rotation import multiply, rotate_inverse

torch.set_num_threads(1)
SPEC = load_robot("crazyflie")
LOW, HIGH = np.array(SPEC.command_low), np.array(SPEC.command_high)
STEPS = 5  # physics steps of 4 ms per control period
MEASURED_AFTER = 3  # of them
FRESH_S, OLD_S = 0.008, BOUNDS.age_s  # age of the last measurement when it is used, and of the one before
POS_NOISE_M, VEL_NOISE, QUAT_NOISE, RATE_NOISE = BOUNDS.pos_m, BOUNDS.vel, 0.5 * BOUNDS.tilt_rad, BOUNDS.rate


@dataclass
class Measured:
    """What the robots know, each (worlds, robots, ...)."""

    pos: np.ndarray
    quat: np.ndarray
    lin_vel_w: np.ndarray
    rate: np.ndarray


@dataclass
class Outcome:
    """What physics, not measurements, says about a run."""

    distance_m: float  # least between two centres
    margin: float  # least, in the shield's unit
    violations: int  # samples of pairs inside the ellipsoid
    fence_m: float  # farthest outside the geofence; negative inside
    floor_m: float  # lowest centre
    infeasible: float  # share of commands that were backups
    track: np.ndarray  # (steps, worlds, robots, 3) m


Policy = Callable[[Measured, int], np.ndarray]
# From what each robot measured, what it heard of the others and what its policy requests, to the commands sent and the
# share of backups among them.
Guard = Callable[[Measured, Peers, np.ndarray], tuple[np.ndarray, float]]


def steer(now: Measured, accel_w: np.ndarray) -> np.ndarray:
    """Command (..., 4) of a pilot who wants `accel_w` (..., 3) m/s^2 and knows no limit."""
    lift = rotate_inverse(now.quat, accel_w + np.array([0.0, 0.0, 9.81]))
    side = np.linalg.norm(lift[..., :2], axis=-1) + 1e-9
    gain = 12.0 * np.arctan2(side, lift[..., 2]) / side
    thrust = SPEC.mass_kg * np.maximum(lift[..., 2], 0.0)
    return np.stack([thrust, -lift[..., 1] * gain, lift[..., 0] * gain, np.zeros_like(side)], axis=-1)


def random_starts(rng: np.random.Generator, worlds: int, robots: int, spread_m: float = 1.2) -> np.ndarray:
    """Positions (worlds, robots, 3) at least 0.45 m apart across or 1.1 m in height."""
    starts = np.empty((worlds, robots, 3))
    for world in starts:
        for index in range(robots):
            while True:
                world[index] = rng.uniform([-spread_m, -spread_m, 0.6], [spread_m, spread_m, 2.0])
                gaps = np.linalg.norm((world[:index] - world[index]) / [1, 1, 2.5], axis=-1)
                if (gaps > 0.45).all():
                    break
    return starts


def fly(
    params: ShieldParams,
    policy: Policy,
    starts: np.ndarray,
    seconds: float,
    rng: np.random.Generator,
    guard: Guard | None = None,
    corner: bool = False,
) -> Outcome:
    """Fly `starts` (worlds, robots, 3) for `seconds`, everybody's command through the filter or through `guard`.

    At the `corner` all bounds hold at once: rotors 10 % too strong or too weak, the oldest states and the latest
    commands in every period.
    """
    guard = guard or filtered_with(params, OLD_S if corner else FRESH_S)
    worlds, robots = starts.shape[:2]
    scene = build_scene(SPEC, robots)
    model, ctrl = scene.model, scene.group.ctrl_index
    datas = [mujoco.MjData(model) for _ in range(worlds)]
    qpos, qvel = scene.group.base_qpos, scene.group.base_qvel
    weak, strong = 1.0 - BOUNDS.thrust, 1.0 + BOUNDS.thrust
    shape = worlds, robots
    strength = rng.choice([weak, strong], shape) if corner else rng.uniform(weak, strong, shape)
    delay = np.full(worlds, STEPS) if corner else rng.integers(0, STEPS + 1, worlds)
    for data, start in zip(datas, starts, strict=True):
        data.qpos[qpos] = np.concatenate([start, np.tile([1.0, 0, 0, 0], (robots, 1))], axis=1)
        data.act[scene.group.act_index[:, 0]] = SPEC.flight.hover_thrust_n
    others = np.array([[j for j in range(robots) if j != i] for i in range(robots)], dtype=int)
    sent = np.tile([SPEC.flight.hover_thrust_n, 0, 0, 0], (worlds, robots, 1))

    def truth() -> tuple[np.ndarray, np.ndarray]:
        return np.stack([d.qpos[qpos] for d in datas]), np.stack([d.qvel[qvel] for d in datas])

    def measure() -> Measured:
        q, v = truth()
        tilt = np.concatenate([np.ones((worlds, robots, 1)), rng.normal(0, QUAT_NOISE, (worlds, robots, 3))], axis=-1)
        quat = multiply(q[..., 3:], tilt)
        return Measured(
            q[..., :3] + rng.normal(0, POS_NOISE_M, starts.shape),
            quat / np.linalg.norm(quat, axis=-1, keepdims=True),
            v[..., :3] + rng.normal(0, VEL_NOISE, starts.shape),
            v[..., 3:] + rng.normal(0, RATE_NOISE, starts.shape),
        )

    low, high = np.array(params.geofence_low), np.array(params.geofence_high)
    out = Outcome(np.inf, np.inf, 0, -np.inf, np.inf, 0.0, np.empty((round(seconds / 0.02), worlds, robots, 3)))
    now = before = measure()
    for step in range(len(out.track)):
        known = before if corner else now
        heard, age = (now, FRESH_S) if step % 3 and not corner else (before, OLD_S)  # every third word is lost
        pair = heard.pos[:, others].shape[:-1]
        peers = Peers(heard.pos[:, others], heard.lin_vel_w[:, others], np.full(pair, age), np.ones(pair, dtype=bool))
        last, (sent, infeasible) = sent, guard(known, peers, policy(known, step))
        out.infeasible += infeasible / len(out.track)
        for part in ((0, MEASURED_AFTER), (MEASURED_AFTER, STEPS)):
            for world, data in enumerate(datas):
                for tick in range(*part):
                    command = sent[world] if tick >= delay[world] else last[world]
                    data.ctrl[ctrl] = command * np.stack([strength[world], *np.ones((3, robots))], axis=-1)
                    mujoco.mj_step(model, data)
            if part[0] == 0:
                before, now = now, measure()
            pos = truth()[0][..., :3]
            margin = safe_margin(params, pos, pos[:, others])
            gaps = np.linalg.norm(pos[:, :, None] - pos[:, others], axis=-1)
            out.distance_m = min(out.distance_m, gaps.min(initial=np.inf))
            out.margin = min(out.margin, margin.min(initial=np.inf))
            out.violations += int((margin < 0.0).sum()) // 2
            out.fence_m = max(out.fence_m, (pos - high).max(), (low - pos).max())
            out.floor_m = min(out.floor_m, pos[..., 2].min())
        out.track[step] = pos
    return out


def filtered_with(params: ShieldParams, age_s: float = FRESH_S) -> Guard:
    """The filter alone, for all worlds and robots at once."""

    def guard(now: Measured, peers: Peers, request: np.ndarray) -> tuple[np.ndarray, float]:
        state = state_of(now, age_s)
        tensors = [
            type(value)(*(torch.as_tensor(getattr(value, name)) for name in value.__slots__))
            for value in (state, peers)
        ]
        sent, info = filter_command(params, SPEC, Context(*tensors), torch.as_tensor(request, dtype=torch.float32))
        return sent.double().numpy(), float((~info.feasible).double().mean())

    return guard


def state_of(now: Measured, age_s: float = FRESH_S) -> RobotState:
    """What the robots know of themselves, in the stack's own type."""
    batch = now.pos.shape[:-1]
    none = np.zeros((*batch, 0))
    vel_b = rotate_inverse(now.quat, now.lin_vel_w)
    return RobotState(none, none, now.pos, now.quat, vel_b, now.rate, np.full(batch, age_s))
