"""One compute thread a process: tests share few cores, and thread pools that fight for them slow everything down."""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that Ctrl-C is ignored
