"""Who has the robot: one arms, starts, lands and stops it as a person would, in real physics."""

from dataclasses import replace
from itertools import pairwise

import mujoco
import numpy as np
import pytest
from shield_flight import HOVER, PARAMS, SPEC, Flight
from shield_stand import Stand

from deploy.shield import Context, Mode, Shield, make_shield_params
from deploy.shield.authority import Authority, State
from deploy.shield.drone.flight import fly_to
from deploy.shield.fallback import StartCfg
from deploy.shield.types import NO_PEERS
from hardware import ActuatorCommand, RobotState, load_robot

GROUND = (0.3, -0.2, SPEC.home_height_m)


class Operated(Flight):
    """A Crazyflie under an authority; what is not sent leaves the motors as they are."""

    def __init__(self, pos=GROUND, **kwargs):
        super().__init__(pos, **kwargs)
        self.data.act[0] = 0.0
        self.changes: list[tuple[str, str]] = []
        self.authority = Authority(
            self.shield, StartCfg(), lambda c: self.changes.append((c.before.name, c.after.name))
        )
        self.sent = 0

    def step(self, request=None, age_s=0.01, state="true", peers=NO_PEERS, dt_s=0.02):
        self.now_s += dt_s
        state = self.state() if isinstance(state, str) else state
        if isinstance(request, str):  # a policy that hovers where the take-off ends
            request = fly_to(PARAMS, SPEC, state, np.array([*GROUND[:2], 1.0]), np.zeros(3))
        requested = None if request is None else ActuatorCommand(np.asarray(request, np.float32))
        command, report = self.authority.step(self.now_s, Context(state, peers), requested, age_s)
        self.sent += command is not None
        if command is not None:
            self.data.ctrl[:4] = command.target * [self.thrust_scale, 1, 1, 1]
        for _ in range(5):
            mujoco.mj_step(self.scene.model, self.data)
        self.modes.append(report.mode)
        return command, report

    def measured(self, age_s: float):
        return replace(self.state(), age=np.array(age_s))

    def ask(self, what: str) -> str:
        return self.authority.arm() if what == "arm" else self.authority.ask(what, self.now_s)

    def starting(self, lift_s: float) -> "Operated":
        """On its way up for `lift_s`."""
        self.fly(0.1)
        assert not self.ask("arm") and not self.ask("start")
        self.fly(lift_s, request="hover")
        return self

    def trouble(self, what: str, for_s: float) -> None:
        """The state is "late" or there is "no" state for `for_s`, or the shield itself is "paused"."""
        if what == "paused":
            self.step(request="hover", dt_s=for_s)
            return
        last = self.state()
        for cycle in range(1, round(for_s / 0.02) + 1):
            late = replace(last, age=np.array(0.02 * cycle))
            self.step(request=HOVER, state=late if what == "late" else None)

    def started(self) -> "Operated":
        self.fly(0.1)
        assert not self.ask("arm") and not self.ask("start")
        self.fly(6.0, request="hover")
        assert self.authority.state is State.POLICY
        return self

    @property
    def height(self) -> float:
        return float(self.data.qpos[2])


def test_nothing_is_sent_before_a_person_arms_and_nothing_flies_before_one_starts():
    drone = Operated()
    drone.fly(1.0, request=np.float32([0.5, 0, 0, 0]))
    assert drone.sent == 0 and drone.authority.state is State.DISARMED
    assert not drone.ask("arm")
    drone.fly(1.0, request=np.float32([0.5, 0, 0, 0]))
    assert drone.sent == 50 and drone.height < 0.03 and drone.authority.state is State.ARMED
    assert "ARMED" not in drone.ask("start")
    drone.fly(0.5, request="hover")
    assert drone.authority.state is State.STARTING and drone.height > 0.05


@pytest.mark.parametrize("scale", [0.9, 1.0, 1.1])
def test_a_take_off_goes_straight_up_to_its_height_then_the_policy_flies_and_a_landing_disarms(scale):
    drone = Operated(thrust_scale=scale).started()
    assert np.linalg.norm(drone.data.qpos[:2] - GROUND[:2]) < 0.1
    assert 0.6 < drone.height < 1.3 and drone.modes[-1] is Mode.NOMINAL
    assert not drone.ask("land")
    drone.fly(8.0, request="hover")
    assert drone.authority.state is State.DISARMED and drone.height < 0.03
    assert drone.data.ctrl[0] == pytest.approx(scale * SPEC.command_low[0]), "its motors idle"
    sent = drone.sent
    drone.fly(0.5)
    assert drone.sent == sent
    names = ["DISARMED", "ARMED", "STARTING", "POLICY", "LANDING", "DISARMED"]
    assert drone.changes == list(pairwise(names))


