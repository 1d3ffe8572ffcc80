"""Constants of a model that follow from its masses, and have to be derived again where masses change."""

import copy
from collections.abc import Mapping, Sequence

import mujoco
import numpy as np

INERTIAL = ("body_mass", "body_inertia", "body_ipos", "dof_armature")  # MuJoCo derives constants from these:
DERIVED = (
    "body_subtreemass",
    "body_invweight0",
    "body_sameframe",
    "bvh_aabb",
    "dof_invweight0",
    "dof_M0",
    "dof_length",
    "tendon_invweight0",
    "actuator_acc0",
)


class Derivation:
    """MuJoCo's own, for one world after the other, in 3 to 70 us each and in double precision.

    It happens on a copy of the model, because MuJoCo would write to what the models of worlds share.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        """`model` has the masses that no world changes."""
        self._bench, self._scratch = copy.copy(model), mujoco.MjData(model)

    def of(self, masses: Mapping[str, np.ndarray]) -> mujoco.MjModel:
        """A model with the `masses` of a world, by names of INERTIAL, and what follows; good until the next call."""
        for name, values in masses.items():
            getattr(self._bench, name)[:] = values
        mujoco.mj_setConst(self._bench, self._scratch)
        return self._bench

    def of_worlds(self, masses: Mapping[str, np.ndarray], names: Sequence[str]) -> dict[str, np.ndarray]:
        """Arrays (K, ...) called `names`, of DERIVED, that follow from `masses` (K, ...) of K worlds."""
        rows: dict[str, list[np.ndarray]] = {name: [] for name in names}
        for world in zip(*masses.values(), strict=True):
            model = self.of(dict(zip(masses, world, strict=True)))
            for name in names:
                rows[name].append(getattr(model, name).copy())
        return {name: np.stack(arrays) for name, arrays in rows.items()}
