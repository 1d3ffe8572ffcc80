"""`python -m phalanx`, and where the installed script begins: Ctrl-C is one line from here on, before other imports."""

import signal

from phalanx import interrupt

# Where it is ignored it stays so; a process that multiprocessing starts calls this module __mp_main__.
if __name__ != "__mp_main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, interrupt.end)

from phalanx.cli import main

if __name__ == "__main__":
    main()
