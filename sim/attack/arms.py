"""Arms under attack, each behind the `Shield` object that its robot has."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import mujoco
import numpy as np

from deploy.shield import Context, JointShieldParams, Mode, Shield
from deploy.shield.joints.bounds import BOUNDS
from deploy.shield.joints.guarantee import OVERSPEED
from deploy.shield.types import NO_PEERS, Obstacles
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, RobotState
from sim.attack.faults import JOINT_FAULTS, Fault
from sim.attack.joint_attackers import JOINT_ATTACKERS, JointAttacks
from sim.attack.outcome import Outcome

BEGAN_S = 100.0  # on the shields' clock
SETTLED_S = 0.5  # for which an arm rests, and weighs what it carries, before it is attacked
NEAR_M, FAR_IN_M = 0.02, 10.0  # of what is nearer the distance is measured; only what is so far inside is pushed back
Box = tuple[Sequence[float], Sequence[float]]  # middle and half of the size, m
FRANKA: tuple[Box, ...] = (
    ((0.3, 0.42, 0.4), (0.2, 0.08, 0.4)),
    ((0.75, -0.3, 0.05), (0.2, 0.4, 0.1)),
    ((-0.3, 0.35, 0.4), (0.02, 0.02, 0.4)),
)
BOXES: dict[str, tuple[Box, ...]] = {  # beside the arm a shelf, before it a table, and a pole
    "panda": FRANKA,
    "fr3": FRANKA,
    "ur5e": (
        ((0.5, 0.45, 0.4), (0.2, 0.08, 0.4)),
        ((0.75, -0.5, 0.05), (0.2, 0.4, 0.1)),
        ((-0.4, 0.5, 0.4), (0.02, 0.02, 0.4)),
    ),
}


@dataclass
class Driven:
    """What physics, not measurements, says about a run; (U,) where nothing else is said."""

    beyond: np.ndarray  # farthest outside a joint's range, as a share of that range; negative inside
    speed: np.ndarray  # highest, over the joint's limit
    saturated: np.ndarray  # share of physics steps in which the servo called for more than its effort
    travelled: np.ndarray  # how much of its range a joint saw
    mean_speed: np.ndarray  # over the limit
    broken: np.ndarray  # (3, W) robot-steps in which a turning joint left its range, or was too fast, or a link touched
    left: np.ndarray  # (3, W) least that was left: share of a range, of a speed limit below `OVERSPEED`, m to touching
    names: tuple[str, ...] = field(default=())
    nearest_m: float = np.inf  # least distance of a link to what it must not touch, as far as it was within `NEAR_M`

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
    """Worlds with one robot each, in the air where gravity has nothing to say about it unless it is bolted down.

    With `boxes`, their middles and halves of their sizes (m), an arm also has a floor, and carries what `fault` says.
    """

    def __init__(
        self,
        spec: RobotSpec,
        worlds: int,
        rng: np.random.Generator,
        fault: Fault = JOINT_FAULTS["usual"],
        boxes: Sequence[Box] | None = None,
    ):
        self.spec, self.rng, self.fault = spec, rng, fault
        scene = mujoco.MjSpec.from_file(str(spec.mjcf))
        if boxes is not None:
            add_surroundings(scene, spec, boxes, fault.load_kg * spec.payload_kg)
        self.model = scene.compile()
        if not spec.fixed_base:  # it hangs in the air, and the engine must keep up with limbs that whirl
            self.model.opt.gravity[:] = 0.0
            self.model.opt.timestep = 0.002
            self.model.opt.iterations = 50
        if boxes is None:  # nothing but joints, limits and drives
            self.model.geom_contype[:] = self.model.geom_conaffinity[:] = 0
        else:  # what is near is found, and is no obstacle, so that distances say how far one went in
            self.model.geom_margin[:], self.model.geom_gap[:] = -FAR_IN_M, FAR_IN_M + NEAR_M
        self.watched = _watched(self.model)
        self.datas = [mujoco.MjData(self.model) for _ in range(worlds)]
        ids = [self.model.joint(name).id for name in spec.joint_names]
        self.qpos, self.qvel = self.model.jnt_qposadr[ids], self.model.jnt_dofadr[ids]
        self.ctrl = [self.model.actuator(name).id for name in spec.channel_names]
        self.channel = np.array(spec.joint_of_channel)
        for data in self.datas:
            data.qpos[self.qpos] = spec.home
            data.ctrl[self.ctrl] = data.qpos[self.qpos][self.channel]
        slide = np.array([self.model.joint(name).type[0] == mujoco.mjtJoint.mjJNT_SLIDE for name in spec.joint_names])
        self.noise = np.where(slide, 0.05, 1.0)
        self.steps = round(1.0 / spec.control_hz / self.model.opt.timestep)
        self.early = round(BOUNDS.age_s / self.model.opt.timestep)
        least, most = (int(share * BOUNDS.delay_s / self.model.opt.timestep) for share in fault.delay)
        self.delay = rng.integers(least, most + 1, worlds)  # physics steps
        self.bias = fault.bias * rng.choice([-1.0, 1.0], (worlds, len(spec.joints))) if fault.bias else 0.0

    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """Joint positions and velocities (W, J)."""
        return np.stack([d.qpos[self.qpos] for d in self.datas]), np.stack([d.qvel[self.qvel] for d in self.datas])

    def measure(self) -> RobotState:
        """What the robots know of themselves (W, ...)."""
        pos, vel = self.truth()
        worlds = len(self.datas)
        level = np.tile([1.0, 0.0, 0.0, 0.0], (worlds, 1))
        none = np.zeros((worlds, 3))
        share, normal = self.fault.noise, self.rng.normal
        pos = pos + BOUNDS.pos * self.noise * (self.bias + share * normal(size=pos.shape))
        vel = vel + BOUNDS.vel * self.noise * (self.bias + share * normal(size=vel.shape))
        age = np.full(worlds, self.early * self.model.opt.timestep)
        return RobotState(pos, vel, none, level, none, none, age)

    def run(self, policy: Policy, guard: Guard, seconds: float) -> Driven:
        """Everybody's targets through `guard` for `seconds`."""
        spec, channel = self.spec, self.channel
        joints = [spec.joints[i] for i in channel]
        low, high, most, effort, kp, kd = (
            np.array([getattr(j, name) for j in joints])
            for name in ("low", "high", "max_velocity", "max_effort", "stiffness", "damping")
        )
        size = len(joints)
        broken = np.zeros((3, len(self.datas)), dtype=int)
        turning = np.array([channel.unit == "rad" for channel in spec.channels])
        never, none = np.full(size, -np.inf), np.zeros((4, size))
        left = np.full(broken.shape, np.inf)
        out = Driven(never, none[0], none[1], none[2], none[3], broken, left, spec.channel_names)
        least, greatest = np.full(size, np.inf), np.full(size, -np.inf)
        now = self.measure()
        sent = now.joint_pos[:, channel]
        count = round(seconds * spec.control_hz)
        for step in range(count):
            last, sent = sent, guard(now, policy(now.joint_pos[:, channel], now.joint_vel[:, channel], step))
            bad = np.zeros_like(broken, dtype=bool)
            for tick in range(self.steps):
                if tick == self.steps - self.early:
                    now = self.measure()
                there = np.where((tick >= self.delay)[:, None], sent, last)
                for data, target in zip(self.datas, there, strict=True):
                    data.ctrl[self.ctrl] = target
                    mujoco.mj_step(self.model, data)
                near = np.array([self._nearest(data) for data in self.datas])
                out.nearest_m = min(out.nearest_m, float(near.min()))
                pos, vel = (x[:, channel] for x in self.truth())
                beyond, speed = np.maximum(pos - high, low - pos) / (high - low), np.abs(vel) / most
                out.beyond, out.speed = np.maximum(out.beyond, beyond.max(0)), np.maximum(out.speed, speed.max(0))
                now_left = np.stack([-beyond[:, turning].max(-1), OVERSPEED - speed[:, turning].max(-1), near])
                bad |= now_left < 0.0
                out.left = np.minimum(out.left, now_left)
                called = np.abs(kp * (there - pos) - kd * vel)
                out.saturated += (called > effort).mean(0) / (count * self.steps)
                out.mean_speed += speed.mean(0) / (count * self.steps)
                least, greatest = np.minimum(least, pos.min(0)), np.maximum(greatest, pos.max(0))
            broken += bad
        out.travelled = (greatest - least) / (high - low)
        return out

    def _nearest(self, data: mujoco.MjData) -> float:
        """Least distance (m) of links to what they must not touch, infinite beyond `NEAR_M`."""
        if not data.ncon:
            return np.inf
        pair = data.contact.geom
        return float(data.contact.dist.min(initial=np.inf, where=self.watched[pair[:, 0], pair[:, 1]]))


