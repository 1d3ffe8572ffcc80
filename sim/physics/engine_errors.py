"""Messages and errors of engines, one line each."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sim.physics import EngineError

# As torch, Warp and JAX say it, on a CPU and on an accelerator
OUT_OF_MEMORY = ("out of memory", "can't allocate", "Failed to allocate", "RESOURCE_EXHAUSTED", "Invalid buffer size")
LOST: type[Exception] | tuple[()] = getattr(torch, "AcceleratorError", ())  # torch before 2.8 has no name for it


def announce(engine: str, line: str) -> None:
    """Print one line about an engine to standard error."""
    print(f"{engine}: {line}", file=sys.stderr, flush=True)


@contextmanager
def engine_errors(engine: str, num_worlds: int, device: str | None = None) -> Iterator[None]:
    """EngineError where memory is too small for `num_worlds`, or a device is lost; other errors stay what they are."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        what = next(iter(str(error).strip().splitlines()), type(error).__name__)
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in OUT_OF_MEMORY):
            of = "" if device is None else f" of {device!r}"
            what = f"{num_worlds} worlds do not fit into the memory{of}; use fewer"
        elif not isinstance(error, LOST):
            raise
        raise EngineError(f"the engine {engine!r}: {what}") from error
