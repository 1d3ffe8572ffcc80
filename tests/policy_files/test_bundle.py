import base64
import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from bundle_fixture import TeamPolicy, export_onnx, make_contract, record_probes, refusal
from msgspec.structs import replace
from oldest_onnxruntime import check_oldest_opens

from deploy.bundle import BundleError, load_bundle, self_test
from deploy.bundle.fingerprint import add_fingerprint
from deploy.bundle.probes import Probes, probes_to_bytes
from deploy.contract.tensor_specs import TensorSpec
from deploy.runtime import PolicyRuntime
from policies.export.save import save_bundle


@pytest.fixture(scope="module")
def exported():
    policy, contract = TeamPolicy(), make_contract()
    return export_onnx(policy, contract), contract, record_probes(policy, contract)


def rewritten(path, **metadata) -> bytes:
    """The policy file with other metadata and a fingerprint that fits, as a faulty exporter would write it."""
    model = onnx.load(path)
    entries = {entry.key: entry.value for entry in model.metadata_props} | metadata
    del model.metadata_props[:]
    for key, value in entries.items():
        if value is not None and key not in ("phalanx.fingerprint", "phalanx.bytes"):
            model.metadata_props.add(key=key, value=value)
    return add_fingerprint(model.SerializeToString())


def test_whatever_an_exporter_writes_the_oldest_onnxruntime_that_is_allowed_opens(exported, tmp_path):
    model, contract, probes = exported
    newest = onnx.load_from_string(model)
    newest.ir_version = 13
    save_bundle(newest.SerializeToString(), contract, probes, tmp_path / "policy.onnx")
    check_oldest_opens((tmp_path / "policy.onnx").read_bytes())


def test_what_was_saved_is_what_is_loaded(policy_file, exported):
    _, contract, probes = exported
    bundle = load_bundle(policy_file)
    assert bundle.contract == contract
    assert bundle.model_bytes == policy_file.read_bytes()
    assert len(bundle.fingerprint) == 64
    for found, saved in zip(bundle.probes.sequences, probes.sequences, strict=True):
        for part in ("memory", "inputs", "outputs"):
            for name, value in getattr(saved, part).items():
                np.testing.assert_array_equal(getattr(found, part)[name], value)
    assert self_test(bundle) < 1e-6


