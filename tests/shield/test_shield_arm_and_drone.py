"""Drones that fly at an arm which swings at them, stretched out: both behind their shields, all bounds at once."""

from dataclasses import replace

import numpy as np
import pytest
from test_shield_obstacles import LOWEST_M, batched_no_peers

from deploy.shield import Context, Shield, filter_command, make_shield_params
from deploy.shield.joints.arm_obstacles import arm_obstacles
from deploy.shield.obstacles import ball, outward
from deploy.shield.params import clearance_m
from deploy.shield.types import NO_PEERS, Obstacles
from hardware import load_robot
from hardware.types import ActuatorCommand, RobotState
from sim.attack.arms import JOINT_FAULTS, Rig
from sim.attack.attackers import View, steer
from sim.attack.faults import FAULTS
from sim.attack.team import Team

STRETCHED = {  # rad: upwards by 0.4; the first joint turns all of it
    "fr3": [0.0, 1.17, 0.0, -0.16, 0.0, 1.6, 0.8, 0.02],
    "ur5e": [0.0, -0.4, 0.0, -1.5, 0.0, 0.0],
}
LEVEL_RAD = {"fr3": np.pi / 2, "ur5e": 0.0}  # of the second joint, which raises the arm as it turns back
SHOULDER_M, SLOPE, REACH_M = {"fr3": 0.333, "ur5e": 0.16}, 0.42, 0.95
BEGINS_S = 1.5  # until then the arm stretches out, where no drone is


