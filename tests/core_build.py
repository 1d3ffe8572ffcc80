"""Builds of the shield's compiled core."""

import os
import subprocess
import sys
from pathlib import Path

from places import ROOT


def build(out: Path, **env: str) -> list[Path]:
    """Build what setup.py declares, into a folder; the libraries that came of it."""
    command = [sys.executable, "setup.py", "-q", "build_ext"]
    command += ["--build-lib", str(out), "--build-temp", str(out / "temp")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | env)
    assert done.returncode == 0, done.stderr[-2000:]
    return list(out.rglob("_core*.so"))