def test_the_same_policy_gives_the_same_file(policy_file, exported, tmp_path):
    fingerprint = save_bundle(*exported, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == policy_file.read_bytes()
    assert fingerprint == load_bundle(policy_file).fingerprint


def test_a_loaded_bundle_can_be_saved_again(policy_file, tmp_path):
    bundle = load_bundle(policy_file)
    fingerprint = save_bundle(bundle.model_bytes, bundle.contract, bundle.probes, tmp_path / "copy.onnx")
    assert fingerprint == bundle.fingerprint


def test_any_onnx_tool_reads_the_file(policy_file):
    model = onnx.load(policy_file)
    onnx.checker.check_model(model)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(metadata["phalanx.contract"])["robot"]["name"] == "crazyflie"
    assert metadata["phalanx.fingerprint"] == load_bundle(policy_file).fingerprint


def test_the_file_says_nothing_about_the_machine_that_trained(exported, tmp_path):
    onnx_bytes, contract, probes = exported
    model = onnx.load_from_string(onnx_bytes)
    model.graph.node[3].doc_string = "C:/someone/policy.py(12): forward"
    model.graph.node[4].metadata_props.add(key="stack_trace", value="File C:/someone/policy.py, line 12")
    model.graph.output[0].metadata_props.add(key="stack_trace", value="File C:/someone/policy.py, line 99")
    save_bundle(model.SerializeToString(), contract, probes, tmp_path / "policy.onnx")
    assert b"someone" not in (tmp_path / "policy.onnx").read_bytes()


def test_any_flipped_byte_is_noticed(policy_file, tmp_path):
    data = policy_file.read_bytes()
    rng = np.random.default_rng(0)
    places = [*range(200), *rng.integers(0, len(data), 800), len(data) - 1]
    for place in map(int, places):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        refusal(tmp_path / "damaged.onnx", bytes(damaged))


def test_any_truncation_is_noticed_and_called_by_its_name(policy_file, tmp_path):
    data = policy_file.read_bytes()
    lengths = [*range(1, 200), *np.random.default_rng(1).integers(200, len(data), 200), len(data) - 1]
    for length in map(int, lengths):
        assert "is truncated" in refusal(tmp_path / "short.onnx", data[:length])
    assert refusal(tmp_path / "short.onnx", b"") == "is empty"


@pytest.mark.parametrize("extra", [b"\x00", b"more", b"\n"])
def test_appended_bytes_are_noticed(policy_file, tmp_path, extra):
    assert "damaged or edited" in refusal(tmp_path / "long.onnx", policy_file.read_bytes() + extra)


def test_files_that_are_no_policy_are_named_so(exported, tmp_path):
    path = tmp_path / "other.onnx"
    assert refusal(path, b"#!/bin/sh\n").startswith("is not a phalanx policy file")
    assert refusal(path, exported[0]).startswith("is not a phalanx policy file")
    assert refusal(path, add_fingerprint(b"not a graph")).startswith("is not a sound ONNX file")


def test_a_missing_file_and_a_folder_are_named_so(tmp_path):
    with pytest.raises(BundleError, match=r"nowhere\.onnx: no such file$"):
        load_bundle(tmp_path / "nowhere.onnx")
    for nothing in (tmp_path, "/dev/zero"):
        with pytest.raises(BundleError, match=r": is no policy file(, but a folder)?$"):
            load_bundle(nothing)
    with (tmp_path / "huge.onnx").open("wb") as huge:
        huge.truncate(3 << 30)
    with pytest.raises(BundleError, match=r"huge\.onnx: has 3072 MiB; policy files have at most 2048 MiB$"):
        load_bundle(tmp_path / "huge.onnx")


def test_saving_with_another_program_breaks_the_fingerprint(policy_file, tmp_path):
    model = onnx.load(policy_file)
    model.producer_name = "someone"
    assert "damaged or edited" in refusal(tmp_path / "edited.onnx", model.SerializeToString())


def test_metadata_must_be_there_and_of_a_known_version(policy_file, tmp_path):
    path = tmp_path / "faulty.onnx"
    text = {e.key: e.value for e in onnx.load(policy_file).metadata_props}["phalanx.contract"]
    assert refusal(path, rewritten(policy_file, **{"phalanx.contract": None})) == "carries no phalanx.contract"
    assert refusal(path, rewritten(policy_file, **{"phalanx.probes": None})) == "carries no phalanx.probes"
    assert refusal(path, rewritten(policy_file, **{"phalanx.probes": "??"})).startswith("probes are not base64")
    assert refusal(path, rewritten(policy_file, **{"phalanx.probes": "AAAA"})).startswith("probes cannot be read")
    newer = text.replace("phalanx-policy/3", "phalanx-policy/4")
    assert "'phalanx-policy/4' is not a version" in refusal(path, rewritten(policy_file, **{"phalanx.contract": newer}))


@pytest.mark.parametrize(
    ("field", "change", "complaint"),
    [
        ("inputs", lambda t: replace(t, dtype="bool") if t.name == "goal_pos" else t, "commands.goal_pos.dtype"),
        ("outputs", lambda t: replace(t, shape=("batch", 12)) if t.name == "obs" else t, "outputs.obs.shape"),
        ("outputs", lambda t: replace(t, shape=("batch", 13, 1)) if t.name == "obs" else t, "outputs.obs.shape"),
    ],
)
def test_a_contract_that_does_not_describe_the_graph_is_refused(exported, tmp_path, field, change, complaint):
    onnx_bytes, contract, probes = exported
    contract = replace(contract, **{field: tuple(map(change, getattr(contract, field)))})
    with pytest.raises(BundleError, match=complaint):
        save_bundle(onnx_bytes, contract, probes, tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_inputs_that_only_one_side_has_are_refused(exported, tmp_path):
    onnx_bytes, contract, probes = exported
    without = replace(contract, inputs=tuple(t for t in contract.inputs if t.name != "base_ang_vel"))
    with pytest.raises(BundleError, match="the graph has 'base_ang_vel', the contract does not"):
        save_bundle(onnx_bytes, without, probes, tmp_path / "policy.onnx")
    robot = replace(contract.robot, joint_names=("elbow",))
    joint = TensorSpec("joint_pos", ("batch", 1), "float32", "rad", "joint", "angle")
    more = replace(contract, robot=robot, plant=None, format="phalanx-policy/2", inputs=(*contract.inputs, joint))
    with pytest.raises(BundleError, match="'joint_pos' is not in the graph"):
        save_bundle(onnx_bytes, more, probes, tmp_path / "policy.onnx")


def test_a_graph_with_a_fixed_batch_is_refused(exported, tmp_path):
    onnx_bytes, contract, probes = exported
    model = onnx.load_from_string(onnx_bytes)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    with pytest.raises(BundleError, match=r"base_pos\.shape: \('batch', 3\), but the graph has \(1, 3\)"):
        save_bundle(model.SerializeToString(), contract, probes, tmp_path / "policy.onnx")


def test_what_is_not_one_onnx_file_is_not_saved(exported, tmp_path):
    onnx_bytes, contract, probes = exported
    with pytest.raises(BundleError, match="the exported bytes are not ONNX"):
        save_bundle(b"not a graph", contract, probes, tmp_path / "policy.onnx")
    model = onnx.load_from_string(onnx_bytes)
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    with pytest.raises(BundleError, match="is stored outside of the model"):
        save_bundle(model.SerializeToString(), contract, probes, tmp_path / "policy.onnx")


def test_nan_weights_are_named(exported, tmp_path):
    policy = TeamPolicy()
    policy.head.bias.data[2] = float("nan")
    with pytest.raises(BundleError, match=r"weight 'head\.bias' holds NaN"):
        save_bundle(export_onnx(policy, exported[1]), *exported[1:], tmp_path / "policy.onnx")


def test_a_graph_with_another_dtype_is_refused(exported, tmp_path):
    class FloatMask(TeamPolicy):
        def forward(self, *inputs):
            return super().forward(*inputs[:7], inputs[7] > 0.5, *inputs[8:])

    inputs = tuple(replace(t, dtype="float32") for t in exported[1].inputs)
    onnx_bytes = export_onnx(FloatMask(), replace(exported[1], inputs=inputs))
    with pytest.raises(BundleError, match=r"peers_valid\.dtype: bool, but the graph has tensor\(float\)"):
        save_bundle(onnx_bytes, *exported[1:], tmp_path / "policy.onnx")


def test_probes_of_another_policy_are_not_saved(exported, tmp_path):
    onnx_bytes, contract, probes = exported
    path = tmp_path / "policy.onnx"
    path.write_bytes(b"the old file")
    with pytest.raises(BundleError, match="does not reproduce its probes: off by"):
        save_bundle(onnx_bytes, contract, record_probes(TeamPolicy(seed=1), contract), path)
    with pytest.raises(BundleError, match=r"probes cover \[1\] peers"):
        save_bundle(onnx_bytes, contract, Probes(probes.sequences[:1]), path)
    assert path.read_bytes() == b"the old file"
    assert list(tmp_path.iterdir()) == [path]


def test_a_policy_that_does_not_reproduce_its_probes_does_not_start(policy_file, exported, tmp_path):
    other = base64.b64encode(probes_to_bytes(record_probes(TeamPolicy(seed=1), exported[1]))).decode()
    path = tmp_path / "policy.onnx"
    path.write_bytes(rewritten(policy_file, **{"phalanx.probes": other}))
    with pytest.raises(BundleError, match=r"policy\.onnx: does not reproduce its probes: off by"):
        PolicyRuntime.load(path)


def test_who_reads_the_old_file_while_it_is_replaced_reads_it_whole(exported, tmp_path):
    path = tmp_path / "policy.onnx"
    path.write_bytes(b"the old file")
    with path.open("rb") as reader:
        save_bundle(*exported, path)
        assert reader.read() == b"the old file"


def test_a_write_that_fails_leaves_the_old_file(exported, tmp_path, monkeypatch):
    path = tmp_path / "policy.onnx"
    path.write_bytes(b"the old file")

    def disk_full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", disk_full)
    with pytest.raises(BundleError, match=r"policy\.onnx: cannot be written: No space left on device$"):
        save_bundle(*exported, path)
    assert path.read_bytes() == b"the old file"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(BundleError, match=r"cannot be written: (Not a directory|File exists)$"):
        save_bundle(*exported, path / "policy.onnx")


def test_loading_and_flying_needs_no_trainer(policy_file):
    code = (
        "import sys; from deploy.runtime import PolicyRuntime; from hardware import load_robot\n"
        f"PolicyRuntime.load({str(policy_file)!r}, load_robot('crazyflie'))\n"
        "print([m for m in ('torch', 'jax', 'mujoco', 'onnx', 'scipy', 'rclpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""
