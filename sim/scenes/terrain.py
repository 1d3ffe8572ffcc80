"""Uneven ground: a height field in the scene, and how high it is below any point of any world.

All worlds share one landscape, which repeats; each has its own part of it, as rough as it drew. A roughness of r m
means bumps and steps of up to r, a patch of the one beside a patch of the other, on gentle waves of up to r either way.
"""

from dataclasses import dataclass, replace
from functools import cache
from math import pi

import mujoco
import torch

Tensor = torch.Tensor
CELL_M = 0.125  # between two nodes: a foot stands on one or two cells, and 1,024 worlds of fields take 128 MB
HALF = 88  # nodes from the middle of a field to its edge: 11 m, out of reach in 10 s at 1 m/s
NODES = 2 * HALF + 1
PERIOD = 256  # nodes after which the landscape repeats: 32 m
BUMP, PLATEAU = 2, 8  # nodes: 0.25 m between bumps, plateaus of a metre
WAVES = (4, 8)  # how many fit into the period: wavelengths of 8 m down to 4 m
START = 3  # nodes around the origin above none of which a robot may start in the ground: 0.375 m
ROUGHEST_M = 0.1
RELIEF_M = 3.0 * ROUGHEST_M  # no node is farther from the height of the start
UNDER_M = 0.1  # thickness of the field below its lowest node


def uneven_ground(spec: mujoco.MjSpec, robots: int) -> None:
    """What stands in the scene: a height field instead of the floor, level until a world draws its own."""
    shares = [0.0, *[0.5] * (NODES**2 - 2), 1.0]  # the compiler stretches them to 0 and 1, which two far corners are
    size = [HALF * CELL_M, HALF * CELL_M, 2.0 * RELIEF_M, UNDER_M]
    spec.add_hfield(name="terrain", nrow=NODES, ncol=NODES, size=size, userdata=shares)
    field, pos = mujoco.mjtGeom.mjGEOM_HFIELD, [0.0, 0.0, -RELIEF_M]
    spec.worldbody.add_geom(name="terrain", type=field, hfieldname="terrain", pos=pos, rgba=[0.80, 0.81, 0.79, 1])
    floor = spec.geom("floor")  # is seen around the field, and touches nothing
    floor.contype = floor.conaffinity = 0
    floor.pos = pos


@dataclass(frozen=True)
class Ground:
    """Which part of the landscape each of W worlds has."""

    origin: Tensor  # (W, 2) long: column and row of the node at the world's origin
    roughness: Tensor  # (W,) m
    top: Tensor  # (W,) m, highest node at the start, before it is moved to height 0: robots start above the ground

    def height(self, pos: Tensor) -> Tensor:
        """Height of the ground (W, ...) m below `pos` (W, ..., 3) m, world; as MuJoCo has it, to a micrometre.

        Each cell is two triangles, divided from its corner at least x, y to the one at greatest. Beyond the field there
        is nothing to stand on, although the landscape goes on.
        """
        lone = (1,) * (pos.ndim - 2)
        at = pos[..., :2] / CELL_M + self.origin.view(-1, *lone, 2)
        low = at.floor()
        x, y = (at - low).unbind(-1)
        column, row = low.long().unbind(-1)
        ahead = (x > y).long()  # on the triangle with the corner at greatest x; the other one's is at greatest y
        near, side, far = _node(column, row), _node(column + ahead, row + 1 - ahead), _node(column + 1, row + 1)
        share = torch.maximum(x, y)
        unit = (1.0 - share) * near + (x - y).abs() * side + torch.minimum(x, y) * far
        return self.roughness.view(-1, *lone) * unit - self.top.view(-1, *lone)

    def heights(self, worlds: Tensor) -> Tensor:
        """All nodes of `worlds` (K,): (K, NODES, NODES) m, rows along y."""
        unit = _part(self.origin[worlds], HALF)
        return self.roughness[worlds].view(-1, 1, 1) * unit - self.top[worlds].view(-1, 1, 1)

    def shares(self, worlds: Tensor) -> Tensor:
        """The same as MuJoCo keeps them, (K, NODES * NODES): 0 to 1 from the lowest to the highest that can be."""
        return (0.5 + self.heights(worlds) / (2.0 * RELIEF_M)).flatten(1)

    def renewed(self, worlds: Tensor, origin: Tensor, roughness: Tensor) -> "Ground":
        """This ground with another one in `worlds` (K,): `origin` (K, 2), `roughness` (K,) m."""
        top = roughness * _part(origin, START).amax((-2, -1))
        changes = {"origin": origin, "roughness": roughness, "top": top}
        return replace(self, **{name: getattr(self, name).index_copy(0, worlds, new) for name, new in changes.items()})


def level_ground(model: mujoco.MjModel, worlds: int) -> Ground | None:
    """Level at height 0; None for a model without `uneven_ground`."""
    if mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_HFIELD, "terrain") < 0:
        return None
    return Ground(torch.zeros(worlds, 2, dtype=torch.long), torch.zeros(worlds), torch.zeros(worlds))


@cache
def landscape(device: torch.device) -> Tensor:
    """Height of every node for a roughness of 1 m, (PERIOD, PERIOD), rows along y; it goes on where it began."""
    with torch.device("cpu"):  # the same everywhere
        return _drawn().to(device)


def _drawn() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    bumps = _between(torch.rand(PERIOD // BUMP, PERIOD // BUMP, generator=generator))
    steps = 0.5 * torch.randint(3, (PERIOD // PLATEAU, PERIOD // PLATEAU), generator=generator)
    steps = steps.repeat_interleave(PLATEAU, 0).repeat_interleave(PLATEAU, 1)
    return _waves(generator) + torch.where(_waves(generator) > 0.0, bumps, steps)


def _waves(generator: torch.Generator) -> Tensor:
    """Waves that cross one another, -1 to 1, (PERIOD, PERIOD)."""
    along = torch.arange(PERIOD) * 2.0 * pi / PERIOD
    total = torch.zeros(PERIOD, PERIOD)
    for count in range(WAVES[0], WAVES[1] + 1):
        angle, phase = 2.0 * pi * torch.rand(2, generator=generator)
        across, up = (count * angle.cos()).round(), (count * angle.sin()).round()
        total += torch.sin(across * along + up * along.unsqueeze(1) + phase)
    return total / total.abs().max()


def _between(coarse: Tensor) -> Tensor:
    """(n, n) -> (BUMP n, BUMP n): evenly from each value to the next, from the last one to the first."""
    for axis in (0, 1):
        following = coarse.roll(-1, axis)
        parts = [coarse + (following - coarse) * k / BUMP for k in range(BUMP)]
        coarse = torch.stack(parts, axis + 1).flatten(axis, axis + 1)
    return coarse


def _node(column: Tensor, row: Tensor) -> Tensor:
    return landscape(column.device)[row % PERIOD, column % PERIOD]


def _part(origin: Tensor, half: int) -> Tensor:
    """The landscape within `half` nodes of `origin` (K, 2): (K, 2 half + 1, 2 half + 1)."""
    column, row = (origin.unsqueeze(-1) + torch.arange(-half, half + 1)).unbind(1)
    return _node(column.unsqueeze(1), row.unsqueeze(2))
