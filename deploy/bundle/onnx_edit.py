"""What is done to an exported graph before it is sealed; the only place of the deployed side that needs onnx."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from deploy.bundle.session import ModelError


def finished_model(onnx_bytes: bytes, metadata: Mapping[str, str]) -> bytes:
    """The model with `metadata` instead of any that phalanx gave it before, and without notes of the exporter.

    Raises ModelError when the bytes are not ONNX or a weight is NaN or lies outside of the model.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_from_string(onnx_bytes)
    except DecodeError as error:
        raise ModelError(f"the exported bytes are not ONNX: {error}") from error
    _check_weights(model)
    _strip_notes(model)
    kept = [entry for entry in model.metadata_props if not entry.key.startswith("phalanx.")]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    return model.SerializeToString(deterministic=True)


def _check_weights(model: Any) -> None:
    """All in this file, and not NaN; infinities pass because attention masks are made of them."""
    import onnx

    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ModelError(f"weight {tensor.name!r} is stored outside of the model")
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise ModelError(f"weight {tensor.name!r} holds NaN")


def _strip_notes(model: Any) -> None:
    """Exporters note source files and lines of the machine that trained beside each node; nobody else needs them."""
    for owner in (model.graph, *model.functions):
        parts = [owner, *owner.node, *owner.value_info]
        if owner is model.graph:
            parts += [*owner.input, *owner.output, *owner.initializer]
        for part in parts:
            part.ClearField("doc_string")
            part.ClearField("metadata_props")
