"""Projection of one robot's acceleration onto its constraint rows with DAQP."""

import daqp
import numpy as np

_IDENTITY = np.eye(3)
_OPTIMAL = 1


def solve_one(rows: np.ndarray, bound: np.ndarray, request: np.ndarray) -> tuple[np.ndarray, bool, np.ndarray]:
    """Min ||a - request||^2 subject to rows (M, 3) a <= bound (M): a (3,) m/s^2, feasible, multipliers (M,).

    Where no acceleration meets the rows, feasible is False and `a` means nothing.
    """
    accel, _, flag, info = daqp.solve(_IDENTITY, -request, rows, bound, primal_tol=1e-9)
    return accel, flag == _OPTIMAL, info["lam"]
