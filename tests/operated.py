"""Robots under an authority, in real physics, for tests that arm, start, land and stop them as a person would."""

from dataclasses import replace

import mujoco
import numpy as np
from shield_flight import HOVER, PARAMS, SPEC, Flight
from shield_stand import Stand

from deploy.shield import Context
from deploy.shield.authority import Authority, State
from deploy.shield.drone.flight import fly_to
from deploy.shield.fallback import StartCfg
from deploy.shield.types import NO_PEERS
from hardware import ActuatorCommand

GROUND = (0.3, -0.2, SPEC.home_height_m)


class Operated(Flight):
    """A Crazyflie under an authority; what is not sent leaves the motors as they are."""

    def __init__(self, pos=GROUND, **kwargs):
        super().__init__(pos, **kwargs)
        self.data.act[0] = 0.0
        self.changes: list[tuple[str, str]] = []
        self.authority = Authority(
            self.shield, StartCfg(), lambda c: self.changes.append((c.before.name, c.after.name))
        )
        self.sent = 0

    def step(self, request=None, age_s=0.01, state="true", peers=NO_PEERS, dt_s=0.02):
        self.now_s += dt_s
        state = self.state() if isinstance(state, str) else state
        if isinstance(request, str):  # a policy that hovers where the take-off ends
            request = fly_to(PARAMS, SPEC, state, np.array([*GROUND[:2], 1.0]), np.zeros(3))
        requested = None if request is None else ActuatorCommand(np.asarray(request, np.float32))
        command, report = self.authority.step(self.now_s, Context(state, peers), requested, age_s)
        self.sent += command is not None
        if command is not None:
            self.data.ctrl[:4] = command.target * [self.thrust_scale, 1, 1, 1]
        for _ in range(5):
            mujoco.mj_step(self.scene.model, self.data)
        self.modes.append(report.mode)
        return command, report

    def measured(self, age_s: float):
        return replace(self.state(), age=np.array(age_s))

    def ask(self, what: str) -> str:
        return self.authority.arm() if what == "arm" else self.authority.ask(what, self.now_s)

    def starting(self, lift_s: float) -> "Operated":
        """On its way up for `lift_s`."""
        self.fly(0.1)
        assert not self.ask("arm") and not self.ask("start")
        self.fly(lift_s, request="hover")
        return self

    def trouble(self, what: str, for_s: float) -> None:
        """The state is "late" or there is "no" state for `for_s`, or the shield itself is "paused"."""
        if what == "paused":
            self.step(request="hover", dt_s=for_s)
            return
        last = self.state()
        for cycle in range(1, round(for_s / 0.02) + 1):
            late = replace(last, age=np.array(0.02 * cycle))
            self.step(request=HOVER, state=late if what == "late" else None)

    def started(self) -> "Operated":
        self.fly(0.1)
        assert not self.ask("arm") and not self.ask("start")
        self.fly(6.0, request="hover")
        assert self.authority.state is State.POLICY
        return self

    @property
    def height(self) -> float:
        return float(self.data.qpos[2])


class OperatedStand(Stand):
    def __init__(self, spec, pose=None, start=None):
        super().__init__(spec, pose)
        self.data.ctrl[self.ctrl] = self.pos  # its drives hold it, as they do without commands
        self.authority = Authority(self.shield, start or StartCfg())
        self.sent = 0

    def run(self, seconds, request=None, age_s=0.01):
        """A `request` of "hold" is what keeps it where it is."""
        for _ in range(round(seconds / self.dt_s)):
            self.now_s += self.dt_s
            asked = self.holding() if isinstance(request, str) else request
            requested = None if asked is None else ActuatorCommand(np.float32(asked))
            command, self.report = self.authority.step(self.now_s, Context(self.state(), NO_PEERS), requested, age_s)
            self.sent += command is not None
            if command is not None:
                self.data.ctrl[self.ctrl] = command.target
            for _ in range(self.steps):
                mujoco.mj_step(self.model, self.data)
        return self
