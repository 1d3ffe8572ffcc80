"""One compute thread a process: tests share few cores, and thread pools that fight for them slow everything down."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
