"""Files with planted defects are rejected, each for what is wrong with it."""

import pytest
from bundle_fixture import export_onnx, record_probes
from calm_hover import TASK
from msgspec.structs import replace
from pd_bundle import PdPolicy, save_pd_bundle
from places import ZOO
from test_margins import EagerPd, contract_of_calm_hover

from benchmarks.defects import drop_normaliser, raise_gain, save_edited, swap_joints, turn_frames
from deploy.bundle import load_bundle
from deploy.bundle.probes import replay_empty_slots
from deploy.bundle.session import run_session
from deploy.contract.plant import make_plant
from deploy.runtime import RobotMismatchError
from hardware import load_robot
from policies.evaluation.flight_advice import advise
from policies.evaluation.margins import MarginCfg, plan_margins
from policies.evaluation.verify import VerifyCfg, verify
from policies.export.save import save_bundle

FEW = VerifyCfg(num_worlds=16, parity_worlds=1, min_success=0.7)
MASS = {"mass": {"func": "sim.randomisation.mass", "params": {"scale": (0.9, 1.1)}}}
LATE = {
    name: {"func": f"sim.randomisation.{name}", "params": {"range_s": (0.0, 0.015)}}
    for name in ("actuator_delay", "sensor_delay")
}
MARGINS = {"held": True, "complete": True, "rows": [], "only": [], "corner": None}


def of_calm_hover():
    return replace(load_bundle(ZOO / "hover.onnx").contract, task=TASK.name)


@pytest.mark.slow
def test_the_file_that_is_spoilt_here_is_verified_by_these_gates(tmp_path):
    path = save_edited(ZOO / "hover.onnx", tmp_path / "hover.onnx", lambda graph: None, of_calm_hover())
    found = verify(path, FEW)
    assert found["failed"] == [] and found["verdict"] == "verified"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "defect"),
    [("reach", swap_joints), ("hover", drop_normaliser), ("hover", turn_frames)],
    ids=["joint order swapped", "normaliser dropped", "wrong frame"],
)
def test_a_file_that_takes_its_inputs_for_others_flies_badly_and_is_refused_for_that(source, defect, tmp_path):
    contract = of_calm_hover() if source == "hover" else None
    found = verify(save_edited(ZOO / f"{source}.onnx", tmp_path / "spoilt.onnx", defect, contract), FEW)
    assert found["verdict"] == "refused" and found["failed"] == ["shielded_success_1"], found["gates"]
    advised = advise(found["gates"], MARGINS)
    assert advised["advice"] == "do not fly"
    assert [reason["name"] for reason in advised["reasons"]] == ["shielded_success_1"]


@pytest.mark.slow
def test_an_action_that_is_half_as_large_again_is_refused_for_that_however_well_it_flies(tmp_path):
    """`reach` with this defect succeeds as often as without, under other plants too: no flight shows it."""
    found = verify(save_edited(ZOO / "reach.onnx", tmp_path / "spoilt.onnx", raise_gain), FEW)
    assert found["verdict"] == "refused" and found["failed"] == ["actions"], found["gates"]
    (reason,) = advise(found["gates"], MARGINS)["reasons"]
    assert reason == {"name": "actions", "why": "1.5, must be <= 1.00001"}


def margins_of(policy, path, contract, *only):
    """Of a controller that is exported as a policy with that contract."""
    save_bundle(export_onnx(policy, contract), contract, record_probes(policy, contract), path)
    found = plan_margins([path], MarginCfg(episodes=16, only=only))(None)
    assert found["held"], "its own plant is the one that it is made for"
    return found


def reasons_for_care(margins, contract):
    advised = advise([], margins, [contract])
    assert advised["advice"] == "fly with care"
    return {reason["name"]: reason["why"] for reason in advised["reasons"]}


@pytest.mark.slow
def test_what_knows_one_plant_only_is_flown_with_care_for_that_and_for_what_it_does_not_bear(tmp_path):
    """A controller that counts on nominal mass and thrust, as a policy does that was trained without randomisation."""
    contract = replace(contract_of_calm_hover(), plant=make_plant(load_robot("crazyflie"), {}))
    found = margins_of(PdPolicy(), tmp_path / "pd.onnx", contract, "mass", "thrust")
    reasons = reasons_for_care(found, contract)
    assert reasons["training"].startswith("was trained without randomisation")
    assert all(row["trained"] is None for row in found["rows"])
    assert "hardware shows 1.1 x" in reasons["mass, more"] and "hardware shows 0.8 x" in reasons["thrust, less"]
    varied = replace(contract, plant=make_plant(load_robot("crazyflie"), MASS))
    assert "training" not in reasons_for_care(found, varied)


@pytest.mark.slow
def test_a_delay_that_training_had_and_the_policy_ignores_is_the_reason_for_care(tmp_path):
    contract = replace(contract_of_calm_hover(), plant=make_plant(load_robot("crazyflie"), LATE))
    found = margins_of(EagerPd(), tmp_path / "eager.onnx", contract, "total delay")
    reasons = reasons_for_care(found, contract)
    assert "trained for 0.03 s" in reasons["total delay"] and "training" not in reasons


def test_a_file_that_says_another_order_of_joints_or_other_gains_is_refused_by_their_names(tmp_path):
    contract = load_bundle(ZOO / "reach.onnx").contract
    assert contract.plant is not None
    joints, plant = list(contract.robot.joint_names), contract.plant
    joints[1], joints[3] = joints[3], joints[1]
    other = replace(contract, robot=replace(contract.robot, joint_names=tuple(joints)))
    stiff = tuple(replace(joint, stiffness=1.5 * joint.stiffness) for joint in plant.joints)
    strong = replace(contract, plant=replace(plant, joints=stiff))
    for spoilt, says in ((other, "joint"), (strong, "drive stiffness of joint1 from .* N m/rad, this robot has")):
        with pytest.raises(ValueError, match=says) as refused:
            verify(save_edited(ZOO / "reach.onnx", tmp_path / "spoilt.onnx", lambda graph: None, spoilt), FEW)
        if spoilt is strong:
            assert isinstance(refused.value, RobotMismatchError)


@pytest.mark.slow
def test_a_file_that_looks_into_slots_without_a_peer_is_refused_for_that(tmp_path):
    save_pd_bundle(tmp_path / "pd.onnx", contract_of_calm_hover())  # it weighs every slot, empty ones by zero
    found = verify(tmp_path / "pd.onnx", FEW)
    assert found["failed"] == ["slots"], found["gates"]


@pytest.mark.parametrize("file", ["swarm-swap", "perch-arm"])
def test_a_shipped_file_looks_into_no_slot_without_a_peer(file):
    bundle = load_bundle(ZOO / f"{file}.onnx")
    assert replay_empty_slots(lambda inputs: run_session(bundle.session, inputs), bundle.probes) <= FEW.tolerance
