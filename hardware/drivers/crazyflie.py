"""Driver of a Crazyflie: thrust and body rates over Crazyradio, USB or UDP, by Bitcraze's cflib.

cflib is under the GPL-3 and so an extra of its own: `pip install "phalanx[crazyflie]"`. The Crazyflie estimates its own
position, by a Lighthouse, Loco or Flow deck.
"""

import logging
import threading
import time
from collections.abc import Mapping
from math import nan, sqrt
from os import environ
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from hardware.drivers import DriverError
from hardware.drivers.addresses import crazyflie_of
from hardware.drivers.crazyflie_packets import STATE, setpoint_packet, state_of, thrust_of_signal, thrust_signal
from hardware.drivers.crazyflie_ping import PERIOD_S, Ping
from hardware.drivers.device_clock import DeviceClock
from hardware.drivers.threads import Newest, running_s
from hardware.spec import RobotSpec
from hardware.types import ActuatorCommand, Battery, DeviceStatus, RobotState

STATE_HZ, HEALTH_EACH = (100.0, 50.0), 10  # states from one look at its health to the next
HEALTH = ("supervisor.info", "pm.vbat", "pm.batteryLevel", "kalman.varX", "kalman.varY", "kalman.varZ")
SLOW_S = 0.1  # round trip beyond which commands come later than the shield counts on
SILENT_S = 1.0  # without news of its health
LONGEST_LANDING_S = 10.0
ARM_WITHIN_S = 1.0
LEVELS_S = 0.5  # without a set-point the firmware levels it then, and would obey the next one as if nothing had been
SURE_M = 0.1  # standard deviation of each axis beyond which the estimated position is not one
PREFLIGHT_MS = 60_000  # the firmware disarms what is armed and does not fly for so long; the most that it takes is 65 s
PROTOCOL = 12  # crazyflie-firmware's crtp_commander and platformservice.c, of which packets and bits are
CLOCK_MS = 1 << 24  # after which the device's clock begins again
OVERTAKEN_MS = 1000  # a state that is older than the one before by more is one of a device that has restarted
LAND_M_S = 0.4
ASKS, ASK_S = 3, 0.05  # how often it is asked to land, as a packet may be lost, and between two times
ENDS_S = 0.5
CAN_BE_ARMED, IS_ARMED, IS_FLYING = 1 << 0, 1 << 1, 1 << 4  # bits of supervisor.info, supervisor.c
TUMBLED, LOCKED, CRASHED, DECK_FAULT = 1 << 5, 1 << 6, 1 << 7, 1 << 11
FAULTS = {
    LOCKED: "locked: restart it",
    CRASHED: "crashed: put it upright and restart it",
    TUMBLED: "lies on its back or its side",
    DECK_FAULT: "a deck reports a fault",
}


