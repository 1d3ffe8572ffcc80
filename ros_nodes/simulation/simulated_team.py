"""A simulated team: MuJoCo in place of the hardware and of the trackers of objects."""

import mujoco
import numpy as np

from deploy.shield.types import Obstacles
from hardware import load_robot
from hardware.types import ObjectState
from ros_nodes.mission.ground_truth import split_base
from ros_nodes.plans.mission import Mission, yaw_of
from ros_nodes.simulation.simulated_robot import SimulatedRobot, body_row
from ros_nodes.simulation.solids import add_solids
from sim.noise import Noise, add_error
from sim.scenes.scene import Members, PropsFunc, Scene, close_loops, compose_scene

NO_NOISE = Noise()


class SimulatedTeam:
    """The robots and the scene of a mission, stepped by the owner of the clock. Times are that clock's, s."""

    def __init__(
        self,
        mission: Mission,
        timestep_s: float,
        noise: Noise = NO_NOISE,
        seed: int = 0,
        command_latency_s: float = 0.0,
        solids: Obstacles | None = None,
    ):
        """Commands act `command_latency_s` after they arrive; `solids` stand around.

        ValueError for an unknown robot, scene or object.
        """
        self._is_noisy, self._object_spread = bool(noise), np.array(noise.per_column(0))
        self._rng = np.random.default_rng(seed)
        self._scene = _scene(mission, timestep_s, solids)
        self._data = mujoco.MjData(self._scene.model)
        self.robots = [
            SimulatedRobot(member, index, self._data, noise, self._disturb, command_latency_s)
            for member, index in zip(mission.team, self._scene.groups, strict=True)
        ]
        tracked = {thing.name: thing for thing in self._scene.objects}
        if different := sorted(tracked.keys() ^ mission.objects.keys()):
            has = f"the scene of {mission.scene!r} has {', '.join(tracked) or 'no objects'}"
            raise ValueError(
                f"{has}; the mission starts {', '.join(mission.objects) or 'none'}: {different[0]!r} differs"
            )
        self._free = np.array([not robot.spec.fixed_base for robot in self.robots])
        bases = [
            index.base_qpos
            for robot, index in zip(self.robots, self._scene.groups, strict=True)
            if not robot.spec.fixed_base
        ]
        self._pose_qpos = np.concatenate(bases) if bases else np.empty((0, 7), int)
        self._poses = np.stack([robot.true_pose() for robot in self.robots])
        self._objects = {name: tracked[name] for name in mission.objects}
        for name, pose in mission.objects.items():
            self._data.qpos[tracked[name].qpos] = pose
        close_loops(self._scene.model, self._data.qpos)
        mujoco.mj_forward(self._scene.model, self._data)

    def step(self, now_s: float) -> None:
        """Advance everything by one time step, which ends at `now_s`."""
        for robot in self.robots:
            robot.drive(now_s)
        mujoco.mj_step(self._scene.model, self._data)

    def measure_object(self, name: str) -> ObjectState:
        """What a tracker measures now of the object `name`."""
        row = self._disturb(self._object_row(name), self._object_spread)
        return ObjectState(*split_base(row), age=np.zeros(()))

    def ground_truth_row(self) -> np.ndarray:
        """All robots, each with the set-points of its drives, then all objects; see `mission.ground_truth`."""
        robots = [part for robot in self.robots for part in (robot.true_row(), robot.target)]
        return np.concatenate([*robots, *map(self._object_row, self._objects)])

    def _object_row(self, name: str) -> np.ndarray:
        tracked = self._objects[name]
        return body_row(self._data.qpos[tracked.qpos], self._data.qvel[tracked.qvel])

    def _disturb(self, row: np.ndarray, spread: np.ndarray) -> np.ndarray:
        if self._is_noisy:
            add_error(row, spread * self._rng.standard_normal(len(spread)))
        return row

    @property
    def qpos(self) -> np.ndarray:
        """(nq,) coordinates of everything, as MuJoCo has them; for the record only."""
        return self._data.qpos

    def true_poses(self) -> np.ndarray:
        """(N, 7): position m, quaternion wxyz of the bases, until the next call; for the record only."""
        self._poses[self._free] = self._data.qpos[self._pose_qpos]
        return self._poses


def _scene(mission: Mission, timestep_s: float, solids: Obstacles | None) -> Scene:
    """The robots in the mission's order, each a group of its own."""
    team = [Members(load_robot(member.robot), 1, np.array([yaw_of(member.base_pose)])) for member in mission.team]
    props: PropsFunc | None = None
    objects: tuple[str, ...] = ()
    if mission.scene:
        from sim.tasks import load_task  # torch comes with it: only for what needs it

        around = load_task(mission.scene).scene
        props, objects = around.props, around.objects

    def everything(scene: mujoco.MjSpec, robots: int) -> None:
        if props is not None:
            props(scene, robots)
        if solids is not None:
            add_solids(scene, solids)

    return compose_scene(team, timestep_s, props=everything, objects=objects)
