"""Somebody else speaks on the topics of a robot that flies."""

import threading
import time
from random import Random

import numpy as np
import pytest
from patience import patience

pytest.importorskip("rclpy")
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseArray
from nav_msgs.msg import Odometry
from ros_rig import Rig
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from test_ros_shield import Requests

from ros_nodes.lifecycle.polling import Mailbox, make_mailbox
from ros_nodes.messages import qos
from ros_nodes.messages.conversion import OdometryWriter, empty_state
from ros_nodes.messages.diagnostics import WAITS, value_of
from ros_nodes.messages.first_speaker import FirstSpeaker, OneSpeaker
from ros_nodes.messages.names import POLICY_STATUS
from ros_nodes.messages.operator_services import CALLS
from ros_nodes.messages.topics import GROUND_TRUTH

pytestmark = pytest.mark.ros


def status(state: str) -> DiagnosticArray:
    values = [KeyValue(key="state", value=state), KeyValue(key="mode", value="NOMINAL")]
    return DiagnosticArray(status=[DiagnosticStatus(values=values)])


def waits(taken: tuple[DiagnosticArray, int]) -> str:
    return value_of(WAITS, taken[0])


def test_a_stranger_on_status_switches_no_requests_off_or_on_and_keeps_a_robot_from_being_armed(pd_bundle, tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], bundle=pd_bundle) as team:
        team.start("simulated_robots", "cf1/shield", "cf1/policy")
        team.fly("cf1", 1.5)
        stranger = team.node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
        requests = Mailbox(team.node, JointState, "/cf1/requested", qos.recording(500, latched=False), raw=True)

        def taken() -> int:
            count = 0
            while requests.take() is not None:
                count += 1
            return count

        def heard(state: str) -> int:
            team.watch("cf1", 0.3)
            taken()
            team.watch("cf1", 1.0, lambda _: stranger.publish(status(state)))
            return taken()

        assert heard("DISARMED") > 40
        taken()
        for _ in range(10):  # who comes and goes between two looks is never counted
            guest = team.node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
            guest.publish(status("DISARMED"))
            team.node.destroy_publisher(guest)
            team.watch("cf1", 0.1)
        assert taken() > 40
        latched = make_mailbox(team.node, DiagnosticArray, "/cf1/status", qos.LATCHED)
        team.watch_until("cf1", lambda: latched.take() is not None, 3.0)
        assert latched.number is not None, "by which policies know them"
        assert "status has 2 publishers where one is due" in team.processes.log_of("cf1_policy").read_text()
        team.node.destroy_publisher(stranger)
        team.watch("cf1", 0.7)
        team.ask("cf1", "land")
        team.watch("cf1", 5.0)
        assert team.authority("cf1") == "DISARMED"
        stranger = team.node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
        policy = Mailbox(team.node, DiagnosticArray, f"/cf1/{POLICY_STATUS}", qos.LATCHED)
        assert heard("POLICY") == 0
        assert "status has 2 publishers where one is due" in team.asked("cf1", "arm")
        assert "status has 2 publishers where one is due" in waits(policy.take())  # it counts for itself
        team.node.destroy_publisher(stranger)
        team.watch("cf1", 0.7)
        assert waits(policy.take()) == ""
        team.ask("cf1", "arm")
        stranger = team.node.create_publisher(DiagnosticArray, "/cf1/status", qos.HISTORY)
        team.watch("cf1", 0.5)
        assert "the policy: status has 2 publishers" in team.asked("cf1", "start"), "it would not hear that it is asked"
        team.node.destroy_publisher(stranger)
        team.processes.kill("cf1_policy")
        team.watch("cf1", 3.0)
        assert "the policy is silent for" in team.asked("cf1", "start")
        assert team.state("cf1")[0].base_pos[2] < 0.1, "it rose, and waits"


