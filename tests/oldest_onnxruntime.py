"""What the oldest ONNX Runtime that pyproject.toml allows can open."""

import re

import onnx
from places import ROOT

# Newest IR version and opset that a release opens, see docs/Versioning.md of onnxruntime; each was tried.
OPENS = {"1.17": (9, 20)}


def check_oldest_opens(model: bytes) -> None:
    """AssertionError for a model that is too new for it."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (oldest,) = set(re.findall(r'"onnxruntime>=([0-9.]+)"', text))
    ir_version, opset = OPENS[oldest]
    proto = onnx.load_from_string(model)
    assert proto.ir_version <= ir_version
    assert {entry.domain for entry in proto.opset_import} == {""}
    assert max(entry.version for entry in proto.opset_import) <= opset
