import json

import pytest
from bundle_fixture import GOAL, make_contract
from msgspec.structs import replace

from deploy.contract import (
    FORMAT,
    CommandSpec,
    Contract,
    ContractError,
    MemorySpec,
    TeamSpec,
    contract_from_json,
    contract_to_json,
)
from deploy.contract.rules import check_rules
from deploy.contract.tensor_specs import object_tensor_specs


def edited(*path_and_value) -> str:
    """The sample contract's JSON with the entry at `path` set (or deleted, for `...`)."""
    *path, last, value = path_and_value
    data = json.loads(contract_to_json(make_contract()))
    place = data
    for part in path:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(data)


def test_a_contract_survives_json_unchanged():
    contract = make_contract()
    assert contract_from_json(contract_to_json(contract)) == contract
    assert contract_to_json(contract_from_json(contract_to_json(contract))) == contract_to_json(contract)


def of_version_1(contract: Contract) -> str:
    """The JSON of a contract as programs before version 2 wrote it."""
    data = json.loads(contract_to_json(contract)) | {"format": "phalanx-policy/1"}
    data["role"] = data.pop("group")
    del data["plant"]
    return json.dumps(data)


def test_a_file_from_before_a_joint_was_taken_to_pick_up_speed_flies_as_it_was_verified():
    old = of_version_1(make_contract(shield={"effort_share": 0.9}))
    assert contract_from_json(old).shield == {"effort_share": 0.9, "pickup_share": 0.0}
    new = of_version_1(make_contract(shield={"effort_share": 0.9, "pickup_share": 0.8}))
    assert contract_from_json(new).shield["pickup_share"] == 0.8


def test_a_file_from_when_every_hold_was_latched_is_supervised_as_today():
    old = of_version_1(make_contract(shield={"warn_periods": 2, "act_periods": 3}))
    assert contract_from_json(old).shield["act_periods"] == 5
    for own in ({"act_periods": 4}, {"act_periods": 3, "latch_s": 0.5}):
        assert contract_from_json(of_version_1(make_contract(shield=own))).shield == own


def test_a_group_was_called_role_in_version_1():
    unstated = {"plant": None, "format": "phalanx-policy/2"}
    contract = make_contract(group="drone")
    assert contract_from_json(of_version_1(contract)) == make_contract(group="drone", **unstated)
    data = json.loads(of_version_1(contract))
    del data["role"], data["objects"]  # as files were written before there were any
    assert contract_from_json(json.dumps(data)) == make_contract(group="", **unstated)
    with pytest.raises(ContractError, match="contract: object contains unknown field 'role'"):
        contract_from_json(edited("role", "drone"))


@pytest.mark.parametrize("value", [1 / 3, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, 0.02055366])
def test_numbers_keep_every_bit(value):
    contract = make_contract(shield={"x": value}, team=TeamSpec(4, value, 8), control_dt_s=value)
    read = contract_from_json(contract_to_json(contract))
    assert (read.shield["x"], read.team.peer_range_m, read.control_dt_s) == (value, value, value)


