"""Where things are in this source tree."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
ZOO = ROOT / "zoo"
