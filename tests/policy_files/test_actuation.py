"""What `verify` says of actuators: figures of a command that is known, and of a policy that holds still."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from places import ZOO

from deploy.bundle import load_bundle
from deploy.runtime import PolicyRuntime
from hardware import load_robot
from phalanx.commands.verify import _show as show_verdict
from phalanx.verification.verdict import actuators_in_words
from policies.evaluation.actuation import ActuatorWatch, beyond_curve, measure_steps
from policies.evaluation.evaluate import evaluate
from policies.evaluation.flight_advice import BEYOND_CURVE, beyond_curves
from policies.evaluation.policy_runner import BundleRunner
from sim import randomisation
from sim.tasks import load_task
from sim.terms import EventTerm

REACH = ZOO / "reach.onnx"


def test_the_figures_are_those_of_the_sine_that_was_commanded(monkeypatch):
    """Joint 2 is given 0.1 sin(2 pi 2 t) rad, joint 4 a target far beyond its end, and no joint moves."""
    spec, dt = load_robot("panda"), 0.02
    at = [channel.name for channel in spec.channels].index("joint2")
    beyond = [channel.name for channel in spec.channels].index("joint4")
    rest = torch.tensor(spec.home).expand(1, 1, -1)
    state = SimpleNamespace(joint_pos=rest, joint_vel=torch.full_like(rest, 0.5))
    env = SimpleNamespace(robot=spec, control_dt=dt, last_action=torch.ones(1, 1, 8), now=SimpleNamespace(state=state))
    time_s = [0.0]

    def act(self, env):
        target = torch.tensor([channel.low + 0.3 for channel in spec.channels]).expand(1, 1, -1).clone()
        target[..., at] = 0.1 * torch.sin(torch.tensor(2 * torch.pi * 2.0 * time_s[0]))
        target[..., beyond] = 100.0
        time_s[0] += dt
        return torch.ones(1, 1, 8), target

    monkeypatch.setattr(BundleRunner, "start", lambda self, env: None)
    monkeypatch.setattr(BundleRunner, "act", act)
    watch = ActuatorWatch(None)
    watch.start(env)
    for _ in range(500):
        watch.act(env)
    figures = watch.figures()
    sine, stuck = figures["channels"]["joint2"], figures["channels"]["joint4"]
    assert sine["rms"] == pytest.approx(0.1 / 2**0.5, rel=1e-2)
    assert sine["frequency_hz"] == pytest.approx(2.0, rel=0.02) and sine["at_limit"] == 0.0
    assert sine["change_rms_per_s"] == pytest.approx(2 * torch.pi * 2.0 * 0.1 / 2**0.5, rel=0.02)
    assert sine["jerk_rms_per_s3"] == pytest.approx((2 * torch.pi * 2.0) ** 3 * 0.1 / 2**0.5, rel=0.02)
    assert stuck["at_limit"] == 1.0 and stuck["change_rms_per_s"] == stuck["jerk_rms_per_s3"] == 0.0
    assert figures["effort_share"]["joint4"] == pytest.approx(1.0)  # its drive gives what it can
    index = [joint.name for joint in spec.joints].index("joint4")
    assert figures["power_w"] >= 0.5 * spec.joints[index].max_effort
    assert figures["beyond_curve_share"] == {}  # nothing is published of a Panda's motors


@pytest.mark.parametrize(
    ("speed", "driving", "braking"),  # rad/s; N m that the motor of a G1's knee gives
    [(0.0, 131.0, 131.0), (10.0, 111.0, 131.0), (14.5, 111.0, 131.0), (18.6, 55.5, 65.5), (22.7, 0.0, 0.0)],
)
def test_a_motor_gives_less_torque_above_its_corner_speed_and_more_where_it_brakes(speed, driving, braking):
    (knee,) = (joint for joint in load_robot("g1").joints if joint.name == "left_knee_joint")
    for sign in (-1.0, 1.0):
        for limit, turns in ((driving, sign), (braking, -sign)):
            effort = turns * torch.tensor([limit - 0.1, limit + 0.1])
            found = beyond_curve(knee.torque_speed, effort, sign * torch.tensor(speed)).tolist()
            assert found[1] and (not found[0] or limit == 0.0), (speed, limit, turns)


def beyond_in(task):
    """What `verify` says of the G1's policy that stands, in 32 episodes of `task`."""
    watch = ActuatorWatch(PolicyRuntime.load(ZOO / "stand.onnx"))
    evaluate(watch, task, 32, shield=True)
    return watch.figures()


