"""Which off-screen OpenGL MuJoCo shall use."""

import os
from ctypes.util import find_library


def choose_renderer() -> None:
    """Set MUJOCO_GL to what this machine has, unless somebody has chosen; to be called before MuJoCo is imported."""
    for library, name in (("EGL", "egl"), ("OSMesa", "osmesa")):
        if "MUJOCO_GL" not in os.environ and find_library(library):
            os.environ["MUJOCO_GL"] = name
    os.environ.setdefault("MUJOCO_GL", "disable")