@pytest.mark.parametrize(
    ("path_and_value", "names"),
    [
        (("robot", "mass_kg", "0.04"), "contract.robot.mass_kg: '0.04': expected 'float', got 'str'"),
        (("robot", "channels", 1, "low", None), "contract.robot.channels[1].low"),
        (("robot", "channels", 2, "unit", "deg/s"), "contract.robot.channels[2].unit: 'deg/s': not one of 'N', "),
        (("inputs", 0, "dtype", "float64"), "contract.inputs[0].dtype: 'float64': not one of 'bool', 'float32'"),
        (("inputs", 0, "shape", [3]), "contract.inputs.base_pos.shape[0]: 3 is not 'batch'"),
        (("control_dt_s", 0), "contract.control_dt_s: 0: expected 'float' > 0.0"),
        (("control_dt_s", True), "contract.control_dt_s: True: expected 'float', got 'bool'"),
        (("team", "max_peers", ...), "contract.team: object missing required field 'max_peers'"),
        (("team", "max_peers", 10**9), "contract.team.max_peers: 1000000000: expected 'int' <= 1024"),
        (("team", "trained_with", 10**9), "contract.team.trained_with: 1000000000: expected 'int' <= 100000"),
        (("robot", "name", "x" * 101), "contract.robot.name: "),
        (("memory", 0, "initial", [0, 0, 1e39, 0]), "contract.memory.last_action.initial: 1e+39 is beyond float32"),
        (("commands", 0, "high", [3, 3, 1e39]), "contract.commands.goal_pos.2: 1e+39 is beyond float32"),
        (("robot", "channels", 0, "low", -1e39), "contract.robot.channels.thrust: -1e+39 is beyond float32"),
        (("team", "trained_wiht", 4), "contract.team: object contains unknown field 'trained_wiht'"),
        (("provenance", "trained_at_utc", "yesterday"), "contract.provenance.trained_at_utc"),
        (("format", "phalanx-policy/4"), "contract.format: 'phalanx-policy/4' is not a version"),
        (("format", ...), "contract.format: None is not a version"),
        (("robot", "channels", 0, "low", 99.0), "contract.robot.channels: thrust: low 99.0 is not below"),
        (("inputs", 0, "frame", "body"), "contract.inputs.base_pos.frame: 'body' is not 'world'"),
        (("inputs", 0, "shape", ["batch", 2]), "contract.inputs.base_pos.shape"),
        (("inputs", 0, "name", "base_position"), "contract.inputs: 'base_position' is neither"),
        (("inputs", 1, "name", "base_pos"), "contract.inputs: 'base_pos' appears 2 times"),
        (("inputs", 9, "name", "correction"), "contract.inputs.correction.unit: '1' is not 'N, rad/s'"),
        (("inputs", 7, ...), "contract.inputs: ['peers_pos', 'peers_lin_vel', 'peers_age'] without ['peers_valid']"),
        (("outputs", 0, ...), "contract.outputs: 'target' is missing"),
        (("outputs", 0, "shape", ["batch", 3]), "contract.outputs.target.shape"),
        (("outputs", 3, "name", "hidden"), "contract.memory.last_action: 'last_action_out' is not among the outputs"),
        (("memory", 0, "output", "next_action"), "contract.memory.last_action: output is 'next_action'"),
        (("memory", 0, "initial", [0, 0, 0]), "contract.memory.last_action.initial: has shape (3,), not (4,)"),
        (
            ("memory", 0, "initial", [0, "0", 0, 0]),
            "contract.memory.last_action.initial: (0, '0', 0, 0) holds more than",
        ),
        (("robot", "joint_names", ["elbow", "elbow"]), "contract.robot.joint_names: 'elbow' appears 2 times"),
        (("memory", 0, "initial", [0, [0], 0, 0]), "contract.memory.last_action.initial: has shape None"),
        (("commands", 0, "high", [3, 3]), "contract.commands.goal_pos: has (3, 2) limits"),
        (("commands", 0, "high", [3, 3, 0.1]), "contract.commands.goal_pos: 2: low 0.2 is not below high 0.1"),
        (("commands", 0, "unit", "cm"), "contract.commands.goal_pos.unit: 'cm' is not 'm'"),
        (("commands", 0, "name", "goal"), "contract.inputs: 'goal_pos' is neither"),
    ],
)
def test_a_bad_field_is_named_in_one_line(path_and_value, names):
    with pytest.raises(ContractError) as error:
        contract_from_json(edited(*path_and_value))
    assert str(error.value).startswith(names)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "7", "\x00"])
