"""The compiled core of the filters: one robot's in C, where a compiler was there when phalanx was installed.

NumPy's are the definition, and what runs without it. Where it has no answer to what it is given it says so, and NumPy's
are asked. `tests/shield/test_shield_core.py` holds both together.
"""

import struct
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


def _load() -> ModuleType | None:
    name = "deploy.shield._core"
    library = find_spec(name)
    if library is None or not _is_whole(Path(str(library.origin))):
        return None
    try:
        found = import_module(name)
    except ImportError:
        return None
    # Beside an editable install, where they may have changed since. setup.py does the same when it builds.
    sources = [source.read_bytes() for source in sorted(Path(__file__).parent.glob("[a-z]*.[ch]"))]
    return None if sources and sha256(b"".join(sources)).hexdigest() != getattr(found, "sources", "") else found


def _is_whole(library: Path) -> bool:
    """Whether a library is as long as it says: to load a part of one can end the process by SIGBUS.

    Bytes that a disk has changed inside it are not noticed, and can end the process too: install phalanx again then.
    """
    with library.open("rb") as file:
        head = file.read(64)
    if len(head) < 64 or not head.startswith(b"\x7fELF\x02\x01"):
        return True  # its import says what is wrong
    sections, size, count = *struct.unpack_from("<Q", head, 40), *struct.unpack_from("<HH", head, 58)
    return bool(sections + size * count <= library.stat().st_size)


compiled = _load()
