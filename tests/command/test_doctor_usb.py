"""The doctor says whether the radio of a Crazyflie is plugged in, and whether this user may open it."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from phalanx.doctor.usb import RULES, usb_permission

NOBODY = 65534
URI = "radio://0/80/2M/E7E7E7E7E7"


@pytest.fixture
def usb():
    """A tree as the kernel's: a hub that says nothing, a mouse, and a Crazyradio at 001/007."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        (root / "devices" / "usb1").mkdir(parents=True)
        for port, (vendor, product, number) in {"1-1": ("046d", "c077", "3"), "1-2": ("1915", "7777", "7")}.items():
            said = {"idVendor": vendor, "idProduct": product, "busnum": "1", "devnum": number}
            (root / "devices" / port).mkdir()
            for name, text in said.items():
                (root / "devices" / port / name).write_text(f"{text}\n")
        (root / "nodes" / "001").mkdir(parents=True)
        (root / "nodes" / "001" / "007").touch()
        yield root / "devices", root / "nodes"


@contextmanager
def no_root():
    """Who is root may open anything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_radio_that_this_user_may_not_open_is_named_with_the_rules_that_let_it(usb):
    devices, nodes = usb
    (nodes / "001" / "007").chmod(0o000)
    with no_root():
        status, found, hint = usb_permission(URI, devices, nodes)
    assert status == "fail" and "001/007 not allowed" in found and str(RULES) in hint
    (nodes / "001" / "007").chmod(0o666)
    with no_root():
        assert usb_permission(URI, devices, nodes) == ("ok", f"Crazyradio, {nodes}/001/007 allowed", "")


def test_what_is_not_plugged_in_is_said_and_a_link_without_usb_asks_for_nothing(usb):
    status, found, _ = usb_permission("usb://0", *usb)
    assert status == "fail" and found == "no Crazyflie (0483:5740) at any USB port"
    assert usb_permission("udp://127.0.0.1:19850", *usb) is None
    assert usb_permission(URI, Path("/no/such/folder"), usb[1]) is None


def test_the_rules_are_for_the_devices_that_cflib_opens():
    crazyradio = pytest.importorskip("cflib.drivers.crazyradio")
    cfusb = pytest.importorskip("cflib.drivers.cfusb")
    rules = RULES.read_text()
    for vendor, product in ((crazyradio.CRADIO_VID, crazyradio.CRADIO_PID), (cfusb.USB_VID, cfusb.USB_PID)):
        assert f'ATTR{{idVendor}}=="{vendor:04x}", ATTR{{idProduct}}=="{product:04x}"' in rules
