"""Frame history: a policy is shown what its robot saw of itself in the last control periods, beside what it sees now.

From how the robot answered so far it can tell what a single look does not show: delays, drives, wind, a velocity that
is not measured. What was seen is memory of the policy, and so explicit inputs and outputs of the exported graph: who
runs the file hands it on from one period to the next as any other. While a policy has seen nothing yet, the past is
what it sees now.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

PAST, KNOWN = "past", "past_known"  # names in the memory
MEANING = {PAST: "what was seen in the control periods before, the last one first", KNOWN: "1 where there is a past"}


def no_past(periods: int, width: int) -> dict[str, tuple[float, ...]]:
    """Memory at the start of a policy that sees `periods` of `width` features, the present one among them."""
    return {PAST: (0.0,) * ((periods - 1) * width), KNOWN: (0.0,)}


def with_past(obs: Any, memory: Mapping[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:
    """The `Observation` with its own features (..., periods x D), now first, and the memory for the next period."""
    now, past, known = obs.policy, memory[PAST], memory[KNOWN]
    first = torch.cat([now] * (past.shape[-1] // now.shape[-1]), dim=-1)
    seen = torch.cat([now, torch.where(known < 0.5, first, past)], dim=-1)
    return replace(obs, policy=seen), {PAST: seen[..., : past.shape[-1]], KNOWN: torch.ones_like(known)}


def as_first_seen(obs: Any, periods: int) -> Any:
    """The `Observation` as a policy of that many `periods` sees it that has no past."""
    return replace(obs, policy=torch.cat([obs.policy] * periods, dim=-1)) if periods > 1 else obs
