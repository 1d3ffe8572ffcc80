"""What the machine can hold: cores, clock governor, memory for DDS, and how late it wakes a sleeping control loop."""

import gc
import getpass
import os
import platform
import time
from dataclasses import replace
from pathlib import Path

from phalanx.doctor.check import Check, Status
from ros_nodes.lifecycle.machine_load import MachineLoad, usable_cores
from ros_nodes.lifecycle.scheduling import OF_SHIELDS, is_granted

CORES = 2
COMPUTER = "this computer"  # group of what concerns real robots
JITTER_S = 1.0  # how long the wake-up test lasts
PERIOD_S = 0.005
LATE_WARN_US, LATE_FAIL_US = 2_000.0, 20_000.0  # a tenth of a 50 Hz period; a whole period


def machine_checks() -> list[Check]:
    """Facts of this machine that decide whether 50 Hz and more will hold."""
    return [_cores(), _governor(), priority(), _jitter()]


def robots_computer_checks(measured: MachineLoad | None = None) -> list[Check]:
    """What delays the shields of real robots on this computer; `measured`: while the robots were looked at."""
    cores, load = usable_cores(), os.getloadavg()[0]
    busy, said = measured.says() if measured else (load > cores, f"load {load:.1f} on {cores} cores")
    hint = "end other programs, or use a computer for the robots alone: a shield that waits lands or drops its robot"
    return [replace(priority(), group=COMPUTER), Check(COMPUTER, "load", "warn" if busy else "ok", said, hint * busy)]


def held_up() -> str:
    """What of this computer may hold up the shields of real robots, see `robots_computer_checks`; empty for nothing."""
    found = [check.found for check in robots_computer_checks() if check.status != "ok"]
    return f"this computer: {'; '.join(found)}; what to do: phalanx doctor TEAM.yaml" if found else ""


def wake_up_errors_us(duration_s: float = JITTER_S, period_s: float = PERIOD_S) -> list[float]:
    """Sleep to absolute deadlines for `duration_s`; how late each wake-up was, in microseconds, sorted."""
    gc.collect()
    late = []
    start = time.monotonic()
    for step in range(1, int(duration_s / period_s) + 1):
        deadline = start + step * period_s
        time.sleep(max(0.0, deadline - time.monotonic()))
        late.append(1e6 * (time.monotonic() - deadline))
    return sorted(late)


def _cores() -> Check:
    cores = usable_cores()
    hint = "training and the demo are made for two cores or more" if cores < CORES else ""
    return _check("cores", f"{cores} cores, {platform.machine()}", hint)


def _governor() -> Check:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    found = path.read_text().strip() if path.exists() else "not adjustable here"
    steady = not path.exists() or found in ("performance", "schedutil")
    hint = "" if steady else "for steady latency: sudo cpupower frequency-set -g performance"
    return _check("clock governor", found, hint)


def priority() -> Check:
    """Whether shields and drivers go before other programs: where not, those of a busy computer hold them up."""
    if is_granted(OF_SHIELDS):
        return _check("priority of nodes", f"niceness {OF_SHIELDS} is granted")
    hint = (
        f"for real robots: '{getpass.getuser()} - nice {OF_SHIELDS}' in /etc/security/limits.conf, and log in again "
        "(for a Franka '- rtprio 99' too; a container: --cap-add SYS_NICE); not needed in simulation"
    )
    return _check("priority of nodes", f"niceness {OF_SHIELDS} is not granted: other programs hold shields up", hint)


def _jitter() -> Check:
    late = wake_up_errors_us()
    p50, p99, worst = late[len(late) // 2], late[int(0.99 * (len(late) - 1))], late[-1]
    found = f"{p50:.0f} us median, {p99:.0f} us p99, {worst:.0f} us worst"
    if p99 <= LATE_WARN_US:
        return _check("wake-up lateness", found)
    hint = "other programs take the processor: close them, or run the control loop on a core of its own"
    return _check("wake-up lateness", found, hint, "fail" if p99 > LATE_FAIL_US else "warn")


def _check(name: str, found: str, hint: str = "", status: Status = "warn") -> Check:
    """A check that is passed where there is nothing to hint at."""
    return Check("machine", name, status if hint else "ok", found, hint)
