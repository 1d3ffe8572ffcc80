"""What the machine can hold: cores, clock governor, memory for DDS, and how late it wakes a sleeping control loop."""

import gc
import os
import platform
import re
import resource
import time
from pathlib import Path

from phalanx.doctor.check import Check, Status
from ros_nodes.lifecycle.machine_load import usable_cores

CORES = 2
CAP_SYS_NICE = 23  # of linux/capability.h
JITTER_S = 1.0  # how long the wake-up test lasts
PERIOD_S = 0.005
LATE_WARN_US, LATE_FAIL_US = 2_000.0, 20_000.0  # a tenth of a 50 Hz period; a whole period


def machine_checks() -> list[Check]:
    """Facts of this machine that decide whether 50 Hz and more will hold."""
    return [_cores(), _governor(), _priority(), _jitter()]


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


def _priority() -> Check:
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0] if hasattr(resource, "RLIMIT_RTPRIO") else 0
    if limit or _may_set_niceness():
        return _check("real-time priority", "allowed")
    hint = "on a robot add '@realtime - rtprio 80' to /etc/security/limits.conf; not needed in simulation"
    return _check("real-time priority", "not allowed for this user", hint)


def _may_set_niceness() -> bool:
    """CAP_SYS_NICE, which a container's root may lack."""
    status = Path("/proc/self/status")
    found = re.search(r"^CapEff:\s*(\w+)", status.read_text(), re.MULTILINE) if status.exists() else None
    return bool(int(found[1], 16) >> CAP_SYS_NICE & 1) if found else os.geteuid() == 0


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
