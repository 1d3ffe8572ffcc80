"""All simulated robots in one process: physics in real time that behaves, to the other nodes, like hardware."""

import threading
import time
from collections import deque

import numpy as np
from geometry_msgs.msg import Pose, PoseArray
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState

from hardware import load_robot
from hardware.types import RobotState
from ros_nodes import qos
from ros_nodes.conversion import WORLD_FRAME, CommandConverter, MessageError, odometry_of, write_odometry, write_poses
from ros_nodes.loop import Deadlines
from ros_nodes.managed import ManagedNode, run_node
from ros_nodes.parameters import declare, declare_series_dir

GROUND_TRUTH_EVERY = 10  # physics steps
SERIES_CAPACITY = 200_000
IMPERFECTION = {  # parameter: default and description
    "noise.pos_m": (0.003, "Noise of position, standard deviation, m."),
    "noise.angle_rad": (0.01, "Noise of attitude, standard deviation, rad."),
    "noise.lin_vel_m_s": (0.02, "Noise of velocity, standard deviation, m/s."),
    "noise.ang_vel_rad_s": (0.05, "Noise of body rates, standard deviation, rad/s."),
    "sensor_latency_s": (0.003, "From a measurement to its publication, s."),
    "sensor_jitter_s": (0.002, "Uniform random addition to sensor_latency_s, s."),
    "command_latency_s": (0.004, "From a command's arrival to the motors, s."),
}
NS = 1_000_000_000


class SimulatedRobotsNode(ManagedNode):
    """Publishes `<robot>/odom`, listens to `<robot>/command`; `/ground_truth` is for the record, no node may use it."""

    def __init__(self) -> None:
        super().__init__("simulated_robots")
        self._robot_type = declare(self, "robot_type", "crazyflie", "Robot specification by name.")
        self._team = declare(self, "team", [""], "Names of the robots.")
        self._starts = declare(
            self, "starts", [0.0], "Start of each robot: x, y, z in m and yaw in rad, one after the other."
        )
        self._seed = declare(self, "seed", 0, "Seed of the sensor noise.", low=0, high=2**31 - 1)
        self._physics_hz = declare(self, "physics_hz", 500.0, "Physics steps per second.", low=100.0, high=2000.0)
        self._series_dir = declare_series_dir(self)

        self._imperfection = {
            name.split(".")[-1]: declare(self, name, default, text, low=0.0, high=1.0)
            for name, (default, text) in IMPERFECTION.items()
        }

    def configure(self) -> None:
        from ros_nodes.simulated_team import Imperfection, SimulatedTeam  # MuJoCo: only here

        spec = load_robot(self._robot_type)
        names = [name for name in self._team if name]
        if not names or len(self._starts) != 4 * len(names):
            raise ValueError(
                f"parameter 'starts' has {len(self._starts)} numbers for {len(names)} robots; needs 4 for each"
            )
        starts = np.array(self._starts).reshape(-1, 4)
        self._robots = SimulatedTeam(spec, starts, Imperfection(**self._imperfection), 1 / self._physics_hz, self._seed)
        self._sensor_every = max(1, round(self._physics_hz / spec.sensor_hz))
        self._odometry = [odometry_of(name) for name in names]
        self._publishers = [self.advertise(Odometry, f"/{name}/odom", qos.SENSOR) for name in names]
        self._truth_publisher = self.advertise(PoseArray, "/ground_truth", qos.SENSOR)
        self._truth = PoseArray(poses=[Pose() for _ in names])
        self._truth.header.frame_id = WORLD_FRAME
        self._commands = [self.listen(JointState, f"/{name}/command", qos.COMMAND_IN) for name in names]
        self._converter = CommandConverter(spec.channels)
        columns = tuple(f"{name}_{axis}" for name in names for axis in "xyz")
        self._truth_series = self.series(self._series_dir, ("time_s", *columns), SERIES_CAPACITY, "truth")
        self._command_series = self.series(
            self._series_dir, ("time_s", "robot", "sensor_to_command_ms"), SERIES_CAPACITY, "commands"
        )

    def run(self, stopped: threading.Event) -> None:
        outbox: deque[tuple[int, int, int, RobotState]] = deque()
        deadlines = Deadlines(1 / self._physics_hz)
        offset_ns = time.time_ns() - time.monotonic_ns()  # the robots' own clock: stamps never jump with the system's
        count = 0
        while not stopped.is_set():
            tick = deadlines.wait()
            self._receive(tick.woke_ns)
            for missed in range(tick.skipped, -1, -1):  # physics may not lag: simulated time is real time
                now_ns = tick.deadline_ns - missed * deadlines.period_ns
                self._robots.step(now_ns / NS)
                self._sense(count, now_ns, now_ns + offset_ns, outbox)
                count += 1
            while outbox and outbox[0][0] <= tick.woke_ns:
                _, stamp_ns, robot, state = outbox.popleft()
                write_odometry(self._odometry[robot], state, stamp_ns)
                self._publishers[robot].publish(self._odometry[robot])

    def _sense(self, count: int, now_ns: int, stamp_ns: int, outbox: deque[tuple[int, int, int, RobotState]]) -> None:
        """Measure the robots whose turn it is; their phases are spread over the sensor period."""
        for robot in range(self._robots.num_robots):
            phase = robot * self._sensor_every // self._robots.num_robots
            if count % self._sensor_every == phase:
                due_ns = now_ns + round(self._robots.sensor_delay_s() * NS)
                outbox.append((due_ns, stamp_ns, robot, self._robots.measure(robot)))
        if count % GROUND_TRUTH_EVERY == 0 or self._truth_series:
            poses = self._robots.true_poses()
            if self._truth_series:
                self._truth_series.add(stamp_ns / NS, *poses[:, :3].ravel())
            if count % GROUND_TRUTH_EVERY == 0:
                write_poses(self._truth, poses, stamp_ns)
                self._truth_publisher.publish(self._truth)

    def _receive(self, now_ns: int) -> None:
        for robot, mailbox in enumerate(self._commands):
            taken = mailbox.take()
            if taken is None:
                continue
            message, arrived_ns = taken
            try:
                command, stamp_ns = self._converter.read(message)
            except MessageError:
                continue  # as hardware would: what is no command does nothing
            self._robots.receive(robot, command.target, now_ns / NS)
            if self._command_series:
                self._command_series.add(arrived_ns / NS, robot, (arrived_ns - stamp_ns) * 1e-6)


def main() -> int:
    """Run the node."""
    return run_node(SimulatedRobotsNode)


if __name__ == "__main__":
    raise SystemExit(main())