def add_surroundings(scene: mujoco.MjSpec, spec: RobotSpec, boxes: Sequence[Box], load_kg: float) -> None:
    """A floor at z = 0, boxes, and a load at the tool."""
    scene.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[5, 5, 0.1])
    for middle, half in boxes:
        scene.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, pos=middle, size=half)
    if load_kg:
        tool = scene.site(spec.frames["tool"])
        load = tool.parent.add_body(pos=tool.pos)
        load.explicitinertial, load.mass, load.inertia = True, load_kg, [1e-3] * 3


def obstacles_of(boxes: Sequence[Box]) -> Obstacles:
    """As a shield is given them."""
    pos, half = (np.array([box[i] for box in boxes], dtype=float).reshape(-1, 3) for i in range(2))
    count = len(boxes)
    level = np.tile([1.0, 0.0, 0.0, 0.0], (count, 1))
    return Obstacles(pos, level, half, np.zeros(count), np.zeros(count), np.ones(count, bool))


def _watched(model: mujoco.MjModel) -> np.ndarray:
    """(G, G) bool: shapes that must not touch; fingers work by touching, and a base stands on the floor."""
    weld = model.body_weldid[model.geom_bodyid]
    slides = {model.jnt_bodyid[j] for j in range(model.njnt) if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_SLIDE}
    finger = np.array([body in slides for body in model.geom_bodyid], dtype=bool)
    things = model.geom_bodyid == 0
    rests = (weld == 0) & ~things
    parent = model.body_weldid[model.body_parentid[weld]]
    next_to = parent[:, None] == weld  # a link and the one that carries it
    touches = (next_to & ~things) | (finger[:, None] & things) | (rests[:, None] & things) | (finger[:, None] & finger)
    return ~(touches | touches.T)


