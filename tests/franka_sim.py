"""franky-sim, which has an environment of its own, for tests that need it."""

import os
from pathlib import Path

import pytest
from emulated import Emulated

PYTHON = Path(os.environ.get("FRANKY_SIM", Path(__file__).parents[1] / ".venv-franky-sim")) / "bin" / "python"
HOW = "make franky-sim"
needs_franky_sim = pytest.mark.skipif(not PYTHON.is_file(), reason=f"no franky-sim at {PYTHON}: {HOW}")


def simulated() -> Emulated:
    """A Franka Research 3 behind its control unit; its `address` is the host."""
    return Emulated("franka", python=str(PYTHON))
