"""Adam of torch, without loading torch's compiler."""

from collections.abc import Callable
from inspect import unwrap

import torch

_step = unwrap(torch.optim.Adam.step)


class Adam(torch.optim.Adam):
    """As `torch.optim.Adam`, bit for bit; for networks that are not compiled.

    Torch loads its compiler, over two seconds of a training's start, only to tell it to leave an optimiser alone:
    the methods are taken here as they are beneath that wrapper.
    """

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step along the gradients."""
        return _step(self, closure)
