"""What a multirotor's firmware and rotors make of thrust and body rates, at the firmware's own rate.

It is computed between physics steps, in torch, and so on every engine alike. One member of the family is the loop that
the robot's model has by itself, slow and critically damped, for the drones that are to fly by it. In memory axes and
rotors come first, (A, W, N): an operation runs over all robots at once, where it would stop after every few numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, pi, tan

import mujoco
import numpy as np
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


def take_drag(model: mujoco.MjModel, group: GroupIndex) -> float:
    """Make drag damping of the free joints: as actuators on sites it took a third of the engine's step.

    That is along the world's axes, as on a level drone; what a tilted one lacks is in `RateLoops.force`, which has to
    know what is returned: by how much, N s/m, drag along the rotors' axis is above that across. Drag that is not the
    same all around this axis stays as it is.
    """
    on_site = np.flatnonzero(model.actuator_trntype == mujoco.mjtTrn.mjTRN_SITE)
    site = model.actuator_trnid[on_site, 0]
    plain = (model.site_pos[site] == 0.0).all(-1) & (model.site_quat[site] == [1.0, 0.0, 0.0, 0.0]).all(-1)
    body = np.where(plain, model.site_bodyid[site], -1)
    per_axis = -model.actuator_biasprm[on_site, 2, None] * model.actuator_gear[on_site, :3] ** 2
    drag = np.array([per_axis[body == base].sum(0) for base in group.base_body])
    across, along = drag[0, 0], drag[0, 2]
    if (drag != [across, across, along]).any():
        return 0.0
    model.dof_damping[group.base_qvel[:, :3]] += [across, across, along]
    ours = np.isin(body, group.base_body)
    model.actuator_biasprm[on_site[ours], 2] = 0.0
    model.actuator_trntype[on_site[ours]] = mujoco.mjtTrn.mjTRN_JOINT  # whose place takes no search
    model.actuator_trnid[on_site[ours], 0] = model.body_jntadr[body[ours]]
    if not model.actuator_gainprm.any() and not model.actuator_biasprm.any():
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    return float(along - across)


@dataclass(frozen=True)
class Fixed:
    """What several time steps have in common, (axes or rotors, W, N)."""

    gain: tuple[Tensor, ...]  # of the three parts of the PID
    rising: Tensor  # part of the way that rotors go in a time step
    falling: Tensor
    full: Tensor  # thrust, N, of each rotor at a share of 1
    curve: Tensor | None  # None: 1 everywhere
    slow: Tensor | None  # None: nowhere


class RateLoops:
    """Rate loops and R rotors of N robots in W worlds. What changes from step to step is in `state`.

    `slow` robots fly by the model's own loop; gains, lag and trim are factors on what the robot's spec says.
    """

    def __init__(self, group: GroupIndex, own: OwnLoop, dt_s: float, worlds: int, more_drag: float = 0.0) -> None:
        """`own` is what `slow` robots have; time steps of `dt_s`. For `more_drag` see `take_drag`."""
        flight = group.robot.flight
        assert flight is not None and flight.rate_loop is not None
        self.loop = loop = flight.rate_loop
        self.dt, self.more_drag = dt_s, more_drag
        count, (w, n) = len(flight.rotors_xy_m), (worlds, group.num_robots)
        x, y = torch.tensor(flight.rotors_xy_m).T
        spin = torch.sign(x * y)
        mix = torch.stack([y.sign(), -x.sign(), spin], dim=0) * torch.tensor(loop.shares).unsqueeze(-1)  # (3, R)
        self._mix, self._tilt, self._yaw = mix.T.contiguous(), mix[:2].T.contiguous(), mix[2:].T.contiguous()
        self._wrench = torch.stack([torch.ones(count), y, -x, spin * loop.torque_ratio_m], dim=0)  # (4, R)
        self._hover = flight.hover_thrust_n / count
        self._straight = loop.curve == (0.0, 1.0)  # a signal is a share of the thrust
        self._full = group.robot.channels[0].high / count
        self._given = group.robot.overlay.get("thrust", 1.0)  # of what is asked, by this one robot's rotors

        def of_axes(values: Sequence[float]) -> Tensor:
            return torch.tensor(values).view(3, 1, 1).expand(3, w, n).contiguous()

        self._gains = [of_axes(part) for part in (loop.proportional, loop.integral, loop.derivative)]
        self._limit = of_axes([-most for most in loop.integral_limit]), of_axes(loop.integral_limit)
        self._gyro = _low_pass(loop.gyro_cutoff_hz, self.dt)
        self._bend = _low_pass(loop.derivative_cutoff_hz, self.dt) if loop.derivative_cutoff_hz else None
        self._slow_gain = of_axes(own.gain)
        self._slow_limit = of_axes([-most for most in own.limit]), of_axes(own.limit)
        self._slow_rate = 1.0 - exp(-dt_s / own.rate_lag_s)  # part of the way that a lag goes in a time step
        self._slow_thrust = 1.0 - exp(-dt_s / own.thrust_lag_s)
        zeros = {"gyro": 6, "bend": 6 * (self._bend is not None), "last": 3, "sum": 3, "set_point": 3, "rotors": count}
        ones = {"gain": 3, "lag": 1, "trim": count}
        self._now = {
            **{name: torch.zeros(size, w, n) for name, size in zeros.items()},  # rotors: thrust, N
            **{name: torch.ones(size, w, n) for name, size in ones.items()},  # gain: of the three parts of the PID
            "slow": torch.zeros(1, w, n, dtype=torch.bool),
        }

    @property
    def state(self) -> dict[str, Tensor]:
        """What is remembered and how each robot is, (W, N, ...), in a dict of its own.

        Its tensors are those of now, to be written to; steps replace them.
        """
        slow = self._now["slow"][0]
        return {**{name: _last(held) for name, held in self._now.items()}, "slow": slow}

    @state.setter
    def state(self, state: Mapping[str, Tensor]) -> None:
        apart = {**state, "slow": state["slow"].unsqueeze(-1)}
        self._now = {name: _first(held) for name, held in apart.items()}

    def start(self, worlds: Tensor) -> None:
        """Forget the past of `worlds` (K,): rotors carry the drone, and nothing turns."""
        for name in ("gyro", "bend", "last", "sum", "set_point"):
            self._now[name][:, worlds] = 0.0
        self._now["rotors"][:, worlds] = self._hover

    def fixed(self, strength: Tensor, curve: Tensor) -> Fixed:
        """What the next time steps have in common, up to the next `start` or change of `state`; see `step`."""
        state, slow = self._now, self._now["slow"]
        gain = tuple(part * gains for part, gains in zip(state["gain"], self._gains, strict=True))
        rising, falling = (
            torch.where(slow, self._slow_thrust, 1.0 - torch.exp(-self.dt / (lag * state["lag"])))
            for lag in self.loop.lag_s
        )
        full = self._full * self._given * _first(strength) * state["trim"]
        bent, slowed = may_hold(curve != 1.0), may_hold(slow)
        return Fixed(gain, rising, falling, full, _first(curve) if bent else None, slow if slowed else None)

    def force(self, wrench: Tensor, up: Tensor, velocity: Tensor) -> Tensor:
        """Force N, world, and torque N m, body, (W, N, 6) of a `wrench` (W, N, 4) and the drag that `take_drag` lacks.

        The rotors' axis `up` (W, N, 3) and the velocity (W, N, 3) m/s are those of the world.
        """
        (thrust, torque), axis, speed = _first(wrench).split((1, 3)), _first(up), _first(velocity)
        force = axis * torch.sub(thrust, (axis * speed).sum(0, keepdim=True), alpha=self.more_drag)
        force[2].add_(speed[2], alpha=self.more_drag)
        return _last(torch.cat([force, torque]))

    def step(self, target: Tensor, rates: Tensor, strength: Tensor, curve: Tensor) -> Tensor:
        """Thrust N and torque N m (W, N, 4), body, for the next time step.

        Set-points `target` (W, N, 4) N and rad/s, true `rates` (W, N, 3) rad/s; `strength` (W, N, 1) and the exponent
        `curve` (W, N, 1) are what rotors make of what they are commanded.
        """
        return self.step_fixed(target, rates, self.fixed(strength, curve))

    def step_fixed(self, target: Tensor, rates: Tensor, fixed: Fixed) -> Tensor:
        """As `step`. What is new in here is worked on in place: the time goes into the number of operations."""
        state = self._now
        asked, turn = _first(target).split((1, 3))
        rates = _first(rates)
        new = {}
        measured, new["gyro"] = _filtered(self._gyro, state["gyro"], rates)
        error = turn - measured
        new["sum"] = torch.add(state["sum"], error, alpha=self.dt).clamp_(*self._limit)
        bend, new["last"] = (state["last"] - measured).div_(self.dt), measured
        if self._bend is not None:
            bend, new["bend"] = _filtered(self._bend, state["bend"], bend)
        gain, slow = fixed.gain, fixed.slow
        out = (gain[0] * error).addcmul_(gain[1], new["sum"]).addcmul_(gain[2], bend)
        asked = (asked / (self._full * len(fixed.full))).clamp_(min=0.0)
        share = self._shares(asked, out.clamp_(-self.loop.output_limit, self.loop.output_limit))
        if slow is not None:
            share = torch.where(slow, asked, share)
        if fixed.curve is not None:
            share = share**fixed.curve
        change = (fixed.full * share).sub_(state["rotors"])
        part = torch.where(change > 0, fixed.rising, fixed.falling)
        new["rotors"] = torch.addcmul(state["rotors"], part, change)
        wrench = _mixed(self._wrench, new["rotors"])
        if slow is not None:
            new["set_point"] = point = torch.lerp(state["set_point"], turn, self._slow_rate)
            torque = (point - rates).mul_(self._slow_gain).clamp_(*self._slow_limit)
            wrench = torch.cat([wrench[:1], torch.where(slow, torque, wrench[1:])])
        self._now = state | new
        return _last(wrench)

    @property
    def gyro_memory(self) -> float:
        """What each of the gyroscope's two inner values holds of a rate that stays, 1."""
        return 1.0 / (1.0 + self._gyro[2] + self._gyro[3])

    def thrust(self) -> Tensor:
        """Thrust (W, N) N of all rotors of each robot, now."""
        return self._now["rotors"].sum(0)

    def _shares(self, asked: Tensor, out: Tensor) -> Tensor:
        """Shares (R, W, N) of the rotors' thrust for `asked` (1, W, N) of it all and outputs (3, W, N) of the axes."""
        if self._straight:
            return self._signals(asked, out)
        offset, exponent = self.loop.curve
        signal = self._signals((asked ** (1.0 / exponent) - offset) / (1.0 - offset), out)
        return (offset + (1.0 - offset) * signal) ** exponent

    def _signals(self, common: Tensor, out: Tensor) -> Tensor:
        """Signals (R, W, N) of the rotors for what is `common` (1, W, N) to them and outputs (3, W, N) of the axes."""
        loop = self.loop
        if not loop.yaw_yields:
            signal = _mixed(self._mix, out).add_(common)
            return signal.sub_(_excess(signal)).clamp_(loop.idle, 1.0)
        tilt, yaw = _mixed(self._tilt, out[:2]), _mixed(self._yaw, out[2:])
        common = common - _excess(common + tilt)
        lowest = tilt.amin(0, keepdim=True).clamp(max=-1e-6)
        tilt = tilt * (common / -lowest).clamp(0.0, 1.0)
        signal = common + tilt
        room = torch.where(yaw > 0, 1.0 + YAW_ROOM - signal, signal)
        signal = signal + yaw * (room / yaw.abs().clamp(min=1e-6)).amin(0, keepdim=True).clamp(0.0, 1.0)
        return (signal - _excess(signal)).clamp(loop.idle, 1.0)


