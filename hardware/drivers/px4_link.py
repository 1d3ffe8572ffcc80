"""A MAVLink 2 link to one vehicle with PX4, by pymavlink: a thread receives, any thread sends."""

import threading
import time
from collections.abc import Callable, Mapping
from os import environ
from typing import Any

from hardware.drivers import DriverError
from hardware.drivers.device_clock import DeviceClock
from hardware.drivers.px4_messages import parameter_of
from hardware.drivers.threads import in_one_line

AUTOPILOT = 1  # MAV_COMP_ID_AUTOPILOT1
COMPANION = 191  # MAV_COMP_ID_ONBOARD_COMPUTER, and its type and autopilot in a HEARTBEAT
ONBOARD_CONTROLLER, NO_AUTOPILOT, ACTIVE = 18, 8, 4
PX4 = 12  # MAV_AUTOPILOT_PX4
REQUEST_MESSAGE, AUTOPILOT_VERSION = 512, 148  # MAV_CMD_REQUEST_MESSAGE, and a message
SET_INTERVAL = 511  # MAV_CMD_SET_MESSAGE_INTERVAL
ACCEPTED, IN_PROGRESS = 0, 5  # MAV_RESULT
RETURNS, LANDS, HOLDS = 3, 4, 5  # of COM_OBL_RC_ACT: what needs no sticks, and does not let it fall
LONGEST_LOSS_S = 2.0
AGAIN_S = 0.3  # after which a request without an answer is repeated
HEARS_S = 3.0  # without a HEARTBEAT, of which a PX4 sends one a second at least, there is none
LISTENING = ("udp:", "udpin:", "tcpin:")  # how addresses begin at which a device calls us


