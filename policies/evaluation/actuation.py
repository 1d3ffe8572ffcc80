"""What a policy asks of its actuators in flight, before the shield, and how long a step of it takes on this machine."""

import time
from math import pi
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deploy.bundle import Bundle
from deploy.bundle.session import run_session
from hardware.spec import TorqueSpeed
from policies.evaluation.policy_runner import BundleRunner

STEPS = 500  # of which the time is taken
NEAR = 1e-3  # of a channel's range: nearer to an end than this is at the end


class ActuatorWatch(BundleRunner):
    """A policy file whose targets are summed up while it is flown."""

    def start(self, env: Any) -> None:
        super().start(env)
        channels = env.robot.channels
        self._low, self._high = (torch.tensor([getattr(c, side) for c in channels]) for side in ("low", "high"))
        self._past: list[Tensor] = []  # the last target, and its first and second differences
        self._age = torch.zeros(())  # control periods since an episode began
        self._spec, self._dt, self._count, self._changes, self._jerks = env.robot, env.control_dt, 0, 0, 0
        self._square, self._mean, self._ends, self._change, self._jerk = torch.zeros(
            5, len(channels), dtype=torch.float64
        )
        self._effort, self._power, self._beyond = torch.zeros(3, len(self._spec.joints), dtype=torch.float64)

    def act(self, env: Any) -> tuple[Tensor, Tensor]:
        action, target = super().act(env)
        wanted, near = torch.minimum(torch.maximum(target, self._low), self._high), NEAR * (self._high - self._low)
        self._count += wanted[..., 0].numel()
        self._square += wanted.square().sum((0, 1))
        self._mean += wanted.sum((0, 1))
        self._ends += ((wanted <= self._low + near) | (wanted >= self._high - near)).sum((0, 1))
        goes_on = env.last_action.abs().sum(-1) > 0  # it is zero where an episode begins
        self._age = torch.where(goes_on, self._age + 1, 0)
        differences = [wanted]
        for before in self._past:
            differences.append(differences[-1] - before)
        if len(differences) > 1:
            self._change += (differences[1].square() * goes_on.unsqueeze(-1)).sum((0, 1))
            self._changes += int(goes_on.sum())
        if len(differences) > 3:
            smooth = self._age >= 3
            self._jerk += (differences[3].square() * smooth.unsqueeze(-1)).sum((0, 1))
            self._jerks += int(smooth.sum())
        self._past = differences[:3]
        self._add_effort(wanted, env.now.state)
        return action, target

    def _add_effort(self, wanted: Tensor, state: Any) -> None:
        """Of drives that servo a position: stiffness and damping of the robot, within its limits."""
        places = {channel.name: k for k, channel in enumerate(self._spec.channels)}
        for k, joint in enumerate(self._spec.joints):
            if joint.name in places and joint.stiffness:
                speed = state.joint_vel[..., k]
                effort = joint.stiffness * (wanted[..., places[joint.name]] - state.joint_pos[..., k])
                effort = (effort - joint.damping * speed).clamp(-joint.max_effort, joint.max_effort)
                self._effort[k] += effort.square().sum()
                self._power[k] += (effort * speed).clamp(min=0).sum()
                if joint.torque_speed:
                    self._beyond[k] += beyond_curve(joint.torque_speed, effort, speed).sum()

    def figures(self) -> dict[str, Any]:
        """By channel: RMS of target, of its change per second and of its jerk; frequency; share of time at an end.

        The frequency, Hz, is RMS of the change over RMS about the mean, over 2 pi: that of a sine with both. Of joints
        with a drive: RMS of its effort as a share of its limit, the power of all of them where they do work, W, and the
        share of the time in which the effort is more than its motor gives at that speed, where its curve is known.
        """
        rms, mean = (self._square / self._count).sqrt(), self._mean / self._count
        change = (self._change / max(self._changes, 1)).sqrt() / self._dt
        jerk = (self._jerk / max(self._jerks, 1)).sqrt() / self._dt**3  # of the target's third difference
        spread = (rms.square() - mean.square()).clamp(min=0).sqrt()
        limits = torch.tensor([joint.max_effort for joint in self._spec.joints], dtype=torch.float64)
        effort = (self._effort / self._count).sqrt() / limits
        rows = zip(
            self._spec.channels, rms, change, jerk, change / (2 * pi * spread).clamp(min=1e-9), self._ends, strict=True
        )
        return {
            "channels": {
                channel.name: {
                    "unit": channel.unit,
                    "rms": float(own),
                    "change_rms_per_s": float(rate),
                    "jerk_rms_per_s3": float(third),
                    "frequency_hz": float(frequency),
                    "at_limit": float(ends) / self._count,
                }
                for channel, own, rate, third, frequency, ends in rows
            },
            "effort_share": {j.name: float(e) for j, e in zip(self._spec.joints, effort, strict=True) if e > 0},
            "power_w": float(self._power.sum()) / self._count if self._spec.joints else None,
            "beyond_curve_share": {
                joint.name: float(beyond) / self._count
                for joint, beyond in zip(self._spec.joints, self._beyond, strict=True)
                if joint.torque_speed
            },
        }


def beyond_curve(curve: TorqueSpeed, effort: Tensor, speed: Tensor) -> Tensor:
    """Where a motor with this `curve` does not give an `effort`, N m, at a `speed`, rad/s: bool, their shape."""
    peak = torch.where(effort * speed > 0, curve.driving_effort, curve.braking_effort)
    left = (curve.no_load_speed - speed.abs()) / (curve.no_load_speed - curve.corner_speed)
    return effort.abs() > peak * left.clamp(0.0, 1.0)


def measure_steps(bundle: Bundle) -> dict[str, float]:
    """Microseconds of a step of one robot's graph on this machine, p50 and p99, and of its control period.

    `waited`: share of the time in which other programs had the processor instead; p99 is theirs then.
    """
    first = bundle.probes.sequences[0]
    inputs = {name: value[:1] for name, value in first.memory.items()}
    inputs |= {name: value[0, :1] for name, value in first.inputs.items()}
    taken = []
    began_s, own_s = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        began = time.perf_counter_ns()
        run_session(bundle.session, inputs)
        taken.append(1e-3 * (time.perf_counter_ns() - began))
    own_s, took_s = time.process_time() - own_s, time.perf_counter() - began_s
    p50, p99 = np.percentile(taken, [50, 99]).tolist()
    waited = max(0.0, 1.0 - own_s / took_s)
    return {"p50": p50, "p99": p99, "period": 1e6 * bundle.contract.control_dt_s, "waited": waited}
