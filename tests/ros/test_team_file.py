"""A team file is read, or refused in one line that names file, key, value and what is allowed."""

import json

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from places import ZOO

pytest.importorskip("rclpy")
from bundle_fixture import GATE
from pd_bundle import save_pd_bundle

from deploy.bundle import load_bundle
from deploy.bundle.file import add_record
from deploy.bundle.signature import add_signature, key_text, public_bytes
from ros_nodes.messages.scene import read_surroundings
from ros_nodes.plans.mission import plan_swap, save_mission
from ros_nodes.plans.prepare import prepare
from ros_nodes.plans.team import TeamError
from ros_nodes.plans.team_file import load_team
from ros_nodes.plans.team_mission import team_mission

HOVER = ZOO / "hover.onnx"
CF1 = "robots: [{name: cf1, bundle: HOVER}]"
BALL = "{name: ball%d, pose: [0, 0, 0, 0], radius: 1}"


def write(folder, text):
    file = folder / "team.yaml"
    file.write_text(text.replace("HOVER", str(HOVER)).replace("REACH", str(ZOO / "reach.onnx")))
    return file


def test_a_team_file_becomes_a_mission_of_its_robots(tmp_path):
    (tmp_path / "policy.onnx").write_bytes(HOVER.read_bytes())
    text = """
        robots:
          - {name: cf1, bundle: policy.onnx, base_pose: [0.5, -0.5, 0.1, 1.57], shield: {ramp_s: 0.2}}
          - {name: arm, bundle: REACH, driver: "mujoco_driver:MujocoDriver", options: {log: x}}
        shield: {ramp_s: 0.4}
        hosts: {policies: 1}
        """
    team = load_team(write(tmp_path, text))
    assert team.simulated == ("cf1",)
    assert [robot.type for robot in team.robots] == ["crazyflie", "panda"]
    assert team.robots[0].bundle == str(tmp_path / "policy.onnx")
    assert team.limits() == {"cf1": {"ramp_s": 0.2}, "arm": {"ramp_s": 0.4}}
    prepare(team_mission(team), tmp_path / "out", team)
    parameters = json.loads((tmp_path / "out" / "params.yaml").read_text())
    stops = [parameters[f"/{name}/shield"]["ros__parameters"]["stop_dir"] for name in ("cf1", "arm")]
    assert stops == [str(tmp_path / "out" / "stops"), ""], "a real robot's stop is for the next run too"
    first, second = team_mission(team).team
    np.testing.assert_allclose(first.base_pose[:3], [0.5, -0.5, 0.1])
    assert (second.robot, len(second.joint_pos)) == ("panda", 8)
    assert (team.pick(["arm"]), team.pick([])) == (("arm",), ("cf1", "arm"))
    with pytest.raises(ValueError, match="robot 'cf9' is not in the team: choose from cf1, arm"):
        team.pick(["cf9"])


def test_a_limit_may_be_a_whole_number(tmp_path):
    team = load_team(
        write(tmp_path, "{robots: [{name: cf1, bundle: HOVER, shield: {act_periods: 4.0}}], shield: {ramp_s: 1}}")
    )
    prepare(team_mission(team), tmp_path / "out", team)
    limits = json.loads((tmp_path / "out" / "params.yaml").read_text())["/cf1/shield"]["ros__parameters"]
    kinds = {name: type(limits[f"shield.{name}"]) for name in ("ramp_s", "act_periods")}
    assert kinds == {"ramp_s": float, "act_periods": int}


def test_drones_that_would_stand_too_near_to_be_armed_are_refused(tmp_path):
    text = "robots: [{name: cf1, bundle: HOVER}, {name: cf2, bundle: HOVER, base_pose: [%g, 0, 0.02, 0]}]"
    with pytest.raises(TeamError, match=r"base_pose of cf1: 0\.1. m from cf2, at least 0.25 needed"):
        load_team(write(tmp_path, text % 0.1))
    wide = text.replace("bundle: HOVER, base_pose", "bundle: HOVER, shield: {separation_m: 0.5}, base_pose")
    with pytest.raises(TeamError, match=r"0\.30 m from cf2, at least 0\.50 needed"):  # a pair keeps the larger of both
        load_team(write(tmp_path, wide % 0.3))
    assert len(load_team(write(tmp_path, text % 0.3)).robots) == 2


