"""What MuJoCo Warp needs before it can step: its packages, a device, a model that it supports, height fields."""

import copy
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

import mujoco
import torch

from sim.physics import EngineError
from sim.physics.warp.capacity import LONGEST


def load_warp() -> tuple[ModuleType, ModuleType]:
    """The modules warp and mujoco_warp; EngineError where they are missing or do not fit."""
    try:
        found = version("mujoco-warp")
        import warp
    except (PackageNotFoundError, ModuleNotFoundError):
        message = "the physics engine 'warp' needs MuJoCo Warp, which is not installed: pip install 'phalanx[warp]'"
        raise EngineError(message) from None
    if problem := version_error(mujoco.__version__, found):
        raise EngineError(problem)
    warp.config.log_level = warp.LOG_ERROR  # or every kernel that is loaded is a line of its own
    with _silent():
        warp.init()
    import mujoco_warp

    return warp, mujoco_warp


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing on the file stderr: warp warns there, from C++, of a missing GPU, also where none was requested."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def version_error(of_mujoco: str, of_warp: str) -> str | None:
    """Why these versions of mujoco and mujoco-warp cannot work together, None where they can."""
    if of_mujoco.split(".")[0] == of_warp.split(".")[0]:
        return None
    return f"mujoco {of_mujoco} and mujoco-warp {of_warp} do not fit: both need the same first number"


def find_device(warp: ModuleType, name: str) -> torch.device:
    """The device called `name`; EngineError where there is none."""
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()) or (kind == "cpu" and number):
        raise EngineError(f"device {name!r}: MuJoCo Warp runs on 'cpu', 'cuda' or 'cuda:<number>'")
    if kind == "cuda":
        if not warp.is_cuda_available():
            raise EngineError(f"device {name!r}: there is no CUDA device here; 'cpu' works")
        if not torch.cuda.is_available():
            raise EngineError(f"device {name!r}: torch {torch.__version__} is built without CUDA; 'cpu' works")
        if int(number or 0) >= torch.cuda.device_count():
            raise EngineError(f"device {name!r}: there are {torch.cuda.device_count()} CUDA devices, counted from 0")
    return torch.device(kind, int(number or 0)) if kind == "cuda" else torch.device(kind)


def warp_refuses(model: mujoco.MjModel) -> str | None:
    """What of `model` the engine would leave out without a word, None where there is nothing of the kind."""
    features = {
        "delayed actuators or sensors": model.nhistory,
        "plugins": model.nplugin,
        "bodies that fall asleep": model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP,
        "actuators that stick to what they touch": (model.actuator_trntype == mujoco.mjtTrn.mjTRN_BODY).any(),
    }
    return next((feature for feature, found in features.items() if found), None)


def put_model(mujoco_warp: ModuleType, model: mujoco.MjModel) -> Any:
    """`model` on warp's current device; EngineError that names what of it is not supported."""
    problem = warp_refuses(model)
    if problem is None:
        model = copy.copy(model)
        # It never resets a world by itself, and does not know the flag that forbids it.
        model.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        try:
            return mujoco_warp.put_model(model)
        except (NotImplementedError, ValueError) as error:
            problem = " ".join(str(error).split())
    raise EngineError(f"MuJoCo Warp cannot step this scene: {problem}; the engine 'mujoco' can")


def own_heights(
    warp: ModuleType, model: mujoco.MjModel, put: Any, num_worlds: int, device: torch.device
) -> torch.Tensor:
    """Give each world of `put` a height field of its own; returns their nodes (W, rows x columns), 0 to 1, as a view.

    All worlds share the model's height fields, but each may say which of them a geom is made of: there is one for each.
    EngineError where the scene has more than one, or they are too many nodes.
    """
    if model.nhfield != 1:
        raise EngineError(f"MuJoCo Warp: a terrain takes one height field; this scene has {model.nhfield}")
    if num_worlds * model.nhfielddata > LONGEST:
        raise EngineError(f"{num_worlds} worlds: MuJoCo Warp can number {LONGEST // model.nhfielddata} of this ground")
    for name in ("hfield_size", "hfield_nrow", "hfield_ncol"):
        shared = getattr(put, name)
        rows = warp.to_torch(shared).repeat_interleave(num_worlds, dim=0)
        setattr(put, name, warp.from_torch(rows, dtype=shared.dtype))
    each = torch.arange(num_worlds, dtype=torch.int32, device=device)
    nodes = torch.from_numpy(model.hfield_data).to(device, torch.float32).repeat(num_worlds, 1)
    put.hfield_adr, put.hfield_data = warp.from_torch(each * model.nhfielddata), warp.from_torch(nodes.view(-1))
    made_of = warp.to_torch(put.geom_dataid).repeat(num_worlds, 1)
    made_of[:, torch.from_numpy(model.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD).to(device)] = each.unsqueeze(-1)
    put.geom_dataid = warp.from_torch(made_of)
    return nodes
