"""Ways in which a policy can try to drive joints out of their limits."""

import numpy as np

from hardware.spec import RobotSpec
from sim.attack.attackers import Attacker
from sim.attack.rhythm import RhythmSearch, targets

ROUNDS = 20  # of a flight whose attacker goes on from the worst


class JointAttacks:
    """Ways of attacking the limits of joints: from positions and velocities (W, U) and the step to targets (W, U)."""

    def __init__(self, spec: RobotSpec, rng: np.random.Generator):
        self.rng = rng
        self.low, self.high = np.array(spec.command_low), np.array(spec.command_high)
        self.held: dict[str, np.ndarray] = {}
        self.search = RhythmSearch(rng)

    def bang_bang_together(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """All joints from one end to the other together."""
        return np.broadcast_to(self.high if step // 60 % 2 else self.low, pos.shape)

    def bang_bang_each(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """Each joint at one of its ends, which changes by chance."""
        if step % 7 == 0:
            flip = self.rng.random(pos.shape) < 0.2
            side = self.held.get("each", np.ones(pos.shape))
            self.held["each"] = np.where(flip, -side, side)
        return np.where(self.held["each"] > 0, self.high, self.low)

    def anything(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """Random targets."""
        return self.rng.uniform(self.low, self.high, pos.shape)

    def anything_and_hold(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """Random targets, each for half a second."""
        if step % 25 == 0:
            self.held["hold"] = self.rng.uniform(self.low, self.high, pos.shape)
        return self.held["hold"]

    def slam(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """A random pose, from which the second joint then falls to either end; each for 1.5 s."""
        turn = step // 75
        if step % 75 == 0 or "slam" not in self.held:
            if turn % 2 == 0 or "slam" not in self.held:
                share = self.rng.uniform(0.05, 0.95, pos.shape)
                share[..., 1] = 0.4 + 0.2 * share[..., 1]
                self.held["slam"] = self.low + share * (self.high - self.low)
            else:
                down = self.held["slam"].copy()
                down[..., 1] = np.where(self.rng.random(pos.shape[:-1]) < 0.8, self.high[1], self.low[1])
                self.held["slam"] = down
        return self.held["slam"]

    def push_on(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """Full speed towards the limit that the joint happens to move to, at every change of mind all others back."""
        return np.where((vel + 1e-3 * np.sin(step)) > 0, self.high, self.low)

    def pump(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """Positive feedback: every joint is pushed the way it goes, and turned round at its limits."""
        side = self.held.get("pump", np.ones(pos.shape))
        share = (pos - self.low) / (self.high - self.low)
        self.held["pump"] = side = np.where(share > 0.97, -1.0, np.where(share < 0.03, 1.0, side))
        return np.where(side > 0, self.high, self.low)

    def sweep(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """Sines from 0.2 to 5 Hz over the whole range."""
        time_s = 0.02 * step
        phase = 2 * np.pi * (0.2 * time_s + 0.12 * time_s**2 % 400.0)
        return 0.5 * (self.low + self.high) + 0.6 * (self.high - self.low) * np.sin(phase)

    def nothing_real(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """Ends, and between them what is no number."""
        bad = np.where(self.rng.random(pos.shape) < 0.5, self.high, self.rng.choice([np.nan, np.inf, -np.inf, 1e9]))
        return bad if step % 3 else np.broadcast_to(self.high, pos.shape)

    def whip(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """Joints take turns at being thrown by the others: all but one reverse together."""
        side = np.where(np.arange(pos.shape[-1]) == step // 40 % pos.shape[-1], 1.0, (-1.0) ** (step // 20))
        return np.broadcast_to(np.where(side > 0, self.high, self.low), pos.shape)

    def rhythm(self, pos: np.ndarray, vel: np.ndarray, step: int) -> np.ndarray:
        """Each joint to and fro in a rhythm of its own; each round goes on from the worst of those before."""
        if step == 0 or self.search.rhythms is None:
            self.search.next(pos[..., 0].size, pos.shape[-1])  # a humanoid is by itself
        assert self.search.rhythms is not None
        return targets(self.search.rhythms, self.low, self.high, step).reshape(pos.shape)


JOINT_ATTACKERS: dict[str, Attacker] = {
    name.replace("_", " "): Attacker("any target", getattr(JointAttacks, name))
    for name in (
        "bang_bang_together",
        "bang_bang_each",
        "anything",
        "anything_and_hold",
        "slam",
        "push_on",
        "pump",
        "sweep",
        "nothing_real",
        "whip",
    )
}
JOINT_ATTACKERS["rhythm"] = Attacker("searched rhythms", JointAttacks.rhythm, ROUNDS)
