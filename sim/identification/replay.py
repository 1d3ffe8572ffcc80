"""Replays of windows of a recording in the robot's own MuJoCo model, for many candidates of its numbers at once."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout

from hardware.overlay import DELAY, TOOL_MASS, overlaid, quantities
from hardware.rotation import rotate
from hardware.spec import RobotSpec
from sim.envs.rate_loop import Fixed, RateLoops, take_over
from sim.identification.windows import Windows
from sim.physics.mujoco.mujoco_threads import CTRL, CTRL_AND_FORCE, FULL, PIECES
from sim.scenes.scene import Members, Scene, close_loops, compose_scene

AXES = ("roll", "pitch", "yaw")
MOST_NUMBERS = 30_000_000  # of states in memory at once


@dataclass(frozen=True)
class Candidate:
    """Values of numbers of `hardware.overlay`, and where windows start: rows (B, R)."""

    values: Mapping[str, float]
    start: np.ndarray  # under the firmware's rate loop (B, R + 3), with what that has summed up, rad


class Replay:
    """One kind of robot; `firmware` says whether a drone flies by its firmware's rate loop or by its model's own."""

    def __init__(self, spec: RobotSpec, step_s: float, firmware: bool = False):
        self._spec, self._step_s, self.firmware = spec, step_s, firmware
        threads = len(os.sched_getaffinity(0))
        self._scene = self._compose({})
        index, model = self._scene.group, self._scene.model
        self._rollout = Rollout(nthread=threads)
        self._data = [mujoco.MjData(model) for _ in range(threads)]
        self._qpos = np.concatenate([index.base_qpos[0], index.joint_qpos[0]])
        self._qvel = np.concatenate([index.base_qvel[0], index.joint_qvel[0]])
        self._size = mujoco.mj_stateSize(model, FULL)
        self._read = 1 + np.concatenate([self._qpos, model.nq + self._qvel])
        self._models: dict[tuple, mujoco.MjModel] = {}

    def rows(self, candidates: Sequence[Candidate], windows: Windows) -> np.ndarray:
        """(C, B, M + 1, R) what the model does under the commands of each window, for each candidate."""
        each = len(windows.begin_s) * (windows.steps + windows.steps_before) * self._size
        at_once = max(1, MOST_NUMBERS // each)
        parts = [self._some(candidates[i : i + at_once], windows) for i in range(0, len(candidates), at_once)]
        return np.concatenate(parts)

    def _some(self, candidates: Sequence[Candidate], windows: Windows) -> np.ndarray:
        count = len(windows.begin_s)
        models = [self._model(candidate.values) for candidate in candidates for _ in range(count)]
        start = np.concatenate([candidate.start for candidate in candidates])
        torch.set_num_threads(1)  # tensors are small: threads would only wait for each other
        run = self._run_firmware if self.firmware else self._run
        states = run(candidates, models, start, windows)
        seen = states[:, windows.substeps - 1 :: windows.substeps, self._read]
        found = np.concatenate([start[:, None, : seen.shape[-1]], seen], axis=1)
        return found.reshape(len(candidates), count, -1, seen.shape[-1])

    def _run(
        self, candidates: Sequence[Candidate], models: list[mujoco.MjModel], start: np.ndarray, windows: Windows
    ) -> np.ndarray:
        """(C B, steps, S); what actuators remember they get from a replay of the time before."""
        state = self._state(start)
        if lead := windows.steps_before:
            before = np.concatenate([windows.before[:, 0]] * len(candidates))
            ctrl = self._ctrl(candidates, windows, -lead, lead)
            ended = self._steps(models, self._state(before, ctrl[:, 0]), ctrl)[:, -1]
            act = 1 + self._scene.model.nq + self._scene.model.nv
            state[:, act:] = ended[:, act:]
        return self._steps(models, state, self._ctrl(candidates, windows, 0, windows.steps))

    def _steps(self, models: list[mujoco.MjModel], state: np.ndarray, ctrl: np.ndarray, spec: int = CTRL) -> np.ndarray:
        found = np.zeros((len(models), ctrl.shape[1], self._size))
        self._rollout.rollout(
            models, self._data, state, ctrl, control_spec=spec, state=found, skip_checks=True, nstep=ctrl.shape[1],
            chunk_size=-(-len(models) // (PIECES * len(self._data))),
        )  # fmt: skip
        return found

    def _ctrl(self, candidates: Sequence[Candidate], windows: Windows, first: int, steps: int) -> np.ndarray:
        """(C B, steps, nu) controls of the model."""
        delays = [candidate.values.get(DELAY, 0.0) for candidate in candidates]
        known = {delay: windows.set_points(delay, first, steps) for delay in set(delays)}
        set_points = np.concatenate([known[delay] for delay in delays])
        ctrl = np.zeros((*set_points.shape[:2], self._scene.model.nu))
        ctrl[..., self._scene.group.ctrl_index[0]] = set_points.clip(self._spec.command_low, self._spec.command_high)
        return ctrl

    def _old_and_new(
        self, candidates: Sequence[Candidate], windows: Windows, first: int, steps: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Commands (C B, steps, U) at the begin and at the end of each step, the latter's share of it (C B, steps)."""
        delays = [candidate.values.get(DELAY, 0.0) for candidate in candidates]
        known = {delay: windows.old_and_new(delay, first, steps) for delay in set(delays)}
        old, new, share = (np.concatenate(parts) for parts in zip(*[known[delay] for delay in delays], strict=True))
        low, high = self._spec.command_low, self._spec.command_high
        sent = [torch.from_numpy(each.clip(low, high)).float() for each in (old, new)]
        return sent[0], sent[1], torch.from_numpy(share).float()

    def _run_firmware(
        self, candidates: Sequence[Candidate], models: list[mujoco.MjModel], start: np.ndarray, windows: Windows
    ) -> np.ndarray:
        """The same with the firmware's loop between physics steps; what it has summed up is part of a start."""
        count, rates = len(windows.begin_s), 1 + self._scene.model.nq + self._qvel[3:6]
        # The time before a window is the same for candidates that differ in its start only.
        firsts = [[other.values for other in candidates].index(candidate.values) for candidate in candidates]
        apart = sorted(set(firsts))
        rows = np.concatenate([apart.index(first) * count + np.arange(count) for first in firsts])
        some = [candidates[first] for first in apart]
        before = [models[first * count + window] for first in apart for window in range(count)]
        loops = self._loops(some, count)
        loops.start(torch.arange(len(before)))
        ended = self._state(np.concatenate([windows.before[:, 0]] * len(some)))
        if lead := windows.steps_before:
            ended = self._fly(loops, before, ended, self._old_and_new(some, windows, -lead, lead))[:, -1]
        going_on = self._loops(candidates, count)
        going_on.state |= {name: held[rows] for name, held in loops.state.items()}
        begins = self._state(start[:, : -len(AXES)])
        _go_on_from(going_on, begins[:, rates] - ended[rows][:, rates], start[:, -len(AXES) :])
        return self._fly(going_on, models, begins, self._old_and_new(candidates, windows, 0, windows.steps))

    def _loops(self, candidates: Sequence[Candidate], count: int) -> RateLoops:
        """Rate loops of `count` windows for each candidate."""
        loops = RateLoops(self._scene.group, self._own, self._step_s, len(candidates) * count)
        for name, key in (("gain", "rate_loop.gain"), ("lag", "rate_loop.lag"), ("trim", "thrust")):
            factors = np.repeat([candidate.values.get(key, 1.0) for candidate in candidates], count)
            loops.state[name][:] = torch.as_tensor(factors).view(-1, 1, 1)
        return loops

    def _fly(
        self,
        loops: RateLoops,
        models: list[mujoco.MjModel],
        state: np.ndarray,
        commands: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> np.ndarray:
        """(N, steps, S) from `state` (N, S) under `_old_and_new` commands; `loops` go on."""
        model, (old, new, shares) = self._scene.model, commands
        rates, pushed = 1 + model.nq + self._qvel[3:6], model.nu + self._qvel[:6]
        fixed = loops.fixed(*[torch.ones(len(models), 1, 1)] * 2)  # no rotor is weak or bent
        found = np.zeros((len(models), shares.shape[1], self._size))
        control = np.zeros((len(models), 1, model.nu + model.nv))
        for step in range(shares.shape[1]):
            turning = torch.from_numpy(state[:, rates]).float().unsqueeze(1)
            wrench = _step(loops, old[:, step, None], new[:, step, None], shares[:, step], turning, fixed)
            lift = np.concatenate([np.zeros((len(models), 2)), wrench[:, :1]], axis=1)
            control[:, 0, pushed] = np.concatenate([rotate(state[:, 1 + self._qpos[3:7]], lift), wrench[:, 1:]], axis=1)
            state = self._steps(models, state, control, CTRL_AND_FORCE)[:, 0]
            found[:, step] = state
        return found

    def _state(self, rows: np.ndarray, ctrl: np.ndarray | None = None) -> np.ndarray:
        """(N, S) states of the model at `rows` (N, R), what actuators remember as under `ctrl` (N, nu) for ever."""
        model = self._scene.model
        qpos = np.tile(model.qpos0, (len(rows), 1))
        qpos[:, self._qpos] = rows[:, : len(self._qpos)]
        close_loops(model, qpos)
        qvel = np.zeros((len(rows), model.nv))
        qvel[:, self._qvel] = rows[:, len(self._qpos) :]
        for first, second, slope in mirrors(model):
            qvel[:, first] = slope * qvel[:, second]
        act = np.zeros((len(rows), model.na))
        if ctrl is not None:
            remembers = model.actuator_actadr >= 0
            act[:, model.actuator_actadr[remembers]] = ctrl[:, remembers]
        return np.concatenate([np.zeros((len(rows), 1)), qpos, qvel, act], axis=1)

    def _model(self, values: Mapping[str, float]) -> mujoco.MjModel:
        """The model of a candidate; those of the last few are kept."""
        key = tuple((name, value) for name, value in values.items() if name != DELAY)
        if key not in self._models:
            if len(self._models) > 500:
                self._models.clear()
            self._models[key] = self._compose(values).model
        return self._models[key]

    def _compose(self, values: Mapping[str, float]) -> Scene:
        # The same bodies in each model: one that nothing hangs at has a weight of next to nothing there.
        nothing = {TOOL_MASS: 0.0} if TOOL_MASS in quantities(self._spec) else {}
        scene = compose_scene([Members(overlaid(self._spec, {**nothing, **values}), 1)], self._step_s)
        if self.firmware:
            self._own = take_over(scene.model, scene.group)
        return scene


def _step(
    loops: RateLoops, old: torch.Tensor, new: torch.Tensor, share: torch.Tensor, rates: torch.Tensor, fixed: Fixed
) -> np.ndarray:
    """(N, 4) N and N m of a step under commands `old` (N, 1, 4), and for `share` (N,) of it under `new`.

    What the loop makes of both is averaged, not they: mixers saturate.
    """
    before = loops.state
    wrench = loops.step_fixed(new, rates, fixed)
    if (old != new).any():
        after, loops.state = loops.state, before
        share = share.view(-1, 1, 1)
        wrench = torch.lerp(loops.step_fixed(old, rates, fixed), wrench, share)
        loops.state = {
            name: torch.lerp(held, after[name], share) if held.is_floating_point() else held
            for name, held in loops.state.items()
        }
    return wrench[:, 0].double().numpy()


def _go_on_from(loops: RateLoops, change: np.ndarray, summed: np.ndarray) -> None:
    """Let loops (N, ...) remember rates that were by `change` (N, 3) rad/s others, and another sum (N, 3) rad.

    So a start that is a little off the replay of the time before is no jump to them.
    """
    shift = torch.from_numpy(change).float().unsqueeze(1)
    inner = shift * loops.gyro_memory
    loops.state |= {
        "gyro": loops.state["gyro"] + torch.cat([inner, inner], dim=-1),
        "last": loops.state["last"] + shift,
        "sum": torch.from_numpy(summed).float().unsqueeze(1),
    }


def mirrors(model: mujoco.MjModel) -> list[tuple[int, int, float]]:
    """(column of qvel, column that it follows, slope) of joints that mirror another."""
    follows = (model.eq_type == mujoco.mjtEq.mjEQ_JOINT) & (model.eq_obj2id >= 0)
    dof = model.jnt_dofadr
    return [(dof[model.eq_obj1id[i]], dof[model.eq_obj2id[i]], model.eq_data[i, 1]) for i in np.flatnonzero(follows)]
