"""What hardware shows of the numbers that `sim.perturbations` pushes: spans, each with where it is known from.

None where nothing is known, or where a robot has no such number.
"""

from functools import lru_cache
from pathlib import Path

import mujoco

from hardware.spec import RobotSpec
from sim.task import GroupCfg, TaskCfg

Span = tuple[float, float]

GAINS: Span = (0.5, 1.5)
MASS: Span = (0.9, 1.1)
# libfranka, examples/communication_test.cpp: many packets are lost where fewer than 95 % of the commands arrive.
LOST: Span = (0.0, 0.05)
# unitree_rl_lab trains the G1 and the H1 under pushes of up to 0.5 m/s along both axes.
HUMANOID_PUSH_M_S: Span = (0.0, 0.5)
# libfranka, issue 205: most updates come within a millisecond, some take up to 3.
ARM_JITTER_S: Span = (0.0, 0.003)
# humanoid-gym draws the delay of a command in every step, up to 10 ms; half of that.
HUMANOID_JITTER_S: Span = (0.0, 0.005)
# unitree_ros_to_real, issue 48: a Go1 says the same state ten times, up to 20 ms old; how often a G1 or an H1 does is
# an own assumption.
HUMANOID_STATES_LOST: Span = (0.0, 0.02)
# RotorS' IMU (gazebo_imu_plugin.h, ADIS16448), in a second: its gyroscope's noise density summed up, rad, and the
# random walk of its bias, rad/s.
HUMANOID_DRIFT: tuple[Span, Span] = ((0.0, 3.4e-4), (0.0, 3.9e-5))
ROOM_AIR_M_S = 0.8  # MIL-HDBK-1011/2, 2.3.1: the most in an office, where loose paper is blown about
BREEZE_M_S = 5.4  # outdoors: the end of Beaufort's 3, a gentle breeze
LIGHT_KG = 0.25  # drones up to here fly in rooms
# Cameras on USB are late by tens to hundreds of milliseconds (librealsense, rs-latency-tool); 100 is what is pushed to.
PICTURES_S: Span = (0.0, 0.1)
PICTURES_MISSING: Span = (0.0, 0.5)  # of 50 control steps 20 have none of 30 pictures, and a few pictures find nothing
CAMERA_M = 0.005  # error of an object's place, as an arm's camera finds it: 5 to 10 mm


def total_delay(spec: RobotSpec) -> Span:
    """From measurement to effect, s: radio or bus, estimator, and what a policy takes."""
    return 0.0, 0.03 if spec.kind == "humanoid" else 0.04


def of_firmware(spec: RobotSpec, number: str) -> Span | None:
    """Of a drone's loop, rotors, battery and link, as its spec states it beside its sources."""
    loop = spec.flight.rate_loop if spec.flight is not None else None
    return None if loop is None else loop.variation.get(number)


def unlike_rotors(spec: RobotSpec) -> Span | None:
    """By how much of its thrust a rotor is stronger or weaker than it should be."""
    trim = of_firmware(spec, "trim")
    return None if trim is None else (0.0, trim[1])


def lost_commands(spec: RobotSpec) -> Span:
    """Share of the commands that a link loses."""
    return of_firmware(spec, "lost") or LOST


def strength(spec: RobotSpec) -> Span | None:
    """Peak effort of a drive as a share of its limit: the least that published curves of its motors give, driving."""
    given = [joint.torque_speed.driving_effort / joint.max_effort for joint in spec.joints if joint.torque_speed]
    return (round(min(1.0, *given), 4), 1.0) if given else None


def lost_messages(spec: RobotSpec) -> Span:
    """Share of what robots say to each other that is lost."""
    return of_firmware(spec, "messages_lost") or LOST


def jitter(spec: RobotSpec) -> Span | None:
    """What is added to a delay from one control step to the next, of commands and of states alike, s."""
    of_class = {"humanoid": HUMANOID_JITTER_S, "manipulator": ARM_JITTER_S}
    return of_firmware(spec, "jitter_s") or of_class.get(spec.kind)


def lost_states(spec: RobotSpec) -> Span | None:
    """Share of the control steps in which a state begins to stay as it was."""
    return of_firmware(spec, "states_lost") or (HUMANOID_STATES_LOST if spec.kind == "humanoid" else None)


def hold(spec: RobotSpec) -> Span:
    """How long it then stays so, s; a control step at least."""
    return of_firmware(spec, "hold_s") or (0.0, 0.0)


def drift(spec: RobotSpec) -> tuple[Span, Span] | None:
    """Standard deviation of what each second adds to the errors of attitude, rad, and of rates, rad/s."""
    if spec.kind == "humanoid":
        return HUMANOID_DRIFT
    angle, rate = of_firmware(spec, "angle_drift_rad"), of_firmware(spec, "ang_vel_drift_rad_s")
    return None if angle is None or rate is None else (angle, rate)


def push(spec: RobotSpec) -> Span | None:
    """Change of a base's velocity at once, m/s."""
    return HUMANOID_PUSH_M_S if spec.kind == "humanoid" else None


def wind(spec: RobotSpec) -> Span | None:
    """Force of moving air on a drone that stands in it, N: of its drag, in a room or, of heavy ones, outdoors."""
    drag = _drag_n_s_m(Path(spec.mjcf))
    speed = ROOM_AIR_M_S if spec.mass_kg <= LIGHT_KG else BREEZE_M_S
    return (0.0, round(drag * speed, 4)) if drag else None


def noise(task: TaskCfg, cfg: GroupCfg, spec: RobotSpec) -> Span | None:
    """Factor on the noise of a task in which an arm sees objects, as motion capture does: that of a camera.

    None in a mixed team, where the others' noise is pushed with it.
    """
    alone = spec.kind == "manipulator" and len(task.groups) == 1
    sees = alone and bool(task.scene.objects) and 0.0 < cfg.noise.pos_m < CAMERA_M
    return (1.0, round(CAMERA_M / cfg.noise.pos_m, 4)) if sees else None


@lru_cache
def _drag_n_s_m(mjcf: Path) -> float:
    """Force per speed along body x, N s/m; 0 where the model has none."""
    model = mujoco.MjModel.from_xml_path(str(mjcf))
    drag = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_ACTUATOR, "drag_x")
    return -float(model.actuator_biasprm[drag, 2]) if drag >= 0 else 0.0
