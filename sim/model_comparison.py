"""Our model of a robot beside the meshed one that others made of it: links, axes and drives, joint by joint.

Both models are measured alike by `sim.model_figures`; figures agree that are within a tolerance of each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hardware.spec import RobotSpec
from sim.model_figures import joints_of, load_model, measure
from sim.vendor_models import vendor_model, vendor_model_path

SHARE = 0.05  # of the larger figure, by which those with a share may differ
_OF_SLIDES = {"rad": "m", "N m": "N", "N m/rad": "N/m", "N m s/rad": "N s/m", "kg m^2": "kg"}


class Quantity(NamedTuple):
    """What is compared: figures agree that differ by no more than `tolerance`, in `unit`, or by SHARE if `share`."""

    section: str  # links, places or drives
    unit: str
    tolerance: float
    share: bool = True


QUANTITIES: Mapping[str, Quantity] = {
    "mass": Quantity("links", "kg", 0.002),
    # principal moments about the centre of mass
    **{f"inertia {size}": Quantity("links", "kg m^2", 1e-4) for size in ("least", "middle", "most")},
    "carries": Quantity("links", "kg m^2", 2e-3),
    "weight": Quantity("links", "N m", 0.05),
    # in the frame of the base
    **{f"centre {c}": Quantity("places", "m", 2e-3, share=False) for c in "xyz"},
    **{f"axis passes {c}": Quantity("places", "m", 2e-3, share=False) for c in "xyz"},
    **{f"axis points {c}": Quantity("places", "1", 2e-3, share=False) for c in "xyz"},
    "low": Quantity("drives", "rad", 1e-3, share=False),
    "high": Quantity("drives", "rad", 1e-3, share=False),
    "effort": Quantity("drives", "N m", 0.01),
    "kp": Quantity("drives", "N m/rad", 0.01),
    "kd": Quantity("drives", "N m s/rad", 0.01),
    "damping": Quantity("drives", "N m s/rad", 0.01),
    "armature": Quantity("drives", "kg m^2", 1e-4),
    "dry friction": Quantity("drives", "N m", 0.01),
}


class Row(NamedTuple):
    """One quantity of one joint in both models; `tolerance` is what it may differ by, in its unit."""

    joint: str  # or BASE, or WHOLE, of sim.model_figures
    quantity: str
    unit: str
    ours: float | None
    theirs: float | None
    tolerance: float
    differs: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows, and the joints that only one of both models has."""

    robot: str
    source: str  # of the other model
    rows: list[Row]
    only_ours: list[str]
    only_theirs: list[str]


def compare_models(spec: RobotSpec) -> Comparison:
    """This robot's own model beside the meshed one. ValueError where there is none, or it is not installed."""
    models = [load_model(file) for file in (spec.mjcf, vendor_model_path(spec))]
    joints = [joints_of(model) for model in models]
    ours, theirs = (measure(*each, spec) for each in zip(models, joints, strict=True))
    slides = {channel.name for channel in spec.channels if channel.unit == "m"}
    rows = [
        _row(joint, quantity, ours[joint, quantity], theirs[joint, quantity], joint in slides)
        for joint, quantity in ours
        if (joint, quantity) in theirs and (ours[joint, quantity], theirs[joint, quantity]) != (None, None)
    ]
    only = [sorted(one.keys() - other.keys()) for one, other in (joints, reversed(joints))]
    return Comparison(spec.name, vendor_model(spec).source, rows, *only)


def _row(joint: str, quantity: str, ours: float | None, theirs: float | None, slide: bool) -> Row:
    kind = QUANTITIES[quantity]
    known = [abs(value) for value in (ours, theirs) if value is not None]
    tolerance = max(kind.tolerance, SHARE * max(known) if kind.share else 0.0)
    differs = ours is None or theirs is None or abs(ours - theirs) > tolerance
    of_slide = slide and not quantity.startswith("inertia")
    unit = _OF_SLIDES.get(kind.unit, kind.unit) if of_slide else kind.unit
    return Row(joint, quantity, unit, ours, theirs, tolerance, differs)
