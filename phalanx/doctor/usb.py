"""Whether this user may open the USB device by which a Crazyflie is reached; `60_phalanx.rules` lets one."""

import os
from pathlib import Path

import hardware.drivers
from phalanx.doctor.check import Status

RULES = Path(hardware.drivers.__file__).with_name("60_phalanx.rules")
NEEDED = {"radio": ("Crazyradio", "1915", "7777"), "usb": ("Crazyflie", "0483", "5740")}  # by the scheme of a URI


def usb_permission(
    uri: str, devices: Path = Path("/sys/bus/usb/devices"), nodes: Path = Path("/dev/bus/usb")
) -> tuple[Status, str, str] | None:
    """What was found of the device that `uri` needs, such as radio://0/80/2M, and what to do; None where it needs none.

    `devices` and `nodes` are where Linux keeps them; None too where it does not.
    """
    if (scheme := uri.partition("://")[0]) not in NEEDED or not devices.is_dir():
        return None
    name, *wanted = NEEDED[scheme]
    found = [
        each for each in sorted(devices.iterdir()) if [_said(each, "idVendor"), _said(each, "idProduct")] == wanted
    ]
    if not found:
        return "fail", f"no {name} ({':'.join(wanted)}) at any USB port", "plug it in; `lsusb` shows what is there"
    for each in found:
        node = nodes / f"{int(_said(each, 'busnum')):03}" / f"{int(_said(each, 'devnum')):03}"
        if not os.access(node, os.R_OK | os.W_OK, effective_ids=True):
            copied = f"sudo cp {RULES} /etc/udev/rules.d/"
            return "fail", f"{name}, {node} not allowed", f"{copied} && sudo udevadm control --reload; plug it in again"
    return "ok", f"{name}, {node} allowed", ""


def _said(device: Path, name: str) -> str:
    """A line that the kernel says of a device; empty where it says none, as of a hub's port."""
    try:
        return (device / name).read_text().strip()
    except OSError:
        return ""