@pytest.mark.parametrize(("trouble", "end"), [(False, State.DISARMED), (True, State.FAULT)])
def test_a_drone_that_has_come_down_is_sent_idle_commands_for_a_second_for_one_may_be_lost(trouble, end):
    drone = Operated().started()
    assert trouble or not drone.ask("land")
    while drone.authority.state is not end:
        drone.step(request=None if trouble else "hover")
    sent = drone.sent
    drone.fly(2.0)
    assert 45 <= drone.sent - sent <= 55


def test_hold_takes_the_robot_from_the_policy_and_start_gives_it_back_where_it_is():
    drone = Operated().started()
    assert not drone.ask("hold")
    before = drone.data.qpos[:3].copy()
    drone.fly(2.0, request=np.float32([0.6, 1.0, 0, 0]))
    assert drone.authority.state is State.ARMED and np.linalg.norm(drone.data.qpos[:3] - before) < 0.15
    assert "in the air" in drone.ask("disarm")
    assert not drone.ask("start")
    drone.fly(0.1, request="hover")
    assert drone.authority.state is State.POLICY


def test_a_stop_is_at_once_and_a_reset_only_acknowledges():
    drone = Operated().started()
    drone.authority.estop()
    _, report = drone.step(request="hover")
    assert report.mode is Mode.ESTOP and drone.authority.state is State.STOPPED
    drone.fly(2.0, request="hover")
    drone.data.qpos[0] += 2.0  # a person carries it back
    drone.fly(0.5)
    assert "STOPPED" in drone.ask("arm") and "STOPPED" in drone.ask("start")
    assert not drone.ask("reset")
    drone.fly(1.0, request=np.float32([0.6, 0, 0, 0]))
    assert drone.authority.state is State.DISARMED and drone.height < 0.05
    assert not drone.ask("arm"), "where it went while it was stopped is no jump of its estimate"
    assert not drone.ask("start")
    drone.fly(6.0, request="hover")
    assert drone.authority.state is State.POLICY


def test_a_short_silence_is_held_and_a_lasting_one_lands_and_is_a_fault_until_acknowledged():
    drone = Operated().started()
    drone.fly(0.3, age_s=9.0)
    drone.fly(0.5, request="hover")
    assert drone.authority.state is State.POLICY and Mode.HOLD in drone.modes
    drone.fly(1.5)
    assert drone.authority.state is State.LANDING
    assert "hold" in drone.ask("hold")
    drone.fly(9.0, request="hover")
    assert drone.authority.state is State.FAULT and "request" in drone.authority.reason
    assert "FAULT" in drone.ask("arm")
    assert not drone.ask("reset") and drone.authority.state is State.DISARMED
    drone.step(state=drone.measured(0.008))
    assert not drone.ask("arm"), "the first cycle after a reset knows the robot's state"


def test_after_a_pause_of_the_shield_the_first_measurement_counts_though_it_is_older_than_the_end_of_the_pause():
    drone = Operated()
    drone.fly(0.1)
    drone.step(dt_s=0.7, state=drone.measured(0.008))
    assert not drone.ask("arm")


@pytest.mark.parametrize("lift_s", [0.02, 0.3, 0.6])
@pytest.mark.parametrize("trouble", ["late", "no", "paused"])
def test_a_short_trouble_in_a_take_off_is_held_and_the_take_off_goes_on_to_its_height(lift_s, trouble):
    drone = Operated().starting(lift_s)
    before = drone.height
    drone.trouble(trouble, 0.2)
    held = drone.height
    assert drone.authority.state is State.STARTING
    handed_over_m = 0.0
    for _ in range(300):
        drone.step(request="hover")
        if drone.authority.state is State.POLICY:
            handed_over_m = drone.height
            break
    assert held < before + 0.15, "it does not climb blind"
    assert handed_over_m > 0.7 and len(drone.changes) == 3


