"""Compose N robots and a floor into one MuJoCo model."""

from dataclasses import dataclass

import mujoco
import numpy as np

from hardware.spec import RobotSpec


@dataclass(frozen=True)
class Scene:
    """A compiled model and where each robot's quantities lie in its arrays (N robots, U channels)."""

    model: mujoco.MjModel
    robot: RobotSpec
    qpos_adr: np.ndarray  # (N,) first of the 7 base coordinates in qpos: position, then quaternion wxyz
    qvel_adr: np.ndarray  # (N,) first of the 6 base velocities in qvel: linear in world, angular in body
    ctrl_index: np.ndarray  # (N, U) actuator of each channel
    act_index: np.ndarray  # (N, U) its activation state, -1 where it has none
    base_body: np.ndarray  # (N,) body of each base

    @property
    def num_robots(self) -> int:
        """How many robots the scene holds."""
        return len(self.qpos_adr)


def robot_prefix(index: int) -> str:
    """Prefix of the names of robot `index` in the composed model."""
    return f"robot{index}/"


def build_scene(robot: RobotSpec, num_robots: int, timestep_s: float | None = None, visuals: bool = False) -> Scene:
    """`num_robots` copies of `robot` above one floor.

    Without `visuals` everything that can neither collide nor weigh is left out, for speed. `timestep_s` overrides the
    robot file's. ValueError for an empty team or when the MJCF does not match the spec.
    """
    if num_robots < 1:
        raise ValueError(f"a team needs at least one robot, not {num_robots}")
    spec = mujoco.MjSpec()
    spec.modelname = f"{robot.name} x {num_robots}"
    spec.worldbody.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[10, 10, 0.1], rgba=[0.93, 0.94, 0.95, 1]
    )
    spec.worldbody.add_light(pos=[0, 0, 6], dir=[0, 0, -1])
    for index in range(num_robots):
        child = mujoco.MjSpec.from_file(str(robot.mjcf))
        if not visuals:
            for geom in [g for g in child.geoms if g.contype == 0 and g.conaffinity == 0]:
                child.delete(geom)
        if index == 0:
            spec.option.timestep = timestep_s or child.option.timestep
            spec.option.integrator = child.option.integrator
        child.option.timestep = spec.option.timestep  # or attaching warns that they differ
        spec.attach(child, prefix=robot_prefix(index), frame=spec.worldbody.add_frame())
    return _index(spec.compile(), robot, num_robots)


def _index(model: mujoco.MjModel, robot: RobotSpec, num_robots: int) -> Scene:
    """Find every robot's coordinates by name; ValueError when the MJCF lacks one that the spec promises."""
    qpos_adr, qvel_adr, base_body, ctrl = [], [], [], []
    for index in range(num_robots):
        prefix = robot_prefix(index)
        body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, prefix + robot.base_body)
        if body < 0 or model.body_dofnum[body] != 6:
            raise ValueError(
                f"{robot.mjcf.name}: no free body {robot.base_body!r}, which the spec of {robot.name!r} names"
            )
        joint = model.body_jntadr[body]
        base_body.append(body)
        qpos_adr.append(model.jnt_qposadr[joint])
        qvel_adr.append(model.jnt_dofadr[joint])
        ids = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, prefix + name) for name in robot.channel_names]
        if min(ids) < 0:
            missing = robot.channel_names[ids.index(-1)]
            raise ValueError(f"{robot.mjcf.name}: no actuator {missing!r}, which the spec of {robot.name!r} names")
        ctrl.append(ids)
    ctrl_index = np.array(ctrl)
    return Scene(
        model=model,
        robot=robot,
        qpos_adr=np.array(qpos_adr),
        qvel_adr=np.array(qvel_adr),
        ctrl_index=ctrl_index,
        act_index=model.actuator_actadr[ctrl_index],
        base_body=np.array(base_body),
    )
