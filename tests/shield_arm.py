"""Robots with joints in MuJoCo whose policies are adversaries, measured late and noisily. For tests."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import mujoco
import numpy as np
import torch

from deploy.shield import Context, JointShieldParams, filter_command
from deploy.shield.joints.guarantee import BOUNDS
from hardware import Channel, Joint, Peers, RobotSpec, RobotState

torch.set_num_threads(1)
MEASURED_BEFORE_S = BOUNDS.age_s  # a measurement is this old when it is used
LATENCY_S = BOUNDS.delay_s  # until a command is at the drive, at most
POS_NOISE, VEL_NOISE = BOUNDS.pos, BOUNDS.vel  # one sigma, rad and rad/s: encoders and their difference quotient

# A shoulder that lifts, an elbow and a wrist that turn about one axis, so that each throws the others about.
LINKS = """
<mujoco model="three_joint_arm">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="0.002" integrator="implicitfast"/>
  <worldbody>
    <body name="base" pos="0 0 1.0">
      <inertial pos="0 0 0" mass="5" diaginertia="0.02 0.02 0.02"/>
      <body name="upper" gravcomp="1">
        <inertial pos="0.15 0 0" mass="3" diaginertia="0.004 0.03 0.03"/>
        <joint name="shoulder" axis="0 1 0" range="-1.8 1.8" armature="0.2" frictionloss="0.2"/>
        <body name="fore" pos="0.3 0 0" gravcomp="1">
          <inertial pos="0.12 0 0" mass="2" diaginertia="0.002 0.012 0.012"/>
          <joint name="elbow" axis="0 1 0" range="-2.4 0.1" armature="0.1" frictionloss="0.2"/>
          <body name="hand" pos="0.25 0 0" gravcomp="1">
            <inertial pos="0.06 0 0" mass="1" diaginertia="0.001 0.002 0.002"/>
            <joint name="wrist" axis="0 1 0" range="-2 2" armature="0.05" frictionloss="0.1"/>
            <site name="tool" pos="0.12 0 0"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder" joint="shoulder" kp="400" kv="40" forcerange="-60 60"/>
    <position name="elbow" joint="elbow" kp="300" kv="22" forcerange="-40 40"/>
    <position name="wrist" joint="wrist" kp="100" kv="6" forcerange="-12 12"/>
  </actuator>
</mujoco>
"""
JOINTS = (
    Joint("shoulder", -1.8, 1.8, 0.0, 2.0, 12.0, 60.0, 400.0, 40.0, 0.2, 0.2),
    Joint("elbow", -2.4, 0.1, -1.2, 2.5, 15.0, 40.0, 300.0, 22.0, 0.1, 0.2),
    Joint("wrist", -2.0, 2.0, 0.0, 3.0, 20.0, 12.0, 100.0, 6.0, 0.05, 0.1),
)


def three_joint_arm(folder: Path) -> RobotSpec:
    """The arm above; its file is written to `folder`."""
    mjcf = folder / "three_joint_arm.xml"
    mjcf.write_text(LINKS)
    return RobotSpec(
        name="three_joint_arm",
        kind="manipulator",
        mjcf=mjcf,
        base_body="base",
        joints=JOINTS,
        channels=tuple(Channel(j.name, "rad", j.low, j.high, "joint angle") for j in JOINTS),
        mass_kg=11.0,
        radius_m=0.7,
        control_hz=50.0,
        sensor_hz=500.0,
        fallback="hold",
        fixed_base=True,
        frames={"tool": "tool"},
    )


def without_shapes(spec: RobotSpec, folder: Path) -> RobotSpec:
    """`spec` with a file that says nothing of where its links are, so that only its joints' limits count."""
    root = ET.parse(spec.mjcf).getroot()
    for body in root.iter("body"):
        for geom in body.findall("geom"):
            body.remove(geom)
    ET.ElementTree(root).write(folder / spec.mjcf.name)
    return replace(spec, mjcf=folder / spec.mjcf.name)


@dataclass
class Outcome:
    """What physics, not measurements, says about a run; all (U,)."""

    beyond: np.ndarray  # farthest outside a joint's range, as a share of that range; negative inside
    speed: np.ndarray  # highest, over the joint's limit
    saturated: np.ndarray  # share of physics steps in which the servo called for more than its effort
    travelled: np.ndarray  # how much of its range a joint saw
    mean_speed: np.ndarray  # over the limit
    names: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        rows = zip(self.names, self.beyond, self.speed, self.saturated, self.travelled, self.mean_speed, strict=True)
        return "\n".join(
            f"{n:22s} beyond {100 * b:6.2f} %  speed {100 * s:6.1f} %  saturated {100 * e:5.1f} %  "
            f"travelled {100 * t:5.1f} %  mean speed {100 * m:5.1f} %"
            for n, b, s, e, t, m in rows
        )


