"""Driver of a drone with PX4, such as the X500: thrust and body rates over MAVLink 2, by pymavlink.

`pip install "phalanx[px4]"`. PX4 estimates its own position, by GNSS, optical flow or motion capture.
"""

import threading
import time
from typing import Any

import numpy as np

from hardware.drivers import DriverError
from hardware.drivers.addresses import mavlink_of
from hardware.drivers.px4_holder import Holder
from hardware.drivers.px4_link import ACCEPTED, AGAIN_S, IN_PROGRESS, Px4Link
from hardware.drivers.px4_messages import (
    OFFBOARD,
    RATES_AND_THRUST,
    ThrustCurve,
    rates_frd,
)
from hardware.drivers.px4_orders import ARM, CUSTOM_MODE, SET_MODE, Disarming, cut, land
from hardware.drivers.px4_said import Said
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Battery, DeviceStatus, RobotState

OFFBOARD_MODE = 6
ODOMETRY, STATUS_HZ = 331, {0: 10.0, 1: 2.0, 245: 5.0}  # of HEARTBEAT, SYS_STATUS and EXTENDED_SYS_STATE
LANDED_IN_S = 2.0  # PX4 says that it is on the ground within LNDMC_TRIG_TIME, 1 s, and says so five times a second
OLDEST = (1, 14, 0)  # of PX4; the emulated one is 1.15
SPOOL_UP_S = 1.0  # after arming, COM_SPOOLUP_TIME of commander_params.c: until then it is not to be moved
STREAM_S = 1.0  # of set-points before PX4 is asked into OFFBOARD: https://docs.px4.io/main/en/flight_modes/offboard
STREAM_HZ, BEAT_S, TIMESYNC_S = 50.0, 0.5, 0.2
ARM_WITHIN_S = 4.0
LOST_S = 0.8  # without any message, of which a hundred come a second
SLOW_S = 0.1  # round trip beyond which commands come too late
SURE_M = 0.5  # standard deviation of each axis beyond which the estimated position is not one
LAND_M_S, LONGEST_LANDING_S = 0.7, 60.0  # MPC_LAND_SPEED
STILL_FLIES = "PX4 says that it flies, though its shield has landed it: PX4 lands it"
IDLES_S, TOO_SOON = 60.0, ": COM_DISARM_PRFLT is {:g} s, too short for who arms and starts later: set it to 60"
STILL_STOPS = "an emergency stop goes on until PX4 says that it is disarmed"
STOPS_LATER = "the emergency stop waits until PX4 says that it is on the ground, for it is "