class BesideArm:
    """Drones that each fly at the middle of an arm's links, in worlds of their own."""

    def __init__(self, arm: str, drone: str, strength: float, worlds: int, seed: int):
        """`strength`: of rotors, -1 the weakest, 1 the strongest of what is assumed."""
        self.rng = rng = np.random.default_rng(seed)
        self.arm, self.drone = load_robot(arm), load_robot(drone)
        self.params = make_shield_params(self.drone, geofence_low=(-9, -9, LOWEST_M[drone]), geofence_high=(9, 9, 9))
        self.shields = [Shield(make_shield_params(self.arm), self.arm) for _ in range(worlds)]
        self.rig = Rig(self.arm, worlds, rng, JOINT_FAULTS["corner"], ())
        away, bearing = rng.uniform(0.5, REACH_M, worlds), rng.uniform(0.5, 2.3, worlds) * rng.choice([-1, 1], worlds)
        height = SHOULDER_M[arm] + SLOPE * away + rng.uniform(-0.1, 0.1, worlds)
        self.starts = np.stack([away * np.cos(bearing), away * np.sin(bearing), height], axis=-1)
        fault = replace(FAULTS["corner"], strength=(strength, strength))
        self.team = Team(self.drone, self.starts[:, None], fault, rng)
        self.view = View(self.drone, self.params, rng, self.team.now)
        thrust = np.float32([self.drone.flight.hover_thrust_n, 0, 0, 0])
        self.sent = np.broadcast_to(thrust, (worlds, 1, 4))
        self.target = np.tile(np.array(STRETCHED[arm], dtype=float), (worlds, 1))
        self.wait, self.step = np.zeros(worlds, dtype=int), 0
        self.aside = np.zeros(worlds)  # rad, of the first joint from where the drone is
        self.least_m, self.swings = np.full(worlds, np.inf), 0.0

    def policy(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """Stretched out to where the drone is: it turns away from it, then at it and beyond, again and again."""
        if step < BEGINS_S * self.arm.control_hz:
            return self.target
        turns, side = self.wait <= 0, self.rng.choice([-1.0, 1.0], len(pos))
        self.aside = np.where(turns, np.where(np.abs(self.aside) < 1.0, side, -0.4 * self.aside), self.aside)
        self.wait = np.where(turns, self.rng.integers(20, 60, len(pos)), self.wait - 1)
        x, y, z = self.team.now.pos[:, 0].T
        turned = np.arctan2(y, x) + self.aside - self.ahead
        self.target[:, 0] = (turned + np.pi) % (2.0 * np.pi) - np.pi
        self.target[:, 1] = LEVEL_RAD[self.arm.name] - np.arctan2(z - SHOULDER_M[self.arm.name], np.hypot(x, y))
        return self.target

    def guard(self, now: RobotState, request: np.ndarray) -> np.ndarray:
        """A control period of both: what the arm's shield sends."""
        t_s = self.step / self.arm.control_hz
        self.step, self.swings = self.step + 1, self.swings + float(np.abs(now.joint_vel[:, 0]).mean())
        arms = [
            RobotState(*(getattr(now, name)[world] for name in RobotState.__slots__)) for world in range(len(request))
        ]
        drones = self.team.state()
        links = [arm_obstacles(self.arm, own) for own in arms]
        links = Obstacles(*(np.stack([getattr(each, name) for each in links]) for name in Obstacles.__slots__))
        far = links.pos[np.arange(len(arms)), np.linalg.norm(links.pos[..., :2], axis=-1).argmax(axis=-1)]
        self.ahead = np.arctan2(far[:, 1], far[:, 0]) - now.joint_pos[:, 0]  # where it points with its first joint at 0
        self._fly(t_s, links, drones)
        near = ball(drones.base_pos[:, 0], drones.base_lin_vel[:, 0], clearance_m(self.drone))
        near.radius += near.speed * np.asarray(drones.age).reshape(len(request), -1)
        sent = []
        for world, (own, shield) in enumerate(zip(arms, self.shields, strict=True)):
            around = Obstacles(*(getattr(near, name)[world] for name in Obstacles.__slots__))
            wanted = ActuatorCommand(request[world].astype(np.float32))
            command, _ = shield.step(10.0 + t_s, Context(own, NO_PEERS, obstacles=around), wanted, float(own.age))
            sent.append(command.target)
        return np.stack(sent).astype(float)

    def _fly(self, t_s: float, links: Obstacles, drones: RobotState) -> None:
        self.view.now, self.view.t_s = self.team.now, t_s
        if t_s > BEGINS_S:
            way = links.pos.mean(axis=1)[:, None] - self.view.now.pos
            asked = steer(self.view, 10.0 * way / np.linalg.norm(way, axis=-1, keepdims=True))
        else:
            asked = steer(self.view, 1.5 * (self.starts[:, None] - self.view.now.pos) - 2.0 * self.view.now.lin_vel_w)
        things = Obstacles(*(getattr(links, name)[:, None] for name in Obstacles.__slots__))
        none = batched_no_peers(len(self.starts))
        context = Context(drones, none, people=none, obstacles=things, sent=self.sent)
        self.sent, _ = filter_command(self.params, self.drone, context, asked.astype(np.float32))
        for seen in self.team.step(self.sent):
            gap = np.where(links.valid, outward(np, seen[:, 0], links)[1], np.inf)
            self.least_m = np.minimum(self.least_m, gap.min(axis=-1) if t_s > 1.0 else np.inf)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arm", "drone", "strength"), [("ur5e", "crazyflie", -1.0), ("ur5e", "x500", -1.0), ("fr3", "crazyflie", 1.0)]
)
def test_an_arm_swings_no_faster_than_a_drone_that_flies_at_it_can_make_way(arm, drone, strength):
    """A UR5e that was not given them touched 3 of 12 Crazyflies, one to its middle, and 1 of 12 X500s."""
    beside = BesideArm(arm, drone, strength, worlds=12, seed=3)
    beside.rig.run(beside.policy, beside.guard, 6.0)
    print(f"{arm}, {drone}: least {beside.least_m.min():.3f} m, first joint {beside.swings / beside.step:.2f} rad/s")
    assert (beside.least_m > beside.params.obstacle_m).all()
    assert beside.swings / beside.step > 0.2  # it is slowed down, not stopped for good
