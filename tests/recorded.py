"""Recordings of simulated robots whose numbers differ from their specification, as tables that `identify` reads."""

import numpy as np
import torch

from hardware import load_robot
from hardware.overlay import DELAY, overlaid
from hardware.types import Peers
from sim.baselines.geometric import fly_to_goal
from sim.envs.world import World
from sim.identification.recording import row_names
from sim.noise import Noise, add_error, error_scale
from sim.scenes.scene import Members, compose_scene
from sim.task import PolicyInput, Start

STEP_S = 0.002
NOISE = Noise(pos_m=0.001, angle_rad=0.005, lin_vel_m_s=0.02, ang_vel_rad_s=0.05)
JOINT_NOISE = Noise(joint_pos_rad=0.0005, joint_vel_rad_s=0.01)
NO_PEERS = Peers(*(torch.zeros(1, 1, 0, *size) for size in ((3,), (3,), (), ())))
FLIGHT = Start(pos=torch.tensor([[[0.0, 0.0, 1.0]]]), quat=torch.tensor([[[1.0, 0, 0, 0]]]), command={})


def record(robot, hidden, policy, seconds, noise, start, firmware=False, seed=0):
    """Columns by name, 100 Hz, of a robot with `hidden` numbers under `policy(time_s, state) -> target (U,)`."""
    spec = overlaid(load_robot(robot), hidden)
    world = World(compose_scene([Members(spec, 1)], STEP_S), 1, STEP_S, rate_loops=[firmware])
    group, rng = world.groups[0], np.random.default_rng(seed)
    free, joints = not spec.fixed_base, len(spec.joints)
    spread = np.array(noise.per_column(joints)) * error_scale(spec)
    world.reset(torch.zeros(1, dtype=torch.long), [start])
    target = group.sent[0, 0].clone()
    pending, table = [target] * round(hidden.get(DELAY, 0.0) / STEP_S), []
    every = round(1 / spec.control_hz / STEP_S)
    for step in range(round(seconds / STEP_S)):
        state = group.truth()
        if step % every == 0:
            target = policy(step * STEP_S, state)
        if step % 5 == 0:
            fields = [state.base_pos, state.base_quat, state.base_lin_vel, state.base_ang_vel]
            row = torch.cat([*fields, state.joint_pos, state.joint_vel], -1).flatten().double().numpy()
            add_error(row, spread * rng.standard_normal(len(spread)))
            pose, motion, angles, speeds = np.split(row, [7, 13, 13 + joints])
            seen = [pose[: 7 * free], angles, motion[: 6 * free], speeds]
            table.append(np.concatenate([[step * STEP_S], *seen, target]))
        pending.append(target)
        ctrl, force = world._ctrl, torch.zeros(1, world.scene.model.nv, dtype=torch.float64)
        group.write(ctrl, pending.pop(0).view(1, 1, -1))
        group.add_wrench(force, 0)
        world.physics.step(ctrl, force)
    names = ["time_s", *row_names(spec), *spec.channel_names]
    return dict(zip(names, np.array(table).T, strict=True))


def fly_about(time_s, state, robot="crazyflie"):
    """A drone on its way to another place within 0.7 m every 1.5 s, turning its heading and climbing on the way."""
    place = np.random.default_rng(int(time_s / 1.5)).uniform(-0.7, 0.7, 3)
    goal = torch.tensor([*place[:2], 1.2 + 0.5 * place[2]], dtype=torch.float32)
    target = fly_to_goal(PolicyInput(state, NO_PEERS, {}, {"goal_pos": goal}, {}, torch.zeros(4)), robot)[0, 0].clone()
    target[3] = np.sin(3.0 * time_s) + 0.5 * np.sin(7.0 * time_s)
    return target


def wave(spec, reach=0.15):
    """Every joint on two slow sines of its own about home, as far as its range allows."""
    home, low, high = (np.array([getattr(joint, name) for joint in spec.joints]) for name in ("home", "low", "high"))
    reach = np.minimum(reach, 0.25 * (high - low))
    middle, number = home.clip(low + reach, high - reach), np.arange(len(home))

    def target(time_s, state):
        one, two = np.sin((0.9 + 0.13 * number) * time_s), np.sin((2.1 + 0.17 * number) * time_s + number)
        return torch.from_numpy((middle + 0.6 * reach * one + 0.4 * reach * two).astype(np.float32))

    return target
