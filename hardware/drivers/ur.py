"""Driver of a Universal Robots UR5e: joint targets by servoj, over RTDE.

Needs no SDK: the wheels of ur-rtde end with Python 3.12. A thread answers every state of the arm, 500 a second, with
a set-point, which moves as the drive of the robot's specification would move the joint.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from hardware.drivers import DriverError
from hardware.drivers.addresses import lone_host
from hardware.drivers.setpoints import STEADY_S, measured_jump, next_setpoint, out_of_range
from hardware.drivers.ur_link import Dashboard, Rtde, send_program
from hardware.drivers.ur_packets import CYCLE_S, JOINTS, PLAYING, Said, hindrance, program
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, DeviceStatus, RobotState

MODELS = ("UR5", "UR5e")  # as the dashboard calls a UR5e; arms of the CB series have an older PolyScope
COAST_S = 0.1  # without a target for so long the set-point comes to rest
GAP_S = 0.02  # after so long without a state the arm is taken to rest at its last set-point
CLOCK_S = 0.5  # the quickest state of such a time tells what the arm's clock shows
START_S, STOP_S = 2.0, 1.0
ASK_S = 0.5  # between two questions to the dashboard, and two attempts to connect
LONGEST_SESSION = 2**31 - 1
UNTAKEN = 150  # set-points of 0.3 s that our program did not take; after 0.2 s without any its watchdog has ended it
OLD_S = 0.1  # of a state, from which on it does not say where the arm is
LARGEST_M = 0.5  # of a payload's centre of mass from the flange, along an axis: beyond it mm are meant


class UrDriver:
    """One UR5e. Threads hold its links; calls come from another one and do not wait, but for connect, arm and stop."""

    needed_hz = 1.0 / CYCLE_S  # each state is answered with a set-point

    def __init__(
        self, spec: RobotSpec, host: str, payload_kg: float = 0.0, payload_m: Sequence[float] = (0.0, 0.0, 0.0)
    ):
        """`payload_m` (3,) is the payload's centre of mass from the flange. DriverError for another robot or a load
        that the robot's specification does not allow.
        """
        if spec.name != "ur5e":
            raise DriverError(f"driver ur moves robots of the type ur5e, not {spec.name!r}")
        if not 0.0 <= payload_kg <= spec.payload_kg:
            raise DriverError(f"payload_kg is {payload_kg}: allowed is from 0 to {spec.payload_kg:g}")
        try:
            known = (np.abs(np.array(payload_m, dtype=float)) <= LARGEST_M).tolist() == [True] * 3
        except (TypeError, ValueError):  # of a text, or lists of unlike lengths
            known = False
        if not known:
            raise DriverError(
                f"payload_m is {payload_m}: expected x, y and z in m, each at most {LARGEST_M:g} m from the flange"
            )
        self._host, self._payload_kg, self._payload_m = host, payload_kg, tuple(map(float, payload_m))
        names = [joint.name for joint in spec.joints]
        self._order = [names.index(name) for name in JOINTS]  # of the arm's lists, in ours
        joints = [spec.joints[i] for i in self._order]
        self._low, self._high = np.array(spec.command_low), np.array(spec.command_high)
        self._rate = np.array([joint.stiffness / joint.damping for joint in joints])  # 1/s, of the specification
        self._max_velocity = np.array([joint.max_velocity for joint in joints])
        self._acceleration = min(joint.max_acceleration for joint in joints)
        self._link: Rtde | None = None
        self._said: Said | None = None
        self._said_s = -np.inf  # when it came (monotonic, s)
        self._offset_s = (np.inf, np.inf)  # from the arm's clock to ours: least of the last period, and of this one
        self._period_s = -np.inf  # when this period began
        self._session = 0  # whose set-points go to the arm; 0 for those that no program follows
        self._count = self._taken = self._taken_at = 0  # sent; the arm's program took; sent when it took that
        self._armed = False
        self._jumped: tuple[float, str] = -np.inf, ""  # when a joint was measured where it cannot have gone, and which
        self._fault = ""
        self._lost = "no link"
        self._control = ""
        self._target = self._setpoint = self._velocity = np.zeros(6)
        self._heard_s = -np.inf  # when the last target came
        self._lock = threading.Lock()  # over what `arm`, `disarm`, `write` and the thread change
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=run, name="ur", daemon=True) for run in (self._run, self._run_control)]

    @staticmethod
    def device(host: str, **_: object) -> str:
        """Which one these options mean, see `hardware.drivers.device_of`."""
        return lone_host(host)

    def connect(self) -> None:
        """Open the links; moves nothing, and runs no program. DriverError in one line."""
        try:
            dashboard = Dashboard(self._host)
            try:
                if (model := dashboard.ask("get robot model")) not in MODELS:
                    raise DriverError(f"it is a {model[:40]}, not a UR5e")
                self._hear_control(dashboard)
            finally:
                dashboard.close()
            self._link = Rtde(self._host)
            self._hear(self._link.receive())
        except (OSError, DriverError) as error:
            raise DriverError(f"UR5e at {self._host}: {error}") from error
        for thread in self._threads:
            thread.start()

    def arm(self) -> None:
        """Run the program that follows set-points, the first of which is where the arm is."""
        self.disarm()
        self._fault = self.read_status().fault or self._unknown_place()
        if self._fault:
            return
        assert self._said is not None
        session = random.randint(1, LONGEST_SESSION)
        with self._lock:
            self._target = self._setpoint = self._said.q
            self._velocity, self._session = np.zeros(6), session
        try:
            self._wait(lambda said: said.inputs == session, "set-points do not reach it")
            with send_program(self._host, program(session, self._payload_kg, self._payload_m)):
                self._wait(
                    lambda said: said.session == session and said.runtime_state == PLAYING,
                    "its program does not start: see its log on the teach pendant",
                )
            said = np.array([self._said.payload_kg, *self._said.payload_m])
            if not np.allclose(said, [self._payload_kg, *self._payload_m], atol=1e-4):
                raise DriverError(f"its payload is {said[0]:g} kg at {said[1:]} m after another was set")
        except (OSError, DriverError) as error:
            with self._lock:
                self._session, self._fault = 0, str(error)
            return
        with self._lock:
            self._armed = self._session == session

    def _unknown_place(self) -> str:
        """Why it is not known where the arm is, or which joint is where it cannot be; the first set-point is there."""
        assert self._said is not None
        if (silent_s := time.monotonic() - self._said_s) > OLD_S:
            return f"its last state is {silent_s:.1f} s old, {OLD_S:g} at most"
        if beyond := out_of_range(JOINTS, self._said.q, self._low[self._order], self._high[self._order]):
            return beyond
        jumped_s, jump = self._jumped
        return jump if time.monotonic() < jumped_s + STEADY_S else ""

    def disarm(self) -> None:
        """Its program brakes and ends; the arm's controller holds it."""
        with self._lock:
            self._session, self._armed, self._fault = 0, False, ""

    def read(self) -> RobotState:
        assert self._said is not None
        said, zero = self._said, np.zeros(3, np.float32)
        state = RobotState(
            joint_pos=np.empty(6, np.float32),
            joint_vel=np.empty(6, np.float32),
            base_pos=zero,
            base_quat=np.array([1.0, 0.0, 0.0, 0.0], np.float32),
            base_lin_vel=zero,
            base_ang_vel=zero,
            age=np.float32(max(0.0, time.monotonic() - said.timestamp - min(self._offset_s))),
        )
        state.joint_pos[self._order], state.joint_vel[self._order] = said.q, said.qd
        return state

    def read_firmware(self) -> str:
        return f"PolyScope {self._link.version}" if self._link is not None else ""

    def read_status(self) -> DeviceStatus:
        """What hinders the arm now; or else what took it from us, until its shield has heard of that."""
        mode = hindrance(self._said) if self._said is not None else ""
        return DeviceStatus(self._armed, self._lost or mode or self._control or self._fault)

    def write(self, command: ActuatorCommand) -> ActuatorCommand:
        if not np.isfinite(command.target).all():
            raise ValueError(f"target {command.target}: every number must be finite")
        target = np.clip(command.target, self._low, self._high)
        with self._lock:
            self._target, self._heard_s = target[self._order].astype(float), time.monotonic()
        return ActuatorCommand(target)

    def stop(self) -> None:
        """Bring the arm to rest by its program, and close the links."""
        self.disarm()
        if self._threads[0].is_alive():
            until_s = time.monotonic() + STOP_S
            while not self._lost and self._said and self._said.runtime_state == PLAYING and time.monotonic() < until_s:
                self._ended.wait(0.005)
        self._ended.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_S)
        if self._link is not None:
            self._link.close()

    def _wait(self, happens: Callable[[Said], bool], otherwise: str) -> None:
        """Until it `happens` on the arm; DriverError when it does not."""
        until_s = time.monotonic() + START_S
        while self._said is None or not happens(self._said):
            if time.monotonic() > until_s:
                raise DriverError(otherwise)
            self._ended.wait(0.002)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                if self._link is None:
                    self._link = Rtde(self._host)
                self._hear(self._link.receive())
                self._link.send(*self._next())
            except (OSError, DriverError) as error:
                self._lost = f"link lost: {error}"
                self._let_go(self._lost)
                if self._link is not None:
                    self._link.close()
                self._link = None
                self._ended.wait(ASK_S)

    def _run_control(self) -> None:
        """Ask whether the arm is in remote control: RTDE does not say so."""
        dashboard = None
        while not self._ended.is_set():
            try:
                dashboard = dashboard or Dashboard(self._host)
                self._hear_control(dashboard)
            except OSError as error:
                self._control = f"dashboard: {error}"
                if dashboard is not None:
                    dashboard.close()
                dashboard = None
            if self._control:
                self._let_go(self._control)
            self._ended.wait(ASK_S)
        if dashboard is not None:
            dashboard.close()

    def _hear(self, said: Said) -> None:
        now_s = time.monotonic()
        if said.timestamp < (self._said.timestamp if self._said else -np.inf):  # the controller began again
            self._offset_s = (np.inf, np.inf)
        if now_s > self._period_s + CLOCK_S:
            self._offset_s, self._period_s = (self._offset_s[1], np.inf), now_s
        self._offset_s = (self._offset_s[0], min(self._offset_s[1], now_s - said.timestamp))
        if now_s > self._said_s + GAP_S:
            self._velocity = np.zeros(6)
        if self._said is not None:
            place, most = (self._said.q, said.q), self._max_velocity
            if jump := measured_jump(JOINTS, *place, most, now_s - self._said_s):
                self._jumped = now_s, jump
        self._said, self._said_s, self._lost = said, now_s, ""
        # Ours hands numbers back in their order; what jumps, or begins again, is another program's.
        if 0 < (said.taken - self._taken) % LONGEST_SESSION <= UNTAKEN or not self._armed:
            self._taken, self._taken_at = said.taken, self._count
        if reason := hindrance(said) or self._without_program(said):
            self._let_go(reason)

    def _without_program(self, said: Said) -> str:
        """Why our program does not run any more; empty while it does."""
        if said.runtime_state != PLAYING:
            return "its program was stopped, on the teach pendant or because set-points did not come for 0.2 s"
        if self._armed and (said.session != self._session or self._count - self._taken_at > UNTAKEN):
            return "another program took the arm"
        return ""

    def _hear_control(self, dashboard: Dashboard) -> None:
        remote = dashboard.ask("is in remote control") == "true"
        self._control = "" if remote else "local control: choose remote control on the teach pendant"

    def _let_go(self, reason: str) -> None:
        """The arm is not ours any more: only a person gives it back."""
        with self._lock:
            if self._armed:
                self._armed, self._session, self._fault = False, 0, reason

    def _next(self) -> tuple[int, int, np.ndarray]:
        """Session, count and set-point of this cycle. One that was missed is not made up for."""
        with self._lock:
            self._count = self._count % LONGEST_SESSION + 1
            if self._session == 0:
                assert self._said is not None
                self._setpoint, self._velocity = self._said.q, np.zeros(6)
            else:
                at_rest = time.monotonic() > self._heard_s + COAST_S
                target = self._setpoint if at_rest else self._target
                self._setpoint, self._velocity = next_setpoint(
                    self._setpoint, self._velocity, target, self._rate, self._max_velocity, self._acceleration, CYCLE_S
                )
            return self._session, self._count, self._setpoint