def drive(
    spec: RobotSpec, params: JointShieldParams, fault: str, attacker: str, worlds: int, seconds: float, seed: int
) -> Outcome:
    """An arm in each of `worlds` for `seconds` a round, its policy under `attacker`, with `fault`."""
    rng = np.random.default_rng(seed)
    what, attacks, out = JOINT_FAULTS[fault], JointAttacks(spec, rng), Outcome()
    if what.in_part:
        what = replace(what, load_kg=what.load_kg * rng.uniform())
    for _ in range(JOINT_ATTACKERS[attacker].rounds):
        driven, flown = _drive_once(spec, params, what, attacks, attacker, worlds, seconds, rng)
        # As shares of what the shield itself means to leave.
        meant = np.array([params.range_margin, OVERSPEED - params.speed_share, params.link_margin_m])
        attacks.search.learn((driven.left / meant[:, None]).min(axis=0))
        out.add(flown)
    if out.violations:
        out.first = f"{attacker} with {fault}, seed {seed}"
    return out


def _drive_once(
    spec: RobotSpec,
    params: JointShieldParams,
    fault: Fault,
    attacks: JointAttacks,
    attacker: str,
    worlds: int,
    seconds: float,
    rng: np.random.Generator,
) -> tuple[Driven, Outcome]:
    """One round of `drive`."""
    boxes = BOXES.get(spec.name, ())
    rig = Rig(spec, worlds, rng, fault, boxes)
    around = obstacles_of(boxes)
    shields = [Shield(params, spec) for _ in range(worlds)]
    modes: Counter[Mode] = Counter()
    last: list[Mode] = []
    home, settled = np.array(spec.home_target), round(SETTLED_S * spec.control_hz)

    def policy(pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        if step < settled:
            return np.broadcast_to(home, pos.shape)
        return JOINT_ATTACKERS[attacker].attack(attacks, pos, vel, step - settled)

    def guard(now: RobotState, request: np.ndarray) -> np.ndarray:
        now_s = BEGAN_S + modes.total() // worlds / spec.control_hz
        last.clear()
        sent = []
        for world, shield in enumerate(shields):
            own = RobotState(*(getattr(now, name)[world] for name in RobotState.__slots__))
            wanted = ActuatorCommand(np.array(request[world], dtype=np.float32))
            command, report = shield.step(now_s, Context(own, NO_PEERS, obstacles=around), wanted, float(own.age))
            sent.append(command.target)
            last.append(report.mode)
        modes.update(last)
        return np.stack(sent).astype(float)

    out = rig.run(policy, guard, seconds)
    turning = np.array([channel.unit == "rad" for channel in spec.channels])
    beyond, speed = float(out.beyond[turning].max()), float(out.speed[turning].max())
    steps, counts = modes.total(), out.broken.sum(axis=1)
    margins = {"range": -beyond, "speed": OVERSPEED - speed, "contact": min(out.nearest_m, NEAR_M) / NEAR_M}
    outcome = Outcome(
        steps=steps,
        violations=int(out.broken.sum()),
        margins=margins,
        changed=modes[Mode.FILTERED],
        held=steps - modes[Mode.FILTERED] - modes[Mode.NOMINAL],
        most={"outside_range_share": beyond, "speed_share": speed, "saturated_share": float(out.saturated.max())},
        broken=Counter({name: int(n) for name, n in zip(("range", "speed", "contact"), counts, strict=True) if n}),
        ended=Counter(mode.name for mode in last),
    )
    return out, outcome
