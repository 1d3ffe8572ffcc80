"""`phalanx inspect`: what a policy file expects, does and comes from."""

import json as jsonlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.markup import escape

from phalanx.console import err, out, print_json, print_section

if TYPE_CHECKING:
    from deploy.bundle import Bundle
    from deploy.contract import Contract
    from deploy.contract.tensor_specs import TensorSpec

LONGEST = 40  # characters of an initial memory that are written out
TENSOR = ("name", "shape", "unit", "frame", "meaning")


def inspect(
    file: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[FILE]")] = None,
    schema: bool = False,
    markdown: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    json: bool = False,
) -> int:
    """Explain a policy file: inputs, outputs, plant, limits of the shield, origin, who signed it.

    Args:
        file: Policy file, such as zoo/swarm-swap.onnx.
        schema: Print the JSON schema of contracts instead.
        markdown: Write what a contract holds into a document instead, over what stands there between its marks.
        json: Print the contract itself, with fingerprint, on stdout.
    """
    if schema or markdown:
        return _explain_contracts(markdown)
    if file is None:
        raise ValueError("which policy file? such as zoo/swarm-swap.onnx; see phalanx inspect --help")
    from deploy.bundle import load_bundle, self_test
    from deploy.contract.codec import contract_to_json
    from phalanx.verification.verdict import verification

    bundle = load_bundle(file)
    error, verified = self_test(bundle, str(file)), verification(file, bundle)
    if json:
        contract = jsonlib.loads(contract_to_json(bundle.contract))
        identity = {"fingerprint": bundle.fingerprint, "signer": bundle.signer or None}
        print_json({**identity, "probe_error": error, "verification": verified, "contract": contract})
    else:
        show_contract(bundle, error, file, verified)
    return 0


def _explain_contracts(document: Path | None) -> int:
    if document is None:
        from msgspec.json import schema

        from deploy.contract import Contract

        print_json(schema(Contract))
        return 0
    from phalanx.documents.contract import contract_part
    from phalanx.documents.markdown import write_parts

    write_parts(document, contract_part)
    err.print(f"written {document}", markup=False)
    return 0


def show_contract(bundle: "Bundle", probe_error: float, path: Path, verified: dict[str, Any] | None) -> None:
    """Print the whole contract of the file at `path`; `probe_error` is the largest difference in its self-test."""
    from phalanx.shield_words import shield_in_words

    contract = bundle.contract
    robot, team, dt_s = contract.robot, contract.team, contract.control_dt_s
    group = f", group [bold]{escape(contract.group)}[/]," if contract.group else ""
    out.print(f"\n[bold]{escape(contract.task)}[/]{group} for [bold]{escape(robot.name)}[/] ({robot.kind})   {path}")
    out.print(f"[dim]{contract.format}   fingerprint {bundle.fingerprint[:16]}...   probe error {probe_error:.1e}[/]\n")
    peers = f"; receives the nearest {team.max_peers} peers within {team.peer_range_m:g} m" if team.max_peers else ""
    out.print(f"Runs every {1e3 * dt_s:g} ms ({1 / dt_s:g} Hz). Trained in a team of {team.trained_with}{peers}.\n")
    carried = {m.input for m in contract.memory} | {c.name for c in contract.commands}
    print_section("Inputs, measured", TENSOR, map(_tensor, (t for t in contract.inputs if t.name not in carried)))
    print_section(
        "Inputs, commanded",
        ("command", "shape", "range", "frame", "meaning"),
        [(c.name, _shape(c.shape), _ranges(c.low, c.high, c.unit), c.frame, c.meaning) for c in contract.commands],
    )
    if robot.kind == "manipulator" and "goal_pos" in carried:
        out.print("A goal and its range are in the world, wherever the arm's base stands; one that is farther from the")
        out.print("base than the tool ever comes is refused.\n")
    print_section("Outputs", TENSOR, (_tensor(t) for t in contract.outputs if not t.name.endswith("_out")))
    named = {tensor.frame for tensor in (*contract.inputs, *contract.outputs)}
    print_section("Frames", (), [(name, text) for name, text in contract.frames.items() if name in named])
    channels = [(c.name, f"{c.low:.3g} .. {c.high:.3g} {c.unit}", c.meaning) for c in robot.channels]
    print_section("Channels that are driven", ("channel", "range", "meaning"), channels)
    specs = {tensor.name: tensor for tensor in contract.inputs}
    memory = [
        (m.input, m.output, specs[m.input].unit, specs[m.input].frame, _initial(m.initial)) for m in contract.memory
    ]
    columns = ("input", "fed from", "unit", "frame", "at the start")
    print_section("Memory from one period to the next", columns, memory)
    show_plant(contract)
    print_section("Shield", (), [("-", line) for line in shield_in_words(contract)])
    p = contract.provenance
    origin = [
        ("trained", f"{p.trained_at_utc}, seed {p.seed}, {p.env_steps:,} environment steps"),
        ("by", f"phalanx {p.phalanx_version}" + (f", commit {p.git_commit[:12]}" if p.git_commit else "")),
        ("with", ", ".join(f"{name} {version}" for name, version in p.versions.items())),
        ("signed", f"by {bundle.signer}" if bundle.signer else "no, see `phalanx sign`"),
    ]
    if verified:
        from phalanx.verification.verdict import verification_in_words

        origin += verification_in_words(verified)
    print_section("Origin", (), origin)


def show_plant(contract: "Contract") -> None:
    """Print what the policy was trained on, and what a robot that it flies may have."""
    from deploy.contract.plant import allowed_values
    from deploy.runtime.compatibility import UNSTATED
    from hardware.plant import JOINT_QUANTITIES

    plant = contract.plant
    if plant is None:
        print_section("Plant", (), [("-", f"the file {UNSTATED}")])
        return
    own = {f"{joint.name}.{name}" for joint in plant.joints for name in JOINT_QUANTITIES}
    allowed = allowed_values(plant, contract.robot.mass_kg)
    rows = [(name, f"{low:.5g} .. {high:.5g}") for name, (low, high) in allowed.items() if name not in own]
    print_section(f"Plant: takes {plant.control_interface}; a robot may have", ("quantity", "range"), rows)
    joints = [(joint.name, *(f"{getattr(joint, name):.4g}" for name in JOINT_QUANTITIES)) for joint in plant.joints]
    title = "Joints that it was trained on, in rad or m, s, N m or N, before the ranges below"
    print_section(title, ("joint", *JOINT_QUANTITIES), joints, whole=range(1 + len(JOINT_QUANTITIES)))
    ranges = [(r.event, r.parameter, f"{r.low:.4g} .. {r.high:.4g}", r.varies) for r in plant.trained_ranges]
    print_section("Varied in training", ("event", "parameter", "range", "of the plant"), ranges)


def _tensor(t: "TensorSpec") -> tuple[str, ...]:
    return t.name, _shape(t.shape), t.unit, t.frame, t.meaning


def _shape(shape: Sequence[int | str]) -> str:
    return " x ".join(str(part) for part in shape if part != "batch") or "1"


def _ranges(low: Iterable[float], high: Iterable[float], unit: str) -> str:
    return ", ".join(f"{a:g}..{b:g}" for a, b in zip(low, high, strict=True)) + f" {unit}"


def _initial(initial: Sequence) -> str:
    flat = str(list(initial)) if not any(isinstance(v, tuple | list) for v in initial) else "nested"
    return flat if len(flat) <= LONGEST else f"{flat[: LONGEST - 3]}..."
