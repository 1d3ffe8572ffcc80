"""Ground that differs from world to world, which MuJoCo Warp has only by a detour."""

from types import ModuleType
from typing import Any

import mujoco
import torch

from sim.physics import EngineError
from sim.physics.warp.room import LONGEST


def own_heights(
    warp: ModuleType, model: mujoco.MjModel, put: Any, num_worlds: int, device: torch.device
) -> torch.Tensor:
    """Give each world of `put` a height field of its own; returns their nodes (W, rows x columns), 0 to 1, as a view.

    All worlds share the model's height fields, but each may say which of them a geom is made of: there is one for each.
    EngineError where the scene has more than one, or they are too many nodes.
    """
    if model.nhfield != 1:
        raise EngineError(f"MuJoCo Warp: uneven ground takes one height field; this scene has {model.nhfield}")
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
