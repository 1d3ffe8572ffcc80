"""What a program loads, in a process of its own."""

import subprocess
import sys

from places import ROOT


def loaded_after(code: str, names: tuple[str, ...]) -> list[str]:
    ask = f"import sys\n{code}\nprint(*[n for n in {names!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()
