"""Fly one drone with nothing but ONNX Runtime and its policy file: what a program in any other language would do.

python examples/onnxruntime_only.py zoo/swarm-swap.onnx
python examples/onnxruntime_only.py zoo/hover.onnx
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort


def main(path: str) -> np.ndarray:
    if not Path(path).is_file():
        sys.exit(f"{path}: no such file")
    session = ort.InferenceSession(path)
    contract = json.loads(session.get_modelmeta().custom_metadata_map["phalanx.contract"])

    # Memory: start with what the contract says, feed each output back into its input.
    memory = {m["input"]: np.array([m["initial"]], np.float32) for m in contract["memory"]}
    # Raw sensors in SI units; one robot at rest, one peer 1 m ahead, the goal behind it.
    # A file asks for what its policy looks at: one that observes no peers has no inputs for peers.
    sensed = {
        "base_pos": np.array([[0.0, 0.0, 1.0]], np.float32),
        "base_quat": np.array([[1.0, 0.0, 0.0, 0.0]], np.float32),
        "base_lin_vel": np.zeros((1, 3), np.float32),
        "base_ang_vel": np.zeros((1, 3), np.float32),
        "peers_pos": np.array([[[1.0, 0.0, 1.0]]], np.float32),
        "peers_lin_vel": np.zeros((1, 1, 3), np.float32),
        "peers_age": np.zeros((1, 1), np.float32),
        "peers_valid": np.ones((1, 1), bool),
        "goal_pos": np.array([[2.0, 0.0, 1.0]], np.float32),
    }
    asked = {entry.name for entry in session.get_inputs()} - memory.keys()
    if unknown := sorted(asked - sensed.keys()):
        sys.exit(f"{path} is no drone's policy that flies to a goal: it also asks for {', '.join(unknown)}")
    sensed = {name: sensed[name] for name in asked}
    names = [output.name for output in session.get_outputs()]
    for _ in range(10):
        outputs = dict(zip(names, session.run(names, sensed | memory), strict=True))
        memory = {m["input"]: outputs[m["output"]] for m in contract["memory"]}
    for channel, value in zip(contract["robot"]["channels"], outputs["target"][0], strict=True):
        print(f"{channel['name']:<12} {value:8.4f} {channel['unit']}")
    return outputs["target"]


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "zoo/swarm-swap.onnx")