def test_what_is_not_a_contract_is_refused(text):
    with pytest.raises(ContractError, match=r"^contract"):
        contract_from_json(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(number):
    text = contract_to_json(make_contract()).replace("0.04338", number)
    with pytest.raises(ContractError, match="must be finite"):
        contract_from_json(text)
    with pytest.raises(ContractError, match="JSON"):
        contract_to_json(make_contract(control_dt_s=float("nan")))


def test_writing_checks_as_strictly_as_reading():
    with pytest.raises(ContractError, match="is neither a sensor input"):
        contract_to_json(make_contract(commands=()))
    with pytest.raises(ContractError, match=r"contract\.team\.max_peers"):
        contract_to_json(make_contract(team=TeamSpec(4, 5.0, -1)))


def test_a_sensor_input_cannot_be_given_by_the_operator():
    command = CommandSpec("base_pos", ("batch", 3), "m", "world", "where it is", (0.0,) * 3, (1.0,) * 3)
    with pytest.raises(ContractError, match="names of sensor inputs"):
        check_rules(make_contract(commands=(*make_contract().commands, command)))


def test_an_input_has_one_giver():
    contract = make_contract()
    memory = MemorySpec("goal_pos", "goal_pos_out", (0.0, 0.0, 0.0))
    outputs = (*contract.outputs, replace(GOAL, name="goal_pos_out"))
    with pytest.raises(ContractError, match=r"memory\.goal_pos: is also a command"):
        check_rules(replace(contract, memory=(*contract.memory, memory), outputs=outputs))


SAMPLE = make_contract().inputs


def with_object(name: str, **changes):
    """The sample contract with all that is known of an object among its inputs."""
    contract = make_contract()
    changes = {"objects": (name,), "inputs": (*contract.inputs, *object_tensor_specs(name))} | changes
    return replace(contract, **changes)


def test_objects_survive_json():
    contract = with_object("load")
    assert contract_from_json(contract_to_json(contract)) == contract
    looks_at_height_only = with_object("load", inputs=(*SAMPLE, object_tensor_specs("load")[0]))
    check_rules(looks_at_height_only)


@pytest.mark.parametrize(
    ("contract", "complaint"),
    [
        (with_object("load", objects=()), "'load_pos' is neither"),
        (with_object("load", objects=("load", "box")), "contract.objects: 'box' is listed, but no input is about it"),
        (with_object("load", inputs=SAMPLE), "'load' is listed, but no input is about it"),
        (
            with_object("base", inputs=SAMPLE),
            r"contract.objects: 'base' would give \['base_ang_vel', 'base_lin_vel', 'base_pos'",
        ),
        (with_object("peers", inputs=SAMPLE), r"contract.objects: 'peers' would give \['peers_lin_vel', 'peers_pos'\]"),
        (with_object("goal", inputs=SAMPLE), r"commands, memory: \['goal_pos'\] are names of sensor"),
        (
            with_object("load", inputs=(*SAMPLE, replace(object_tensor_specs("load")[2], frame="world"))),
            "contract.inputs.load_lin_vel.frame: 'world' is not 'body'",
        ),
        (with_object("load.1"), r"contract.objects\[0\]: 'load.1': expected 'str' matching regex"),
    ],
)
def test_every_object_input_belongs_to_one_listed_object(contract, complaint):
    with pytest.raises(ContractError, match=complaint):
        contract_to_json(contract)


def test_a_channel_may_slide():
    assert contract_from_json(edited("robot", "channels", 3, "unit", "m")).robot.channels[3].unit == "m"


def test_a_policy_may_look_at_less_than_the_robot_measures():
    contract = make_contract()
    for name in ("base_pos", "base_quat"):
        check_rules(replace(contract, inputs=tuple(t for t in contract.inputs if t.name != name)))
    check_rules(replace(contract, inputs=tuple(t for t in contract.inputs if not t.name.startswith("peers_"))))


def test_the_format_has_a_name_and_a_version():
    assert json.loads(contract_to_json(make_contract()))["format"] == FORMAT == "phalanx-policy/3"


def test_a_file_of_version_2_stated_no_plant():
    data = json.loads(contract_to_json(make_contract())) | {"format": "phalanx-policy/2"}
    del data["plant"]
    assert contract_from_json(json.dumps(data)) == make_contract(plant=None, format="phalanx-policy/2")


def test_a_file_of_version_3_without_its_plant_is_refused():
    data = json.loads(contract_to_json(make_contract()))
    del data["plant"]
    with pytest.raises(ContractError, match="plant: phalanx-policy/3 states it, phalanx-policy/2 does not"):
        contract_from_json(json.dumps(data))


@pytest.mark.parametrize("delay", [[0.02, 0.01], [-0.01, 0.01]])
def test_delays_of_the_plant_are_least_and_most(delay):
    data = json.loads(contract_to_json(make_contract()))
    data["plant"]["sensor_delay_s"] = delay
    with pytest.raises(ContractError, match=rf"plant.sensor_delay_s: {delay[0]} to {delay[1]}: wanted 0 <= least"):
        contract_from_json(json.dumps(data))
