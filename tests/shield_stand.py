"""One robot with joints in MuJoCo under one shield, stepped at the control rate. For tests."""

import mujoco
import numpy as np
from places import ZOO

from deploy.runtime import PolicyRuntime
from deploy.shield import Context, Mode, Shield, ShieldReport, make_shield_params
from deploy.shield.types import NO_PEERS
from hardware import ActuatorCommand, RobotSpec, RobotState
from hardware.rotation import rotate_inverse

# By a policy: no pose holds one up whose ankles are soft
STANDS = {"g1": ZOO / "stand.onnx", "h1": ZOO / "stand-h1.onnx"}


class Stand:
    """The robot on a floor, bolted down or on its feet, in its home pose or in `pose` (J,)."""

    def __init__(self, spec: RobotSpec, pose: np.ndarray | None = None, **overrides):
        self.spec, self.params = spec, make_shield_params(spec, **overrides)
        scene = mujoco.MjSpec.from_file(str(spec.mjcf))
        scene.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[10, 10, 0.1], pos=[0, 0, -0.001])
        self.model = scene.compile()
        if (
            spec.fixed_base
        ):  # an arm that is driven anywhere would meet the floor and itself, which is not the matter here
            self.model.geom_contype[:] = self.model.geom_conaffinity[:] = 0
        self.data = mujoco.MjData(self.model)
        ids = [self.model.joint(name).id for name in spec.joint_names]
        self.qpos, self.qvel = self.model.jnt_qposadr[ids], self.model.jnt_dofadr[ids]
        self.ctrl = [self.model.actuator(name).id for name in spec.channel_names]
        self.channel = np.array(spec.joint_of_channel)
        self.home = np.array(spec.home)
        self.data.qpos[self.qpos] = self.home if pose is None else pose
        if not spec.fixed_base:
            self.data.qpos[2:7] = spec.home_height_m, 1.0, 0.0, 0.0, 0.0
        mujoco.mj_forward(self.model, self.data)
        self.shield = Shield(self.params, spec)
        self.dt_s = self.params.control_dt_s
        self.steps = round(self.dt_s / self.model.opt.timestep)
        self.now_s = 100.0
        self.modes: list[Mode] = []
        self.low, self.high = np.array(spec.command_low), np.array(spec.command_high)
        self.torque: list[np.ndarray] = []  # (U,) of every physics step
        self.policy = PolicyRuntime.load(STANDS[spec.name]) if spec.name in STANDS else None
        if self.policy:
            self.policy.reset()

    @property
    def pos(self) -> np.ndarray:
        """Joint positions (U,) in channel order."""
        return self.data.qpos[self.qpos][self.channel].copy()

    @property
    def vel(self) -> np.ndarray:
        """Joint velocities (U,) in channel order."""
        return self.data.qvel[self.qvel][self.channel].copy()

    def state(self) -> RobotState:
        """What the robot measures, without noise and at once."""
        base = np.array([0, 0, 0, 1.0, 0, 0, 0]) if self.spec.fixed_base else self.data.qpos[:7].copy()
        vel = np.zeros(6) if self.spec.fixed_base else self.data.qvel[:6].copy()
        return RobotState(
            self.data.qpos[self.qpos].astype(np.float32),
            self.data.qvel[self.qvel].astype(np.float32),
            base[:3],
            base[3:],
            rotate_inverse(base[3:], vel[:3]),
            vel[3:],
            np.zeros(()),
        )

    def holding(self) -> np.ndarray:
        """Targets (U,) that keep it where it is: of its policy that stands, from what is true, or the home pose."""
        if self.policy is None:
            return self.home[self.channel]
        return self.policy.step(self.state(), NO_PEERS, {}).requested.target

    def step(self, request="hold", beside=0.0, age_s=0.01, state="true", dt_s=None) -> tuple[np.ndarray, ShieldReport]:
        """One control period; a `request` of "hold" is `holding`, with what lies `beside` it (U,) added."""
        self.now_s += self.dt_s if dt_s is None else dt_s
        state = self.state() if isinstance(state, str) else state
        request = self.holding() + beside if isinstance(request, str) else request
        requested = None if request is None else ActuatorCommand(np.asarray(request, np.float32))
        command, report = self.shield.step(self.now_s, Context(state, NO_PEERS), requested, age_s)
        assert command.target.dtype == np.float32 and np.isfinite(command.target).all()
        assert (command.target >= np.float32(self.low)).all() and (command.target <= np.float32(self.high)).all()
        self.data.ctrl[self.ctrl] = command.target
        for _ in range(self.steps):
            mujoco.mj_step(self.model, self.data)
            self.torque.append(self.data.actuator_force[self.ctrl].copy())
        self.modes.append(report.mode)
        return command.target, report

    def run(self, seconds: float, **kwargs) -> tuple[np.ndarray, ShieldReport]:
        """The same for a while; the last answer."""
        return [self.step(**kwargs) for _ in range(round(seconds / self.dt_s))][-1]

    def after_ramp(self) -> "Stand":
        """Past activation."""
        self.run(self.params.ramp_s + 0.1)
        assert self.modes[-1] in (Mode.NOMINAL, Mode.FILTERED)
        return self


def tilt_rad(stand: Stand) -> float:
    """How far the robot leans."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, stand.data.qpos[3:7])
    return float(np.arccos(min(matrix[8], 1.0)))
