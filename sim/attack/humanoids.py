"""Humanoids under attack on level ground, each behind the `Shield` object that its robot has."""

from dataclasses import dataclass, field

import mujoco
import numpy as np

from deploy.shield import Context, JointShieldParams, Mode, Shield, ShieldReport
from deploy.shield.joints.guards import check_upright
from deploy.shield.types import NO_PEERS
from hardware.rotation import multiply, rotate_inverse
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, RobotState
from sim.attack.faults import HUMANOID_FAULTS, Fault
from sim.attack.humanoid_attackers import HUMANOID_ATTACKERS, Asked, LegAttacks
from sim.attack.outcome import Outcome

BEGAN_S = 100.0  # on the shields' clock
NOISE = {"pos": 2e-3, "vel": 0.05, "tilt": 0.01, "rate": 0.05, "place": 5e-3}  # rad, rad/s, rad, rad/s, m, one sigma
AGE_S, LATE_S = 0.004, 0.01  # of a fresh state; from the command to the drives at most
LIES_S = 1.0  # after which a robot that is damped is stood up again
PUSH_EVERY_S = 1.5
SEEN = 2  # measurements in a row that say the same, besides those that may be taken for none before the shield acts
REST_RAD_S, REST_RAD = 0.2, 0.02  # a joint that is slower, and was nearer to where it is the period before, rests
SLACK = 1e-4
OBEYS = (Mode.NOMINAL, Mode.FILTERED)


def drive_humanoid(
    spec: RobotSpec, params: JointShieldParams, fault: str, attacker: str, worlds: int, seconds: float, seed: int
) -> Outcome:
    """A humanoid in each of `worlds` for `seconds`, its policy under `attacker`, with `fault`."""
    rng, about = np.random.default_rng(seed), HUMANOID_FAULTS[fault]
    model = _model(spec, about)
    out = Outcome()
    for world in range(worlds):
        robot = Standing(spec, params, model, about, rng)
        attacks = LegAttacks(spec, rng)
        for step in range(round(seconds * spec.control_hz)):
            asked = HUMANOID_ATTACKERS[attacker].attack(attacks, robot.joints, robot.speeds, robot.steps)
            wrong = robot.step(asked)
            out.steps += 1
            out.violations += bool(wrong)
            out.broken.update(wrong)
            out.changed += robot.report.mode is Mode.FILTERED
            out.held += robot.report.mode not in OBEYS
            if wrong and not out.first:
                out.first = f"{attacker} with {fault}, seed {seed}: {step / spec.control_hz:.2f} s, world {world}"
        out.ended[robot.report.mode.name] += 1
        out.add(Outcome(margins=robot.margins, most=robot.most | {"falls": float(robot.falls)}))
    return out


