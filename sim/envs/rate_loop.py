"""What a multirotor's firmware and rotors make of thrust and body rates, at the firmware's own rate.

It is computed between physics steps, in torch, and so on every engine alike. One member of the family is the loop that
the robot's model has by itself, slow and critically damped, for the drones that are to fly by it.
"""

from dataclasses import dataclass
from math import exp, pi, tan

import mujoco
import torch

from sim.scenes.scene import GroupIndex
from sim.tracing import may_hold

Tensor = torch.Tensor
YAW_ROOM = 0.15  # of a rotor's range, which PX4's mixer leaves to yaw at full thrust


@dataclass(frozen=True)
class OwnLoop:
    """The loop of a robot's model: lags of thrust and of set-points s, gain N m s/rad and limit N m of each axis."""

    thrust_lag_s: float
    rate_lag_s: float
    gain: list[float]
    limit: list[float]


def take_over(model: mujoco.MjModel, group: GroupIndex) -> OwnLoop:
    """What the actuators of a group's robots in `model` did, who from now on give nothing but their drag."""
    thrust, rates = group.ctrl_index[0, 0], group.ctrl_index[0, 1:]
    own = OwnLoop(
        float(model.actuator_dynprm[thrust, 0]),
        float(model.actuator_dynprm[rates[0], 0]),
        model.actuator_gainprm[rates, 0].tolist(),
        model.actuator_forcerange[rates, 1].tolist(),
    )
    model.actuator_gainprm[group.ctrl_index.flatten(), 0] = 0.0
    model.actuator_biasprm[group.ctrl_index[:, 1:].flatten(), 2] = 0.0
    return own


@dataclass(frozen=True)
class Fixed:
    """What several time steps have in common, (W, N, ...)."""

    gain: tuple[Tensor, ...]  # of the three parts of the PID
    rising: Tensor  # part of the way that rotors go in a time step
    falling: Tensor
    full: Tensor  # thrust, N, of each rotor at a share of 1
    curve: Tensor | None  # None: 1 everywhere
    slow: Tensor | None  # None: nowhere


