"""A team that is not there: native MuJoCo in place of the hardware and of the trackers of objects."""

import mujoco
import numpy as np

from hardware import load_robot
from hardware.types import ObjectState
from ros_nodes.mission.mission import Mission, yaw_of
from ros_nodes.simulation.simulated_robot import Imperfection, Sensors, SimulatedRobot, in_body
from sim.scenes.scene import Members, Scene, compose_scene


class SimulatedTeam:
    """The robots and the scene of a mission, stepped by whoever owns the clock. Times are that clock's, s."""

    def __init__(self, mission: Mission, imperfection: Imperfection, timestep_s: float, seed: int):
        """ValueError for a robot, scene or object that is not there."""
        self.sensors = Sensors(imperfection, seed)
        self._scene = _scene(mission, timestep_s)
        self._data = mujoco.MjData(self._scene.model)
        self.robots = [
            SimulatedRobot(member, index, self._data, self.sensors)
            for member, index in zip(mission.team, self._scene.groups, strict=True)
        ]
        for tracked in self._scene.objects:
            if tracked.name not in mission.objects:
                has = f"the scene of {mission.scene!r} has {tracked.name!r}"
                raise ValueError(f"{has}; the mission says nothing of where it starts")
            self._data.qpos[tracked.qpos] = mission.objects[tracked.name]
        _close_loops(self._scene.model, self._data.qpos)
        mujoco.mj_forward(self._scene.model, self._data)

    def step(self, now_s: float) -> None:
        """Advance everything by one time step, which ends at `now_s`."""
        for robot in self.robots:
            robot.drive(now_s)
        mujoco.mj_step(self._scene.model, self._data)

    def measure_object(self, name: str) -> ObjectState:
        """What a tracker says now of the object `name`."""
        state = self.true_object(name)
        self.sensors.blur(state.pos, state.quat, state.lin_vel, state.ang_vel)
        return state

    def true_object(self, name: str) -> ObjectState:
        """How the object `name` really is; for the record only."""
        tracked = next(tracked for tracked in self._scene.objects if tracked.name == name)
        return ObjectState(*in_body(self._data.qpos[tracked.qpos], self._data.qvel[tracked.qvel]), age=np.zeros(()))

    @property
    def qpos(self) -> np.ndarray:
        """(nq,) coordinates of everything, as MuJoCo has them; for the record only."""
        return self._data.qpos

    def true_poses(self) -> np.ndarray:
        """(N, 7): position m, quaternion wxyz of the bases; for the record only."""
        return np.stack([robot.true_pose() for robot in self.robots])


def _scene(mission: Mission, timestep_s: float) -> Scene:
    """The robots in the mission's order, each a group of its own."""
    team = [Members(load_robot(member.robot), 1, np.array([yaw_of(member.base_pose)])) for member in mission.team]
    if not mission.scene:
        return compose_scene(team, timestep_s)
    from sim.tasks import load_any_task  # torch comes with it: only for what needs it

    around = load_any_task(mission.scene).scene
    return compose_scene(team, timestep_s, props=around.props, objects=around.objects)


def _close_loops(model: mujoco.MjModel, qpos: np.ndarray) -> None:
    """Let joints that mirror another one start where they belong."""
    for equality in np.flatnonzero(model.eq_type == mujoco.mjtEq.mjEQ_JOINT):
        if model.eq_obj2id[equality] >= 0:
            first, second = (model.jnt_qposadr[ids[equality]] for ids in (model.eq_obj1id, model.eq_obj2id))
            offset, slope = model.eq_data[equality, :2]  # of differences from the reference positions
            qpos[first] = model.qpos0[first] + offset + slope * (qpos[second] - model.qpos0[second])