def test_a_drone_does_not_begin_inside_an_obstacle_nor_outside_its_fence(tmp_path):
    text = "{robots: [{name: cf1, bundle: HOVER, base_pose: [%g, 0, 0.02, 0]}], scene: {obstacles: [%s]}}"
    box = "{name: shelf, pose: [1, 0, 0.5, 0], size: [0.4, 0.4, 1]}"
    with pytest.raises(TeamError, match=r"base_pose of cf1: 0\.\d+ m inside shelf, at least"):
        load_team(write(tmp_path, text % (1.0, box)))
    with pytest.raises(TeamError, match=r"base_pose of cf1: outside the geofence: x = 40 m"):
        load_team(write(tmp_path, text % (40.0, box)))
    assert load_team(write(tmp_path, text % (0.0, box))).scene.names == ("shelf",)


def test_a_yaw_in_degrees_and_a_group_of_no_policy_are_refused(tmp_path):
    text = "robots: [{name: cf1, bundle: HOVER, %s}]"
    with pytest.raises(TeamError, match=r"robots\[0\].base_pose of cf1: yaw = 90: in rad, from -6.28 to 6.28"):
        load_team(write(tmp_path, text % "base_pose: [0, 0, 0.02, 90]"))
    with pytest.raises(TeamError, match=r"robots\[0\].group of cf1: 'arm'; .* is for 'crazyflie'"):
        load_team(write(tmp_path, text % "group: arm"))


def test_a_robot_on_legs_does_not_begin_in_the_ground(tmp_path):
    text = "robots: [{name: g1, bundle: %s, base_pose: [0.5, 0, HEIGHT, 0]}]" % (ZOO / "velocity.onnx")
    says = r"robots\[0\].base_pose of g1: z = 0: at least 0.39 m; its base is 0.785 m above what it stands on"
    with pytest.raises(TeamError, match=says):
        load_team(write(tmp_path, text.replace("HEIGHT", "0")))
    load_team(write(tmp_path, text.replace("HEIGHT", "0.79")))


def test_the_orders_come_from_the_mission_and_the_policies_from_the_team(tmp_path):
    mission = plan_swap(2, 18.0, None, 0)
    save_mission(mission, tmp_path / "plan.json")
    robots = "[{name: cf1, bundle: HOVER}, {name: cf2, bundle: HOVER}]"
    found = team_mission(load_team(write(tmp_path, f"{{robots: {robots}, mission: plan.json}}")))
    assert [member.bundle for member in found.team] == [str(HOVER)] * 2
    np.testing.assert_array_equal(found.team[1].base_pose, mission.team[1].base_pose)
    assert len(found.orders) == len(mission.orders)
    with pytest.raises(TeamError, match="mission: is for cf1, cf2; 'cf2' differs"):
        load_team(write(tmp_path, "{robots: [{name: cf1, bundle: HOVER}], mission: plan.json}"))


def test_the_mission_file_of_the_documentation_is_one(tmp_path):
    example = (ZOO.parent / "docs" / "ros2.md").read_text().split("```json\n")[1].split("```")[0]
    (tmp_path / "plan.json").write_text(example)
    found = team_mission(load_team(write(tmp_path, "{robots: [{name: cf1, bundle: HOVER}], mission: plan.json}")))
    assert [order.t_s for order in found.orders] == [0, 6] and found.command_names == ["goal_pos"]


def test_the_policies_of_a_mixed_team_stand_in_a_team_file_each_in_its_group(tmp_path):
    text = f"""
        robots:
          - {{name: cf1, bundle: {ZOO / "perch-drone.onnx"}, lands_on: arm1}}
          - {{name: arm1, bundle: {ZOO / "perch-arm.onnx"}, group: arm, base_pose: [1, 0, 0, 0]}}
        """
    team = load_team(write(tmp_path, text))
    mission = team_mission(team)
    assert [member.group for member in mission.team] == ["drone", "arm"]
    prepare(mission, tmp_path / "out", team)
    with pytest.raises(TeamError, match=r"robots\[1\]\.group of arm1: 'drone'; .*perch-arm.onnx is for 'arm'"):
        load_team(write(tmp_path, text.replace("group: arm", "group: drone")))


