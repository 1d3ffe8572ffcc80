"""Driver of a Unitree G1 with 29 motors: joint targets on rt/lowcmd, by Cyclone DDS. `pip install "phalanx[g1]"`.

The vendor's motion service has to be released before. Position and velocity are not measured: height and velocity over
the ground are those of the lower sole, which is taken to stand, and the place drifts.
"""

import math
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hardware.drivers import DriverError
from hardware.drivers.threads import beats, in_one_line
from hardware.drivers.unitree_g1_guard import Guard
from hardware.drivers.unitree_g1_others import Others
from hardware.drivers.unitree_g1_packets import (
    CHARGE_AT,
    JOINTS,
    command_bytes,
    damping_bytes,
    damping_keys,
    motors_of,
    state_of,
)
from hardware.drivers.unitree_g1_states import States, motor_fault
from hardware.legs import LegOdometry
from hardware.names import nearest
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Battery, DeviceStatus, RobotState

PERIOD_S = 0.002  # of the driver's own thread: the rate of a G1's state
RAMP_S = 0.01  # in which a new target is reached; on average it is a delay of half of that
SILENT_S = 0.2  # without a target for so long the robot is damped
FIRST_S = 1.0  # the same from arming to the first target
LAST_S = 0.1  # of damping before the driver leaves: one message alone may be lost
LEGS_S = 0.01  # between two looks at the legs
CHARGE_S = 0.5  # between two looks at the battery
ALONE_S = 0.5  # for so long, before it joins, another robot and another program are listened for
FEWER = {1: 23, 3: 27, 4: 23, 9: 14}  # mode_machine -> joints: g1_29dof_example.cpp, and unitree_mujoco for 4


