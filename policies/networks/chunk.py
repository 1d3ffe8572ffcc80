"""Action chunks: a policy decides every few control periods, and gives out one action of its chunk in each of them.

What is left of a chunk is memory of the policy, and so explicit inputs and outputs of the exported graph: who runs
the file goes on as with any other, one command in every period, each of which a shield may change. A policy whose
memory is put back decides again. Chunks of actions: Seo and Abbeel 2024, arXiv:2411.12155; decisions slower than
control: Patel and Siegelmann 2024, arXiv:2410.08979.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

LEFT, COUNT = "chunk", "chunk_left"  # names in the memory
MEANING = {LEFT: "actions that are decided and not yet done, the next one first", COUNT: "how many these are"}


def nothing_left(length: int, width: int) -> dict[str, tuple[float, ...]]:
    """Memory at the start of a policy with chunks of `length` actions (..., width): it decides at once."""
    return {LEFT: (0.0,) * ((length - 1) * width), COUNT: (0.0,)}


def next_action(chunk: Tensor, memory: Mapping[str, Tensor], width: int) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """The action (..., width) of this period, the memory after it, and whether it is the first of its chunk (...) bool.

    `chunk` (..., length x width) is what the policy would decide now; it counts where nothing is left of the last one.
    """
    decides = memory[COUNT] < 0.5
    none = chunk.new_zeros(*chunk.shape[:-1], width)
    queue = torch.where(decides, chunk, torch.cat([memory[LEFT], none], dim=-1))
    count = torch.where(decides, float(chunk.shape[-1] // width - 1), memory[COUNT] - 1.0)
    return queue[..., :width], {LEFT: queue[..., width:], COUNT: count}, decides.squeeze(-1)
