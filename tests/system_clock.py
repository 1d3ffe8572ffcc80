"""A system's clock that a test sets for the processes which it starts: this machine's is not touched."""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

# What is asked of CLOCK_REALTIME, and what waits for a time of it, as the kernel does when the clock is set meanwhile.
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long none, *ahead = &none;  /* ns */
static int (*get)(clockid_t, struct timespec *);
static int (*wait_until)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void begin(void) {
    get = dlsym(RTLD_NEXT, "clock_gettime");
    wait_until = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!wait_until) wait_until = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    int file = open(getenv("SYSTEM_CLOCK_FILE"), O_RDONLY);
    void *found = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) ahead = found;
}

static struct timespec shifted(struct timespec t, long long by) {
    long long ns = t.tv_sec * 1000000000LL + t.tv_nsec + by;
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    if (!get) begin();
    int error = get(clock, t);
    if (!error && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *t = shifted(*t, *ahead);
    return error;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until) {
    if (until->tv_sec < 1000000000) return wait_until(c, m, until);  /* of the monotonic clock */
    for (;;) {
        struct timespec now, slice;
        get(CLOCK_REALTIME, &now);
        struct timespec real = shifted(*until, -*ahead), soon = shifted(now, 2000000);
        slice = real.tv_sec > soon.tv_sec || (real.tv_sec == soon.tv_sec && real.tv_nsec > soon.tv_nsec) ? soon : real;
        int error = wait_until(c, m, &slice);
        if (error != ETIMEDOUT || (slice.tv_sec == real.tv_sec && slice.tv_nsec == real.tv_nsec)) return error;
    }
}
"""


class SystemClock:
    """Give processes `environment`; then `step` theirs."""

    def __init__(self, folder: Path):
        """Skips the test where there is no C compiler, or no Linux."""
        compiler = shutil.which("cc")
        if compiler is None or not Path("/proc/self/maps").exists():
            pytest.skip("no C compiler: the clock of a process cannot be set")
        source, library, file = folder / "system_clock.c", folder / "system_clock.so", folder / "ahead"
        source.write_text(SOURCE)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        file.write_bytes(bytes(8))
        with file.open("r+b") as opened:
            self._ahead = mmap.mmap(opened.fileno(), 8)
        self.environment = {"LD_PRELOAD": str(library), "SYSTEM_CLOCK_FILE": str(file)}
        self.ahead_ns = 0

    def step(self, by_s: float) -> None:
        """Set the clock forward, below zero back."""
        self.ahead_ns += round(by_s * 1e9)
        self._ahead[:] = struct.pack("=q", self.ahead_ns)