def test_a_team_flies_only_what_its_keys_signed(tmp_path):
    key = Ed25519PrivateKey.generate()
    bundle, text = load_bundle(HOVER), key_text(public_bytes(key))
    (tmp_path / "me.pub").write_text(text + "\n")
    (tmp_path / "policy.onnx").write_bytes(add_signature(bundle.model_bytes, key))
    team = load_team(write(tmp_path, "{robots: [{name: cf1, bundle: policy.onnx}], trusted_keys: [me.pub]}"))
    assert team.trusted_keys == (text,)
    prepare(team_mission(team), tmp_path / "out", team)
    parameters = json.loads((tmp_path / "out" / "params.yaml").read_text())
    for node in ("policy", "shield"):
        assert parameters[f"/cf1/{node}"]["ros__parameters"]["trusted_keys"] == [text]
    with pytest.raises(TeamError, match=r"robots\[0\]\.bundle of cf1: .*hover.onnx: is not signed; trusted: "):
        load_team(write(tmp_path, "{robots: [{name: cf1, bundle: HOVER}], trusted_keys: [me.pub]}"))
    with pytest.raises(TeamError, match=r"trusted_keys: trusted key 'you\.pub': neither a public key"):
        load_team(write(tmp_path, "{robots: [{name: cf1, bundle: HOVER}], trusted_keys: [you.pub]}"))


def test_a_team_flies_only_what_was_verified_as_its_file_requires(tmp_path):
    bundle = load_bundle(HOVER)
    made = {"verified_at_utc": "2026-01-02T03:04:05+00:00", "versions": {}, "episodes": 256}
    flight = {"advice": "fly with care", "reasons": [{"name": "wind", "why": "falls at 0.02 N"}]}
    margins = {"episodes": 64, "only": []}
    record = {"verdict": "verified", "gates": [GATE], "flight": flight, "margins": margins, **made}
    (tmp_path / "policy.onnx").write_bytes(add_record(bundle, record))
    text = "{robots: [{name: cf1, bundle: policy.onnx}], requires: verified}"
    team = load_team(write(tmp_path, text))
    prepare(team_mission(team), tmp_path / "out", team)
    parameters = json.loads((tmp_path / "out" / "params.yaml").read_text())
    assert parameters["/cf1/policy"]["ros__parameters"]["requires"] == "verified"
    save_pd_bundle(tmp_path / "unverified.onnx")
    for wrong, says in (
        (
            text.replace("verified", "fly"),
            r"policy.onnx: its verification says 'fly with care' \(wind: .*: fly$",
        ),
        (text.replace("policy", "unverified"), r"robots\[0\]\.bundle of cf1: .*carries no record of its verification"),
        (text.replace("verified", "luck"), r"requires 'luck': choose from verified, fly with care, fly"),
    ):
        with pytest.raises(TeamError, match=says):
            load_team(write(tmp_path, wrong))


