"""The arm of an emulated UR5e: MuJoCo's, under a servo that follows the target of the controller.

What servoj does inside is not published. Here the target closes in on the set-point within the look-ahead time, and
is followed with Universal Robots' maximal torques.
"""

from pathlib import Path

import mujoco
import numpy as np

MODEL = Path(__file__).parents[2] / "hardware" / "robots" / "ur5e" / "ur5e.xml"
HOME = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, -np.pi / 2, 0.0])
CYCLE_S, SUBSTEPS = 0.002, 2
# UR5e data sheet: 180 degrees/s, +-360 degrees. 8 rad/s^2: what its motors have torque for in any pose.
SPEED, RANGE, ACCELERATION = np.pi, 2 * np.pi, 8.0
STIFF, DAMPED = 20000.0, 400.0  # N m/rad and N m s/rad, of the servo
DEVIATION = 0.1  # rad between target and arm: "position deviates from path", a protective stop
JUMP = 0.05  # rad between two set-points: a sudden change of the target, a protective stop
FIRST = 0.005  # rad from the target, of the first set-point: where the arm is, measured
STOPPING = 10.0  # rad/s^2, when no program moves it
MOST = 1.0001 * ACCELERATION + 1e-6  # of numbers that are not exact


class Body:
    """One arm. `servo` sets where it has to go in this cycle, `cycle` moves it."""

    def __init__(self):
        self.model = mujoco.MjModel.from_xml_path(str(MODEL))
        self.model.opt.timestep = CYCLE_S / SUBSTEPS
        self.model.actuator_gainprm[:, 0] = STIFF
        self.model.actuator_biasprm[:, 1:3] = -STIFF, -DAMPED
        self.model.actuator_ctrllimited[:] = 0
        self.data = mujoco.MjData(self.model)
        self.data.qpos[:] = HOME
        mujoco.mj_forward(self.model, self.data)
        self.target, self.velocity = HOME.copy(), np.zeros(6)  # of the controller
        self.counts = {"setpoints": 0, "speed": 0, "acceleration": 0, "range": 0, "jump": 0, "restarts": 0}
        self.fastest = self.hardest = 0.0
        self._last, self._last_velocity, self._begins = HOME.copy(), np.zeros(6), True

    @property
    def q(self) -> np.ndarray:
        return self.data.qpos.copy()

    @property
    def qd(self) -> np.ndarray:
        return self.data.qvel.copy()

    def judge(self, q: np.ndarray) -> bool:
        """Count what a set-point breaks, each as one cycle after the one before; True for a sudden change."""
        if self._begins and np.abs(q - self.target).max() < FIRST:
            self._last, self._begins = q.copy(), False
        velocity = (q - self._last) / CYCLE_S
        acceleration = np.abs(velocity - self._last_velocity).max() / CYCLE_S
        if acceleration > MOST and np.abs(velocity).max() / CYCLE_S <= MOST:  # from rest, after a gap between states
            self.counts["restarts"] += 1
            acceleration = 0.0
        jumped = bool(np.abs(q - self._last).max() > JUMP)
        self.counts["setpoints"] += 1
        self.counts["speed"] += bool(np.abs(velocity).max() > SPEED * 1.0001)
        self.counts["acceleration"] += bool(acceleration > MOST)
        self.counts["range"] += bool((np.abs(q) > [RANGE, RANGE, np.pi, RANGE, RANGE, RANGE]).any())
        self.counts["jump"] += jumped
        self.fastest = max(self.fastest, float(np.abs(velocity).max()))
        self.hardest = max(self.hardest, float(acceleration))
        self._last, self._last_velocity = q.copy(), velocity
        return jumped

    def begin(self) -> None:
        """A program takes over where the arm is."""
        self._last, self._last_velocity, self._begins = self.target.copy(), np.zeros(6), True

    def servo(self, q: np.ndarray, lookahead_s: float) -> None:
        self.velocity = (q - self.target) / lookahead_s

    def brake(self, acceleration: float = STOPPING) -> None:
        step = acceleration * CYCLE_S
        self.velocity = self.velocity - np.clip(self.velocity, -step, step)

    def cycle(self) -> bool:
        """Move on; True where the arm is too far from its target."""
        self.target = self.target + CYCLE_S * self.velocity
        self.data.ctrl[:] = self.target + DAMPED / STIFF * self.velocity
        for _ in range(SUBSTEPS):
            mujoco.mj_step(self.model, self.data)
        return bool(np.abs(self.target - self.data.qpos).max() > DEVIATION)

    @property
    def tool(self) -> np.ndarray:
        """Of its flange, in the base frame with x to the front, m."""
        return self.data.site("tool").xpos.copy()