def test_a_g1_that_is_pushed_too_hard_asks_its_motors_for_more_than_they_give_and_a_calm_one_does_not():
    task = load_task("stand")
    push = EventTerm(randomisation.push, {"speed_m_s": (1.4, 1.4)}, interval_range_s=(2.0, 3.0))
    group = task.groups["g1"]
    pushed = replace(task, groups={"g1": replace(group, randomisation={**group.randomisation, "push": push})})
    calm, hard = beyond_in(task), beyond_in(pushed)
    assert max(calm["beyond_curve_share"].values()) < BEYOND_CURVE / 4 and not beyond_curves(calm)
    assert max(hard["beyond_curve_share"].values()) > 2 * BEYOND_CURVE
    assert "hip_pitch_joint is asked for more than its motor gives" in beyond_curves(hard)


def test_words_name_the_worst_actuator_and_the_share_of_the_period():
    channel = {"unit": "rad", "rms": 1.0, "change_rms_per_s": 1.0, "frequency_hz": 1.0, "at_limit": 0.0}
    channels = {"knee": channel | {"at_limit": 0.25}, "hip": channel | {"frequency_hz": 9.0}}
    channels["finger"] = channel | {"at_limit": 1.0, "change_rms_per_s": 0.0}  # which the task does not drive
    file = {"actuators": {"channels": channels, "effort_share": {"hip": 0.4}, "power_w": 37.71}}
    said = actuators_in_words(file | {"step_us": {"p50": 20.0, "p99": 100.0, "period": 20_000.0}})
    assert said == [
        "actuators  at an end of its range 25.0 % of the time (knee), targets change at 9.0 Hz (hip), "
        "effort 40 % RMS of its limit (hip), 37.7 W put in",
        "one step   20 us median, 100 us p99 here: 0.5 % of its period",
    ]


def test_words_say_how_often_more_is_asked_than_a_motor_gives():
    channels = {"hip": {"unit": "rad", "rms": 1.0, "change_rms_per_s": 1.0, "frequency_hz": 1.0, "at_limit": 0.0}}
    file = {"channels": channels, "effort_share": {"hip": 0.4}, "power_w": 1.0}
    step = {"p50": 20.0, "p99": 100.0, "period": 20_000.0}
    shares = {"hip": 0.0, "knee": 0.0321}
    for beyond, said in (
        (shares, "beyond a motor's torque-speed curve 3.2 % of the time (knee)"),
        ({"hip": 0.0}, "beyond a motor's torque-speed curve never"),
        ({}, "1 W put in"),
    ):
        words = actuators_in_words({"actuators": file | {"beyond_curve_share": beyond}, "step_us": step})
        assert words[0].endswith(said), words


def test_verify_warns_of_a_joint_that_asks_for_more_than_its_motor_gives(capsys):
    record = json.loads((ZOO / "stand.json").read_text(encoding="utf-8")) | {"bundle": "stand.onnx"}
    warned = {}
    for share in (0.002, 0.03):
        record["actuators"]["beyond_curve_share"] = {"left_knee_joint": share}
        show_verdict(record)
        warned[share] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("care")]
    assert not warned[0.002] and "left_knee_joint is asked for more than its motor gives 3 %" in warned[0.03][0]


def test_the_time_of_a_step_says_when_other_programs_had_the_processor():
    channels = {"hip": {"unit": "rad", "rms": 1.0, "change_rms_per_s": 1.0, "frequency_hz": 1.0, "at_limit": 0.0}}
    file = {"actuators": {"channels": channels, "effort_share": {}, "power_w": 0.0}}
    step = {"p50": 20.0, "p99": 9000.0, "period": 20_000.0}
    said = {w: actuators_in_words(file | {"step_us": step | {"waited": w}})[1] for w in (0.01, 0.62)}
    assert said[0.01].endswith("of its period")
    assert said[0.62].endswith("of its period; other programs had the processor for 62 % of the time")


def test_a_step_is_timed_on_the_graph_that_flies():
    found = measure_steps(load_bundle(REACH))
    assert 0 < found["p50"] <= found["p99"] and found["period"] == pytest.approx(20_000)
    assert 0 <= found["waited"] < 1
