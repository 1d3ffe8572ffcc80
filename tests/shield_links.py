"""An arm in MuJoCo among things that it may hit. Nothing stops it there, so that distances say how far it went in."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import mujoco
import numpy as np

from deploy.shield import Context, Mode, Shield, make_shield_params
from deploy.shield.joints.bounds import BOUNDS
from deploy.shield.types import NO_PEERS, Obstacles
from hardware import ActuatorCommand, Peers, RobotSpec, RobotState

LEVEL = np.array([1.0, 0.0, 0.0, 0.0])
Box = tuple[Sequence[float], Sequence[float]]  # middle and half of the size, m


@dataclass(frozen=True)
class Bounds:
    """By how much things are not as the shield takes them to be."""

    delay_s: float = 0.0  # of commands
    age_s: float = 0.0  # of measurements
    pos_rad: float = 0.0  # noise, one sigma
    vel_rad_s: float = 0.0
    gains: tuple[float, float] = (1.0, 1.0)  # of stiffness and damping, of every other joint one and the other
    payload_kg: float = 0.0
    off: float = 0.0  # constant error of every joint's position and speed, over one sigma


CORNER = Bounds(delay_s=0.012, age_s=0.004, pos_rad=2e-4, vel_rad_s=5e-3, gains=(0.9, 1.1))


def obstacles(boxes: Sequence[Box]) -> Obstacles:
    """As a shield is told of them."""
    pos, half = (np.array([box[i] for box in boxes], dtype=float).reshape(-1, 3) for i in range(2))
    count = len(boxes)
    return Obstacles(pos, np.tile(LEVEL, (count, 1)), half, np.zeros(count), np.zeros(count), np.ones(count, bool))


class Cell:
    """The arm on a floor at z = 0 among boxes, behind its shield."""

    def __init__(self, spec: RobotSpec, bounds: Bounds = CORNER, boxes: Sequence[Box] = (), seed: int = 0, **overrides):
        self.spec, self.bounds, self.rng = spec, bounds, np.random.default_rng(seed)
        scene = mujoco.MjSpec.from_file(str(spec.mjcf))
        scene.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 0.1])
        for pos, half in boxes:
            scene.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, pos=pos, size=half)
        if bounds.payload_kg:
            tool = scene.site(spec.frames["tool"])
            load = tool.parent.add_body(pos=tool.pos)
            load.explicitinertial, load.mass, load.inertia = True, bounds.payload_kg, [1e-3] * 3
        self.model = scene.compile()
        model = self.model
        model.geom_contype[:] = model.geom_conaffinity[:] = 0
        self.data = mujoco.MjData(model)
        ids = [model.joint(name).id for name in spec.joint_names]
        self.qpos, self.qvel = model.jnt_qposadr[ids], model.jnt_dofadr[ids]
        self.ctrl = [model.actuator(name).id for name in spec.channel_names]
        for index, actuator in enumerate(self.ctrl):
            factor = bounds.gains[index % 2]
            model.actuator_gainprm[actuator, 0] *= factor
            model.actuator_biasprm[actuator, 1:3] *= factor
        self.data.qpos[self.qpos] = spec.home
        mujoco.mj_forward(model, self.data)
        self.channel = np.array(spec.joint_of_channel)
        self.low, self.high = np.array(spec.command_low), np.array(spec.command_high)
        self.home = self.data.qpos[self.qpos][self.channel].copy()
        self.shield = Shield(make_shield_params(spec, **overrides), spec)
        self.dt_s, self.now_s = self.shield.params.control_dt_s, 100.0
        self.obstacles, self.people = obstacles(boxes), NO_PEERS
        self.measured: deque[RobotState] = deque(maxlen=1 + round(bounds.age_s / model.opt.timestep))
        self.sent = self.home
        self.modes: list[Mode] = []
        self.active: set[str] = set()
        # Geometry of the simulator: what moves, but no fingers, against all that it may hit.
        weld = model.body_weldid[model.geom_bodyid]
        slides = {model.jnt_bodyid[j] for j in range(model.njnt) if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_SLIDE}
        finger = [model.geom_bodyid[geom] in slides for geom in range(model.ngeom)]
        parent = model.body_weldid[model.body_parentid[weld]]
        self.pairs = []
        for one, other in combinations(range(model.ngeom), 2):
            if 0 in (model.geom_bodyid[one], model.geom_bodyid[other]):  # a base stands on the floor, fingers touch
                apart = weld[one] != weld[other] and not (finger[one] or finger[other])
            else:
                apart = weld[one] != weld[other] and parent[one] != weld[other] and parent[other] != weld[one]
                apart &= not (finger[one] and finger[other])
            if apart:
                self.pairs.append((one, other))
        self.least_m, self.nearest = np.inf, ""
        self.speed = 0.0  # m/s, of the middle of the fastest shape

    def state(self) -> RobotState:
        """What is measured now."""
        bounds, none = self.bounds, np.zeros(3)
        pos, vel = self.data.qpos[self.qpos], self.data.qvel[self.qvel]
        pos = pos + self.rng.normal(0.0, bounds.pos_rad, pos.shape) if bounds.pos_rad else pos.copy()
        vel = vel + self.rng.normal(0.0, bounds.vel_rad_s, vel.shape) if bounds.vel_rad_s else vel.copy()
        pos, vel = pos + bounds.off * BOUNDS.pos, vel + bounds.off * BOUNDS.vel
        return RobotState(pos, vel, none, LEVEL, none, none, np.array(bounds.age_s))

    def run(self, policy: np.ndarray | Callable[[float], np.ndarray], seconds: float, shielded: bool = True) -> "Cell":
        """Targets (U,), or a function of the time; `least_m` is the least distance since the beginning."""
        model, data = self.model, self.data
        begin_s, ticks = self.now_s, round(self.dt_s / model.opt.timestep)
        delay = round(self.bounds.delay_s / model.opt.timestep)
        self.measured.extend([self.state()] * (self.measured.maxlen or 1))
        while self.now_s < begin_s + seconds - 0.5 * self.dt_s:
            self.now_s += self.dt_s
            request = policy(self.now_s - begin_s) if callable(policy) else policy
            last = self.sent
            if shielded:
                asked = ActuatorCommand(np.asarray(request, np.float32))
                context = Context(self.measured[0], NO_PEERS, people=self.people, obstacles=self.obstacles)
                command, report = self.shield.step(self.now_s, context, asked, 0.01)
                self.sent = command.target
                self.modes.append(report.mode)
                self.active |= set(report.active)
            else:
                self.sent = request
            for tick in range(ticks):
                data.ctrl[self.ctrl] = self.sent if tick >= delay else last
                before = data.geom_xpos.copy()
                mujoco.mj_step(model, data)
                mujoco.mj_kinematics(model, data)
                self.speed = float(np.abs(data.geom_xpos - before).max() / model.opt.timestep)
                self.measured.append(self.state())
                if tick % 2 == 0:
                    self._look()
        return self

    def _look(self) -> None:
        for one, other in self.pairs:
            apart = mujoco.mj_geomDistance(self.model, self.data, one, other, 0.05, None)
            if apart < self.least_m:
                names = [self.model.geom(each).name or f"geom {each}" for each in (one, other)]
                self.least_m, self.nearest = apart, " and ".join(names)

    def settled(self) -> "Cell":
        """Past activation, at home."""
        return self.run(self.home, self.shield.params.ramp_s + 0.2)

    @property
    def pos(self) -> np.ndarray:
        """Joint positions (U,)."""
        return self.data.qpos[self.qpos][self.channel].copy()

    def still(self) -> bool:
        """Whether no joint moves."""
        return bool((np.abs(self.data.qvel[self.qvel]) < 0.05).all())

    def ahead_m(self) -> float:
        """How far ahead (x) any part of the arm is; of capsules their own surface, of other shapes a ball's."""
        model, data = self.model, self.data
        capsule = model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE
        along = np.abs(data.geom_xmat[:, 2]) * model.geom_size[:, 1] + model.geom_size[:, 0]
        return float((data.geom_xpos[:, 0] + np.where(capsule, along, model.geom_rbound))[1:].max())


def person(x: float, y: float) -> Peers:
    """One tracked person, standing there."""
    return Peers(np.array([[x, y, 0.9]]), np.zeros((1, 3)), np.zeros(1), np.ones(1, bool))
