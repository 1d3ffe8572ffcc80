"""A policy whose verification refused it, as the record beside it says."""

import json
from pathlib import Path

from places import ZOO

from deploy.bundle import load_bundle
from deploy.bundle.verification import record_to_bytes


def write_refused(folder: Path) -> Path:
    """`velocity.onnx` of the zoo without its record, and with too little success in `velocity.json` beside it."""
    bundle, policy = load_bundle(ZOO / "velocity.onnx"), folder / "velocity.onnx"
    assert bundle.verification
    policy.write_bytes(bundle.model_bytes.removesuffix(record_to_bytes(bundle.verification, bundle.fingerprint)))
    record = json.loads((ZOO / "velocity.json").read_text())
    (gate,) = (gate for gate in record["gates"] if gate["name"] == "shielded_success_1")
    gate |= {"value": 0.842, "passed": False}
    record |= {"verdict": "refused", "failed": [gate["name"]]}
    policy.with_suffix(".json").write_text(json.dumps(record))
    return policy
