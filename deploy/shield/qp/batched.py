"""Projection of many accelerations onto their constraint rows: a batched dual active-set method for dimension 3.

Goldfarb and Idnani's dual method (Math. Programming 27, 1983) with a unit Hessian. It starts at the request, which is
optimal without constraints, and takes in the most violated row; a row whose multiplier would turn negative leaves.
At most three rows are active, so every robot of a batch carries the same small fixed set of slots, and all of them step
together under masks. Array-API arithmetic in float64: torch tensors in simulation, NumPy arrays in tests.
"""

from typing import Any

from deploy.shield.arrays import at_least, double
from hardware.rotation import namespace_of
from hardware.types import Array

VIOLATION_TOL = 1e-9  # m/s^2, on rows of unit length
PARALLEL_TOL = 1e-12  # squared sine of the angle to the active rows' span, below which a row adds no direction
MAX_STEPS = 64  # a robot that is not done by then is reported as infeasible; random problems need fewer than 12
_FAR = 1e30


def solve_batch(rows: Array, bound: Array, request: Array) -> tuple[Array, Array, Array]:
    """Min ||a - request||^2 subject to rows (B, M, 3) a <= bound (B, M): a (B, 3), feasible (B,), multipliers (B, M).

    Where no acceleration meets the rows, feasible is False and `a` means nothing.
    """
    xp = namespace_of(rows)
    rows, bound, request = (double(x) for x in (rows, bound, request))
    length = xp.sqrt((rows * rows).sum(-1))
    empty = length < 1e-12
    feasible = ~(empty & (bound < 0.0)).any(-1)
    divisor = xp.where(empty, 1.0, length)
    rows = xp.where(empty[..., None], 0.0, rows / divisor[..., None])
    bound = xp.where(empty, _FAR, bound / divisor)
    accel, solved, multipliers = _dual_steps(xp, rows, bound, request, feasible)
    return accel, solved, multipliers / divisor


def _dual_steps(xp: Any, rows: Array, bound: Array, request: Array, feasible: Array) -> tuple[Array, Array, Array]:
    batch, num_rows = bound.shape
    index = xp.arange(batch, device=rows.device)
    slot_numbers = xp.arange(3, device=rows.device)
    row_numbers = xp.arange(num_rows, device=rows.device)
    active = xp.zeros((batch, 3), dtype=xp.int64, device=rows.device) - 1  # row held by each slot, -1 = free
    normals = xp.zeros((batch, 3, 3), dtype=xp.float64, device=rows.device)
    weights = xp.zeros((batch, 3), dtype=xp.float64, device=rows.device)
    accel = request
    entering = xp.zeros((batch,), dtype=xp.int64, device=rows.device)
    entering_weight = xp.zeros((batch,), dtype=xp.float64, device=rows.device)
    pending = xp.zeros((batch,), dtype=xp.bool, device=rows.device)  # a row is on its way in
    live = feasible
    for _ in range(MAX_STEPS):
        excess = (rows @ accel[..., None])[..., 0] - bound
        entering = xp.where(pending, entering, xp.argmax(excess, axis=-1))
        violation = excess[index, entering]
        live = live & (pending | (violation > VIOLATION_TOL))
        if not bool(live.any()):
            break
        normal = rows[index, entering]
        held = (active >= 0) & live[:, None]
        shares = _solve_gram(xp, normals, active >= 0, (normals @ normal[..., None])[..., 0])
        free = normal - (shares[..., None, :] @ normals)[..., 0, :]
        room = (free * free).sum(-1)
        # Full step: onto the row's plane. Partial step: until the first active row would start to pull.
        full = xp.where(room > PARALLEL_TOL, violation / at_least(room, PARALLEL_TOL), _FAR)
        limits = xp.where(held & (shares > 1e-12), weights / xp.where(shares > 1e-12, shares, 1.0), _FAR)
        leaving = xp.argmin(limits, axis=-1)
        partial = limits[index, leaving]
        step = xp.minimum(full, partial)
        stuck = live & (step >= _FAR)
        feasible, live = feasible & ~stuck, live & ~stuck
        step = xp.where(live, at_least(step, 0.0), 0.0)
        accel = accel - xp.where((room > PARALLEL_TOL)[:, None], step[:, None] * free, 0.0)
        weights = xp.where(held, at_least(weights - step[:, None] * shares, 0.0), weights)
        entering_weight = xp.where(pending, entering_weight, 0.0) + step
        is_full = live & (full <= partial)
        free_slot = xp.argmax(xp.astype(active < 0, xp.int64), axis=-1)
        fills = is_full[:, None] & (slot_numbers[None, :] == free_slot[:, None])
        drops = (live & ~is_full)[:, None] & (slot_numbers[None, :] == leaving[:, None])
        active = xp.where(fills, entering[:, None], xp.where(drops, -1, active))
        weights = xp.where(fills, entering_weight[:, None], xp.where(drops, 0.0, weights))
        normals = xp.where(fills[..., None], normal[:, None, :], xp.where(drops[..., None], 0.0, normals))
        pending = live & ~is_full
    multipliers = (double(active[..., None] == row_numbers) * weights[..., None]).sum(-2)
    return accel, feasible & ~live, multipliers


def _solve_gram(xp: Any, normals: Array, held: Array, right: Array) -> Array:
    """Coefficients (B, 3) of the least-squares combination of the held `normals` (B, 3, 3), by Cramer's rule."""
    identity = xp.eye(3, dtype=xp.float64, device=right.device)
    gram = normals @ xp.matrix_transpose(normals) + xp.where(held[..., None], 0.0, identity)
    a, b, c = gram[..., 0, 0], gram[..., 0, 1], gram[..., 0, 2]
    d, e, f = gram[..., 1, 1], gram[..., 1, 2], gram[..., 2, 2]
    minors = (d * f - e * e, c * e - b * f, b * e - c * d, a * f - c * c, b * c - a * e, a * d - b * b)
    p, q, r, s, t, u = minors
    determinant = a * p + b * q + c * r
    x, y, z = right[..., 0], right[..., 1], right[..., 2]
    solution = xp.stack([p * x + q * y + r * z, q * x + s * y + t * z, r * x + t * y + u * z], axis=-1)
    return solution / determinant[..., None]
