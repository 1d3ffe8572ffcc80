"""A policy file is one file: what keeps its weights in another one is refused, wherever they stand."""

import numpy as np
import onnx
import pytest
from bundle_fixture import refusal

from deploy.bundle.external import keeps_data_elsewhere
from deploy.bundle.fingerprint import add_fingerprint


def value_first(model, tensor) -> bytes:
    model.graph.initializer.append(tensor)
    entry = tensor.external_data[0]
    key, value = (
        field + bytes([len(text)]) + text.encode() for field, text in ((b"\x0a", entry.key), (b"\x12", entry.value))
    )
    return model.SerializeToString().replace(key + value, value + key)


def in_a_branch(model, tensor) -> bytes:
    output = onnx.helper.make_tensor_value_info("there", tensor.data_type, tensor.dims)
    branch = onnx.helper.make_graph([], "branch", [], [output], [tensor])
    model.graph.node.append(onnx.helper.make_node("If", ["yes"], ["there"], then_branch=branch, else_branch=branch))
    return model.SerializeToString()


def in_a_function(model, tensor) -> bytes:
    node = onnx.helper.make_node("Constant", [], ["there"], value=tensor)
    model.functions.append(onnx.helper.make_function("own", "f", [], ["there"], [node], []))
    return model.SerializeToString()


def in_a_sparse_tensor(model, tensor) -> bytes:
    model.graph.sparse_initializer.add().values.CopyFrom(tensor)
    return model.SerializeToString()


def in_a_second_graph(model, tensor) -> bytes:
    """Protobuf joins the two."""
    second = onnx.ModelProto()
    second.graph.initializer.append(tensor)
    return model.SerializeToString() + second.SerializeToString()


@pytest.mark.parametrize("hide", [value_first, in_a_branch, in_a_function, in_a_sparse_tensor, in_a_second_graph])
def test_weights_in_another_file_are_refused(policy_file, tmp_path, monkeypatch, hide):
    """Else they could be changed after the file was signed; wherever they stand, and in whatever order."""
    model = onnx.load(policy_file)
    monkeypatch.chdir(tmp_path)  # where onnxruntime looks
    (tmp_path / "weights.bin").write_bytes(np.ones(4, np.float32).tobytes())
    tensor = onnx.TensorProto(name="there", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    keep = {e.key: e.value for e in model.metadata_props if e.key in ("phalanx.contract", "phalanx.probes")}
    onnx.helper.set_model_props(model, keep)
    assert "weights in another file" in refusal(tmp_path / "a.onnx", add_fingerprint(hide(model, tensor)))


def test_what_is_no_protobuf_is_no_onnx_file():
    for model in (b"\x3a", b"\x3a\x05abc", b"\x3b", b"\x08" + b"\xff" * 11, b"\x80\x80\x80\x80\x80\x01"):
        with pytest.raises(ValueError, match="is not a sound ONNX file"):
            keeps_data_elsewhere(model)
