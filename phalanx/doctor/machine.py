"""What the machine can hold: cores, clock governor, memory for DDS, and how late it wakes a sleeping control loop."""

import gc
import os
import platform
import resource
import time
from pathlib import Path

from phalanx.doctor.check import Check, Status

CORES = 2
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
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = f"{cores} cores, {platform.machine()}"
    if cores < CORES:
        return Check("machine", "cores", "warn", found, "training and the demo are made for two cores or more")
    return Check("machine", "cores", "ok", found)


def _governor() -> Check:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if not path.exists():
        return Check("machine", "clock governor", "ok", "not adjustable here")
    governor = path.read_text().strip()
    if governor in ("performance", "schedutil"):
        return Check("machine", "clock governor", "ok", governor)
    return Check(
        "machine", "clock governor", "warn", governor, "for steady latency: sudo cpupower frequency-set -g performance"
    )


def _priority() -> Check:
    limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0] if hasattr(resource, "RLIMIT_RTPRIO") else 0
    if limit or os.geteuid() == 0:
        return Check("machine", "real-time priority", "ok", "allowed")
    hint = "on a robot add '@realtime - rtprio 80' to /etc/security/limits.conf; not needed in simulation"
    return Check("machine", "real-time priority", "warn", "not allowed for this user", hint)


def _jitter() -> Check:
    late = wake_up_errors_us()
    p50, p99, worst = late[len(late) // 2], late[int(0.99 * (len(late) - 1))], late[-1]
    status: Status = "fail" if p99 > LATE_FAIL_US else "warn" if p99 > LATE_WARN_US else "ok"
    hint = (
        ""
        if status == "ok"
        else "other programs take the processor: close them, or run the control loop on a core of its own"
    )
    return Check(
        "machine", "wake-up lateness", status, f"{p50:.0f} us median, {p99:.0f} us p99, {worst:.0f} us worst", hint
    )
