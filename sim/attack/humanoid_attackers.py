"""Ways in which a policy can try to break the shield of a humanoid, or fail: from what is measured to what is asked."""

from dataclasses import dataclass

import numpy as np

from hardware.spec import RobotSpec
from sim.attack.attackers import Attacker
from sim.attack.joint_attackers import JOINT_ATTACKERS, JointAttacks

WEAK_FROM_S = 2.0  # when policies that fail begin to
DT_S = 0.02
FRESH_S = 0.01


@dataclass(slots=True)
class Asked:
    """What one policy asks for."""

    target: np.ndarray | None  # (U,) rad; None where it says nothing
    age_s: float = FRESH_S  # of the measurements that it rests on, as it says


class LegAttacks:
    """Of one robot: (U,) positions and velocities and the step to what is asked."""

    def __init__(self, spec: RobotSpec, rng: np.random.Generator):
        self.rng, self.names = rng, spec.channel_names
        self.low, self.high = np.array(spec.command_low), np.array(spec.command_high)
        self.home = np.array(spec.home_target)
        self.joints = JointAttacks(spec, rng)
        self.before: list[np.ndarray] = []
        self.begins = int(rng.integers(20, 120))  # the step of the attack: it stands until then

    def sway(self, step: int) -> np.ndarray:
        """What a policy that stands asks for (U,)."""
        return self.home + 0.03 * np.sin(2 * np.pi * 0.5 * DT_S * step + np.arange(len(self.home)))

    def ends(self, step: int, ways: dict[str, float]) -> np.ndarray:
        """Home, but joints whose names contain a key of `ways` at the lower (0) to the upper end (1)."""
        target = self.home.copy()
        if step < self.begins:
            return target
        for index, name in enumerate(self.names):
            for part, share in ways.items():
                if all(word in name for word in part.split()):
                    target[index] = self.low[index] + share * (self.high[index] - self.low[index])
        return target

    def legs_crossed(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """Each leg through the other one."""
        roll = {"left hip_roll": 0.0, "right hip_roll": 1.0, "left hip_yaw": 0.0, "right hip_yaw": 1.0}
        return Asked(self.ends(step, roll))

    def knees_straight(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """Knees at their stop, from a crouch."""
        return Asked(self.ends(step, {"knee": 0.0 if step // 25 % 2 else 0.6}))

    def jump(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """Crouches and throws itself up with all of its legs."""
        low = step // 30 % 2
        return Asked(self.ends(step, {"knee": 0.7 * low, "hip_pitch": 0.2 + 0.3 * low, "ankle_pitch": 0.9 - 0.5 * low}))

    def toe_stand(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """Both ankles at their lower stop: it falls forwards or backwards."""
        return Asked(self.ends(step, {"ankle": float(step // 40 % 2)}))

    def splits(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """One leg ahead, one behind."""
        return Asked(self.ends(step, {"left hip_pitch": 0.0, "right hip_pitch": 1.0}))

    def flail(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """The arms and the waist from end to end, as fast as they may."""
        side = float(step // 15 % 2)
        return Asked(self.ends(step, {"shoulder": side, "elbow": 1.0 - side, "wrist": side, "waist": side}))

    def dead(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """Says nothing any more."""
        return Asked(None if step * DT_S > WEAK_FROM_S else self.sway(step))

    def frozen(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """The same request with the same stamp for ever."""
        late = max(step * DT_S - WEAK_FROM_S, 0.0)
        return Asked(self.sway(step - round(late / DT_S)), FRESH_S + late)

    def late(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """Now and then older than it may be."""
        return Asked(self.sway(step), float(self.rng.choice([FRESH_S, 0.05, 0.09, 0.15])))

    def replay(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """What the joints did a second ago, as new."""
        self.before.append(np.clip(pos + 3.0 * DT_S * vel, self.low, self.high))
        return Asked(self.before[-51] if len(self.before) > 50 else self.sway(step))

    def stutter(self, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        """Random targets, silence, and no numbers in turns of 0.1 s."""
        what = (step // 5) % 3
        wild = self.rng.uniform(self.low, self.high)
        return Asked((wild, None, np.where(self.rng.random(wild.shape) < 0.1, np.nan, wild))[what])


def _any_target(name: str) -> Attacker:
    """An attacker of joints, which begins once the robot has stood for a while."""
    of_joints = JOINT_ATTACKERS[name].attack

    def attack(legs: LegAttacks, pos: np.ndarray, vel: np.ndarray, step: int) -> Asked:
        return Asked(of_joints(legs.joints, pos, vel, step - legs.begins) if step >= legs.begins else legs.sway(step))

    return Attacker("any target", attack)


KINDS = {
    "falls": ("legs_crossed", "knees_straight", "jump", "toe_stand", "splits", "flail"),
    "failures": ("dead", "frozen", "late", "replay", "stutter"),
}
HUMANOID_ATTACKERS: dict[str, Attacker] = {name: _any_target(name) for name in JOINT_ATTACKERS} | {
    name.replace("_", " "): Attacker(kind, getattr(LegAttacks, name)) for kind, names in KINDS.items() for name in names
}
