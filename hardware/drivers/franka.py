"""Driver of a Franka Research 3 with its hand: joint targets over the Franka Control Interface, by franky.

`pip install "phalanx[franka]"`. The SDK's own thread closes a joint impedance loop at 1 kHz; this driver moves its
reference at 250 Hz as the drive of the robot's specification would move the joint.
"""

import threading
import time
from typing import Any

import numpy as np

from hardware.drivers import DriverError
from hardware.drivers.addresses import lone_host
from hardware.drivers.threads import beats, in_one_line
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, DeviceStatus, RobotState

PERIOD_S = 0.004  # of the driver's own thread
HAND_S = 0.02  # between two looks at the hand
LONGEST_STEP_S = 0.02  # of the reference, however long this thread did not run
SILENT_S = 0.1  # without a target for so long the reference comes to rest
ACCELERATION = 10.0  # rad/s^2, of the reference: the limit of every joint of an FR3 in Franka's documentation
# A joint that is faster than its limit is a reflex. Near the ends of its range that is sqrt(b (end - q)) - a, see
# computeUpperLimitsJointVelocity in rate_limiting.h of libfranka; the arm overshoots its reference.
SPEED_SHARE = 0.8
SPEED_A = np.array([0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35])  # rad/s
SPEED_B = np.array([12.0, 5.17, 7.0, 8.0, 34.0, 11.0, 34.0])  # rad/s^2
SPEED_LOW = np.array([-2.7501, -1.7918, -2.9065, -3.0481, -2.8101, 0.54092, -3.0196])  # rad
SPEED_HIGH = np.array([2.7501, 1.7918, 2.9065, -0.1458, 2.8101, 4.5205, 3.0196])  # rad
# Of Franka's example joint_impedance_control of libfranka: stable with the delay of its loop, as the specification's
# gains, those of the robot's internal controller, are not.
STIFFNESS = (600.0, 600.0, 600.0, 600.0, 250.0, 150.0, 50.0)  # N m/rad
DAMPING = (50.0, 50.0, 50.0, 50.0, 30.0, 25.0, 15.0)  # N m s/rad
GRIPPER_STEP_M = 0.001  # targets of the finger that differ by less are one
STOP_WITHIN_S = 3.0
REFLEX, NO_ERRORS = "reflex", "[]"
MODES = {
    "Guiding": "guided by hand",
    "Reflex": REFLEX,
    "UserStopped": "the user stop is pressed",
    "AutomaticErrorRecovery": "recovers from an error",
}