def test_a_stranger_who_says_where_a_robot_is_moves_it_nowhere_and_the_robot_lands_where_it_is(tmp_path):
    """What the stranger says is plausible: less away than a jump, and it speaks five times as often as the robot."""
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]]) as team:
        team.start("simulated_robots", "cf1/shield")
        requests, writer, noise = Requests(team), OdometryWriter("cf1/base_link"), Random(0)
        team.fly("cf1", 1.5, lambda _: requests.good())
        truth, places = Mailbox(team.node, PoseArray, GROUND_TRUTH, qos.SENSOR), []
        stranger = team.node.create_publisher(Odometry, "/cf1/odom", qos.MEASURED)
        state, ended = empty_state(0), threading.Event()
        state.base_quat[:], state.base_lin_vel[:], state.base_ang_vel[:] = (1.0, 0.0, 0.0, 0.0), 0.0, 0.0

        def lie() -> None:
            while not ended.wait(0.002):
                state.base_pos[:] = -0.4, 1e-4 * noise.random(), 1.0
                stranger.publish(writer.base(state, time.time_ns()))

        def look(_: float) -> None:
            requests.good()
            while (taken := truth.take()) is not None:
                at = taken[0].poses[0].position
                places.append((at.x, at.y, at.z))

        liar = threading.Thread(target=lie)
        liar.start()
        try:
            team.watch_until("cf1", lambda: team.authority("cf1") == "FAULT", 12.0, look)
        finally:
            ended.set()
            liar.join()
        way = np.array(places)
        assert len(way) > 50 and np.linalg.norm(way[:, :2], axis=-1).max() < 0.25
        assert way[-1][2] < 0.1 and np.diff(way[:, 2]).min() > -0.1
        assert team.has_said("cf1", "/cf1/odom has 2 publishers where one is due")


def test_the_numbers_of_the_first_publisher_tell_it_from_a_second_one(monkeypatch):
    class Box:
        publishers, number, queue = 1, None, ()

        def drain(self):
            for number in self.queue:
                self.number = number
                yield f"{number}".encode(), 0

    box, now_s = Box(), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    speaker = FirstSpeaker(box)

    def heard(*numbers, publishers: int = 1, after_s: float = 0.02) -> str:
        now_s[0] += after_s
        box.queue, box.publishers = numbers, publishers
        taken = speaker.take()
        return "" if taken is None else taken[0].decode()

    assert heard(7, publishers=2) == "", "it has heard of no first one"
    assert heard(700) == "", "what was waiting may be of either"
    for number in range(700, 920, 2):  # 100 Hz
        assert heard(number, number + 1) == str(number + 1)
    for number in range(920, 980):  # a busy machine: that is not its rate
        assert heard(number) == str(number)
    assert heard(1, 980, 2, publishers=2) == "980"
    assert all(heard(number, number + 1, publishers=2) for number in range(981, 1181, 2))
    assert heard(3, 4, publishers=2) == "" and heard(9000, 1182, 5, publishers=2) == "1182"
    assert heard(1260, 6, publishers=2) == "" and heard(1283, 7, publishers=2, after_s=1.0) == "1283", "it stood still"
    strange, own, wrong = 0, 1284, 0
    for _ in range(400):  # 500 Hz, which pass 100 Hz by
        numbers = [*range(strange, strange + 10), own, own + 1]
        said = heard(*numbers, publishers=2)
        wrong += said not in ("", str(own + 1))
        strange, own = strange + 10, own + 2
    assert wrong == 0 and said == str(own - 1)
    assert heard(strange) == "" and heard() == "" and heard(strange + 1) == str(strange + 1), "the first one has gone"
    assert heard(None, publishers=2) == "", "a middleware without numbers"
    assert heard(1) == "" and all(heard(number) for number in range(2, 200)), "50 Hz"
    assert heard(320, publishers=2, after_s=8.0) == "", "more than is lost in a second: another one has counted so far"
    assert heard(200, publishers=2) == "200"


def test_who_comes_and_goes_between_two_looks_is_not_believed_and_who_stays_is():
    speaker = OneSpeaker()
    heard = [number for number in (7, 8, 1, 9, 11, 2, 2, 12, 200, 201, 202, 1, 2, 3, 4) if speaker.believes(number)]
    assert heard == [7, 8, 9, 11, 12, 201, 202, 2, 3, 4], "202: it was not heard for long; 2: it began again"
    assert speaker.believes(None), "a middleware without numbers"


