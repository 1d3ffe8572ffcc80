"""The compiled core of the filters: one robot's in C, where a compiler was there when phalanx was installed.

NumPy's are the definition, and what runs without it. Where it has no answer to what it is given it says so, and NumPy's
are asked. `tests/test_shield_core.py` holds both together.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType


def _load() -> ModuleType | None:
    try:
        found = import_module("deploy.shield._core")
    except ImportError:
        return None
    built_s = Path(str(found.__file__)).stat().st_mtime
    # Beside an editable install, where they may have changed since. An editor's lock is a link to nowhere.
    sources = filter(Path.is_file, Path(__file__).parent.glob("*.[ch]"))
    return None if any(source.stat().st_mtime > built_s for source in sources) else found


compiled = _load()
