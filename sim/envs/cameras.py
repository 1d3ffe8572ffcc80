"""How the robots of a group find objects: by pictures that are late or missing, from a place not quite known."""

import torch

from sim.noise import Noise, add_error
from sim.tracing import may_hold

Tensor = torch.Tensor
NEVER_S = 1e3  # older than any picture


class Cameras:
    """What N robots in W worlds see of O objects. Rows are (14,): pose, velocities, age s.

    All that `randomisation.camera` sets and that changes from step to step is in `state`; as it starts, cameras see
    everything at once.
    """

    def __init__(self, worlds: int, robots: int, objects: int, period_s: float, most_delay: int) -> None:
        """Of control steps of `period_s`; a picture may be `most_delay` physics steps older than a robot's state."""
        self.period_s, self.most_delay = period_s, most_delay
        self.state = {
            "delay": torch.zeros(worlds, robots, dtype=torch.long),  # physics steps
            "missing": torch.zeros(worlds, robots),  # share of the control steps that have no new picture
            "offset": torch.zeros(worlds, robots, 12),  # of every object, as Noise.per_column
            "last": torch.zeros(worlds, robots, objects, 14),  # what was seen last
        }

    def start(self, worlds: Tensor) -> None:
        """Forget what was seen in `worlds` (K,)."""
        self.state["last"][worlds] = torch.inf

    def see(self, rows: Tensor, worlds: Tensor, noise: Noise, generator: torch.Generator) -> Tensor:
        """What robots of `worlds` (K,) know of objects whose new pictures have `rows` (K, N, O, 14): likewise.

        With noise and offset. Where a picture is missing the last one stands, a control step older.
        """
        error = self.state["offset"][worlds].unsqueeze(-2).expand(*rows.shape[:-1], -1)
        if noise:
            error = error + torch.tensor(noise.per_column(0)) * torch.randn(error.shape, generator=generator)
        add_error(rows[..., :13], error)
        if may_hold(self.state["missing"]):
            missing = (
                torch.rand(*rows.shape[:2], 1, 1, generator=generator) < self.state["missing"][worlds][..., None, None]
            )
            last = self.state["last"][worlds]
            last[..., 13] += self.period_s
            rows = torch.where(missing & (last[..., 13:] < NEVER_S), last, rows)
            self.state["last"][worlds] = rows
        return rows
