"""All simulated robots in one process: physics in real time that behaves, to the other nodes, like hardware."""

import os
import threading
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from heapq import heappop, heappush
from itertools import count as counter
from math import gcd
from random import random

from geometry_msgs.msg import Pose, PoseArray
from nav_msgs.msg import Odometry
from rclpy.lifecycle import LifecyclePublisher
from sensor_msgs.msg import JointState

from hardware import load_robot
from hardware.types import Battery, ObjectState
from ros_nodes.lifecycle.host import run_node
from ros_nodes.lifecycle.lifecycle_node import QUIET_NS, ThreadNode
from ros_nodes.lifecycle.loop import Deadlines
from ros_nodes.lifecycle.parameters import declare, declare_series_dir
from ros_nodes.messages import qos
from ros_nodes.messages.battery import BatteryPublisher
from ros_nodes.messages.conversion import WORLD_FRAME, MessageError, OdometryWriter, write_poses
from ros_nodes.messages.joints import CommandConverter
from ros_nodes.messages.measurements import Measurements
from ros_nodes.messages.scene import read_surroundings
from ros_nodes.messages.topics import GROUND_TRUTH, object_topic
from ros_nodes.messages.transforms import declare_tf_hz, make_transforms
from ros_nodes.mission.ground_truth import ground_truth_columns
from ros_nodes.plans.mission import Mission, load_mission
from sim.noise import Noise

OBJECT_HZ = 100.0
GROUND_TRUTH_EVERY = 10  # physics steps
SERIES_CAPACITY = 200_000
STATE_CAPACITY = 40_000
PUBLISH_NS = 50_000  # what publishing takes: it begins so much before a message is due
STOOD_NS = 100_000_000  # without a step: robots were without measurements for too long
NS = 1_000_000_000