# From joint positions and velocities (W, U) and the step to targets (W, U).
Policy = Callable[[np.ndarray, np.ndarray, int], np.ndarray]
# From measured states of all worlds and requests to what is sent, (W, U).
Guard = Callable[[RobotState, np.ndarray], np.ndarray]


class Rig:
    """Worlds with one robot each, in the air where gravity has nothing to say about it unless it is bolted down."""

    def __init__(self, spec: RobotSpec, worlds: int, rng: np.random.Generator):
        self.spec, self.rng = spec, rng
        self.model = mujoco.MjModel.from_xml_path(str(spec.mjcf))
        if not spec.fixed_base:  # it hangs in the air, and the engine must keep up with limbs that whirl
            self.model.opt.gravity[:] = 0.0
            self.model.opt.timestep = 0.002
            self.model.opt.iterations = 50
        # Nothing but joints, limits and drives: what a collision does is not the filter's business.
        self.model.geom_contype[:] = self.model.geom_conaffinity[:] = 0
        self.datas = [mujoco.MjData(self.model) for _ in range(worlds)]
        ids = [self.model.joint(name).id for name in spec.joint_names]
        self.qpos, self.qvel = self.model.jnt_qposadr[ids], self.model.jnt_dofadr[ids]
        self.ctrl = [self.model.actuator(name).id for name in spec.channel_names]
        self.channel = np.array(spec.joint_of_channel)
        for data in self.datas:
            data.qpos[self.qpos] = [j.home for j in spec.joints]
            data.ctrl[self.ctrl] = data.qpos[self.qpos][self.channel]
        slide = np.array([self.model.joint(name).type[0] == mujoco.mjtJoint.mjJNT_SLIDE for name in spec.joint_names])
        self.noise = np.where(slide, 0.05, 1.0)
        self.steps = round(1.0 / spec.control_hz / self.model.opt.timestep)
        self.early = round(MEASURED_BEFORE_S / self.model.opt.timestep)
        self.delay = rng.integers(0, int(LATENCY_S / self.model.opt.timestep) + 1, worlds)  # physics steps

    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """Joint positions and velocities (W, J)."""
        return np.stack([d.qpos[self.qpos] for d in self.datas]), np.stack([d.qvel[self.qvel] for d in self.datas])

    def measure(self) -> RobotState:
        """What the robots know of themselves (W, ...)."""
        pos, vel = self.truth()
        worlds = len(self.datas)
        level = np.tile([1.0, 0.0, 0.0, 0.0], (worlds, 1))
        none = np.zeros((worlds, 3))
        pos = pos + self.rng.normal(0, POS_NOISE, pos.shape) * self.noise
        vel = vel + self.rng.normal(0, VEL_NOISE, vel.shape) * self.noise
        age = np.full(worlds, self.early * self.model.opt.timestep)
        return RobotState(pos, vel, none, level, none, none, age)

    def run(self, policy: Policy, guard: Guard, seconds: float) -> Outcome:
        """Everybody's targets through `guard` for `seconds`."""
        spec, channel = self.spec, self.channel
        joints = [spec.joints[i] for i in channel]
        low, high, most, effort, kp, kd = (
            np.array([getattr(j, name) for j in joints])
            for name in ("low", "high", "max_velocity", "max_effort", "stiffness", "damping")
        )
        size = len(joints)
        out = Outcome(np.full(size, -np.inf), *(np.zeros(size) for _ in range(4)), names=spec.channel_names)
        least, greatest = np.full(size, np.inf), np.full(size, -np.inf)
        now = self.measure()
        sent = now.joint_pos[:, channel]
        count = round(seconds * spec.control_hz)
        for step in range(count):
            last, sent = sent, guard(now, policy(now.joint_pos[:, channel], now.joint_vel[:, channel], step))
            for tick in range(self.steps):
                if tick == self.steps - self.early:
                    now = self.measure()
                there = np.where((tick >= self.delay)[:, None], sent, last)
                for data, target in zip(self.datas, there, strict=True):
                    data.ctrl[self.ctrl] = target
                    mujoco.mj_step(self.model, data)
                pos, vel = (x[:, channel] for x in self.truth())
                out.beyond = np.maximum(out.beyond, (np.maximum(pos - high, low - pos) / (high - low)).max(0))
                out.speed = np.maximum(out.speed, (np.abs(vel) / most).max(0))
                called = np.abs(kp * (there - pos) - kd * vel)
                out.saturated += (called > effort).mean(0) / (count * self.steps)
                out.mean_speed += (np.abs(vel) / most).mean(0) / (count * self.steps)
                least, greatest = np.minimum(least, pos.min(0)), np.maximum(greatest, pos.max(0))
        out.travelled = (greatest - least) / (high - low)
        return out


