"""Run a policy file with ONNX Runtime and NumPy alone, as docs/contract.md says: python examples/consumer.py FILE."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

HEARD = np.array([[9.0, 9.0, 1.0], [1.0, 0.0, 1.0]])  # m, world: where peers said that they are; this robot is at HERE
HERE = np.array([0.0, 0.0, 1.0])


def main(path: str, steps: int = 10) -> np.ndarray:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    contract = json.loads(session.get_modelmeta().custom_metadata_map["phalanx.contract"])
    names = [output.name for output in session.get_outputs()]
    memory = {m["input"]: np.array([m["initial"]], np.float32) for m in contract["memory"]}
    for _ in range(steps):  # on a robot every contract["control_dt_s"]
        outputs = dict(zip(names, session.run(names, measure(contract) | memory), strict=True))
        memory = {m["input"]: outputs[m["output"]] for m in contract["memory"]}
    for channel, value in zip(contract["robot"]["channels"], outputs["target"][0], strict=True):
        print(f"{channel['name']} {value:.5f} {channel['unit']}")
    return outputs["target"]


def measure(contract: dict) -> dict[str, np.ndarray]:
    """In place of sensors: a robot at rest in its home pose, each command in the middle of its range."""
    distance, team = np.linalg.norm(HEARD - HERE, axis=1), contract["team"]
    near = [i for i in distance.argsort() if distance[i] <= team["peer_range_m"]][: team["max_peers"]]
    sizes = {"batch": 1, "peers": max(1, len(near))}
    carried = {m["input"] for m in contract["memory"]}
    given = {t["name"]: t for t in contract["inputs"] if t["name"] not in carried}
    found = {n: np.zeros([sizes.get(size, size) for size in t["shape"]], t["dtype"]) for n, t in given.items()}
    values = {"base_pos": HERE, "joint_pos": [j["home"] for j in (contract.get("plant") or {}).get("joints", [])]}
    values |= {name: [1, 0, 0, 0] for name in found if name.endswith("_quat")}
    values |= {c["name"]: np.add(c["low"], c["high"]) / 2 for c in contract["commands"]}
    values |= {"peers_pos": HEARD[near], "peers_valid": True} if near else {}  # else the one slot is not valid
    for name in values.keys() & found.keys():
        found[name][0] = values[name]
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python examples/consumer.py FILE  (a policy file, .onnx)")
    main(sys.argv[1])