class Heard:
    """Whom a `FirstSpeaker` believes of those who publish on one topic, in a simulated time."""

    def __init__(self, monkeypatch):
        self.now_s, self.publishers, self.number = 0.0, 1, None
        self.came: list[tuple[int, str]] = []  # numbers, and whose
        self.believed: list[str] = []
        self.last_s = self.longest_s = 0.0  # without the first one
        monkeypatch.setattr("time.monotonic", lambda: self.now_s)
        self._speaker = FirstSpeaker(self)

    def drain(self):
        for number, whose in self.came[-qos.COMMANDS_IN.depth :]:
            self.number = number
            yield whose, 0

    def look(self, came: list[tuple[int, str]], publishers: int) -> None:
        self.came, self.publishers = came, publishers
        if taken := self._speaker.take():
            self.believed.append(taken[0])
            if taken[0] == "first":
                self.longest_s, self.last_s = max(self.longest_s, self.now_s - self.last_s), self.now_s


@pytest.mark.parametrize("other_hz", [10, 40, 51, 55, 60, 64, 70, 100, 300, 2000])
def test_a_second_publisher_of_any_rate_is_not_taken_for_the_first_one(other_hz, monkeypatch):
    """It begins 2 s after the first one, 50 Hz, that is heard all the while, but for the moment when it is passed."""
    numbers, random, heard = {"first": 0, "other": 0}, Random(0), Heard(monkeypatch)
    while heard.now_s < 12.0:
        heard.now_s += 0.002 * (random.randint(1, 20) if random.random() < 0.01 else 1)  # a busy machine
        came = []
        for whose, hz, begins_s in (("first", 50, 0.0), ("other", other_hz, 2.0)):
            while numbers[whose] < (heard.now_s - begins_s) * hz:
                numbers[whose] += 1
                came.append((begins_s + numbers[whose] / hz, (numbers[whose], whose)))
        heard.look([number for _, number in sorted(came)], 2 if heard.now_s > 1.99 else 1)
    assert heard.believed.count("other") <= 2 and heard.longest_s < 0.45


@pytest.mark.parametrize("ahead", [-20, -4, 0])
@pytest.mark.parametrize("silent_s", [0.35, 0.6, 0.95, 3.0])
def test_who_counts_up_to_the_number_of_the_first_one_while_that_is_silent_is_not_believed(
    silent_s, ahead, monkeypatch
):
    """It counts to `ahead` of the last number, waits, and speaks at the rate of the first one."""
    heard, first, other = Heard(monkeypatch), 0, 0
    while heard.now_s < 6.0:
        heard.now_s += 0.02
        came, is_silent = [], 2.0 < heard.now_s < 2.0 + silent_s
        if not is_silent:
            first += 1
            came.append((first, "first"))
        if heard.now_s > 2.0 and other < first + ahead and is_silent:
            came += [(number, "other") for number in range(other + 1, first + ahead + 1)]
            other = first + ahead
        elif heard.now_s > 2.32:
            other += 1
            came.append((other, "other"))
        heard.look(came, 2 if heard.now_s > 2.0 else 1)
    assert heard.believed.count("other") <= 2


def test_each_of_a_hundred_calls_at_once_is_answered(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 0.05, 0.0]]) as team:
        team.start("simulated_robots", "cf1/shield", armed=False)
        # The queue of who calls has to be as long: it is that of the answers, and of calls that were lost on their way.
        client = team.node.create_client(Trigger, "/cf1/shield/land", qos_profile=CALLS)
        assert client.wait_for_service(patience(10.0))
        calls = [client.call_async(Trigger.Request()) for _ in range(100)]
        until = time.monotonic() + patience(15.0)
        while not all(call.done() for call in calls) and time.monotonic() < until:
            team.executor.spin_once(timeout_sec=0.1)
        assert sum(call.done() for call in calls) == 100
