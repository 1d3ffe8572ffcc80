"""What a contract holds is said in its schema, and the document is what the code gives."""

import json

import pytest
from msgspec.json import schema
from places import ROOT

from deploy.bundle import load_bundle
from deploy.contract import Contract
from phalanx.commands.inspect import inspect
from phalanx.documents.contract import contract_part
from phalanx.documents.markdown import with_parts, write_parts

DOCUMENT = ROOT / "docs" / "contract.md"


def test_the_document_is_what_the_code_gives(tmp_path):
    text = DOCUMENT.read_text(encoding="utf-8")
    assert with_parts(text, contract_part) == text, "run: make docs"
    stale = text.replace("| `peers_valid` |", "| `peers_ok` |")
    assert with_parts(stale, contract_part) == text != stale
    (tmp_path / "empty.md").write_text("nothing")
    with pytest.raises(ValueError, match=r"empty.md: no lines '<!-- NAME -->'"):
        write_parts(tmp_path / "empty.md", contract_part)


def test_the_schema_is_printed_and_describes_what_a_name_does_not_say(capsys):
    assert inspect(schema=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(schema(Contract)))
    for name, fields in {
        "TeamSpec": ("trained_with", "peer_range_m", "max_peers"),
        "MemorySpec": ("input", "output", "initial"),
        "JointPlant": ("home", "stiffness", "damping", "max_effort", "armature"),
        "Plant": ("control_interface", "actuator_delay_s", "sensor_delay_s"),
    }.items():
        for field in fields:
            assert found["$defs"][name]["properties"][field]["description"], (name, field)


@pytest.mark.parametrize("path", sorted((ROOT / "zoo").glob("*.onnx")), ids=lambda path: path.stem)
def test_every_frame_that_a_shipped_file_names_is_defined_in_it(path):
    contract = load_bundle(path).contract
    assert {tensor.frame for tensor in (*contract.inputs, *contract.outputs)} <= contract.frames.keys()