@pytest.mark.parametrize("lift_s", [0.02, 0.3, 1.2])
@pytest.mark.parametrize("trouble", ["late", "no"])
def test_a_trouble_that_lasts_ends_a_take_off_within_half_a_second_of_hold_and_so_do_short_ones_that_come_again(
    lift_s, trouble
):
    drone = Operated().starting(lift_s)
    drone.trouble(trouble, 0.7)
    assert drone.authority.state in (State.LANDING, State.FAULT)
    again = Operated().starting(lift_s)
    for _ in range(6):
        again.trouble(trouble, 0.2)
        again.fly(0.24, request="hover")
    assert again.authority.state in (State.LANDING, State.FAULT)
    for fallen in drone, again:
        fallen.fly(10.0, request="hover")
        assert fallen.authority.state is State.FAULT and fallen.height < 0.05
        assert "state" in fallen.authority.reason


def test_a_robot_whose_state_is_missing_for_a_moment_is_not_landed_before_its_start():
    drone = Operated(pos=(0.0, 0.0, 1.0))
    drone.fly(0.02)
    drone.ask("arm")
    drone.fly(0.5)
    drone.fly(0.2, state=None)
    drone.fly(0.5)
    assert drone.authority.state is State.ARMED and abs(drone.height - 1.0) < 0.3


def test_without_an_estimate_nothing_is_armed_and_a_policy_that_stays_silent_is_not_waited_for_for_ever():
    drone = Operated()
    drone.fly(0.2, state=None)
    assert "no state" in drone.ask("arm")
    assert drone.authority.state is State.DISARMED
    drone.fly(0.2)
    assert "battery empty" in drone.authority.arm(["battery empty"])
    assert not drone.ask("arm") and not drone.ask("start")
    drone.fly(14.0)
    assert drone.authority.state is State.STARTING and drone.height > 0.6
    drone.fly(9.0)
    assert drone.authority.state is State.FAULT and "15 s" in drone.authority.reason and drone.height < 0.05


def test_a_policy_that_says_why_it_requests_nothing_is_quoted():
    drone = Operated()
    drone.fly(0.2)
    assert not drone.ask("arm") and not drone.ask("start")
    drone.authority.policy_waits = "no current message of objects: box"
    drone.fly(25.0)
    assert drone.authority.state is State.FAULT
    assert drone.authority.reason == "not started within 15 s: no current message of objects: box"


def test_an_arm_waits_for_its_operator_for_as_long_as_its_policy_does():
    spec = load_robot("ur5e")
    home = np.array([joint.home for joint in spec.joints])
    arm = OperatedStand(spec).run(0.1)
    arm.authority.arm()
    arm.authority.ask("start", arm.now_s)
    for _ in range(8):  # the policy has not spoken yet: its silence is no reason
        arm.run(0.02)
        assert arm.authority.reason == arm.report.reason == "started on request"
    arm.authority.policy_waits = "waiting for operator command on goal"
    arm.run(17.0)
    assert arm.authority.state is State.STARTING
    assert arm.authority.reason == arm.report.reason == "waiting for operator command on goal"
    arm.authority.policy_waits = ""
    arm.run(0.2, request=home)
    assert arm.authority.state is State.POLICY


class OperatedStand(Stand):
    def __init__(self, spec, pose=None, start=None):
        super().__init__(spec, pose)
        self.data.ctrl[self.ctrl] = self.pos  # its drives hold it, as they do without commands
        self.authority = Authority(self.shield, start or StartCfg())
        self.sent = 0

    def run(self, seconds, request=None, age_s=0.01):
        for _ in range(round(seconds / self.dt_s)):
            self.now_s += self.dt_s
            requested = None if request is None else ActuatorCommand(np.float32(request))
            command, self.report = self.authority.step(self.now_s, Context(self.state(), NO_PEERS), requested, age_s)
            self.sent += command is not None
            if command is not None:
                self.data.ctrl[self.ctrl] = command.target
            for _ in range(self.steps):
                mujoco.mj_step(self.model, self.data)
        return self


