"""What held a drone's command back, for people. Machines read the names of the rows, `constraints.active_names`."""

from collections.abc import Sequence

import numpy as np

from deploy.shield.drone.constraints import row_names
from deploy.shield.types import Context

_FACES = {"low_z": "lower", "high_z": "upper"} | {
    f"{s}_{x}": f"{'-+'[s == 'high']}{x}" for s in ("low", "high") for x in "xy"
}
_LIMITS = {f"fence_{side}": f"the fence's {face} face" for side, face in _FACES.items()}
_LIMITS |= {f"tilt_{45 * k}": "its tilt limit" for k in range(8)}
_LIMITS |= {kind: f"its {kind} limit" for kind in ("speed", "climb", "descent")}


def in_words(context: Context, active: np.ndarray, names: Sequence[str]) -> str:
    """ "kept off cf1; held by the fence's lower face" for the rows that `active` (M,) bool marks; empty for none.

    `names` of these rows: `active_names`.
    """
    rows, others, limits = row_names(context), list[str](), list[str]()
    for row, name in zip(active.nonzero()[0].tolist(), names, strict=True):
        kind = rows[row].partition("_")[0]
        if kind in ("peer", "obstacle"):
            others.append(name)
        elif kind == "person":
            others.append("a person")
        else:
            limits.append(_LIMITS.get(name, name))
    said = (("kept off", others), ("held by", limits))
    return "; ".join(f"{how} {' and '.join(dict.fromkeys(what))}" for how, what in said if what)