class SimulatedRobotsNode(ThreadNode):
    """Publishes what robots and trackers measure, subscribes to `<robot>/command`.

    `/ground_truth` is for the record; no node uses it.
    """

    def __init__(self) -> None:
        super().__init__("simulated_robots")
        self._commanded_ns = 0  # when the last command came, of any robot

    def read_parameters(self) -> None:
        self._mission = declare(self, "mission", "", "Mission file (.json): which robots, and where everything starts.")
        text = "Obstacles that stand around, as JSON: see the shields' parameter of this name."
        self._surroundings = declare(self, "surroundings", "{}", text)
        self._seed = declare(self, "seed", 0, "Seed of the sensor noise.", low=0, high=2**31 - 1)
        self._physics_hz = declare(self, "physics_hz", 500.0, "Physics steps per second.", low=100.0, high=2000.0)
        self._series_dir = declare_series_dir(self)
        self._tf_hz = declare_tf_hz(self)
        text = "Standard deviation of the noise of measurements, unit as its name ends; of slides 0.02 m per rad."
        noise = {field.name: declare(self, f"noise.{field.name}", 0.0, text, 0.0, 1.0) for field in fields(Noise)}
        self._noise = Noise(**noise)
        self._latency_s, self._jitter_s, self._command_latency_s = (
            declare(self, name, 0.0, text, 0.0, 1.0)
            for name, text in (
                ("sensor_latency_s", "From a measurement to its publication, s."),
                ("sensor_jitter_s", "Uniform random addition to sensor_latency_s, s."),
                ("command_latency_s", "From a command's arrival to the motors, s."),
            )
        )

        text = "Charge of all batteries at the beginning, from 0 to 1; they last as long as the robot's maker says."
        self._charge = declare(self, "battery_charge", 1.0, text, 0.0, 1.0)

    def configure(self) -> None:
        os.environ.setdefault("MUJOCO_GL", "disable")  # nothing is drawn, and a graphics library takes long to load
        from deploy.runtime.compatibility import check_driver  # onnxruntime, and MuJoCo: only here
        from ros_nodes.simulation.simulated_team import SimulatedTeam

        mission = load_mission(self._mission)
        specs = [load_robot(member.robot) for member in mission.team]
        solids = read_surroundings(self._surroundings).scene.boxes()
        self._team = SimulatedTeam(
            mission, 1 / self._physics_hz, self._noise, self._seed, self._command_latency_s, solids
        )
        for member, robot in zip(mission.team, self._team.robots, strict=True):
            if member.bundle:  # as a driver's: the model of a robot may be another than its specification says
                check_driver(member.bundle, robot.plant())
        self._sensor_every = [self._every(spec.sensor_hz) for spec in specs]
        self._control_every = min(self._every(spec.control_hz) for spec in specs)
        named = list(zip(specs, mission.names, strict=True))
        self._transforms = make_transforms(self, self._tf_hz)
        self._measurements = [Measurements(self, spec, name, self._transforms, f"/{name}/") for spec, name in named]
        self._batteries = [
            (i, BatteryPublisher(self, f"/{n}/")) for i, (spec, n) in enumerate(named) if spec.endurance_s
        ]
        self._objects = [(name, OdometryWriter(name)) for name in mission.objects]
        self._trackers = [self.advertise(Odometry, object_topic(name), qos.MEASURED) for name in mission.objects]
        self._object_every = self._every(OBJECT_HZ)
        every = [*self._sensor_every, *([self._object_every] if mission.objects else [])]
        # Between two measurements no one sees the physics: its steps are made up for in one go before the next one.
        # A command counts from the moment of its arrival all the same.
        self._steps = gcd(*every)
        self._newest = max(every)  # steps in which everything is measured once
        self._truth_publisher = self.advertise(PoseArray, GROUND_TRUTH, qos.SENSOR)
        self._truth = PoseArray(poses=[Pose() for _ in mission.names])
        self._truth.header.frame_id = WORLD_FRAME
        self._commands = [
            self.subscribe(JointState, f"/{name}/command", qos.COMMANDS_IN, raw=True) for name in mission.names
        ]
        self._converters = [CommandConverter(spec.channels) for spec in specs]
        self._make_series(mission)

    def _every(self, hz: float) -> int:
        """Physics steps from one moment to the next of what happens `hz` times a second."""
        return max(1, round(self._physics_hz / hz))

    def _make_series(self, mission: Mission) -> None:
        """The way of every robot at the rate of physics, all that a mission is evaluated by at the control rate."""
        columns = tuple(f"{name}_{axis}" for name in mission.names for axis in "xyz")
        self._truth_series = self.series(self._series_dir, ("time_s", *columns), SERIES_CAPACITY, "truth")
        columns = ground_truth_columns(mission)
        self._state_series = self.series(self._series_dir, ("time_s", *columns), STATE_CAPACITY, "state")
        columns = tuple(f"q{i}" for i in range(len(self._team.qpos)))
        self._qpos_series = self.series(self._series_dir, ("time_s", *columns), STATE_CAPACITY, "qpos")
        self._command_series = self.series(
            self._series_dir, ("time_s", "robot", "sensor_to_command_ms"), SERIES_CAPACITY, "commands"
        )

    def wind_down(self) -> bool:
        """Robots that are still commanded are on their way down."""
        return self._loop is None or self.clock.now_ns() - self._commanded_ns > QUIET_NS

    def run(self, stopped: threading.Event) -> None:
        self._outbox: list[tuple[int, int, Callable[[], None]]] = []  # a heap: when due, number, what
        self._numbers = counter()
        step_ns = round(NS / self._physics_hz)
        deadlines = Deadlines(self._steps * step_ns / NS, self.clock)
        count = deadline_ns = 0
        while (tick := deadlines.wait(stopped)) is not None:
            if (stood_ns := tick.skipped * deadlines.period_ns) > STOOD_NS:
                self.get_logger().warning(f"the simulation stood still for {stood_ns * 1e-6:.0f} ms")
            if tick.deadline_ns < deadline_ns:  # /clock began again: what was measured before is past
                self._outbox.clear()
            deadline_ns = tick.deadline_ns
            self._receive()
            steps = self._steps * (1 + tick.skipped)  # physics may not lag: simulated time is real time
            for missing in range(steps - 1, -1, -1):
                if stopped.is_set():  # catching up may take longer than who ends it waits
                    return
                now_ns = tick.deadline_ns - missing * step_ns
                self._team.step(now_ns / NS)
                count += 1
                if missing < self._newest:  # where physics catches up, older measurements would come too late to count
                    self._sense(count, now_ns)
                self._record(count, now_ns)
            while self._outbox and self._outbox[0][0] < deadlines.next_ns:  # what is due before the next steps
                due_ns, _, publish = heappop(self._outbox)
                self.clock.sleep_until(due_ns - PUBLISH_NS, stopped)
                publish()

    def _sense(self, count: int, now_ns: int) -> None:
        """Measure the robots and objects whose turn it is: all at one moment, as a motion capture system does."""
        robots = self._team.robots
        for robot, measurements, every in zip(robots, self._measurements, self._sensor_every, strict=True):
            if count % every == 0:
                self._post(now_ns, partial(measurements.publish, robot.measure(), now_ns))
        for number, battery in self._batteries:
            if battery.due(now_ns):
                worked_s, endurance_s = robots[number].worked_s, robots[number].spec.endurance_s
                battery.publish(Battery(max(0.0, self._charge - worked_s / (endurance_s or 1.0))), now_ns)
        if count % self._object_every == 0:
            for (name, writer), publisher in zip(self._objects, self._trackers, strict=True):
                state = self._team.measure_object(name)
                self._post(now_ns, partial(self._track, name, publisher, writer.object(state, now_ns), state, now_ns))

    def _track(
        self, name: str, publisher: LifecyclePublisher, message: bytes, state: ObjectState, stamp_ns: int
    ) -> None:
        publisher.publish(message)
        if self._transforms is not None:
            self._transforms.update(name, state.pos, state.quat, stamp_ns)

    def _post(self, now_ns: int, publish: Callable[[], None]) -> None:
        delay_s = self._latency_s + self._jitter_s * random()
        heappush(self._outbox, (now_ns + round(delay_s * NS), next(self._numbers), publish))

    def _record(self, count: int, stamp_ns: int) -> None:
        published = count % GROUND_TRUTH_EVERY == 0
        if published or self._truth_series:
            poses = self._team.true_poses()
            if self._truth_series:
                self._truth_series.add(stamp_ns / NS, *poses[:, :3].ravel())
            if published:
                write_poses(self._truth, poses, stamp_ns)
                self._truth_publisher.publish(self._truth)
        if self._state_series and self._qpos_series and count % self._control_every == 0:
            self._state_series.add(stamp_ns / NS, *self._team.ground_truth_row())
            self._qpos_series.add(stamp_ns / NS, *self._team.qpos)

    def _receive(self) -> None:
        for number, inbox in enumerate(self._commands):
            for taken in inbox.drain():
                arrived_ns = self.clock.arrived_ns(taken[1])
                try:
                    command, stamp_ns = self._converters[number].read(taken[0])
                    self._measurements[number].refuse(stamp_ns, inbox.publishers)
                except MessageError as error:  # as hardware would: what is no command does nothing
                    self.get_logger().warning(f"{inbox.topic}: {error}", throttle_duration_sec=1.0)
                    continue
                self._team.robots[number].receive(command.target, arrived_ns / NS)
                self._commanded_ns = arrived_ns
                if self._command_series:
                    self._command_series.add(arrived_ns / NS, number, (arrived_ns - stamp_ns) * 1e-6)


def main() -> int:
    """Run the node."""
    run_node(SimulatedRobotsNode)


if __name__ == "__main__":
    raise SystemExit(main())
