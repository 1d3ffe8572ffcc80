"""How policies of arms and humanoids do on drives that are not those of the robot's specification.

A plant is the robot with other gains, armature and friction, as an overlay file states them, and a total delay. The
shield knows it, as on a robot whose team file names that overlay. All else varies as the task says, gains about their
new values.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.turns import Progress
from hardware import load_robot
from hardware.overlay import Number, Overlay, save_overlay
from hardware.spec import RobotSpec
from policies.evaluation.evaluate import evaluate
from sim.model_figures import joints_of, load_model, measure
from sim.perturbations import perturbations
from sim.task import TaskCfg
from sim.tasks import load_task
from sim.vendor_models import vendor_model_path

Values = Mapping[str, float]  # by the names of `hardware.overlay.quantities`
SEED = 2_000_003  # neither training nor verification starts from it
OF_MODEL = {"kp": "stiffness", "kd": "damping", "armature": "armature", "dry friction": "friction"}
# Stiffness N m/rad and damping N m s/rad of legs that others deploy. G1: AMO (arXiv 2505.03738), with ankles that are
# stiff enough for the pose to stand by itself. H1: Unitree's unitree_rl_gym, deploy/deploy_real/configs/h1.yaml.
OTHERS: Mapping[str, tuple[str, Mapping[str, tuple[float, float]]]] = {
    "g1": ("gains of AMO, stiffer ankles", {"hip": (150.0, 2.0), "knee": (300.0, 4.0), "ankle_pitch": (200.0, 5.0)}),
    "h1": ("gains that Unitree deploys", {"hip": (150.0, 2.0), "knee": (200.0, 4.0), "ankle": (40.0, 2.0)}),
}


class Drives(NamedTuple):
    """A plant: its name, numbers in the place of the specification's, and a total delay in s, None for the task's."""

    name: str
    values: Values
    delay_s: float | None


def plants(spec: RobotSpec) -> Iterator[Drives]:
    """The specification's own drives, and those that others deploy or model: with the task's delays, and late."""
    slow_s = 0.03 if spec.kind == "humanoid" else 0.04
    yield from _late("own", {}, slow_s)
    others, legs = OTHERS.get(spec.name, ("", {}))
    gains = {
        f"{joint.name}.{name}": value
        for joint in spec.joints
        for part, both in legs.items()
        if part in joint.name
        for name, value in zip(("stiffness", "damping"), both, strict=True)
    }
    if gains:
        yield from _late(others, gains, slow_s)
    try:
        model = load_model(vendor_model_path(spec))
    except ValueError:  # there is none, or it is not installed
        return
    found = measure(model, joints_of(model), spec)
    names = {joint.name for joint in spec.joints if joint.stiffness}
    theirs = {
        f"{joint}.{OF_MODEL[name]}": value
        for (joint, name), value in found.items()
        if joint in names and name in OF_MODEL and value is not None
    }
    gains = {name: value for name, value in theirs.items() if name.endswith((".stiffness", ".damping"))}
    rest = {name: value for name, value in theirs.items() if name not in gains}
    yield from _late("armature and friction of the meshed model", rest, slow_s)
    if gains:
        yield from _late("gains, armature and friction of the meshed model", theirs, slow_s)


def _late(name: str, values: Values, slow_s: float) -> Iterator[Drives]:
    yield Drives(name, values, None)
    yield Drives(f"{name}, {slow_s * 1e3:g} ms", values, slow_s)


def fly_drives(policy: Path, task: str, worlds: int, on_progress: Progress) -> dict[str, dict[str, float]]:
    """What a policy file of one arm or humanoid comes to on each plant, in `worlds` worlds, without and with shield."""
    spec = load_robot(load_task(task).group.robot)
    chosen, rows = list(plants(spec)), {}
    with tempfile.TemporaryDirectory() as folder:
        for plant in chosen:
            changed = with_plant(task, spec, plant, Path(folder))
            row: dict[str, float] = {}
            for shield in (False, True):
                result = evaluate(policy, changed, worlds, SEED, shield=shield)
                what = "behind the shield" if shield else "without it"
                row[f"success {what}"] = result.success_rate
                if "fallen" in result.failure_rates:
                    row[f"falls {what}"] = result.failure_rates["fallen"]
                on_progress(2 * len(chosen))
            rows[plant.name] = row | {"corrected": result.intervention_rate}
    return rows


def with_plant(task: str, spec: RobotSpec, plant: Drives, folder: Path) -> TaskCfg:
    """The task on the plant, whose overlay file is written into `folder`."""
    if plant.values:
        file = folder / f"{spec.name}@{len(list(folder.iterdir()))}.yaml"
        numbers = {name: Number(value, 0.0, 10 * value) for name, value in plant.values.items()}  # no range narrower
        save_overlay(file, Overlay(spec.name, numbers, plant.name))
        task = f"{task}@{file}"
    cfg = load_task(task)
    if plant.delay_s is None:
        return cfg
    delay = next(each for each in perturbations(cfg, cfg.group_name) if each.name == "total delay")
    return cfg.changed(randomisation={**cfg.group.randomisation, **delay.terms(cfg.group, plant.delay_s)})