class RateLoops:
    """Rate loops and R rotors of N robots in W worlds. What changes from step to step is in `state`, (W, N, ...).

    `slow` robots fly by the model's own loop; gains, lag and trim are factors on what the robot's spec says.
    """

    def __init__(self, group: GroupIndex, own: OwnLoop, dt_s: float, worlds: int) -> None:
        """`own` is what `slow` robots have; time steps of `dt_s`."""
        flight = group.robot.flight
        assert flight is not None and flight.rate_loop is not None
        self.loop = loop = flight.rate_loop
        self.dt = dt_s
        count, (w, n) = len(flight.rotors_xy_m), (worlds, group.num_robots)
        x, y = torch.tensor(flight.rotors_xy_m).T
        spin = torch.sign(x * y)
        self._mix = torch.stack([y.sign(), -x.sign(), spin], dim=0) * torch.tensor(loop.shares).unsqueeze(-1)  # (3, R)
        self._tilt, self._yaw = self._mix.split((2, 1))
        self._wrench = torch.stack([torch.ones(count), y, -x, spin * loop.torque_ratio_m], dim=-1)  # (R, 4)
        self._hover = flight.hover_thrust_n / count
        self._full = group.robot.channels[0].high / count
        self._given = group.robot.overlay.get("thrust", 1.0)  # of what is asked, by this one robot's rotors
        self._gains = torch.tensor([loop.proportional, loop.integral, loop.derivative])
        self._limit = torch.tensor(loop.integral_limit)
        self._gyro = _low_pass(loop.gyro_cutoff_hz, self.dt)
        self._bend = _low_pass(loop.derivative_cutoff_hz, self.dt) if loop.derivative_cutoff_hz else None
        self._slow_gain, self._slow_limit = torch.tensor(own.gain), torch.tensor(own.limit)
        self._slow_rate = 1.0 - exp(-dt_s / own.rate_lag_s)  # part of the way that a lag goes in a time step
        self._slow_thrust = 1.0 - exp(-dt_s / own.thrust_lag_s)
        zeros = {"gyro": 6, "bend": 6 * (self._bend is not None), "last": 3, "sum": 3, "set_point": 3}
        self.state = {name: torch.zeros(w, n, size) for name, size in zeros.items()} | {
            "rotors": torch.zeros(w, n, count),  # thrust, N
            "slow": torch.zeros(w, n, dtype=torch.bool),
            "gain": torch.ones(w, n, 3),  # of the three parts of the PID
            "lag": torch.ones(w, n, 1),
            "trim": torch.ones(w, n, count),
        }

    def start(self, worlds: Tensor) -> None:
        """Forget the past of `worlds` (K,): rotors carry the drone, and nothing turns."""
        for name in ("gyro", "bend", "last", "sum", "set_point"):
            self.state[name][worlds] = 0.0
        self.state["rotors"][worlds] = self._hover

    def fixed(self, strength: Tensor, curve: Tensor) -> Fixed:
        """What the next time steps have in common, up to the next `start` or change of `state`; see `step`."""
        state = self.state
        gain, slow = state["gain"].unsqueeze(-1) * self._gains, state["slow"].unsqueeze(-1)
        rising, falling = (1.0 - torch.exp(-self.dt / (lag * state["lag"])) for lag in self.loop.lag_s)
        full = self._full * self._given * strength * state["trim"]
        bent, slowed = may_hold(curve != 1.0), may_hold(slow)
        return Fixed(gain.unbind(-2), rising, falling, full, curve if bent else None, slow if slowed else None)

    def step(self, target: Tensor, rates: Tensor, strength: Tensor, curve: Tensor) -> Tensor:
        """Thrust N and torque N m (W, N, 4), body, for the next time step.

        Set-points `target` (W, N, 4) N and rad/s, true `rates` (W, N, 3) rad/s; `strength` (W, N, 1) and the exponent
        `curve` (W, N, 1) are what rotors make of what they are commanded.
        """
        return self.step_fixed(target, rates, self.fixed(strength, curve))

    def step_fixed(self, target: Tensor, rates: Tensor, fixed: Fixed) -> Tensor:
        """As `step`."""
        state = self.state = dict(self.state)
        thrust, turn = target.split((1, 3), -1)
        measured = self._filtered("gyro", self._gyro, rates)
        error = turn - measured
        state["sum"] = (state["sum"] + error * self.dt).clamp(-self._limit, self._limit)
        bend = (state["last"] - measured) / self.dt
        state["last"] = measured
        if self._bend is not None:
            bend = self._filtered("bend", self._bend, bend)
        gain, slow = fixed.gain, fixed.slow
        out = gain[0] * error + gain[1] * state["sum"] + gain[2] * bend
        signal = self._signals(thrust, out.clamp(-self.loop.output_limit, self.loop.output_limit))
        share = self._share_of_thrust(signal)
        if slow is not None:
            plain = (thrust / (self._full * share.shape[-1])).clamp(min=0.0)
            share = torch.where(slow, plain, share)
        if fixed.curve is not None:
            share = share**fixed.curve
        change = fixed.full * share - state["rotors"]
        part = torch.where(change > 0, fixed.rising, fixed.falling)
        if slow is not None:
            part = torch.where(slow, self._slow_thrust, part)
        state["rotors"] = rotors = state["rotors"] + part * change
        wrench = rotors @ self._wrench
        if slow is not None:
            state["set_point"] = point = state["set_point"] + self._slow_rate * (turn - state["set_point"])
            torque = (self._slow_gain * (point - rates)).clamp(-self._slow_limit, self._slow_limit)
            wrench = torch.cat([wrench[..., :1], torch.where(slow, torque, wrench[..., 1:])], dim=-1)
        return wrench

    @property
    def gyro_memory(self) -> float:
        """What each of the gyroscope's two inner values holds of a rate that stays, 1."""
        return 1.0 / (1.0 + self._gyro[2] + self._gyro[3])

    def thrust(self) -> Tensor:
        """Thrust (W, N) N of all rotors of each robot, now."""
        return self.state["rotors"].sum(-1)

    def _signals(self, thrust: Tensor, out: Tensor) -> Tensor:
        """Signals (W, N, R) of the rotors for `thrust` (W, N, 1) N and outputs (W, N, 3) of the axes."""
        loop, (offset, exponent) = self.loop, self.loop.curve
        share = (thrust / (self._full * self._mix.shape[-1])).clamp(min=0.0)
        common = (share ** (1.0 / exponent) - offset) / (1.0 - offset)
        if not loop.yaw_yields:
            signal = common + out @ self._mix
            return (signal - _excess(signal)).clamp(loop.idle, 1.0)
        around_xy, around_z = out.split((2, 1), -1)
        tilt, yaw = around_xy @ self._tilt, around_z @ self._yaw
        common = common - _excess(common + tilt)
        lowest = tilt.amin(-1, keepdim=True).clamp(max=-1e-6)
        tilt = tilt * (common / -lowest).clamp(0.0, 1.0)
        signal = common + tilt
        room = torch.where(yaw > 0, 1.0 + YAW_ROOM - signal, signal)
        signal = signal + yaw * (room / yaw.abs().clamp(min=1e-6)).amin(-1, keepdim=True).clamp(0.0, 1.0)
        return (signal - _excess(signal)).clamp(loop.idle, 1.0)

    def _share_of_thrust(self, signal: Tensor) -> Tensor:
        offset, exponent = self.loop.curve
        return signal if exponent == 1.0 and not offset else (offset + (1.0 - offset) * signal) ** exponent

    def _filtered(self, name: str, low_pass: tuple[float, ...], value: Tensor) -> Tensor:
        """`value` (W, N, 3) behind a two-pole low-pass, whose two last inner values are kept."""
        b0, b1, a1, a2 = low_pass
        one, two = self.state[name].split(3, -1)
        new = value - a1 * one - a2 * two
        self.state[name] = torch.cat([new, one], dim=-1)
        return b0 * (new + two) + b1 * one


def _excess(signal: Tensor) -> Tensor:
    """By how much the largest signal of a robot is out of range, (W, N, 1)."""
    return (signal.amax(-1, keepdim=True) - 1.0).clamp(min=0.0)


def _low_pass(cutoff_hz: float, dt_s: float) -> tuple[float, float, float, float]:
    """Coefficients b0 = b2, b1, a1, a2 of Butterworth's low-pass of second order, by the bilinear transform."""
    warped = tan(pi * cutoff_hz * dt_s)
    scale = 1.0 + 2.0**0.5 * warped + warped**2
    b0 = warped**2 / scale
    return b0, 2.0 * b0, 2.0 * (warped**2 - 1.0) / scale, (1.0 - 2.0**0.5 * warped + warped**2) / scale
