"""A Crazyflie in MuJoCo under its shield. For tests."""

import mujoco
import numpy as np
from one_scene import build_scene

from deploy.shield import Context, Mode, Shield, make_shield_params
from hardware import ActuatorCommand, Peers, RobotState, load_robot
from hardware.rotation import rotate_inverse

SPEC = load_robot("crazyflie")
PARAMS = make_shield_params(SPEC)
HOVER = np.array([SPEC.flight.hover_thrust_n, 0, 0, 0], np.float32)
DT = PARAMS.control_dt_s
UNHEARD = Peers(np.zeros((1, 3)), np.zeros((1, 3)), np.zeros(1), np.zeros(1, bool))


class Flight:
    """One Crazyflie in MuJoCo under one shield, stepped at the control rate."""

    def __init__(self, pos=(0.0, 0.0, 1.0), thrust_scale: float = 1.0):
        self.scene = build_scene(SPEC, 1)
        self.data = mujoco.MjData(self.scene.model)
        self.data.qpos[:4] = (*pos, 1.0)
        self.data.act[0] = HOVER[0]
        self.thrust_scale = thrust_scale
        self.shield = Shield(PARAMS, SPEC)
        self.now_s = 100.0
        self.modes: list[Mode] = []

    def state(self) -> RobotState:
        q, v = self.data.qpos[:7], self.data.qvel[:6]
        none = np.empty(0)
        return RobotState(
            none, none, q[:3].copy(), q[3:].copy(), rotate_inverse(q[3:], v[:3]), v[3:].copy(), np.zeros(())
        )

    def step(self, request=HOVER, age_s: float = 0.01, state="true", peers=UNHEARD, dt_s: float = DT):
        self.now_s += dt_s
        state = self.state() if isinstance(state, str) else state
        requested = None if request is None else ActuatorCommand(np.asarray(request, np.float32))
        command, report = self.shield.step(self.now_s, Context(state, peers), requested, age_s)
        assert np.isfinite(command.target).all()
        assert (command.target >= np.float32(SPEC.command_low)).all()
        assert (command.target <= np.float32(SPEC.command_high)).all()
        self.data.ctrl[:4] = command.target * [self.thrust_scale, 1, 1, 1]
        for _ in range(5):
            mujoco.mj_step(self.scene.model, self.data)
        self.modes.append(report.mode)
        return command.target, report

    def fly(self, seconds: float, **kwargs):
        return [self.step(**kwargs) for _ in range(round(seconds / DT))][-1]

    def after_ramp(self):
        self.fly(PARAMS.ramp_s + 0.1)
        assert self.modes[-1] is Mode.NOMINAL
        return self
