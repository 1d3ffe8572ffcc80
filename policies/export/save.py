"""Writing a policy file: the exported graph, its contract and its probes as one ONNX file."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from deploy.bundle import CONTRACT_KEY, PROBES_KEY, BundleError, read_bundle, self_test
from deploy.bundle.file import write_atomically
from deploy.bundle.fingerprint import add_fingerprint
from deploy.bundle.probes import Probes, probes_to_bytes
from deploy.contract import Contract, ContractError, contract_to_json

IR_VERSION = 8  # of the file format: what exporters write today, 10 and above, onnxruntime 1.17 does not open


def save_bundle(onnx_bytes: bytes, contract: Contract, probes: Probes, path: Path | str) -> str:
    """Write the policy file, all or nothing, and return its fingerprint.

    Every onnxruntime that pyproject.toml allows opens it. Raises BundleError for whatever would make the file be
    refused when it is loaded, and leaves an old file as it was.
    """
    name = str(path)
    try:
        model = onnx.load_from_string(onnx_bytes)
    except DecodeError as error:
        raise BundleError(f"{name}: the exported bytes are not ONNX: {error}") from error
    _check_weights(model, name)
    _strip_notes(model)
    model.ir_version = min(model.ir_version, IR_VERSION)
    try:
        model.metadata_props.add(key=CONTRACT_KEY, value=contract_to_json(contract))
    except ContractError as error:
        raise BundleError(f"{name}: {error}") from error
    model.metadata_props.add(key=PROBES_KEY, value=base64.b64encode(probes_to_bytes(probes)).decode("ascii"))
    bundle = read_bundle(add_fingerprint(model.SerializeToString(deterministic=True)), name)
    self_test(bundle, name)
    write_atomically(bundle.model_bytes, Path(path))
    return bundle.fingerprint


def _check_weights(model: Any, name: str) -> None:
    """All in this file, and not NaN; infinities pass because attention masks are made of them."""
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise BundleError(f"{name}: weight {tensor.name!r} is stored outside of the model")
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise BundleError(f"{name}: weight {tensor.name!r} holds NaN")


def _strip_notes(model: Any) -> None:
    """Exporters note source files and lines of the machine that trained beside each node; older metadata goes too."""
    for owner in (model.graph, *model.functions):
        parts = [model, owner, *owner.node, *owner.value_info]
        if owner is model.graph:
            parts += [*owner.input, *owner.output, *owner.initializer]
        for part in parts:
            part.ClearField("doc_string")
            part.ClearField("metadata_props")
