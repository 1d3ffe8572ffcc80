"""Robots with joints in MuJoCo whose policies are adversaries, measured late and noisily. For tests."""

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from deploy.shield import Context, JointShieldParams, filter_command
from hardware import Channel, Joint, Peers, RobotSpec, RobotState
from sim.attack.arms import Guard
from sim.attack.joint_attackers import JOINT_ATTACKERS, JointAttacks

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


def filtered_with(params: JointShieldParams, spec: RobotSpec) -> Guard:
    """The filter alone, for all worlds at once."""
    last: list[torch.Tensor] = []

    def guard(now: RobotState, request: np.ndarray) -> np.ndarray:
        state = RobotState(*(torch.as_tensor(getattr(now, name)) for name in RobotState.__slots__))
        no_peers = Peers(*(torch.zeros(0) for _ in range(4)))
        context = Context(state, no_peers, sent=last.pop() if last else None)
        sent, _ = filter_command(params, spec, context, torch.as_tensor(request, dtype=torch.float32))
        last.append(sent)
        return sent.double().numpy()

    return guard


class Adversaries:
    """One way of attacking the joint limits per world, by its number modulo the number of ways."""

    def __init__(self, spec: RobotSpec, rng: np.random.Generator):
        self.attacks = JointAttacks(spec, rng)

    def __call__(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        request = np.empty_like(pos)
        for number, way in enumerate(JOINT_ATTACKERS.values()):
            rows = slice(number, None, len(JOINT_ATTACKERS))
            request[rows] = way.attack(self.attacks, pos[rows], vel[rows], step)
        return request