def speed_limits(q: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest speed (7,) rad/s of the reference at `q` (7,) rad, for joints with a limit of `most`."""
    down = np.sqrt(np.maximum(0.0, SPEED_B * (q - SPEED_LOW))) - SPEED_A
    up = np.sqrt(np.maximum(0.0, SPEED_B * (SPEED_HIGH - q))) - SPEED_A
    return -SPEED_SHARE * np.clip(down, 0.0, most), SPEED_SHARE * np.clip(up, 0.0, most)


def state_of(said: Any, width_m: float) -> RobotState:
    """What the arm says of itself (`franky.RobotState`), and how wide its hand is open, as a state of age 0."""
    zero = np.zeros(3, np.float32)
    return RobotState(
        joint_pos=np.array([*said.q, finger_of(width_m)], np.float32),
        joint_vel=np.array([*said.dq, 0.0], np.float32),
        base_pos=zero,
        base_quat=np.array([1.0, 0.0, 0.0, 0.0], np.float32),
        base_lin_vel=zero,
        base_ang_vel=zero,
        age=np.float32(0.0),
    )


def finger_of(width_m: float) -> float:
    """Where each finger is, m: both move, and the hand speaks of what is between them."""
    return 0.5 * width_m


def width_of(finger_m: float) -> float:
    """What the hand is asked for, m or m/s, where a finger is to be there or as fast."""
    return 2.0 * finger_m


class FrankaDriver:
    """One arm with its hand. A thread moves the reference and listens; calls come from another one and do not wait.

    But for `connect`, `arm`, which recovers from errors, and `stop`.
    """

    def __init__(self, spec: RobotSpec, host: str, realtime: bool = True):
        """`host` is the address of the arm's control unit. Without `realtime` any kernel will do, as for a simulation.

        DriverError for another robot.
        """
        if spec.name != "fr3":
            raise DriverError(f"driver franka moves robots of the type fr3, not {spec.name!r}")
        arm = spec.joints[:7]
        self._host, self._realtime = host, realtime
        self._low, self._high = np.array(spec.command_low), np.array(spec.command_high)
        self._rate = np.array([joint.stiffness / joint.damping for joint in arm])  # 1/s, of the specification's drive
        self._max_velocity = np.array([joint.max_velocity for joint in arm])
        self._finger = spec.joints[-1]
        self._width_m, self._finger_asked = np.nan, np.inf  # of the hand
        self._hand_asked = threading.Event()
        self._sdk: Any = None
        self._robot: Any = None
        self._gripper: Any = None
        self._motion: Any = None  # that moves the arm, None while it is not armed
        self._fault = ""
        self._mode = ""
        self._lost = ""  # why the link is gone
        self._state: tuple[float, RobotState] | None = None  # when it was measured (monotonic, s), and what
        self._target = self._reference = self._velocity = np.zeros(7)
        self._device_s = self._passed_s = 0.0  # the device's clock; how far it went since the state before
        self._heard_s = -np.inf  # when the last target came
        self._lock = threading.Lock()  # over the motion, its target and its reference
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=run, name="franka", daemon=True) for run in (self._run, self._run_hand)
        ]

    @staticmethod
    def device(host: str, **_: object) -> str:
        """Which one these options mean, see `hardware.drivers.device_of`."""
        return lone_host(host)

    def connect(self) -> None:
        """Open the links to arm and hand; DriverError in one line."""
        try:
            import franky
        except ImportError as error:
            raise DriverError(f'driver franka: {error}; install it by: pip install "phalanx[franka]"') from error
        self._sdk = franky
        enforced = franky.RealtimeConfig.Enforce if self._realtime else franky.RealtimeConfig.Ignore
        try:
            self._robot = franky.Robot(self._host, realtime_config=enforced)
            self._gripper = franky.Gripper(self._host)
            self._width_m = self._gripper.width
            self._listen()
        except Exception as error:  # franky's exceptions have no base of their own
            raise DriverError(f"Franka at {self._host}: {in_one_line(error)}") from error
        for thread in self._threads:
            thread.start()

    def arm(self) -> None:
        """Recover from what stopped it, and hold the arm where it is."""
        self._leave()
        self._why()  # the SDK throws it into the next motion's face otherwise
        try:
            if self._robot.has_errors:
                self._robot.recover_from_errors()
            q = np.array(self._robot.state.q)
            if not np.isfinite(q).all():
                raise DriverError("joint positions are not finite")
            motion = self._sdk.JointImpedanceTrackingMotion(stiffness=STIFFNESS, damping=DAMPING)
            motion.set_reference(self._sdk.JointReference(q=q))
            self._robot.move(motion, asynchronous=True)
        except Exception as error:
            self._fault = in_one_line(error)
            return
        with self._lock:
            self._target, self._reference, self._velocity = q, q, np.zeros(7)
            self._motion, self._fault, self._lost = motion, "", ""

    def disarm(self) -> None:
        """End the control of the arm, damped; its brakes and its own controller hold it."""
        self._leave()
        self._fault = ""

    def read(self) -> RobotState:
        assert self._state is not None
        measured_s, state = self._state
        state.age = np.float32(max(0.0, time.monotonic() - measured_s))
        return state

    def read_firmware(self) -> str:
        """Of the arm itself franky says none: libfranka connects to a control unit of its own version only."""
        return f"hand: server version {self._gripper.server_version}"

    def read_status(self) -> DeviceStatus:
        """What stopped the arm, until its shield has heard of it, and what its own controller says.

        A reflex that has stopped it hinders no person from arming it, which recovers from it.
        """
        mode = "" if self._mode == REFLEX else self._mode
        return DeviceStatus(self._motion is not None, self._lost or self._fault or mode)

    def write(self, command: ActuatorCommand) -> ActuatorCommand:
        target = np.clip(command.target, self._low, self._high)
        with self._lock:
            self._target, self._heard_s = target[:7].astype(float), time.monotonic()
            armed = self._motion is not None
        if armed and abs(target[7] - self._finger_asked) > GRIPPER_STEP_M:
            self._finger_asked = float(target[7])
            self._hand_asked.set()
        return ActuatorCommand(target)

    def stop(self) -> None:
        """Bring the arm to rest, damped, and close the links."""
        self._leave()
        self._ended.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_WITHIN_S)
        self._robot = self._gripper = None

    def _leave(self) -> None:
        """End the motion, if there is one, and wait until the arm is at rest."""
        with self._lock:
            motion, self._motion, self._finger_asked = self._motion, None, np.inf
        if motion is None or self._robot is None:
            return
        try:
            if self._robot.is_in_control:
                self._robot.move(self._sdk.TorqueStopMotion(), asynchronous=True)
            self._robot.join_motion(STOP_WITHIN_S)
        except Exception as error:
            self._fault = self._fault or in_one_line(error)

    def _run(self) -> None:
        for _ in beats(PERIOD_S, self._ended):
            try:
                self._listen()
                self._move()
            except Exception as error:  # of the network, mostly; this thread has to live on and say so
                self._lost = f"link lost: {in_one_line(error)}"

    def _run_hand(self) -> None:
        """What the hand is asked for, one movement after the other: each takes until it has ended."""
        while not self._ended.is_set():
            try:
                if self._hand_asked.is_set():
                    self._hand_asked.clear()
                    self._gripper.move(width_of(self._finger_asked), width_of(self._finger.max_velocity))
                self._width_m = self._gripper.width
            except Exception as error:
                self._lost = f"the hand: {in_one_line(error)}"
            self._ended.wait(HAND_S)

    def _listen(self) -> None:
        state, now_s = self._robot.state, time.monotonic()
        self._device_s, before_s = state.time.to_sec(), self._device_s
        if self._state is not None and self._device_s == before_s:  # the same one again: it grows old
            self._passed_s = 0.0
            return
        self._state = now_s, state_of(state, self._width_m)
        self._passed_s = min(max(0.0, self._device_s - before_s), LONGEST_STEP_S)
        self._mode = MODES.get(state.robot_mode.name, "")
        if self._mode and self._motion is not None:
            with self._lock:
                self._motion = None
            errors = str(state.current_errors or state.last_motion_errors)
            self._fault = self._mode if errors == NO_ERRORS else f"{self._mode}: {errors}"

    def _move(self) -> None:
        """The reference by what passed on the device's clock, as the specification's drive closes in on its target."""
        with self._lock:
            if self._motion is None:
                return
            if not self._robot.is_in_control:
                self._motion, self._fault = None, f"control has ended: {self._why()}"
                return
            slowest, fastest = speed_limits(self._reference, self._max_velocity)
            asked = np.clip(self._rate * (self._target - self._reference), slowest, fastest)
            if time.monotonic() > self._heard_s + SILENT_S:
                asked = np.zeros(7)
            step = ACCELERATION * self._passed_s
            self._velocity = self._velocity + np.clip(asked - self._velocity, -step, step)
            self._reference = self._reference + self._passed_s * self._velocity
            self._motion.set_reference(self._sdk.JointReference(q=self._reference, dq=self._velocity))

    def _why(self) -> str:
        """What ended the last motion."""
        try:
            self._robot.join_motion(0.0)
        except Exception as error:
            return in_one_line(error)
        return "by somebody else"