class CrazyflieDriver:
    """One Crazyflie. cflib's threads receive; calls come from one thread and never wait, but for `connect`."""

    def __init__(
        self,
        spec: RobotSpec,
        uri: str,
        thrust_scale: float = 1.0,
        connect_s: float = 30.0,
        state_hz: float = STATE_HZ[0],
    ):
        """`uri` as radio://0/80/2M/E7E7E7E7E7, usb://0 or udp://127.0.0.1:19850.

        `thrust_scale` is what the thrust signal of this airframe is multiplied with so that it hovers as its spec says.
        `state_hz`: how often it sends its estimate; less often where many share a radio. DriverError for another robot,
        or numbers that cannot be.
        """
        if spec.name != "crazyflie":
            raise DriverError(f"driver crazyflie flies robots of the type crazyflie, not {spec.name!r}")
        if not 0.5 <= thrust_scale <= 1.5:
            raise DriverError(f"thrust_scale is {thrust_scale}: expected 0.5 to 1.5")
        if state_hz not in STATE_HZ:
            raise DriverError(f"state_hz is {state_hz:g}: choose from {', '.join(f'{each:g}' for each in STATE_HZ)}")
        self._uri, self._scale, self._connect_s, self._state_hz = uri, thrust_scale, connect_s, state_hz
        thrust, *_ = spec.channels
        self._idle_n, self._full_n = thrust.low, thrust.high
        self._low, self._high = np.array(spec.command_low), np.array(spec.command_high)
        self._cf: Any = None
        self._lost = ""  # why the link is gone
        self._state: tuple[float, RobotState] | None = None  # when it was measured (monotonic, s), and what
        self._health: dict[str, float] = {}
        self._ping: Ping | None = None
        self._said_s = 0.0  # when that came (monotonic, s)
        self._asked_s: float | None = None  # when arming was asked for
        self._has_armed = False  # whether it ever was; what another program flies is not ours to land
        self._device_ms = 0  # of the newest state
        self._clock = DeviceClock(1e-3 * CLOCK_MS)
        self._held_up = ""  # that this computer did not run while it was armed
        self._outbox = Newest()
        self._sender = threading.Thread(target=self._send, name="crazyflie-sender", daemon=True)

    @staticmethod
    def shared_link(options: Mapping[str, Any]) -> str:
        """The radio of `options`: several Crazyflies may be reached by it, from one process."""
        uri = urlsplit(str(options.get("uri", "")))
        return f"radio {uri.netloc}" if uri.scheme == "radio" else ""

    @staticmethod
    def device(uri: str, **_: object) -> str:
        """Which one these options mean, see `hardware.drivers.device_of`."""
        return crazyflie_of(uri)

    def connect(self) -> None:
        """Open the link, read the device's tables, and start to log; DriverError in one line."""
        try:
            import cflib.crtp
            from cflib.crazyflie import Crazyflie
        except ImportError as error:
            raise DriverError(f'driver crazyflie: {error}; install it by: pip install "phalanx[crazyflie]"') from error
        logging.getLogger("cflib").setLevel(logging.CRITICAL)  # its tracebacks; what they mean is said here
        if not cflib.crtp.CLASSES:
            cflib.crtp.init_drivers()
        self._cf = cf = Crazyflie(rw_cache=str(_cache()))
        connected = threading.Event()

        def lose(uri: str, error: str) -> None:
            said = ": ".join(error.splitlines()[:2])  # then comes a traceback
            self._lost = f"link lost: {said}; it takes a new connection"
            connected.set()

        cf.fully_connected.add_callback(lambda uri: connected.set())
        cf.connection_failed.add_callback(lose)
        cf.connection_lost.add_callback(lose)
        cf.open_link(self._uri)
        if not connected.wait(self._connect_s) or self._lost:
            self.stop()
            raise DriverError(f"Crazyflie at {self._uri}: {self._lost or f'no answer within {self._connect_s:g} s'}")
        try:
            cf.param.set_value("supervisor.prefltTimeout", PREFLIGHT_MS)
            self._ping = Ping(cf)
            state_ms = round(1e3 / self._state_hz)
            self._log("state", STATE, state_ms, self._hear_state)
            self._log("health", HEALTH, HEALTH_EACH * state_ms, self._hear_health)
        except (KeyError, AttributeError) as error:  # as cflib says that a variable or a parameter is not there
            lost = self._lost or (cf.link is None and "link lost while it connected")
            self.stop()
            old = f"{error.args[0]}; its firmware is too old"
            raise DriverError(f"Crazyflie at {self._uri}: {lost or old}") from error
        self._sender.start()
        self._wait_for_a_state()

    def arm(self) -> None:
        self._asked_s, self._has_armed, self._held_up = time.monotonic(), True, ""
        self._cf.supervisor.send_arming_request(True)

    def disarm(self) -> None:
        """Not in flight where another one armed it: a driver that has just begun leaves it to its firmware."""
        if self._asked_s is None and self._info & IS_FLYING:
            return
        self._asked_s, self._held_up = None, ""
        self._outbox.put(setpoint_packet(0, np.zeros(3)))
        self._cf.supervisor.send_arming_request(False)

    def read(self) -> RobotState:
        assert self._state is not None
        measured_s, state = self._state
        state.age = np.float32(max(0.0, time.monotonic() - measured_s))
        return state

    def read_battery(self) -> Battery:
        return Battery(self._health["pm.batteryLevel"] / 100.0, self._health["pm.vbat"])

    def read_firmware(self) -> str:
        return f"protocol version {self._cf.platform.get_protocol_version()}"

    def unlike_firmware(self) -> str:
        version = self._cf.platform.get_protocol_version()
        if version == PROTOCOL:
            return ""
        return f"{'newer' if version > PROTOCOL else 'older'} than {PROTOCOL}, for which this driver was written"

    def read_status(self) -> DeviceStatus:
        """What its supervisor says, and whether it knows where it is."""
        is_armed, fault = bool(self._info & IS_ARMED), self._lost or self._held_up or self._fault(self._info)
        if self._ping is not None and self._ping.trip_s > SLOW_S:
            radio = self.shared_link({"uri": self._uri})
            slow = f"the link's round trip takes {1e3 * self._ping.trip_s:.0f} ms, {1e3 * SLOW_S:g} at most"
            fault = fault or (f"{slow}; fewer robots on {radio}, or state_hz 50" if radio else slow)
        if time.monotonic() > self._said_s + SILENT_S:
            fault = fault or "it says nothing of itself any more"
        if self._asked_s is not None and not is_armed and time.monotonic() > self._asked_s + ARM_WITHIN_S:
            fault = fault or "disarmed by itself, or by somebody else"
        return DeviceStatus(is_armed, fault)

    def write(self, command: ActuatorCommand) -> ActuatorCommand:
        target = np.clip(command.target, self._low, self._high)
        signal = thrust_signal(float(target[0]), self._idle_n, self._full_n, self._scale)
        self._outbox.put(setpoint_packet(signal, target[1:]))
        target[0] = thrust_of_signal(signal, self._idle_n, self._full_n, self._scale)
        return ActuatorCommand(target)

    def stop(self) -> None:
        """Land, by the firmware's own commander, where it flies; then disarm, and close the link.

        What this driver never armed is left as it is: another program may fly it. Waits for the landing. Where the link
        is lost the firmware levels after 0.5 s and stops the motors after 2 s.
        """
        self._outbox.close()
        if self._sender.is_alive():  # a set-point after the order to land would take that back
            self._sender.join(ENDS_S)
        cf, self._cf = self._cf, None
        if cf is None or cf.link is None:
            return
        if self._has_armed and self._state is not None and self._info & IS_FLYING:
            takes_s = min(max(1.0, float(self._state[1].base_pos[2]) / LAND_M_S), LONGEST_LANDING_S)
            for _ in range(ASKS):
                cf.commander.send_notify_setpoint_stop()
                cf.high_level_commander.land(0.0, takes_s, yaw=None)
                time.sleep(ASK_S)
            until_s = time.monotonic() + takes_s + 3.0  # it is flying for two more seconds, as it says
            while self._info & IS_FLYING and not self._lost and time.monotonic() < until_s:
                time.sleep(0.05)
        if cf.link is not None:
            if self._has_armed:
                cf.supervisor.send_arming_request(False)
            cf.close_link()

    @property
    def _info(self) -> int:
        return int(self._health.get("supervisor.info", 0))

    def _fault(self, info: int) -> str:
        for bit, fault in FAULTS.items():
            if info & bit:
                return fault
        if not info & (CAN_BE_ARMED | IS_ARMED):
            return "its own checks before flight have not passed"
        variances = [self._health[f"kalman.var{axis}"] for axis in "XYZ"]
        if all(0.0 <= variance <= SURE_M**2 for variance in variances):
            return ""
        known_m = sqrt(worst) if (worst := max(variances)) > 0.0 else nan
        return f"position known to {known_m:.2f} m only, needs {SURE_M:g}"

    def _log(self, name: str, variables: tuple[str, ...], period_ms: int, heard: Any) -> None:
        from cflib.crazyflie.log import LogConfig

        block = LogConfig(name, period_ms)
        for variable in variables:
            block.add_variable(variable)
        self._cf.log.add_config(block)
        block.data_received_cb.add_callback(heard)
        block.start()

    def _hear_state(self, device_ms: int, values: dict[str, int], _: Any) -> None:
        """A state has arrived, measured when the device's clock of 24 bits said `device_ms`."""
        from cflib.utils.encoding import decompress_quaternion

        if 0 < (self._device_ms - device_ms) % CLOCK_MS < OVERTAKEN_MS:
            return  # newer ones have overtaken it
        self._device_ms = device_ms
        sent_s = self._clock.packet(device_ms * 1e-3, time.monotonic())
        quat = decompress_quaternion(values["stateEstimateZ.quat"])
        trip_s = self._ping.quickest_s if self._ping is not None else 0.0
        self._state = sent_s - 0.5 * trip_s, state_of(values, quat, 0.0)

    def _hear_health(self, _: int, values: dict[str, float], __: Any) -> None:
        self._health, self._said_s = values, time.monotonic()

    def _wait_for_a_state(self) -> None:
        until_s = time.monotonic() + self._connect_s
        while self._state is None or not self._health:
            if self._lost or time.monotonic() > until_s:
                self.stop()
                raise DriverError(f"Crazyflie at {self._uri}: {self._lost or 'it logs nothing'}")
            time.sleep(0.01)

    def _send(self) -> None:
        """Send the newest set-point whenever there is one: a slow link makes older ones worthless. It pings too."""
        from cflib.crtp.crtpstack import CRTPPacket, CRTPPort

        began_s = running_s()
        while (payload := self._outbox.take(PERIOD_S)) is not None:
            if (held_s := running_s() - began_s) > PERIOD_S + LEVELS_S and self._asked_s is not None:
                self._held_up = f"this computer did not run its driver for {held_s:.1f} s: it levelled meanwhile"
            cf = self._cf
            if cf is None or self._ping is None:
                return
            if payload:
                packet = CRTPPacket()
                packet.set_header(CRTPPort.COMMANDER_GENERIC, 0)
                packet.data = payload
                cf.send_packet(packet)
            self._ping.send_if_due()
            began_s = running_s()


def _cache() -> Path:
    """Where the device's tables are kept: reading them over the radio takes seconds."""
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "phalanx" / "crazyflie"
