"""Short vectors in large batches, several times as fast as what one would write first; and turns about one axis."""

import torch
from torch import Tensor


def dot(left: Tensor, right: Tensor) -> Tensor:
    """Scalar product (...) of vectors (..., n). A sum over so short an axis would take three times as long."""
    return (left * right) @ left.new_ones(left.shape[-1])


def length(vec: Tensor) -> Tensor:
    """Euclidean norm (...) of vectors (..., n)."""
    return dot(vec, vec).sqrt()


def pairwise(vec: Tensor) -> Tensor:
    """(W, N, N, n): that of j minus that of i, of vectors (W, N, n). Laid out with components apart, for `dot`."""
    planes = vec.movedim(-1, 0).contiguous()
    return (planes[:, :, None] - planes[:, :, :, None]).movedim(0, -1)


def about_vertical(yaw: Tensor) -> Tensor:
    """Attitude (..., 4) wxyz of what is level and turned by `yaw` (...) rad."""
    none = torch.zeros_like(yaw)
    return torch.stack([(yaw / 2).cos(), none, none, (yaw / 2).sin()], dim=-1)