def filtered_with(params: JointShieldParams, spec: RobotSpec) -> Guard:
    """The filter alone, for all worlds at once."""

    def guard(now: RobotState, request: np.ndarray) -> np.ndarray:
        state = RobotState(*(torch.as_tensor(getattr(now, name)) for name in RobotState.__slots__))
        nobody = Peers(*(torch.zeros(0) for _ in range(4)))
        sent, _ = filter_command(params, spec, Context(state, nobody), torch.as_tensor(request, dtype=torch.float32))
        return sent.double().numpy()

    return guard


class Adversaries:
    """One way of attacking the joint limits per world, by its number modulo the number of ways."""

    def __init__(self, spec: RobotSpec, rng: np.random.Generator):
        self.rng = rng
        self.low, self.high = np.array(spec.command_low), np.array(spec.command_high)
        self.held: dict[str, np.ndarray] = {}
        self.ways = [
            self.bang_bang_together,
            self.bang_bang_each,
            self.anything,
            self.anything_and_hold,
            self.push_on,
            self.pump,
            self.sweep,
            self.nothing_real,
            self.whip,
        ]

    def __call__(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        request = np.empty_like(pos)
        for number, way in enumerate(self.ways):
            rows = slice(number, None, len(self.ways))
            request[rows] = way(pos[rows], vel[rows], step)
        return request

    def bang_bang_together(self, pos, vel, step):
        return np.broadcast_to(self.high if step // 60 % 2 else self.low, pos.shape)

    def bang_bang_each(self, pos, vel, step):
        if step % 7 == 0:
            flip = self.rng.random(pos.shape) < 0.2
            side = self.held.get("each", np.ones(pos.shape))
            self.held["each"] = np.where(flip, -side, side)
        return np.where(self.held["each"] > 0, self.high, self.low)

    def anything(self, pos, vel, step):
        return self.rng.uniform(self.low, self.high, pos.shape)

    def anything_and_hold(self, pos, vel, step):
        if step % 25 == 0:
            self.held["hold"] = self.rng.uniform(self.low, self.high, pos.shape)
        return self.held["hold"]

    def push_on(self, pos, vel, step):
        """Full speed towards the limit that the joint happens to move to, at every change of mind all others back."""
        return np.where((vel + 1e-3 * np.sin(step)) > 0, self.high, self.low)

    def pump(self, pos, vel, step):
        """Positive feedback: every joint is pushed the way it goes, and turned round at its limits."""
        side = self.held.get("pump", np.ones(pos.shape))
        share = (pos - self.low) / (self.high - self.low)
        self.held["pump"] = side = np.where(share > 0.97, -1.0, np.where(share < 0.03, 1.0, side))
        return np.where(side > 0, self.high, self.low)

    def sweep(self, pos, vel, step):
        """Sines from 0.2 to 5 Hz over the whole range."""
        time_s = 0.02 * step
        phase = 2 * np.pi * (0.2 * time_s + 0.12 * time_s**2 % 400.0)
        return 0.5 * (self.low + self.high) + 0.6 * (self.high - self.low) * np.sin(phase)

    def nothing_real(self, pos, vel, step):
        bad = np.where(self.rng.random(pos.shape) < 0.5, self.high, self.rng.choice([np.nan, np.inf, -np.inf, 1e9]))
        return bad if step % 3 else np.broadcast_to(self.high, pos.shape)

    def whip(self, pos, vel, step):
        """Joints take turns at being thrown by the others: all but one reverse together."""
        side = np.where(np.arange(pos.shape[-1]) == step // 40 % pos.shape[-1], 1.0, (-1.0) ** (step // 20))
        return np.broadcast_to(np.where(side > 0, self.high, self.low), pos.shape)
