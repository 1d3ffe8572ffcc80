"""How many contacts MuJoCo Warp has memory for: decided beforehand, and more where it was not enough."""

from dataclasses import dataclass, replace
from typing import Any

import mujoco
import numpy as np
import torch

from sim.physics.engine_errors import announce

WARP = "MuJoCo Warp"
LONGEST = 2**31 - 1  # any array can be
EQUALITY_ROWS = {mujoco.mjtEq.mjEQ_CONNECT: 3, mujoco.mjtEq.mjEQ_WELD: 6}  # all others have one


@dataclass(frozen=True)
class Capacity:
    """Contacts and rows of the constraint solver that there is memory for, a world. All worlds share the contacts."""

    contacts: int
    rows: int


def initial_capacity(model: mujoco.MjModel) -> Capacity:
    """Enough for robots that fall about: a contact for every degree of freedom, and half of the joints at their limits.

    Most contacts and rows seen in a world under random actions, beside what this gives: hover 0 and 4 (8, 32), four
    drones 0 and 0 (24, 96), reach 1 and 22 (9, 80), push 11 and 69 (15, 112), bimanual-lift 20 and 128 (24, 176),
    payload-lift 10 and 40 (24, 112), stand 11 and 44 (35, 160). Where it is not enough the engine makes more.
    """
    contacts = max(8, int(model.nv))
    always = sum(EQUALITY_ROWS.get(kind, 1) for kind in model.eq_type)
    dry = np.count_nonzero(model.dof_frictionloss) + np.count_nonzero(model.tendon_frictionloss)
    limits = np.count_nonzero(model.jnt_limited) // 2 + np.count_nonzero(model.tendon_limited)
    each = 2 * (int(max(model.geom_condim, default=1)) - 1) or 1
    rows = always + int(dry) + int(limits) + each * contacts
    return Capacity(contacts, 16 * -(-rows // 16))


def larger_capacity(kinds: Any, room: Capacity, overflow: torch.Tensor, fine: torch.Tensor) -> Capacity:
    """What a step should have had that reported `overflow` (W,), bits of `kinds`; `room` if that was enough.

    Reports it in a line. A world that is not `fine` (W,) has diverged and will be reset: it needs no rows.
    """
    rows = int(((overflow & (kinds.NEFC | kinds.NJMAX_NNZ)).bool() & fine).sum())
    contacts = bool((overflow & (kinds.BROADPHASE | kinds.NARROWPHASE | kinds.CCD)).any())
    more = replace(room, contacts=room.contacts * (1 + contacts), rows=room.rows * (1 + (rows > 0)))
    if more != room:
        announce(
            WARP,
            f"{rows or 'some'} of {len(fine)} worlds touch more than {room.contacts} contacts and {room.rows} rows "
            f"have room for; now it is {more.contacts} and {more.rows}, the step is repeated",
        )
    return more
