"""MuJoCo without its stopwatch: up to a fifth of a light scene's step goes into asking what time it is.

MuJoCo's Python package has the engine time the parts of every step, for `MjData.timer`. `set_mjcb_time(None)` brings
that stopwatch back; only the engine's own variable can be emptied, and without a callback MuJoCo times nothing.
"""

import ctypes
from contextlib import suppress

import mujoco


def stop_timing() -> None:
    """From now on no step of this process is timed, unless a program has set a clock of its own by `set_mjcb_time`."""
    if mujoco.get_mjcb_time() is not None:
        return
    with suppress(ImportError, OSError, ValueError):  # a build that does not show the variable goes on as it was
        from mujoco import _callbacks

        ctypes.c_void_p.in_dll(ctypes.CDLL(_callbacks.__file__), "mjcb_time").value = None
