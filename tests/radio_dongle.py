"""The driver of a Crazyflie with all of cflib's radio link, on an emulated Crazyradio, see `devices.crazyradio`."""

import socket
import time

from hardware.drivers.crazyflie import CrazyflieDriver
from hardware.spec import RobotSpec

SETUP_S = 0.001  # of one setup transaction over USB, by the documentation of the dongle
PACKET_S = 0.001  # of a packet and its acknowledgement: 500 a second where each is to another robot than the one before
SET_ADDRESS = 2
LATE_S = 0.02  # so much of what a busy computer is late by is no fault of the radio, and made up for


class Dongle:
    """What cflib needs of a USB device."""

    bcdDevice = 0x0053

    def __init__(self, port: int):
        self._ctx, self._address = self, bytes(5)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(("127.0.0.1", port))
        self._socket.settimeout(0.5)
        self._due_s, self._number = 0.0, 0

    def set_configuration(self, number: int) -> None: ...

    def reset(self) -> None: ...

    def dispose(self, device: object) -> None: ...

    def ctrl_transfer(self, kind: int, request: int, wValue: int, wIndex: int, timeout: int, data_or_wLength) -> None:
        if request == SET_ADDRESS:
            self._address = bytes(data_or_wLength)
            self._due_s += SETUP_S

    def write(self, endpoint: int, data, timeout: int) -> None:
        self._due_s = max(self._due_s, time.monotonic() - LATE_S) + PACKET_S
        self._number = (self._number + 1) % 256
        self._socket.send(bytes([self._number]) + self._address + bytes(data))

    def read(self, endpoint: int, size: int, timeout: int) -> bytes:
        """Of the last that was written, by its number: an older answer may come late."""
        from usb import USBError

        try:
            while (answer := self._socket.recv(2 + size))[0] != self._number:
                pass
        except TimeoutError as error:
            raise USBError("timed out") from error
        time.sleep(max(0.0, self._due_s - time.monotonic()))
        return answer[1:]


class CrazyflieByRadio(CrazyflieDriver):
    """`radio_port`: of the emulated radio."""

    def __init__(self, spec: RobotSpec, radio_port: int, **options):
        super().__init__(spec, **options)
        self._port = radio_port

    def connect(self) -> None:
        from cflib.drivers import crazyradio

        crazyradio._find_devices = lambda serial=None: [Dongle(self._port)]
        super().connect()
