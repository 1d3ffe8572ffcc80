"""The shield keeps to the limits that ship with its policy, and to what a person says instead."""

from dataclasses import fields

import pytest
from patience import patience

pytest.importorskip("rclpy")
from bundle_fixture import export_onnx, torch_step
from rcl_interfaces.srv import DescribeParameters, GetParameters, SetParameters
from rclpy.parameter import Parameter
from reach_bundle import ReachPolicy, reach_contract, reach_inputs
from ros_rig import SPEC, Rig, standing

from deploy.bundle.probes import Probes, record_sequence
from deploy.shield import JointShieldParams, make_shield_params
from hardware import load_robot
from policies.export.save import save_bundle
from ros_nodes.lifecycle.bring_up import CLEAN_UP, CONFIGURE, BringUpError
from ros_nodes.lifecycle.parameters import ALWAYS, AT_CONFIGURE
from ros_nodes.lifecycle.processes import ProcessError

pytestmark = pytest.mark.ros
PANDA = load_robot("panda")
TRAINED = {"target_speed_share": 0.25, "ramp_s": 0.75}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A policy that was trained behind a shield of its own."""
    path, policy = tmp_path_factory.mktemp("bundle") / "reach.onnx", ReachPolicy(PANDA)
    contract = reach_contract(PANDA, shield=TRAINED)
    step = torch_step(policy, contract)
    probes = Probes(tuple(record_sequence(step, reach_inputs(PANDA, seed, 4, 2), {}) for seed in range(2)))
    save_bundle(export_onnx(policy, contract), contract, probes, path)
    return path


def call(rig: Rig, node: str, kind, service: str, **request):
    client = rig.node.create_client(kind, f"/{node}/{service}")
    assert client.wait_for_service(patience(5.0))
    future = client.call_async(kind.Request(**request))
    rig.executor.spin_until_future_complete(future, timeout_sec=patience(5.0))
    return future.result()


def give(rig: Rig, node: str, name: str, value):
    parameter = Parameter(name, value=value).to_parameter_msg()
    return call(rig, node, SetParameters, "set_parameters", parameters=[parameter]).results[0]


def limits_of(rig: Rig, node: str) -> list[float]:
    """What a configured shield keeps to of what is in `TRAINED`, and its effort share."""
    names = [f"shield.{name}" for name in (*TRAINED, "effort_share")]
    return [v.double_value for v in call(rig, node, GetParameters, "get_parameters", names=names).values]


def limits(folder, parameters: dict) -> list[float]:
    """`limits_of` a shield with these parameters."""
    mission = standing([[0.0, 0.0, 0.0, 0.0]], PANDA)
    with Rig(folder, mission=mission, parameters={"/**/shield": parameters}, commands=["lift"]) as rig:
        rig.processes.start("panda_1_shield", "shield_node", namespace="panda_1")
        rig.transition(CONFIGURE, "panda_1/shield")
        return limits_of(rig, "panda_1/shield")


def test_the_limits_of_the_policy_file_hold_unless_a_person_says_otherwise(bundle, tmp_path):
    usual = make_shield_params(PANDA)
    assert isinstance(usual, JointShieldParams)
    assert usual.target_speed_share != TRAINED["target_speed_share"]
    cases: list[tuple[dict, list[float]]] = [
        ({}, [usual.target_speed_share, usual.ramp_s, usual.effort_share]),
        ({"bundle": str(bundle)}, [*TRAINED.values(), usual.effort_share]),
        ({"bundle": str(bundle), "shield.ramp_s": 0.5}, [0.25, 0.5, usual.effort_share]),
    ]
    for number, (parameters, expected) in enumerate(cases):
        (folder := tmp_path / str(number)).mkdir()
        assert limits(folder, parameters) == pytest.approx(expected)


def test_a_policy_of_another_robot_is_refused(bundle, tmp_path):
    limits = {"/**/shield": {"bundle": str(bundle)}}
    with Rig(tmp_path, mission=standing([[0.0, 0.0, 1.0, 0.0]], SPEC), parameters=limits) as rig:
        rig.processes.start("cf1_shield", "shield_node", namespace="cf1")
        with pytest.raises(BringUpError, match="/cf1/shield refused to configure"):
            rig.transition(CONFIGURE, "cf1/shield")
        assert "is for robot 'panda', this robot has 'crazyflie'" in rig.processes.last_line("cf1_shield")


def test_a_limit_has_a_range_and_changes_only_while_the_shield_is_unconfigured(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]]) as rig:
        rig.processes.start("cf1_shield", "shield_node", namespace="cf1")
        rig.transition(CONFIGURE, "cf1/shield")
        latch_s = ("cf1/shield", "shield.latch_s")
        names = [f"shield.{field.name}" for field in fields(make_shield_params(SPEC))]
        described = {
            d.name: d
            for d in call(rig, "cf1/shield", DescribeParameters, "describe_parameters", names=names).descriptors
        }
        numbers = [d for d in described.values() if d.type in (2, 3)]
        assert numbers and all(d.floating_point_range or d.integer_range for d in numbers)
        latch = described["shield.latch_s"].floating_point_range[0]
        assert (latch.from_value, latch.to_value) == (0.0, 0.5)
        assert (
            give(rig, *latch_s, 0.3).reason
            == "shield.latch_s is read at configure, and the node is inactive: clean it up first"
        )
        rig.transition(CLEAN_UP, "cf1/shield")
        assert give(rig, *latch_s, 0.3).successful
        assert "out of range" in give(rig, *latch_s, 0.9).reason
        rig.transition(CONFIGURE, "cf1/shield")
        assert (
            call(rig, "cf1/shield", GetParameters, "get_parameters", names=["shield.latch_s"]).values[0].double_value
            == 0.3
        )


def test_what_is_read_at_configure_is_set_while_unconfigured_and_says_so(bundle, tmp_path):
    mission, usual = standing([[0.0, 0.0, 0.0, 0.0]], PANDA), make_shield_params(PANDA)
    with Rig(tmp_path, mission=mission, bundle="none.onnx", commands=["lift"]) as rig:
        policy, shield = nodes = ("panda_1/policy", "panda_1/shield")
        for node in nodes:
            rig.processes.start(node.replace("/", "_"), f"{node[8:]}_node", namespace="panda_1")
        rig.transition(CONFIGURE, shield)
        assert limits_of(rig, shield) == pytest.approx([usual.target_speed_share, usual.ramp_s, usual.effort_share])
        refused = give(rig, shield, "bundle", str(bundle))
        assert refused.reason == "bundle is read at configure, and the node is inactive: clean it up first"
        with pytest.raises(BringUpError, match="refused to configure"):
            rig.transition(CONFIGURE, policy)
        rig.transition(CLEAN_UP, shield)
        for node in nodes:
            assert give(rig, node, "bundle", str(bundle)).successful
            for name in ("robot_name", "robot_type", "trusted_keys"):
                assert "read-only" in give(rig, node, name, ["x"] if name == "trusted_keys" else "x").reason
        assert give(rig, shield, "shield.effort_share", 0.5).successful
        rig.transition(CONFIGURE, *nodes)
        # Limits that a person gave stay, the others are those of the file that was named since.
        assert limits_of(rig, shield) == pytest.approx([*TRAINED.values(), 0.5])
        described = call(rig, policy, DescribeParameters, "describe_parameters", names=["bundle", "next_bundle"])
        texts = [d.additional_constraints for d in described.descriptors]
        assert texts == [AT_CONFIGURE, ALWAYS]


def test_a_parameter_out_of_its_range_is_one_line(tmp_path):
    with Rig(tmp_path, starts=[[0.0, 0.0, 1.0, 0.0]], parameters={"/cf1/policy": {"max_state_age_s": 50.0}}) as rig:
        rig.processes.start("cf1_policy", "policy_node", namespace="cf1")
        with pytest.raises(ProcessError, match=r"parameter 'max_state_age_s' is 50.0: must be a float from 0.01 to 2$"):
            rig.transition(CONFIGURE, "cf1/policy")