def test_an_arm_goes_home_if_asked_parks_and_is_held_on_when_it_is_disarmed():
    spec = load_robot("ur5e")
    home = np.array([joint.home for joint in spec.joints])
    arm = OperatedStand(spec, home + 0.4, StartCfg(home=True)).run(0.1)
    assert arm.sent == 0
    arm.authority.arm()
    arm.run(0.3)
    assert np.abs(arm.pos - home - 0.4).max() < 0.05
    arm.authority.ask("start", arm.now_s)
    arm.run(4.0, request=home)
    assert arm.authority.state is State.POLICY and np.abs(arm.pos - home).max() < 0.05
    arm.run(0.4, request=home + 0.3)
    arm.authority.ask("land", arm.now_s)
    arm.run(1.5, request=home + 0.5)
    assert arm.authority.state is State.DISARMED
    pos, sent = arm.pos, arm.sent
    arm.run(1.0)
    assert arm.sent > sent and np.abs(arm.pos - pos).max() < 0.01
    arm.authority.arm()
    arm.run(0.5)
    assert np.abs(arm.pos - pos).max() < 0.01


def test_a_humanoid_that_is_asked_down_stands_until_a_person_disarms_it():
    spec = load_robot("g1")
    home = make_home(spec)
    robot = OperatedStand(spec).run(0.1)
    robot.authority.arm()
    robot.authority.ask("start", robot.now_s)
    robot.run(0.6, request=home)
    assert robot.authority.state is State.POLICY
    robot.authority.ask("land", robot.now_s)
    robot.run(robot.params.stand_s + 1.0)
    assert robot.authority.state is State.ARMED and robot.report.mode is Mode.HOLD
    sent = robot.sent
    assert not robot.authority.ask("disarm", robot.now_s)
    robot.run(0.2)
    assert robot.sent == sent


def make_home(spec):
    return np.array([spec.joints[index].home for index in spec.joint_of_channel])


def test_a_stop_from_before_the_start_moves_nothing():
    spec = load_robot("ur5e")
    arm = OperatedStand(spec, make_home(spec) + 0.2)
    arm.authority.estop("kept on disk")
    arm.run(0.5)
    assert arm.sent == 0 and arm.authority.state is State.STOPPED
    assert make_shield_params(spec) == arm.params


@pytest.mark.parametrize(
    ("name", "height_m", "quat", "says"),
    [
        ("crazyflie", GROUND[2], [0.0, 1.0, 0.0, 0.0], "tilted by 180 degrees"),
        ("g1", 0.15, [np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0], "tilted 1.57 rad, more than"),
        ("h1", 0.3, [1.0, 0.0, 0.0, 0.0], "base 0.30 m above ground, less than"),
    ],
)
def test_a_robot_that_lies_or_is_overturned_is_not_armed_and_says_why(name, height_m, quat, says):
    spec = load_robot(name)
    home = np.float32([joint.home for joint in spec.joints])
    lies = RobotState(home, 0.0 * home, np.array([0.0, 0.0, height_m]), np.array(quat), *np.zeros((2, 3)), np.zeros(()))
    stands = replace(lies, base_pos=np.array([0.0, 0.0, spec.home_height_m]), base_quat=np.array([1.0, 0.0, 0.0, 0.0]))
    reasons = []
    for state in (lies, stands):
        authority = Authority(Shield(make_shield_params(spec), spec))
        authority.step(1.0, Context(state, NO_PEERS), None, np.inf)
        reasons.append(authority.arm())
    assert reasons[0].startswith(says) and reasons[1] == "" and authority.state is State.ARMED


@pytest.mark.parametrize("trouble", ["late", "no"])
@pytest.mark.parametrize("what", ["land", "device", "start"])
def test_a_drone_that_stands_and_is_not_measured_any_more_stays_on_the_ground_when_it_has_to_come_down(what, trouble):
    drone = Operated()
    drone.fly(0.1)
    assert not drone.ask("arm")
    drone.fly(0.2)
    last, highest = drone.state(), 0.0
    asked = {"land": lambda: drone.ask("land"), "start": lambda: drone.ask("start")}
    asked["device"] = lambda: drone.authority.come_down(drone.now_s, "link lost")
    for cycle in range(1, 1000):
        if cycle == 50:
            why = asked[what]()
        late = replace(last, age=np.array(0.02 * cycle))
        drone.step(request=HOVER, state=late if trouble == "late" else None)
        highest = max(highest, drone.height)
    assert highest < 0.05, "it leapt"
    if what == "start":
        assert "state" in why and drone.authority.state is State.ARMED
    else:
        assert drone.authority.state in (State.DISARMED, State.FAULT)