class Px4Link:
    """`handlers` get messages of the vehicle's autopilot by their MAVLink name, on the receiving thread."""

    def __init__(self, address: str, baud: int, system: int, handlers: Mapping[str, Callable[[Any], None]]):
        """Open `address`, a connection string of pymavlink; DriverError where it cannot be."""
        environ.setdefault("MAVLINK20", "1")  # before the import: MAVLink 2, of the common dialect
        environ.setdefault("MAVLINK_DIALECT", "common")
        try:
            from pymavlink import mavutil
        except ImportError as error:
            raise DriverError(f'driver px4: {error}; install it by: pip install "phalanx[px4]"') from error
        self._address, self._baud, self._system = address, baud, system
        try:
            self._mavlink = mavutil.mavlink_connection(
                address, baud, source_system=system, source_component=COMPANION, autoreconnect=True
            )
        except Exception as error:  # of a socket, a serial port, a name: pymavlink has no type of its own
            raise DriverError(f"PX4 at {address}: {in_one_line(error)}") from error
        self.clock = DeviceClock()  # by TIMESYNC
        self.autopilot: int | None = None  # of the vehicle, and of others when one was heard
        self._others: set[int] = set()
        self._answers: dict[Any, Any] = {}
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._handlers, self._is_open, self._refusal = handlers, True, ""
        self._receiver = threading.Thread(target=self._receive, name="px4-receiver", daemon=True)
        self._receiver.start()

    def wait_for_vehicle(self, within_s: float) -> None:
        """Its first HEARTBEAT, within `HEARS_S`, and how the clocks differ; DriverError without them."""
        began_s = time.monotonic()
        while self.autopilot is None or not self.clock.is_known:
            waited_s = time.monotonic() - began_s
            if self.autopilot is None and waited_s > min(HEARS_S, within_s):
                others = f"no HEARTBEAT of system {self._system} but only of systems {sorted(self._others)}"
                raise self.error(others if self._others else self._nothing(waited_s))
            if waited_s > within_s:
                raise self.error("no answer to TIMESYNC")
            self.beat()
            self.ask_time()
            time.sleep(0.05)
        if self.autopilot != PX4:
            raise self.error(f"its autopilot is of the type {self.autopilot}, PX4 is {PX4}")

    def _nothing(self, waited_s: float) -> str:
        """Where nothing was heard for so long."""
        kind, _, place = ("", "", "") if self._address.startswith("/") else self._address.partition(":")
        what = f"no HEARTBEAT for {waited_s:.1f} s: "
        if f"{kind}:" in LISTENING:
            return f"{what}nothing was heard at {place}, where it has to send to; is it on, and does it?"
        if place:
            return f"{what}{place} was called and nothing answers; is it on, and this its address?"
        return f"{what}nothing was heard on {self._address} at {self._baud} baud; is it on, and are these right?"

    def error(self, text: str) -> DriverError:
        return DriverError(f"PX4 at {self._address}: {text}")

    def beat(self) -> None:
        """A HEARTBEAT of ours."""
        self._send("heartbeat", ONBOARD_CONTROLLER, NO_AUTOPILOT, 0, 0, ACTIVE)

    def ask_time(self) -> None:
        self._send("timesync", 0, time.monotonic_ns())

    def set_attitude_target(self, mask: int, rates: tuple[float, float, float], thrust: float) -> None:
        """Body rates (FRD) and thrust, stamped with the device's clock."""
        at_ms = int(1e3 * self.clock.there(time.monotonic())) % (1 << 32)
        self._send("set_attitude_target", at_ms, self._system, AUTOPILOT, mask, [1.0, 0.0, 0.0, 0.0], *rates, thrust)

    def command(self, number: int, *parameters: float) -> None:
        """A COMMAND_LONG; what came of it is `result` before long."""
        values = [*parameters, *[0.0] * (7 - len(parameters))]
        self.forget(number)
        self._send("command_long", self._system, AUTOPILOT, number, 0, *values)

    def forget(self, number: int) -> None:
        """What came of an earlier command of that number."""
        with self._changed:
            self._answers.pop(("ack", number), None)

    def result(self, number: int) -> int | None:
        """MAV_RESULT of the last command of that number, None before it has come."""
        return self._answers.get(("ack", number))

    def wait_for_command(self, number: int, *parameters: float, within_s: float) -> int:
        """Have a command answered; its MAV_RESULT. DriverError without an answer."""
        return int(
            self._wait(("ack", number), lambda: self.command(number, *parameters), within_s, f"command {number}")
        )

    def stream(self, rates_hz: Mapping[int, float], within_s: float) -> None:
        """Have messages sent, by their numbers; DriverError where one is refused."""
        for message, hz in rates_hz.items():
            if (refused := self.wait_for_command(SET_INTERVAL, message, 1e6 / hz, within_s=within_s)) > 0:
                raise self.error(f"MAVLink message {message} refused at {hz:g} Hz: MAV_RESULT {refused}")

    def version(self, within_s: float) -> tuple[int, int, int]:
        """PX4's; zeros where it does not know. DriverError without an answer."""
        ask = ("version", lambda: self.command(REQUEST_MESSAGE, AUTOPILOT_VERSION), within_s, "its version")
        number = int(self._wait(*ask))
        return number >> 24 & 0xFF, number >> 16 & 0xFF, number >> 8 & 0xFF

    def parameter(self, name: str, within_s: float) -> float:
        """A parameter of the vehicle's; DriverError where it has none of that `name`."""
        return float(
            self._wait(
                ("parameter", name),
                lambda: self._send("param_request_read", self._system, AUTOPILOT, name.encode(), -1),
                within_s,
                f"parameter {name}: its firmware may be too old",
            )
        )

    def check_watchdog(self, within_s: float) -> None:
        """PX4 stops by itself when nothing comes any more; DriverError where it would not."""
        loss_s = self.parameter("COM_OF_LOSS_T", within_s)
        if not 0.0 < loss_s <= LONGEST_LOSS_S:
            raise self.error(f"COM_OF_LOSS_T is {loss_s:g} s: expected at most {LONGEST_LOSS_S:g} and more than 0")
        action = int(self.parameter("COM_OBL_RC_ACT", within_s))
        if action not in (RETURNS, LANDS, HOLDS):
            allowed = f"{LANDS} (land), {RETURNS} (return) or {HOLDS} (hold)"
            raise self.error(f"COM_OBL_RC_ACT is {action}: expected {allowed}")

    def close(self) -> None:
        self._is_open = False
        self._receiver.join(1.0)
        self._mavlink.close()

    def _wait(self, key: Any, ask: Callable[[], None], within_s: float, what: str) -> Any:
        until_s = time.monotonic() + within_s
        with self._changed:
            self._answers.pop(key, None)
        while time.monotonic() < until_s:
            ask()
            with self._changed:
                if self._changed.wait_for(lambda: key in self._answers, AGAIN_S):
                    return self._answers[key]
        raise self.error(f"no answer about {what}")

    def _send(self, message: str, *fields: Any) -> None:
        with self._sending:
            getattr(self._mavlink.mav, f"{message}_send")(*fields)

    def _receive(self) -> None:
        while self._is_open:
            message = self._mavlink.recv_msg()
            if message is None:
                self._mavlink.select(0.1)
            elif message.get_type() == "BAD_DATA":
                continue
            elif message.get_srcSystem() != self._system:
                self._others.add(message.get_srcSystem())
            elif message.get_srcComponent() == AUTOPILOT:
                self._take(message, message.get_type())

    def _take(self, message: Any, kind: str) -> None:
        if kind == "TIMESYNC" and message.tc1:
            self.clock.exchange(message.ts1 * 1e-9, message.tc1 * 1e-9, time.monotonic())
        elif kind == "COMMAND_ACK":
            self._answer(("ack", message.command), message.result)
        elif kind == "PARAM_VALUE":
            self._answer(("parameter", message.param_id), parameter_of(message))
        elif kind == "AUTOPILOT_VERSION":
            self._answer("version", message.flight_sw_version)
        elif kind == "HEARTBEAT":
            self.autopilot = message.autopilot
        if kind in self._handlers:
            self._handlers[kind](message)

    def _answer(self, key: Any, value: Any) -> None:
        with self._changed:
            self._answers[key] = value
            self._changed.notify_all()
