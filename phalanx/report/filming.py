"""From recorded coordinates to a film: the task's own scene, with everything that is there only to be looked at."""

from collections.abc import Sequence
from dataclasses import replace

import mujoco
import numpy as np

from phalanx.report.figures import Poses, charts_of, poses_of
from phalanx.report.film import Cable, Film, Marker
from phalanx.report.flight import Chart
from phalanx.report.places import Commanded, markers_of
from phalanx.report.shapes import EVERYWHERE, bones_of, shapes_of
from sim.envs.world import task_scene
from sim.scenes.scene import Scene
from sim.task import TaskCfg

AROUND_M = 1.5  # so far around what moves uneven ground is shown
SITE = int(mujoco.mjtWrap.mjWRAP_SITE)


def visual_scene(
    task: TaskCfg, num_agents: int | None = None, dressed: bool = False, ground: np.ndarray | None = None
) -> Scene:
    """The scene that the environment steps, with visuals; its coordinates are the same. `dressed` adds sky and light.

    `ground` are the nodes of its height field, which is level without.

    Compiling it takes a tenth of a second, which is why the environment does not bring it along.
    """

    def props(spec: mujoco.MjSpec, robots: int) -> None:
        if task.scene.props is not None:
            task.scene.props(spec, robots)
        _dress(spec)

    shown = replace(task, scene=replace(task.scene, props=props)) if dressed else task
    scene = task_scene(shown, num_agents, visuals=True)
    if ground is not None:
        scene.model.hfield_data[:] = ground
    return scene


def film_and_charts(
    task: TaskCfg,
    num_agents: int | None,
    qpos: np.ndarray,
    t: np.ndarray,
    names: Sequence[str],
    commanded: Sequence[Commanded],
    ground: np.ndarray | None = None,
) -> tuple[Film, tuple[Chart, ...]]:
    """The film of coordinates `qpos` (T, nq) of `task` at the times `t` (T,) s, and the charts that suit the task."""
    scene = visual_scene(task, num_agents, ground=ground)
    poses = poses_of(scene.model, qpos)
    return make_film(scene, poses, markers_of(task, commanded)), charts_of(task, scene, poses, t, names, commanded)


def make_film(scene: Scene, poses: Poses, markers: tuple[Marker, ...] = ()) -> Film:
    """The film of the moments `poses` of `scene`, with `markers` of the same moments."""
    model, (pos, quat) = scene.model, (poses.pos, poses.quat)
    moving = np.flatnonzero(model.body_weldid != 0)
    keep = np.concatenate([[0], moving])
    number = np.zeros(model.nbody, dtype=int)
    number[moving] = 1 + np.arange(len(moving))
    whose = owners(model)
    places = pos[:, moving, :2].reshape(-1, 2)
    area = (places.min(0) - AROUND_M, places.max(0) + AROUND_M) if len(places) else EVERYWHERE
    found = bones_of(model, whose) + shapes_of(model, whose, area)
    shapes = tuple(replace(shape, body=int(number[shape.body])) for shape in found)
    return Film(pos[:, keep], quat[:, keep], shapes, _cables(model, number), markers)


def owners(model: mujoco.MjModel) -> np.ndarray:
    """(nbody,) index of the robot that each body is part of, -1 for things: by the prefix of its name."""
    names = [model.body(body).name.split("/") for body in range(model.nbody)]
    return np.array([int(n[0].removeprefix("robot")) if len(n) > 1 else -1 for n in names])


def _cables(model: mujoco.MjModel, number: np.ndarray) -> tuple[Cable, ...]:
    """Spatial tendons as lines through their sites."""
    cables = []
    for tendon in range(model.ntendon):
        first = model.tendon_adr[tendon]
        path = range(first, first + model.tendon_num[tendon])
        sites = [int(model.wrap_objid[k]) for k in path if model.wrap_type[k] == SITE]
        if sites:
            bodies = model.site_bodyid[sites]
            cables.append(Cable(tuple(int(number[body]) for body in bodies), model.site_pos[sites].copy()))
    return tuple(cables)


def _dress(spec: mujoco.MjSpec) -> None:
    """What makes a scene look like a place: sky, a floor with squares of half a metre, a lamp that casts shadows."""
    sky, floor = mujoco.mjtTexture.mjTEXTURE_SKYBOX, mujoco.mjtTexture.mjTEXTURE_2D
    gradient, checker = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT, mujoco.mjtBuiltin.mjBUILTIN_CHECKER
    spec.add_texture(
        name="sky", type=sky, builtin=gradient, width=256, height=256, rgb1=[0.93, 0.95, 0.98], rgb2=[0.62, 0.70, 0.80]
    )
    spec.add_texture(
        name="squares",
        type=floor,
        builtin=checker,
        width=256,
        height=256,
        rgb1=[0.80, 0.82, 0.84],
        rgb2=[0.74, 0.76, 0.79],
    )
    material = spec.add_material(name="squares", texrepeat=[1, 1], texuniform=True, reflectance=0)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "squares"
    for geom in spec.worldbody.geoms:
        if geom.name in ("floor", "terrain"):
            geom.material, geom.rgba = "squares", [1, 1, 1, 1]
    for light in spec.lights:
        spec.delete(light)
    lamp = {"pos": [-1.5, -2.0, 8.0], "dir": [0.18, 0.25, -1.0], "diffuse": [0.5, 0.5, 0.5]}
    spec.worldbody.add_light(type=mujoco.mjtLightType.mjLIGHT_SPOT, cutoff=60.0, exponent=0.0, **lamp)
    spec.visual.headlight.ambient = [0.35, 0.35, 0.35]
    spec.visual.headlight.diffuse = [0.35, 0.35, 0.35]
    spec.visual.headlight.specular = [0.1, 0.1, 0.1]
    spec.visual.quality.shadowsize = 2048
    spec.visual.map.shadowscale = 0.35  # of the lamp's cone: the middle is where things happen
    spec.visual.map.znear, spec.visual.map.zfar = 0.02, 60.0
    spec.visual.rgba.haze = [0.93, 0.95, 0.98, 1]