def _first(tensor: Tensor) -> Tensor:
    """(W, N, A) -> (A, W, N), in memory too."""
    return tensor.movedim(-1, 0).contiguous()


def _last(tensor: Tensor) -> Tensor:
    """(A, W, N) -> (W, N, A), where it lies."""
    return tensor.movedim(0, -1)


def _mixed(matrix: Tensor, values: Tensor) -> Tensor:
    """`matrix` (B, A) times each robot's `values` (A, W, N): (B, W, N)."""
    return (matrix @ values.flatten(1)).view(-1, *values.shape[1:])


def _filtered(low_pass: tuple[float, ...], inner: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """`value` (3, W, N) behind a two-pole low-pass, and the last two inner values, which were `inner` (6, W, N)."""
    b0, b1, a1, a2 = low_pass
    one, two = inner.split(3)
    new = torch.add(value, one, alpha=-a1).sub_(two, alpha=a2)
    return (new + two).mul_(b0).add_(one, alpha=b1), torch.cat([new, one])


def _excess(signal: Tensor) -> Tensor:
    """By how much the largest signal of a robot is out of range, (1, W, N)."""
    return signal.amax(0, keepdim=True).sub_(1.0).clamp_(min=0.0)


def _low_pass(cutoff_hz: float, dt_s: float) -> tuple[float, float, float, float]:
    """Coefficients b0 = b2, b1, a1, a2 of Butterworth's low-pass of second order, by the bilinear transform."""
    warped = tan(pi * cutoff_hz * dt_s)
    scale = 1.0 + 2.0**0.5 * warped + warped**2
    b0 = warped**2 / scale
    return b0, 2.0 * b0, 2.0 * (warped**2 - 1.0) / scale, (1.0 - 2.0**0.5 * warped + warped**2) / scale
