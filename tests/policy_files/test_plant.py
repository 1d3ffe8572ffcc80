"""A policy flies the plant that it was trained on, or one within what it was trained over; any other is refused."""

import json
from dataclasses import replace

import msgspec
import pytest
from bundle_fixture import make_contract
from pd_bundle import pd_contract, save_pd_bundle
from places import ZOO

from deploy.contract import ContractError, contract_from_json, contract_to_json, make_plant, robot_interface
from deploy.contract.plant import allowed_values
from deploy.runtime import PolicyRuntime, RobotMismatchError, check_robot
from deploy.runtime.compatibility import check_driver, check_plant
from hardware import load_robot
from hardware.overlay import overlaid
from phalanx.commands.inspect import inspect
from policies.evaluation.verify import verify
from policies.task_data import describe
from sim.tasks import load_task
from sim.tasks.parts.multirotor import firmware

G1, CRAZYFLIE = load_robot("g1"), load_robot("crazyflie")
KNEE = "left_knee_joint"
CONTRACT = make_contract(  # of a robot with joints, which the rest of it does not fit
    robot=robot_interface(G1),
    plant=make_plant(G1, describe(load_task("stand").group.randomisation)),
    control_dt_s=1 / G1.control_hz,
)


def with_joints(**changes) -> object:
    """A G1 whose knees are changed: a function of the joint's own value for each field."""
    joints = [
        replace(j, **{name: change(getattr(j, name)) for name, change in changes.items()}) if j.name == KNEE else j
        for j in G1.joints
    ]
    return replace(G1, joints=tuple(joints))


def hover_contract(spec=CRAZYFLIE):
    return pd_contract(task="hover", plant=make_plant(spec, describe(load_task("hover").group.randomisation)))


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        (with_joints(stiffness=lambda _: 500.0), "drive stiffness of KNEE from 88.5 to 226.5 N m/rad, HAS 500"),
        (with_joints(stiffness=lambda _: 0.0), "drive stiffness of KNEE from 88.5 to 226.5 N m/rad, HAS 0"),
        (with_joints(damping=lambda kd: 1.6 * kd), "drive damping of KNEE from 2.36 to 6.04 N m s/rad, HAS 6.4"),
        (with_joints(home=lambda _: 0.0), "home of KNEE from 0.299 to 0.301 rad, HAS 0"),
        (replace(G1, mass_kg=2 * G1.mass_kg), "mass_kg from 29.674 to 37.009, HAS 66.682"),
        (with_joints(max_effort=lambda most: 0.5 * most), "max_effort of KNEE from 116.76 to 140.39 N m, HAS 69.5"),
        (with_joints(max_velocity=lambda most: 0.5 * most), "max_velocity of KNEE from 19.8 to 20.2 rad/s, HAS 10"),
        (with_joints(armature=lambda own: 2 * own), "armature of KNEE from 0.024851 to 0.025353 kg m^2, HAS 0.050204"),
        (with_joints(friction=lambda _: 1.0), "friction of KNEE from 0 to 0 N m, HAS 1"),
    ],
)  # fmt: skip
def test_another_plant_is_refused_in_one_line_with_field_value_and_what_is_allowed(spec, line):
    with pytest.raises(RobotMismatchError) as error:
        check_robot(CONTRACT, spec, "stand.onnx")
    todo = "take a policy that was trained for this robot as it is, or state its own numbers in an overlay"
    assert str(error.value) == f"stand.onnx: is for {line}: {todo}".replace("KNEE", KNEE).replace(
        "HAS", "this robot has"
    )


def test_how_many_more_differ_is_said():
    stiff = replace(G1, joints=tuple(replace(joint, stiffness=900.0) for joint in G1.joints))
    with pytest.raises(
        RobotMismatchError, match=r"drive stiffness of left_hip_pitch_joint from .* has 900 \(28 more differ\): take"
    ):
        check_robot(CONTRACT, stiff)