@dataclass
class Standing:
    """One robot that stands up in its home pose, and again when it has fallen and is damped."""

    spec: RobotSpec
    params: JointShieldParams
    model: mujoco.MjModel
    fault: Fault
    rng: np.random.Generator
    margins: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)
    falls: int = 0

    def __post_init__(self) -> None:
        spec, model = self.spec, self.model
        ids = [model.joint(name).id for name in spec.joint_names]
        self.qpos, self.qvel = model.jnt_qposadr[ids], model.jnt_dofadr[ids]
        self.ctrl = [model.actuator(name).id for name in spec.channel_names]
        self.channel = np.array(spec.joint_of_channel)
        joints = [spec.joints[index] for index in self.channel]
        names = ("low", "high", "stiffness", "damping", "max_velocity", "max_effort")
        self.low, self.high, self.kp, self.kd, self.fastest, self.effort = (
            np.array([getattr(joint, name) for joint in joints]) for name in names
        )
        self.home = np.array(spec.home)
        self.ticks = round(1.0 / spec.control_hz / model.opt.timestep)
        self.data = mujoco.MjData(model)
        self.now_s, self.bad = BEGAN_S, 0
        self._stand_up()

    def _stand_up(self) -> None:
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[2:7] = self.spec.home_height_m, 1.0, 0.0, 0.0, 0.0
        self.data.qpos[self.qpos] = self.home + self.rng.normal(0.0, 0.01, self.home.shape)
        mujoco.mj_forward(self.model, self.data)
        self.shield = Shield(self.params, self.spec)
        self.sent = self.home[self.channel]
        self.down = self.steps = self.lost = self.bad = 0
        self.lies_s, self.over = 0.0, np.zeros(len(self.channel), int)
        self.delay = int(self.rng.uniform(*self.fault.delay) * LATE_S / self.model.opt.timestep)
        self.bias = self.fault.bias * self.rng.choice([-1.0, 1.0], len(self.home))
        self.state = self.measure()

    @property
    def joints(self) -> np.ndarray:
        """Positions (U,) rad, as measured last."""
        return self.state.joint_pos[self.channel]

    @property
    def speeds(self) -> np.ndarray:
        """Velocities (U,) rad/s, as measured last."""
        return self.state.joint_vel[self.channel]

    def measure(self) -> RobotState:
        """What the robot knows of itself."""
        share, normal, data = self.fault.noise, self.rng.normal, self.data
        quat = data.qpos[3:7] / np.linalg.norm(data.qpos[3:7])
        turned = multiply(quat, np.array([1.0, *normal(0.0, 0.5 * share * NOISE["tilt"], 3)]))
        turned /= np.linalg.norm(turned)
        pos, vel = data.qpos[self.qpos], data.qvel[self.qvel]
        return RobotState(
            pos + NOISE["pos"] * (share * normal(size=pos.shape) + self.bias),
            vel + NOISE["vel"] * (share * normal(size=vel.shape) + self.bias),
            data.qpos[:3] + share * NOISE["place"] * normal(size=3),
            turned,
            rotate_inverse(quat, data.qvel[:3]) + share * NOISE["rate"] * normal(size=3),
            data.qvel[3:6] + share * NOISE["rate"] * normal(size=3),
            np.array(AGE_S),
        )

    def step(self, asked: Asked) -> list[str]:
        """One control period; the guarantees that did not hold in it."""
        dt_s = 1.0 / self.spec.control_hz
        self.now_s += dt_s
        self.steps += 1
        lost = self.rng.random() < self.fault.state_lost and self.lost < self.fault.most_lost
        self.lost = self.lost + 1 if lost else 0
        state, self.joints_before = None if lost else self.measure(), self.joints
        self.state = state or self.state
        wanted = None if asked.target is None else ActuatorCommand(asked.target.astype(np.float32))
        usable = wanted is not None and np.isfinite(wanted.target).all()
        self.bad = 0 if usable and 0.0 <= asked.age_s < self.params.act_periods * dt_s else self.bad + 1
        command, self.report = self.shield.step(self.now_s, Context(state, NO_PEERS), wanted, asked.age_s)
        wrong = self._wrong_command(command.target.astype(float), state, self.report)
        if self.fault.push and self.rng.random() < dt_s / PUSH_EVERY_S:
            angle = self.rng.uniform(0.0, 2 * np.pi)
            self.data.qvel[:2] += self.fault.push * np.array([np.cos(angle), np.sin(angle)])
        last, self.sent = self.sent, command.target.astype(float)
        for tick in range(self.ticks):
            self.data.ctrl[self.ctrl] = self.sent if tick >= self.delay else last
            mujoco.mj_step(self.model, self.data)
        wrong += self._wrong_body()
        if self.report.mode is Mode.DAMP:
            self.falls += self.lies_s == 0.0
            self.lies_s += dt_s
        if self.lies_s > LIES_S:
            self._stand_up()
        return wrong

    def _wrong_command(self, sent: np.ndarray, state: RobotState | None, report: ShieldReport) -> list[str]:
        """What the tables say of what is sent, whatever was asked."""
        if not np.isfinite(sent).all():
            return ["finite"]
        wrong = []
        if report.mode in OBEYS and self.bad > self.params.act_periods + 1:
            wrong.append("takes over")
        if state is None or not report.filtered:
            self.over[:] = 0
            return wrong
        size, share = self.high - self.low, self.params.range_margin
        clear = np.minimum(sent - self.low, self.high - sent) - share * size
        self._least("range", max(float((clear / size).min()), 0.0) if (clear > -SLACK).all() else float(clear.min()))
        if (clear < -SLACK).any():
            wrong.append("range")
        pos, vel = self.joints + self.speeds * float(state.age), self.speeds
        called = np.abs(self.kp * (sent - pos) - self.kd * vel) - self.kp * np.abs(vel) / self.spec.control_hz
        # What a joint that moves is asked for may be more, and one measurement may be taken for none.
        rests = (np.abs(vel) < REST_RAD_S) & (np.abs(pos - self.joints_before) < REST_RAD)
        rests &= np.minimum(pos - self.low, self.high - pos) > share * size  # beyond it is pulled back
        left = self.params.effort_share - called / self.effort
        self.over = np.where(rests & (left < -1e-3), self.over + 1, 0)
        self._least("effort", float(left.min(initial=1.0, where=rests & (self.over != 1))))
        if (self.over > 1).any():
            wrong.append("effort")
        return wrong

    def _wrong_body(self) -> list[str]:
        """What the tables say of where the body is and what drives do, by physics."""
        data, wrong = self.data, []
        if not np.isfinite(data.qpos).all():
            return ["finite"]
        vel = data.qvel[self.qvel][self.channel]
        power = float(np.maximum(data.actuator_force[self.ctrl] * vel, 0.0).sum())
        pos = data.qpos[self.qpos][self.channel]
        beyond = np.maximum(pos - self.high, self.low - pos) / (self.high - self.low)
        seen = {"power_w": power, "outside_range_share": float(beyond.max())}
        seen["speed_share"] = float((np.abs(vel) / self.fastest).max())
        self.most = {name: max(self.most.get(name, -np.inf), value) for name, value in seen.items()}
        self._least("power", 1.0 - power / self.params.max_power_w)
        if power > self.params.max_power_w:
            wrong.append("power")
        quat = data.qpos[3:7] / np.linalg.norm(data.qpos[3:7])
        none = np.zeros(3)
        truth = RobotState(pos, vel, data.qpos[:3].copy(), quat, none, data.qvel[3:6].copy(), np.array(0.0))
        self.down = self.down + 1 if check_upright(self.params, self.spec, truth, exact=True) else 0
        if self.down > SEEN + self.params.act_periods and self.report.mode in (*OBEYS, Mode.HOLD):
            wrong.append("falls undamped")
        return wrong

    def _least(self, name: str, value: float) -> None:
        self.margins[name] = min(self.margins.get(name, np.inf), value)


def _model(spec: RobotSpec, fault: Fault) -> mujoco.MjModel:
    """The robot on a level floor, with the load and the friction of `fault`."""
    scene = mujoco.MjSpec.from_file(str(spec.mjcf))
    scene.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_PLANE, size=[50, 50, 0.1], friction=[fault.friction, 0.005, 0.0001]
    )
    if fault.load_kg:
        load = scene.body(spec.base_body).add_body(pos=[0.0, 0.0, 0.2])
        load.explicitinertial, load.mass, load.inertia = True, fault.load_kg, [1e-2] * 3
    return scene.compile()
