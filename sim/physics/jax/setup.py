"""What engines in JAX need from JAX: the package, the device, a cache of compiled code, and tensors shared with it."""

import importlib
import importlib.metadata
import os
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from hardware.names import one_line
from sim.physics import EngineError
from sim.physics.engine_errors import announce


def engine_modules(engine: str, *names: str) -> list[ModuleType]:
    """JAX and then the modules `names`; EngineError in one line where one is missing or does not fit the others."""
    # JAX would take three quarters of an accelerator's memory at once, and leave torch the rest
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    modules = []
    for name in ("jax", *names):
        try:
            modules.append(importlib.import_module(name))
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):  # a dependency of the package is missing
                raise EngineError(version_error(engine, error)) from error
            raise EngineError(
                f"the engine {engine!r} needs {error.name}, which is not installed: pip install 'phalanx[jax]'"
            ) from None
        except Exception as error:
            raise EngineError(version_error(engine, error)) from error
    _cache_compiled(modules[0])
    try:
        _start_on_one_core(modules[0])
    except Exception as error:  # JAX raises many types where its platform is not there
        raise EngineError(version_error(engine, error)) from error
    return modules


def version_error(engine: str, error: Exception) -> str:
    """One line on versions that do not run together, and what went wrong."""
    found = []
    for package in ("mujoco", "mujoco-mjx", "brax", "jax", "jaxlib"):
        try:
            found.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"the engine {engine!r} does not run with {', '.join(found)} ({one_line(error)}): pip install 'phalanx[jax]'"


def _cache_compiled(jax: Any) -> None:
    """Keep compiled code in the user's cache directory, unless JAX is configured to use another."""
    if jax.config.jax_compilation_cache_dir is None:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        jax.config.update("jax_compilation_cache_dir", str(home / "phalanx" / "jax"))


def _start_on_one_core(jax: Any) -> None:
    """Give JAX's CPU client one thread, by showing it one core while it starts.

    With several, XLA (jaxlib 0.10) can wait for ever for work that is lost: four drones in 64 worlds hang in their
    first steps on two cores. An accelerator does not care. Nothing happens where JAX has been started before.
    """
    cores, before = os.sched_getaffinity(0), set(os.listdir("/proc/self/task"))
    try:
        os.sched_setaffinity(0, {min(cores)})
        jax.devices()
    finally:
        for thread in {"0", *(set(os.listdir("/proc/self/task")) - before)}:  # those it has started stay on no one core
            with suppress(ProcessLookupError):  # one that has ended since
                os.sched_setaffinity(int(thread), cores)


def best_device(engine: str) -> str:
    """Give "cuda" where torch and JAX both see an accelerator, else "cpu"; said in a line where only torch does."""
    if not torch.cuda.is_available():
        return "cpu"
    (jax,) = engine_modules(engine)
    try:
        jax.devices("cuda")
    except RuntimeError:
        announce(engine, "on the CPU, for torch sees an accelerator and JAX does not: pip install 'jax[cuda12]'")
        return "cpu"
    return "cuda"


def find_device(jax: Any, engine: str, device: str) -> Any:
    """The JAX device for "cpu" or "cuda"; EngineError for another name, or where torch or JAX has none."""
    if device not in ("cpu", "cuda"):
        raise EngineError(f"the engine {engine!r} runs on 'cpu' or 'cuda', not on {device!r}")
    try:
        found = jax.devices(device)[0]
    except RuntimeError:
        found = None
    if found is None or (device == "cuda" and not torch.cuda.is_available()):
        who = "JAX" if found is None else "torch"
        raise EngineError(
            f"the engine {engine!r} was asked for 'cuda', but {who} sees no such device here: "
            "use device 'cpu', or on a machine with a GPU pip install 'jax[cuda12]' and torch for CUDA"
        )
    return found


def compiled_for(lowered: Any, device: str) -> Any:
    """Compile a lowered function.

    On a CPU XLA (jaxlib 0.10) fuses the poses of a chain of bodies so that each computes all before it again: an arm of
    ten takes 500 times as long. Its older way of fusing does not; a version that has no such choice gets none.
    """
    if device == "cpu":
        try:
            return lowered.compile(compiler_options={"xla_cpu_use_fusion_emitters": False})
        except RuntimeError as error:
            if "No such compile option" not in str(error):
                raise
    return lowered.compile()


def to_jax(jax: Any, tensor: torch.Tensor) -> Any:
    """The same memory as a JAX array, without a copy; the tensor must not be written to while JAX still reads it."""
    if tensor.numel() == 0:  # has no memory to to_jax
        kind = bool if tensor.dtype is torch.bool else float if tensor.is_floating_point() else int
        return jax.numpy.zeros(tuple(tensor.shape), kind)
    return jax.dlpack.from_dlpack(tensor.contiguous())