class UnitreeG1Driver:
    """One G1. A thread listens, and repeats and ramps the targets; calls come from another one and do not wait.

    But for `connect` and `stop`.
    """

    unmeasured = ("base_pos", "base_lin_vel")
    last_resort = "hold it by its gantry, L2+B on its remote, then its battery switch: what its motors do is not known"
    stops_disarmed = True  # by its own damping, without the stiffness that targets of a stopped shield still have

    def __init__(self, spec: RobotSpec, interface: str, domain: int = 0, connect_s: float = 10.0):
        """`interface`: the network interface to the robot, such as eth0; DDS `domain` 0 is that of a real one.

        DriverError for another robot, or numbers that cannot be.
        """
        if spec.name != "g1":
            raise DriverError(f"driver unitree_g1 moves robots of the type g1, not {spec.name!r}")
        if not 0 <= domain <= 230:
            raise DriverError(f"domain is {domain}: expected 0 to 230")
        self._where = f"G1 at {interface}"
        self._interface, self._domain, self._connect_s = interface, domain, connect_s
        try:
            self._motors = motors_of(spec.joint_names)
        except ValueError as error:
            raise DriverError(str(error)) from error
        self._names = spec.joint_names
        self._channel = np.array(spec.joint_of_channel)
        self._low, self._high = np.array(spec.command_low), np.array(spec.command_high)
        self._kp = np.array([joint.stiffness for joint in spec.joints])
        self._kd = np.array([joint.damping for joint in spec.joints])
        self._legs = LegOdometry(spec, [name for name in spec.frames if name.endswith("_foot")])
        self._legs_s = -math.inf  # when the legs were looked at
        self._link: Any = None
        self._guard: Guard | None = None
        self._states = States()
        self._charge, self._charge_s = math.nan, 0.0  # of the battery, and when that was looked at
        self._others: Others | None = None
        self._held_up_s = 0.0  # for which the driver's own thread did not run just now
        self._starts = 0  # of the robot, when it was armed
        self._mode_machine = 0
        self._armed = self._damps = False
        self._fault = ""  # that took the robot from us
        self._from = self._target = np.zeros(len(JOINTS))  # (J,) rad
        self._written_s = self._due_s = 0.0  # when the last target came; by when the next one has to
        self._lock = threading.Lock()  # over all that decides what is sent
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="unitree-g1", daemon=True)

    @staticmethod
    def device(interface: str, domain: int, **_: object) -> str:
        """Which one these options mean, see `hardware.drivers.device_of`."""
        return f"{interface.strip()}, domain {domain}"

    def connect(self) -> None:
        """Join the robot's topics and hear it; nothing is sent yet. DriverError in one line."""
        self._join()
        self._thread.start()
        self._guard = Guard(self._interface, self._domain, self._link.token, self._mode_machine)
        if not self._guard.is_ready(self._connect_s):
            self._refuse("the process that damps it without this driver does not begin")

    def listen(
        self, seconds: float, on_time: Callable[[float], object] = lambda now_s: None
    ) -> list[tuple[float, RobotState]]:
        """What it measures for `seconds`, each with when it came (monotonic, s); nothing is sent.

        In place of `connect`. DriverError in one line, also where another program commands the robot.
        """
        self._join(listens=True)
        found, begun_s, last_s = [], time.monotonic(), self._states.measured_s
        try:
            while (passed_s := time.monotonic() - begun_s) < seconds:
                self._listen()
                if self._states.measured_s > last_s:
                    last_s = self._states.measured_s
                    found.append((last_s, state_of(self._states.newest, self._motors)))
                on_time(passed_s)
                time.sleep(0.5 * PERIOD_S)
            self._check_alone()
        finally:
            self.stop()
        return found

    def _join(self, listens: bool = False) -> None:
        """Hear the robot, and where this does not only listen, be heard; DriverError in one line."""
        try:
            from hardware.drivers.unitree_g1_dds import DRIVER, LISTENER, Link
        except ImportError as error:
            raise DriverError(f'driver unitree_g1: {error}; install it by: pip install "phalanx[g1]"') from error
        has = [name for _, name in socket.if_nameindex()]
        if self._interface not in has:
            near = nearest(self._interface, has)
            raise DriverError(f"{self._where}: no such network interface; there are {', '.join(has)}{near}")
        try:
            self._link = Link(self._interface, self._domain, role=LISTENER if listens else DRIVER)
        except Exception as error:  # Cyclone's have no base of their own
            raise DriverError(f"{self._where}: {in_one_line(error)}") from error
        self._others = Others(self._link, self._states)
        until_s = time.monotonic() + self._connect_s
        while self._states.newest is None or not (listens or self._link.is_heard()):
            self._listen()
            if (now_s := time.monotonic()) > until_s:
                missing = self._states.silence(now_s) if self._states.newest is None else "no reader of rt/lowcmd"
                self._refuse(f"{missing} within {self._connect_s:g} s")
            time.sleep(0.01)
        alone_s = time.monotonic() + ALONE_S
        while time.monotonic() < alone_s:
            self._listen()
            time.sleep(PERIOD_S)
        self._mode_machine = int(self._states.newest["mode_machine"])
        if joints := FEWER.get(self._mode_machine):
            self._refuse(f"mode_machine is {self._mode_machine}: a G1 with {joints} joints, {len(JOINTS)} are due")
        self._check_alone()

    def _check_alone(self) -> None:
        """DriverError where it is not the only robot, or another program commands it."""
        assert self._others is not None
        if reason := self._others.refusal(time.monotonic()):
            self._refuse(reason)

    def arm(self) -> None:
        """Hold the joints where they are, and obey from now on; not with a fault of the device."""
        if self._device_fault():
            return
        pos = state_of(self._states.newest, self._motors).joint_pos.astype(float)
        assert self._guard is not None
        self._guard.watch(True)
        with self._lock:
            self._from = self._target = pos
            self._written_s = time.monotonic()
            self._due_s = self._written_s + FIRST_S
            self._fault, self._armed, self._damps, self._starts = "", True, True, self._states.starts

    def disarm(self) -> None:
        """Damp it: a G1 has no brakes."""
        with self._lock:
            self._armed, self._fault = False, ""

    def read(self) -> RobotState:
        found, measured_s = self._states.newest, self._states.measured_s
        state = state_of(found, self._motors)
        if measured_s - self._legs_s >= LEGS_S:
            self._legs.update(state, measured_s - self._legs_s)
            self._legs_s = measured_s
        state.base_pos, state.base_lin_vel = self._legs.pos.copy(), self._legs.lin_vel.copy()
        state.age = np.float32(max(0.0, time.monotonic() - measured_s))
        return state

    def read_battery(self) -> Battery:
        return Battery(self._charge)

    def read_firmware(self) -> str:
        return f"mode_machine {self._mode_machine}"

    def read_status(self) -> DeviceStatus:
        """What took the robot from us, until its shield has heard of it, and what it says of itself."""
        return DeviceStatus(self._armed, self._fault or self._device_fault())

    def write(self, command: ActuatorCommand) -> ActuatorCommand:
        target = np.clip(command.target, self._low, self._high)
        now_s = time.monotonic()
        with self._lock:
            self._from = self._at(now_s)
            self._target = self._from.copy()
            self._target[self._channel] = target
            self._written_s, self._due_s = now_s, now_s + SILENT_S
        return ActuatorCommand(target)

    def stop(self) -> None:
        """Damp it where it was ever armed, and leave: the last thing that it hears is damping."""
        self.disarm()
        if self._damps:
            time.sleep(LAST_S)
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        if self._guard is not None:
            self._guard.close()
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def _refuse(self, reason: str) -> None:
        self.stop()
        raise DriverError(f"{self._where}: {reason}")

    def _at(self, now_s: float) -> np.ndarray:
        """Positions (J,) rad to be sent at `now_s`."""
        share = min((now_s - self._written_s) / RAMP_S, 1.0)
        return self._from + share * (self._target - self._from)

    def _device_fault(self) -> str:
        """Why it does not obey, or must not be made to."""
        found, now_s = self._states.newest, time.monotonic()
        if silence := self._states.lost(now_s):
            return silence
        if found["mode_pr"]:
            return f"mode_pr is {found['mode_pr']}: ankles and waist are moved by their rods, not by pitch and roll"
        if found["mode_machine"] != self._mode_machine:
            return f"mode_machine has become {found['mode_machine']}, it was {self._mode_machine}"
        assert self._others is not None
        if other := self._others.take_part(now_s) if self._armed else self._others.may_take_part(now_s):
            return other
        if self._guard is not None and not self._guard.is_there:
            return "the process that damps it without this driver has ended"
        return motor_fault(found, self._motors, self._names)

    def _run(self) -> None:
        for passed_s in beats(PERIOD_S, self._ended):
            try:
                self._held_up_s = passed_s
                self._listen()
                self._send()
                if self._guard is not None:
                    self._guard.beat(time.monotonic())
            except Exception as error:  # of the network; this thread has to live on and say so
                self._fault = f"link lost: {in_one_line(error)}"

    def _listen(self) -> None:
        frames, now_s = self._link.states(), time.monotonic()
        for writer, data in frames:
            self._states.take(writer, data, now_s)
        if self._others is not None:
            self._others.listen(now_s)
        if now_s - self._charge_s > CHARGE_S:
            self._charge_s = now_s
            if (battery := self._link.battery()) is not None:
                self._charge = battery[CHARGE_AT] / 100.0

    def _send(self) -> None:
        """The targets while it is armed; damping once it has been, and is not any more."""
        now_s = time.monotonic()
        with self._lock:
            if self._armed and (reason := self._leave(now_s)):
                self._armed, self._fault = False, reason
            if not self._damps:
                return
            q = self._at(now_s) if self._armed else None
        if q is None:  # of another mode it takes nothing
            self._link.send(damping_bytes(int(self._states.newest["mode_machine"])))
        else:
            self._link.send(command_bytes(self._mode_machine, self._motors, q, self._kp, self._kd))

    def _leave(self, now_s: float) -> str:
        """Why the robot is to be damped now; or empty."""
        if keys := damping_keys(self._states.newest):
            return f"{keys} pressed on the remote"
        if self._held_up_s > SILENT_S:
            return f"this computer did not run its driver for {self._held_up_s:.1f} s"
        if now_s > self._due_s:
            return f"no target for {SILENT_S:g} s"
        if self._states.starts != self._starts:
            return "the robot has started again: its tick has gone back"
        return "" if self._others is None else self._others.take_part(now_s)
