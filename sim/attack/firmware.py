"""Attacked drones in the hands of their firmware's rate loop, with rotors and gains as they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import torch

from hardware.rotation import rotate
from hardware.spec import RobotSpec, Span
from sim.attack.faults import Fault
from sim.envs.rate_loop import RateLoops, take_over
from sim.scenes.scene import GroupIndex


@dataclass(frozen=True, slots=True)
class Loop:
    """Ranges that hardware may come from: the lag of the rotors, s, and a factor on each gain of the rate loop."""

    rotors_s: Span
    gains: Span = (1.0, 1.0)

    def tick_s(self, spec: RobotSpec) -> float:
        """Time step of physics; ValueError for a robot whose firmware's loop is not published."""
        if spec.flight is None or spec.flight.rate_loop is None:
            raise ValueError(f"no rate loop of a {spec.name} is published")
        return 1.0 / spec.flight.rate_loop.rate_hz


class Firmware:
    """Rate loops and rotors of N robots in W worlds. Rotors of a robot differ from each other by its spec's trim."""

    def __init__(
        self,
        loop: Loop,
        group: GroupIndex,
        model: mujoco.MjModel,
        fault: Fault,
        strength: np.ndarray,
        rng: np.random.Generator,
    ):
        """`strength` (W, N): what rotors give, as a share. The actuators of `model` give nothing more than drag."""
        shape = strength.shape
        self._loops = loops = RateLoops(group, take_over(model, group), model.opt.timestep, shape[0])
        self._qpos, self._qvel = group.base_qpos, group.base_qvel
        self._strength, self._curve = torch.tensor(strength[..., None]).float(), torch.ones(*shape, 1)
        state, published = loops.state, loops.loop
        low, high = published.variation["trim"]
        trim = rng.uniform(low, high, state["trim"].shape)
        drawn = {
            "trim": 1.0 + trim - trim.mean(-1, keepdims=True),  # the sum of the rotors has its own error
            "gain": _drawn(rng, loop.gains, state["gain"].shape, fault.extremes),
            "lag": fault.slow * _drawn(rng, loop.rotors_s, state["lag"].shape, fault.extremes) / max(published.lag_s),
        }
        loops.state |= {name: torch.tensor(values).float() for name, values in drawn.items()}
        loops.start(torch.arange(shape[0]))

    def push(self, datas: Sequence[mujoco.MjData], target: np.ndarray) -> None:
        """Put what becomes of the set-points `target` (W, N, 4) in this time step into the forces of each world."""
        rates = torch.tensor(np.stack([data.qvel[self._qvel[:, 3:]] for data in datas])).float()
        wrench = self._loops.step(torch.tensor(target).float(), rates, self._strength, self._curve).numpy()
        lift = np.concatenate([np.zeros((*wrench.shape[:-1], 2)), wrench[..., :1]], axis=-1)
        for data, torque, up in zip(datas, wrench[..., 1:], lift, strict=True):
            push = rotate(data.qpos[self._qpos[:, 3:]], up)
            data.qfrc_applied[self._qvel] = np.concatenate([push, torque], axis=-1)


def _drawn(rng: np.random.Generator, span: Span, shape: Sequence[int], extremes: bool) -> np.ndarray:
    """From a range, or from its ends."""
    return rng.choice(span, shape) if extremes else rng.uniform(*span, shape)