def test_what_training_varied_is_accepted():
    check_robot(CONTRACT, G1)
    check_robot(CONTRACT, replace(with_joints(stiffness=lambda kp: 1.09 * kp), mass_kg=0.92 * G1.mass_kg))
    flight = replace(CRAZYFLIE.flight, hover_thrust_n=1.04 * CRAZYFLIE.flight.hover_thrust_n)
    check_robot(hover_contract(), replace(CRAZYFLIE, mass_kg=1.04 * CRAZYFLIE.mass_kg, flight=flight))
    check_robot(CONTRACT, with_joints(max_effort=lambda most: 0.86 * most, damping=lambda kd: 0.91 * kd))


def test_other_set_points_than_the_drives_take_are_refused():
    contract = msgspec.structs.replace(
        CONTRACT, plant=msgspec.structs.replace(CONTRACT.plant, control_interface="joint torques")
    )
    with pytest.raises(RobotMismatchError, match="commands joint torques, this robot takes joint positions"):
        check_robot(contract, G1)


def test_the_plant_survives_json_and_a_joint_that_the_robot_has_not_is_refused():
    plant = make_plant(CRAZYFLIE, describe(load_task("hover").group.randomisation))
    contract = make_contract(plant=plant)
    assert contract_from_json(contract_to_json(contract)).plant == plant
    data = json.loads(contract_to_json(contract))
    data["plant"]["joints"] = [json.loads(msgspec.json.encode(CONTRACT.plant.joints[0]))]
    with pytest.raises(ContractError, match=r"contract.plant.joints: \['left_hip_pitch_joint'\] are not"):
        contract_from_json(json.dumps(data))


def test_a_file_that_leaves_out_how_its_drone_flies_is_refused():
    contract = hover_contract()
    bare = msgspec.structs.replace(contract, plant=msgspec.structs.replace(contract.plant, flight={}))
    with pytest.raises(RobotMismatchError, match=r"does not state flight\.\w+, which this robot has"):
        check_robot(bare, CRAZYFLIE)


def test_the_ranges_of_a_task_are_stated():
    ranges = {(r.event, r.parameter): (r.low, r.high, r.varies) for r in CONTRACT.plant.trained_ranges}
    assert ranges["gains", "stiffness"] == (0.6, 1.5, "stiffness")
    assert ranges["friction", "scale"] == (0.6, 1.3, "")  # of the ground: no number of the robot's
    assert ranges["sensor_bias", "bias.joint_pos_rad"] == (0.01, 0.01, "")
    assert CONTRACT.plant.sensor_delay_s == (0.0, 0.02)  # 15 ms that are constant, and 5 of jitter
    assert CONTRACT.plant.actuator_delay_s == (0.0, 0.02)  # a control period: no jitter takes it farther
    assert CONTRACT.plant.network_delay_s == (0.0, 0.0)


def test_what_a_driver_reports_is_held_against_the_contract(tmp_path):
    file = str(tmp_path / "hover.onnx")
    save_pd_bundle(tmp_path / "hover.onnx", hover_contract())
    check_driver(file, {"mass_kg": CRAZYFLIE.mass_kg, "actuator_delay_s": 0.015})
    for name, value, allowed in (
        ("mass_kg", 0.06, "0.040777 to 0.045983"),
        ("actuator_delay_s", 0.04, "0 to 0.018"),
    ):
        with pytest.raises(RobotMismatchError, match=f"is for {name} from {allowed}, its driver has {value}"):
            check_driver(file, {name: value})
    with pytest.raises(
        RobotMismatchError, match="its driver has 'mass', which the file does not state; did you mean 'mass_kg'"
    ):
        check_plant(hover_contract(), {"mass": 0.04}, file, "its driver")