def test_what_stands_there_and_whom_it_is_for_reaches_the_shields(tmp_path):
    text = """
        robots:
          - {name: cf1, bundle: HOVER, lands_on: arm}
          - {name: cf2, bundle: HOVER, base_pose: [0.5, 0, 0.02, 0], battery: {land: 0.15}}
          - {name: arm, bundle: REACH, base_pose: [1, 2, 0, 0.5]}
        scene:
          obstacles:
            - {name: shelf, pose: [1.5, 0, 0.5, 1.57], size: [0.4, 1.2, 1]}
            - {name: ball, pose: [0, 0, 1, 0], radius: 0.2}
          keep_out: [{name: walkway, low: [1, -3, 0], high: [3, 3, 3], robots: [cf2]}]
        battery: {arm: 0.3}
        namespace: fleet
        """
    team = load_team(write(tmp_path, text))
    assert team.scene.lines() == [
        "obstacle shelf: 0.4 x 1.2 x 1 m at (1.5, 0, 0.5, 1.57)",
        "obstacle ball: radius 0.2 m at (0, 0, 1, 0)",
        "keep out of walkway: (1, -3, 0) to (3, 3, 3) m, cf2",
    ]
    prepare(team_mission(team), tmp_path / "out", team)
    parameters = json.loads((tmp_path / "out" / "params.yaml").read_text())
    given = {name: parameters[f"/{name}/shield"]["ros__parameters"] for name in ("cf1", "cf2", "arm")}
    charges = {name: (shield["least_charge"], shield.get("land_charge")) for name, shield in given.items()}
    assert charges == {"cf1": (0.3, None), "cf2": (0.3, 0.15), "arm": (0.3, None)}
    assert {shield["people_topic"] for shield in given.values()} == {"/fleet/people"}
    found = {name: read_surroundings(shield["surroundings"]) for name, shield in given.items()}
    assert {name: len(around.scene.boxes().valid) for name, around in found.items()} == {"cf1": 2, "cf2": 3, "arm": 2}
    zone = found["cf2"].scene.boxes()
    np.testing.assert_allclose([zone.pos[2], zone.half[2]], [[2.0, 0.0, 1.5], [1.0, 3.0, 1.5]])
    assert [(n.name, n.type, n.lands_on) for n in found["cf1"].neighbours] == [("arm", "panda", True)]
    assert not found["cf2"].neighbours[0].lands_on
    assert [neighbour.name for neighbour in found["arm"].neighbours] == ["cf2"]  # the other one lands on it
    np.testing.assert_allclose(found["cf2"].neighbours[0].base_pose, [1.0, 2.0, 0.0, 0.5])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("robots: []", "robots = []: expected `array` of length >= 1"),
        ("robots: [{name: 2cf, bundle: HOVER}]", "robots[0].name = 2cf: a name is letters"),
        (f"robots: [{{name: {'a' * 250}, bundle: HOVER}}]", "aaa: expected `str` of length <= 100"),
        (f"{CF1}\nnamespace: {'a' * 250}", "aaa: expected `str` of length <= 100"),
        ("robots: [{name: cf1, bundle: HOVER, battery: {land: 0.3}}]", "battery of cf1: lands below a charge of 0.3"),
        (f"{CF1}\nbattery: {{arm: 20}}", "battery.arm = 20: expected `float` <= 1"),
        (
            "robots: [{name: cf1, bundle: HOVER, battery: {fly: 0.2}}]",
            "robots[0].battery.fly: unknown; choose from arm, land",
        ),
        (f"{CF1}\nbattery: {{fly: 0.2}}", "battery.fly: unknown; choose from arm, land"),
        ("robots: [{name: cf1}]", "missing required field `bundle`"),
        ("robots: [{name: cf1, bundle: HOVER, drivr: x}]", "robots[0].drivr: unknown; choose from name, bundle, type"),
        ("robots: [{name: cf1, bundle: HOVER, drivr: x}]", "within_m; did you mean 'driver'?"),
        ("robots: [{name: cf1, bundle: HOVER}]\nhost: {}", "team.yaml: host: unknown; choose from robots, shield,"),
        ("robots: [{name: cf1, bundle: HOVER}]\nhosts: {policies: 0}", "hosts.policies = 0: expected `int` >= 1"),
        ("robots: [{name: cf1, bundle: HOVER, base_pose: [0, 0]}]", "robots[0].base_pose = [0, 0]: expected `array`"),
        ("robots: [{name: cf1, bundle: HOVER}, {name: cf1, bundle: HOVER}]", "'cf1' is there twice"),
        ("robots: [{name: cf1, bundle: no.onnx}]", "robots[0].bundle of cf1"),
        ("robots: [{name: cf1, bundle: HOVER, type: ur5e}]", "robots[0].type of cf1"),
        ("robots: [{name: cf1, bundle: HOVER, shield: {ramp_s: -1}}]", "shield of cf1: shield parameter ramp_s = -1"),
        ("robots: [{name: cf1, bundle: HOVER, driver: 'none:Such'}]", "robots[0].driver of cf1"),
        ("robots: [", "is not YAML"),
        (f"{CF1}\nrequires: fly\nscene: {{}}\nrequires: verified", "team.yaml: line 4: 'requires' is there twice"),
        ("robots:\n  - {name: cf1, bundle: HOVER, name: cf2}", "team.yaml: line 2: 'name' is there twice"),
        (f"{CF1}\nscene: {{walls: []}}", "scene.walls: unknown; choose from obstacles, keep_out"),
        (
            f"{CF1}\nscene: {{obstacles: [{{name: a, pos: [0, 0, 0]}}]}}",
            "scene.obstacles[0].pos: unknown; choose from name",
        ),
        (f"{CF1}\nscene: {{obstacles: [{{name: a, pose: [0, 0, 0, 0]}}]}}", "obstacles[0] a: needs a radius above 0"),
        (
            f"{CF1}\nscene: {{obstacles: [{{name: a, pose: [0, 0, 0, 0], radius: -1}}]}}",
            "radius = -1: expected `float` >= 0",
        ),
        (
            f"{CF1}\nscene: {{obstacles: [{{name: a, pose: [.nan, 0, 0, 0], radius: 1}}]}}",
            "scene: obstacles[0] a: nan: every number must be from -10000 to 10000",
        ),
        (
            f"{CF1}\nscene: {{obstacles: [{{name: a, pose: [0, 20000, 0, 0], radius: 1}}]}}",
            "scene: obstacles[0] a: 20000: every number must be from -10000 to 10000",
        ),
        (f"{CF1}\nscene: {{obstacles: [{{name: a, pose: [0, 0, 0, 0], size: [1, 1, 1.0e+308]}}]}}", "a: 1e+308: every"),
        (
            f"{CF1}\nscene: {{obstacles: [{{name: a, pose: [0, 0, 0, 0], size: [0, 1, 1]}}]}}",
            "a: needs a radius above 0, or a size of which no side is 0",
        ),
        (
            f"{CF1}\nscene: {{keep_out: [{{name: a, low: [-.inf, 0, 0], high: [1, 1, 1]}}]}}",
            "keep_out[0] a: -inf: every",
        ),
        (
            f"{CF1}\nscene: {{obstacles: [{', '.join(BALL % number for number in range(257))}]}}",
            "scene: 257 obstacles and zones: 256 at most",
        ),
        (
            f"{CF1}\nscene: {{keep_out: [{{name: a, low: [0, 0, 1], high: [1, 1, 1]}}]}}",
            "must be below high = [1.0, 1.0, 1.0]",
        ),
        (
            f"{CF1}\nscene: {{keep_out: [{{name: a, low: [0, 0, 0], high: [1, 1, 1], robots: [cf7]}}]}}",
            "scene: keep_out[0] a: robot 'cf7' is not in the team: choose from cf1",
        ),
        (f'{CF1}\nmission: "a\\0b"', "line 2: 'a\\x00b': every character but NUL is allowed"),
        ('robots: [{name: cf1, bundle: "a\\0b"}]', "line 1: 'a\\x00b': every character but NUL is allowed"),
        ("robots: !!set {a}", "line 1: tag !!set: choose from !!map, !!seq, !!str"),
        (f"{CF1}\ntrusted_keys: !!set {{me.pub}}", "line 2: tag !!set: choose from"),
        (
            f"{CF1}\ntrusted_keys: [~nouser/me.pub]",
            "trusted_keys: trusted key '~nouser/me.pub': neither a public key in",
        ),
        (f"{CF1}\nmission: ~nouser/plan.json", "mission: "),
        pytest.param(
            f"{CF1}\ntrusted_keys: [{'a' * 5000}]",
            f"trusted_keys[0] = {'a' * 60}: expected `str` of length <= 1000",
            id="key of 5000 characters",
        ),
        pytest.param(
            f"{CF1}\ntrusted_keys: [{'a' * 900}]",
            "aaa': neither a public key in base64 nor a file with one",
            id="key of 900 characters",
        ),
        (f"{CF1}\nhosts: {{policies: 1000000000}}", "hosts.policies = 1000000000: 1 to 1"),
        (
            "robots: [{name: cf1, bundle: HOVER, lands_on: cf1}]",
            "lands_on of cf1: 'cf1' is no arm of the team: choose from none",
        ),
    ],
)
def test_what_cannot_be_is_named_in_one_line(tmp_path, text, says):
    with pytest.raises(TeamError) as caught:
        load_team(write(tmp_path, text))
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "team.yaml"))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TeamError, match=r"gone.yaml: no such file"):
        load_team(tmp_path / "gone.yaml")
    with pytest.raises(TeamError, match=r"hover.onnx: is a policy file; a team file \(.yaml\) was expected"):
        load_team(HOVER)