class Px4Driver:
    """One vehicle. Threads receive and send; calls come from one thread; only `connect` and `stop` wait."""

    usual_robot = "x500"  # PX4 flies any airframe and does not say which: another is stated in the team file

    def __init__(self, spec: RobotSpec, link: str, system: int = 1, baud: int = 921600, connect_s: float = 15.0):
        """`link` as pymavlink's: udpin:0.0.0.0:14540, udpout:192.168.0.4:14580, /dev/ttyTHS1 (at `baud`).

        `system` is the vehicle's MAV_SYS_ID. DriverError for a robot without thrust and body rates.
        """
        if spec.flight is None or [channel.unit for channel in spec.channels] != ["N", "rad/s", "rad/s", "rad/s"]:
            raise DriverError(f"driver px4 flies drones by thrust and body rates, not {spec.name!r}")
        if not 1 <= system <= 255:
            raise DriverError(f"system is {system}: expected 1 to 255")
        self._spec, self._address, self._system, self._baud = spec, link, system, baud
        self._connect_s = connect_s
        self._low, self._high = np.array(spec.command_low), np.array(spec.command_high)
        self._link: Px4Link | None = None
        self._curve: ThrustCurve
        self._said = Said()
        self._version = 0, 0, 0
        self._asked_s: float | None = None  # when arming was asked for
        self._refusal = ""
        self._disarms_until_s = 0.0
        self._is_cut, self._cut_s = False, 0.0  # by an emergency stop until PX4 says disarmed, and when (monotonic, s)
        self._lands_since_s: float | None = None  # since when PX4 lands what its shield has landed (monotonic, s)
        self._is_arming = self._has_armed = False
        self._holder, self._disarming = Holder(), Disarming()
        self._newest: tuple[tuple[float, float, float], float] | None = None  # set-point that waits to be sent
        self._written_s = 0.0
        self._wakes, self._is_open = threading.Condition(), False

    @staticmethod
    def device(link: str, system: int, **_: object) -> str:
        """Which one these options mean, see `hardware.drivers.device_of`."""
        return f"{mavlink_of(link)}, system {system}"

    def connect(self) -> None:
        """Open the link, check PX4's own watchdog, ask for its estimate; DriverError in one line."""
        said = self._said = Said()
        hears = {"ODOMETRY": said.hear_odometry, "HEARTBEAT": self._hear_beat, "SYS_STATUS": said.hear_battery}
        hears |= {"EXTENDED_SYS_STATE": said.hear_landed, "STATUSTEXT": said.hear_text}
        self._link = link = Px4Link(self._address, self._baud, self._system, hears)
        said.clock = link.clock
        try:
            link.wait_for_vehicle(self._connect_s)
            self._version = link.version(self._connect_s)
            if (0, 0, 0) < self._version < OLDEST:
                raise link.error(f"{self.read_firmware()} is too old: expected {OLDEST[0]}.{OLDEST[1]} or newer")
            link.check_watchdog(self._connect_s)
            names = "MPC_THR_HOVER", "THR_MDL_FAC", "COM_DISARM_PRFLT"
            hover, factor, self._idles_s = (link.parameter(name, self._connect_s) for name in names)
            if not 0.1 <= hover <= 0.8:
                raise link.error(f"MPC_THR_HOVER is {hover:g}: expected 0.1 to 0.8")
            assert self._spec.flight is not None
            self._curve = ThrustCurve(hover, factor, self._spec.flight.hover_thrust_n, float(self._low[0]))
            link.stream({ODOMETRY: self._spec.sensor_hz} | STATUS_HZ, self._connect_s)
            if lack := said.wait(self._connect_s):
                raise link.error(lack)
        except DriverError:
            self.stop()
            raise
        self._is_open = True
        self._sender = threading.Thread(target=self._send, name="px4-sender", daemon=True)
        self._sender.start()

    def arm(self) -> None:
        """Set-points for a second, then OFFBOARD, then armed: PX4 asks for it in this order."""
        assert self._link is not None
        if self._is_cut or self._lands_since_s is not None:  # set-points of a robot at rest would let it fall
            self._refusal = f"arming refused: {STILL_STOPS if self._is_cut else STILL_FLIES}"
            return
        self._link.forget(ARM)
        self._holder.arms()
        self._disarms_until_s = 0.0
        self._refusal, self._asked_s, self._is_arming, self._has_armed = "", time.monotonic(), True, False

    def disarm(self) -> None:
        """On the ground. Where PX4 says that it flies its landing was none: it is sent no set-points, and PX4 lands it.

        Who else armed it, or has flown it, keeps it in the air.
        """
        is_theirs = self._asked_s is None or self._holder.is_taken
        self._asked_s, self._is_arming, self._refusal = None, False, ""
        if is_theirs and not self._said.is_on_ground:
            return
        assert self._link is not None
        self._link.forget(ARM)
        self._let_px4_land()
        self._disarms_until_s = time.monotonic() + ARM_WITHIN_S  # an order to arm may still be on its way

    def cut(self) -> None:
        """Motors off, also in the air and in PX4's own failsafe: a stop is final.

        Who else flies it in the air keeps it that far: then they are off once it is on the ground.
        """
        self._cut_s = time.monotonic()
        self._is_cut = True  # before its landing ends: else AUTO.LAND would be somebody else's
        self._asked_s, self._is_arming, self._refusal, self._lands_since_s = None, False, "", None
        self._disarms_until_s = self._cut_s + ARM_WITHIN_S

    def read(self) -> RobotState:
        assert self._said.state is not None and self._link is not None
        measured_s, state, _ = self._said.state
        state.age = np.float32(max(0.0, time.monotonic() - self._link.clock.here(measured_s)))
        return state

    def read_battery(self) -> Battery:
        return self._said.battery

    def read_firmware(self) -> str:
        return "PX4 " + ".".join(map(str, self._version)) if any(self._version) else ""

    def read_status(self) -> DeviceStatus:
        """Whether it obeys; what PX4 says of itself, and whether it knows where it is."""
        obeys = self._said.obeys and time.monotonic() > self._said.armed_s + SPOOL_UP_S
        return DeviceStatus(obeys, self._fault(time.monotonic()))

    def write(self, command: ActuatorCommand) -> ActuatorCommand:
        target = np.clip(command.target, self._low, self._high)
        signal = self._curve.signal(float(target[0]))
        with self._wakes:
            self._newest, self._written_s = (rates_frd(target[1:]), signal), time.monotonic()
            self._wakes.notify()
        target[0] = self._curve.thrust_n(signal)
        return ActuatorCommand(target)

    def stop(self) -> None:
        """Have PX4 land it where this driver armed it and it flies, wait for that, and close the link.

        Where the link is lost PX4 does what COM_OBL_RC_ACT says after COM_OF_LOSS_T.
        """
        link, self._is_arming = self._link, False
        if link is None:
            return
        ends = self._lands_since_s is not None or self._stops_now(time.monotonic()) or self._said.obeys
        if self._holder.is_ours and self._is_open and self._said.is_armed and ends and self._said.state is not None:
            height_m = max(0.0, float(self._said.state[1].base_pos[2]))
            until_s = time.monotonic() + min(10.0 + height_m / LAND_M_S, LONGEST_LANDING_S)
            while self._said.is_armed and not self._said.is_silent(time.monotonic()) and time.monotonic() < until_s:
                if self._stops_now(time.monotonic()):
                    cut(link)
                elif self._said.mode == OFFBOARD:
                    land(link)
                elif self._said.is_on_ground:
                    link.command(ARM, 0)
                time.sleep(AGAIN_S)
        with self._wakes:
            self._is_open, self._newest = False, None
            self._wakes.notify()
        self._link = None
        link.close()

    def _fault(self, now_s: float) -> str:
        link, state = self._link, self._said.state
        if link is None or state is None or now_s > self._said.heard[0] + LOST_S or self._said.is_silent(now_s):
            return f"link lost: nothing heard since {time.strftime('%H:%M:%S', time.localtime(self._said.heard[1]))}"
        if link.clock.restarts:
            return "PX4 has restarted: it needs a new connection"
        if self._lands_since_s is not None and self._said.is_armed:
            return self._refusal or (STILL_FLIES if now_s > self._lands_since_s + LANDED_IN_S else "")
        waits = STOPS_LATER if self._is_cut and not self._stops_now(now_s) else ""
        if self._said.is_armed and (self._said.mode != OFFBOARD or waits):
            whose = "its own failsafe" if self._said.flies_itself else "its remote control or another program"
            return f"{waits}flown in mode {self._said.mode} by {whose}{self._said.text(now_s)}"
        if self._refusal:
            return self._refusal
        late = self._asked_s is not None and now_s > self._asked_s + (0.0 if self._has_armed else ARM_WITHIN_S)
        if late and not self._said.is_armed:
            soon = "" if self._said.has_flown or not 0.0 < self._idles_s < IDLES_S else TOO_SOON.format(self._idles_s)
            return f"disarmed by itself, or by somebody else{self._said.text(now_s) or soon}"
        if link.clock.trip_s > SLOW_S:
            return f"the link's round trip takes {1e3 * link.clock.trip_s:.0f} ms, {1e3 * SLOW_S:g} at most"
        if self._said.bad_odometry:
            return self._said.bad_odometry
        return "" if state[2] <= SURE_M else f"position known to {state[2]:.2f} m only, needs {SURE_M:g}"

    def _hear_beat(self, message: Any) -> None:
        said = self._said
        said.hear_beat(message)
        self._has_armed = self._has_armed or said.is_armed
        self._holder.hear(said, self._is_arming, self._is_cut or self._lands_since_s is not None)
        if not said.is_armed and said.beat_s > self._cut_s + AGAIN_S:  # an order to arm may still have been on its way
            self._is_cut = False
        if self._lands_since_s is not None and (self._holder.is_taken or not said.is_armed):
            self._lands_since_s, self._refusal = None, ""

    def _send(self) -> None:
        """Send the newest set-point whenever there is one, idle ones while it is armed, and what keeps a link."""
        beat_s = time_s = asked_s = 0.0
        while self._is_open and (link := self._link) is not None:
            with self._wakes:
                self._wakes.wait_for(lambda: self._newest or not self._is_open, 1.0 / STREAM_HZ)
                newest, self._newest = self._newest, None
            now_s = time.monotonic()
            if self._is_arming and newest is None and now_s > self._written_s + 0.1:
                newest = (0.0, 0.0, 0.0), 0.0
            keeps_off = self._holder.is_taken or self._lands_since_s is not None
            if newest is not None and not keeps_off:  # else OFFBOARD could be had back with commands to nothing
                link.set_attitude_target(RATES_AND_THRUST, *newest)
            if now_s > beat_s + BEAT_S:
                beat_s = now_s
                link.beat()
            if now_s > time_s + TIMESYNC_S:
                time_s = now_s
                link.ask_time()
            disarms = now_s < self._disarms_until_s or self._is_cut or self._lands_since_s is not None
            if now_s > asked_s + AGAIN_S and (self._is_arming or disarms):
                asked_s = now_s
                if self._is_arming:
                    self._advance(link, now_s)
                elif self._said.is_armed:
                    self._put_down(link, now_s)

    def _let_px4_land(self) -> None:
        """Where it is to be disarmed and PX4 says that it flies: with motors that idle it would fall."""
        is_obeyed = self._said.obeys and not (self._is_cut or self._holder.is_taken)
        if is_obeyed and self._said.flies and self._lands_since_s is None:
            self._lands_since_s = time.monotonic()

    def _stops_now(self, now_s: float) -> bool:
        """Whether an emergency stop cuts it: not under a person who flies it in the air."""
        return self._is_cut and (not self._holder.is_other or self._said.lies(now_s))

    def _put_down(self, link: Px4Link, now_s: float) -> None:
        """The next step on the way to a disarmed vehicle. While PX4 says that it flies only a stop disarms it."""
        self._let_px4_land()
        said, lands = self._said, self._lands_since_s is not None
        has_it = lands or said.mode == OFFBOARD
        if self._is_cut:
            if self._stops_now(now_s):
                cut(link)
        elif said.is_on_ground or (has_it and not (said.flies or self._holder.is_taken)):
            self._disarming.ask(link, said, now_s, has_it)
        if lands and said.mode == OFFBOARD:
            land(link)

    def _advance(self, link: Px4Link, now_s: float) -> None:
        """The next step on the way to an armed vehicle in OFFBOARD."""
        asked_s = self._asked_s
        if asked_s is None or now_s < asked_s + STREAM_S:
            return
        if now_s > asked_s + ARM_WITHIN_S:
            self._is_arming = False
        elif self._said.mode != OFFBOARD:
            link.command(SET_MODE, CUSTOM_MODE, OFFBOARD_MODE)
        elif self._said.is_armed:
            self._is_arming = now_s > self._written_s + 0.1  # else `write` keeps it from now on
        elif (result := link.result(ARM)) not in (None, ACCEPTED, IN_PROGRESS):
            self._refusal, self._is_arming = f"arming refused, MAV_RESULT {result}{self._said.text(now_s)}", False
        else:
            link.command(ARM, 1)