def test_runtime_and_verify_refuse_another_plant_and_a_file_without_one_is_a_warning(tmp_path):
    slow = replace(CRAZYFLIE, flight=replace(CRAZYFLIE.flight, rotor_time_constant_s=0.06))
    file = tmp_path / "slow.onnx"
    save_pd_bundle(file, hover_contract(slow))
    for load in (lambda: PolicyRuntime.load(file, CRAZYFLIE), lambda: verify(file)):
        with pytest.raises(RobotMismatchError, match=r"slow.onnx: is for flight.rotor_time_constant_s from 0.0594 to"):
            load()
    save_pd_bundle(tmp_path / "old.onnx", pd_contract(plant=None, format="phalanx-policy/2"))
    with pytest.warns(
        UserWarning, match=r"old.onnx: states no plant, .*: gains, .* are not compared with this robot"
    ) as said:
        PolicyRuntime.load(tmp_path / "old.onnx", CRAZYFLIE)
    assert said[0].filename == __file__


def test_a_drone_that_flew_by_its_firmwares_loop_states_it_and_what_its_gains_may_be():
    randomisation = describe(firmware(CRAZYFLIE))
    contract = make_contract(plant=make_plant(CRAZYFLIE, randomisation, rate_loop=True))
    assert contract_from_json(contract_to_json(contract)) == contract
    check_robot(contract, CRAZYFLIE)
    loop = CRAZYFLIE.flight.rate_loop
    for share, accepted in ((1.4, True), (1.6, False)):
        other = replace(loop, proportional=tuple(share * gain for gain in loop.proportional))
        spec = replace(CRAZYFLIE, flight=replace(CRAZYFLIE.flight, rate_loop=other))
        if accepted:
            check_robot(contract, spec)
            continue
        with pytest.raises(
            RobotMismatchError, match=r"is for flight.rate_loop.gain.proportional.roll from .* \(2 more"
        ):
            check_robot(contract, spec)
    # The model's own loop, as a fit of a recording finds it, may be as far off as the firmware's was.
    for lag, speed, accepted in ((0.9, 1.1, True), (2.0, 1.0, False), (1.0, 0.4, False)):
        own = overlaid(CRAZYFLIE, {"own_loop.lag": lag, "own_loop.speed": speed})
        if accepted:
            check_robot(contract, own)
            continue
        with pytest.raises(RobotMismatchError, match=r"is for flight.r\w+_time_constant_s from"):
            check_robot(contract, own)
    limp = {"x": {"func": "sim.randomisation.rate_loop", "params": {"gain": (0.0, 1.0)}}}
    own = allowed_values(make_plant(CRAZYFLIE, limp, rate_loop=True), CRAZYFLIE.mass_kg)
    assert own["flight.rate_time_constant_s"][1] == pytest.approx(CRAZYFLIE.flight.rate_time_constant_s * 100, rel=0.01)
    without = replace(CRAZYFLIE, flight=replace(CRAZYFLIE.flight, rate_loop=None))
    with pytest.raises(RobotMismatchError, match=r"is for a robot with flight.rate_loop.rate_hz, this robot has none"):
        check_robot(contract, without)
    check_robot(make_contract(plant=make_plant(CRAZYFLIE, {})), without)


def test_inspect_prints_the_plant_and_what_a_robot_may_have(tmp_path, capsys):
    inspect(ZOO / "stand.onnx")
    words = " ".join(capsys.readouterr().out.split())
    for said in (
        "Plant: takes joint positions",
        "mass_kg 29.674 .. 37.009",
        "actuator_delay_s 0 .. 0.022",
        f"{KNEE} 0.3 150 4 139 20 0.0251 0",
        "gains stiffness 0.6 .. 1.5 stiffness",
    ):
        assert said in words, said
    save_pd_bundle(tmp_path / "old.onnx", pd_contract(plant=None, format="phalanx-policy/2"))
    inspect(tmp_path / "old.onnx")
    assert "states no plant" in " ".join(capsys.readouterr().out.split())
