"""The record of a verification in a policy file: robots may require what it says, and no change of it goes unseen."""

import json

import numpy as np
import onnx
import pytest

pytest.importorskip("torch")
from bundle_fixture import GATE, refusal
from command import assert_one_line_error, here
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pd_bundle import save_pd_bundle
from places import ZOO
from test_margins import contract_of_calm_hover

from deploy.bundle import load_bundle
from deploy.bundle.file import add_record
from deploy.bundle.signature import add_signature, key_text, public_bytes, split_signature
from deploy.bundle.verification import CARE, FLY, LEVELS, NOT, REFUSED, VERIFIED, check_standing, record_to_bytes
from deploy.bundle.verification import _tail as tail_of
from phalanx.verification.records import check_replaced, write_records
from policies.evaluation.margins import MarginCfg

MINE = Ed25519PrivateKey.generate()
KEY = key_text(public_bytes(MINE))
WIND = {"name": "wind", "why": "falls at 0.02 N, trained for 0.03 N"}


def record(verdict=VERIFIED, advice=None, **changes):
    gate = GATE if verdict == VERIFIED else {**GATE, "value": 1.0, "passed": False}
    flight = {"advice": advice, "reasons": [] if advice == FLY else [WIND]}
    flown = {"flight": flight, "margins": {"episodes": 64, "only": []}} if advice else {}
    made = {"verified_at_utc": "2026-01-02T03:04:05+00:00", "versions": {"mujoco": "4.0.0"}, "episodes": 256}
    return {"verdict": verdict, "gates": [gate], **made, **flown, **changes}


@pytest.fixture(scope="module")
def bundle(policy_file):
    return load_bundle(policy_file)


def forge(bundle, found) -> bytes:
    """The file with a record that phalanx does not write."""
    return bundle.model_bytes + tail_of(json.dumps(found).encode(), bundle.fingerprint)


@pytest.mark.parametrize("long", [0, 100, 20_000])  # so that its length takes one, two and three bytes
def test_a_file_with_a_record_is_the_same_policy_and_any_reader_of_onnx_shows_it(bundle, tmp_path, long):
    path, found = tmp_path / "policy.onnx", record(advice=CARE, note="x" * long)
    path.write_bytes(add_record(bundle, found))
    read = load_bundle(path)
    assert read.verification == found and read.fingerprint == bundle.fingerprint
    metadata = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(metadata["phalanx.verification"]) == found
    later = record(REFUSED)
    path.write_bytes(add_record(read, later))
    assert load_bundle(path).verification == later  # in the place of the older one
    assert bundle.verification is None


@pytest.mark.parametrize("signed", [False, True])
def test_a_changed_bit_of_a_record_is_refused_wherever_it_is(bundle, tmp_path, signed):
    data = add_record(bundle, record(advice=CARE))
    data = add_signature(data, MINE) if signed else data
    trusted = (KEY,) if signed else ()
    start = len(bundle.model_bytes)
    for place in [*range(start, start + 120), *np.linspace(start, len(data) - 1, 60, dtype=int)]:
        changed = bytearray(data)
        changed[place] ^= 1
        refusal(tmp_path, bytes(changed), trusted=trusted)
    for cut in (data[:-1], data + b"\0"):
        refusal(tmp_path, cut, trusted=trusted)


def test_a_record_of_another_file_is_refused(bundle, tmp_path):
    save_pd_bundle(tmp_path / "other.onnx")
    other = load_bundle(tmp_path / "other.onnx")
    forged = bundle.model_bytes + record_to_bytes(record(), other.fingerprint)
    assert refusal(tmp_path, forged) == "the record of its verification was changed, or is of another file"


def test_what_is_no_verdict_is_refused_in_one_line(bundle, tmp_path):
    for changes in ({"verdict": "splendid"}, {"gates": "none"}, {"flight": {"advice": "go", "reasons": []}}):
        said = refusal(tmp_path, forge(bundle, record() | changes))
        assert said.startswith("the record of its verification cannot be read: ")
    deep = b"[" * 100_000
    for value in (b"", b"{", b"\xff", deep, deep + b"]" * 100_000):
        said = refusal(tmp_path, bundle.model_bytes + tail_of(value, bundle.fingerprint))
        assert said.startswith("the record of its verification cannot be read: ")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (record(REFUSED) | {"verdict": VERIFIED}, "'verified', but probes failed"),
        (record() | {"verdict": REFUSED}, "'refused', but 1 gates, none failed"),
        (record(gates=[]), "'verified', but 0 gates, none failed"),
        (record(gates=[{**GATE, "value": 1.0}]), "probes passed with 1, must be <= 1e-05"),
        (record(gates=[{**GATE, "sign": ">="}]), "probes passed with 0, must be >= 1e-05"),
        (record(REFUSED, CARE), "advice 'fly with care', but probes failed"),
        (record(advice=FLY, flight={"advice": FLY, "reasons": [WIND]}), "advice 'fly', with 1 reasons against it"),
        (
            record(advice=CARE, flight={"advice": CARE, "reasons": []}),
            "advice 'fly with care', with 0 reasons against it",
        ),
        (record(advice=FLY, margins=None), "advice 'fly', and no margins"),
        (record(advice=FLY, margins={"episodes": 64, "only": ["mass"]}), "advice 'fly', and not all margins"),
    ],
)
def test_a_record_that_contradicts_its_own_gates_is_refused_also_where_it_is_signed(bundle, tmp_path, found, said):
    data = add_signature(forge(bundle, found), MINE)
    assert refusal(tmp_path, data, trusted=(KEY,)) == f"the record of its verification contradicts itself: {said}"


@pytest.mark.parametrize(
    "changes",
    [
        {"episodes": 0},
        {"episodes": 10**9},
        {"gates": [{**GATE, "value": float("nan")}]},
        {"margins": {"episodes": 0, "only": []}},
        {"margins": {"episodes": 10**9, "only": []}},
        {"verified_at_utc": "yesterday"},
        {"note": ["\x1b[1mall is well"]},
    ],
)
def test_a_record_of_absurd_episodes_or_that_would_write_on_a_terminal_is_neither_read_nor_written(
    bundle, tmp_path, changes
):
    found = record(advice=FLY, **changes)
    refused = refusal(tmp_path, forge(bundle, found))
    assert refused.startswith("the record of its verification ") and "\x1b" not in refused
    file = tmp_path / "kept.onnx"
    file.write_bytes(bundle.model_bytes)
    with pytest.raises(ValueError, match="the record of its verification "):
        write_records({file: bundle}, found)
    assert file.read_bytes() == bundle.model_bytes


def test_a_signature_covers_the_record(bundle, tmp_path):
    path, trusted = tmp_path / "policy.onnx", [KEY]
    path.write_bytes(add_signature(add_record(bundle, record(REFUSED)), MINE))
    signed = load_bundle(path, trusted)
    assert signed.verification["verdict"] == REFUSED
    signature = signed.model_bytes[len(split_signature(signed.model_bytes)[0]) :]
    without = bundle.model_bytes + signature
    another = add_record(bundle, record(advice=FLY)) + signature
    for forged in (without, another):
        assert refusal(tmp_path, forged, trusted=trusted).startswith(f"was changed after {KEY} signed it")
    assert refusal(tmp_path, add_record(signed, record()), trusted=trusted).startswith("is not signed")
    plain = add_signature(bundle.model_bytes, MINE)  # signed without: a record cannot be slipped in
    signature = plain[len(bundle.model_bytes) :]
    forged = add_record(bundle, record()) + signature
    assert refusal(tmp_path, forged, trusted=trusted).startswith(f"was changed after {KEY} signed it")


@pytest.mark.parametrize(
    ("found", "meets"),
    [
        (None, ()),
        (record(REFUSED), ()),
        (record(REFUSED, NOT), ()),
        (record(VERIFIED, NOT), ()),
        (record(), (VERIFIED,)),
        (record(advice=CARE), (VERIFIED, CARE)),
        (record(advice=FLY), LEVELS),
    ],
)
def test_a_robot_takes_what_is_at_least_what_it_requires(found, meets):
    check_standing(found, "")
    for level in LEVELS:
        if level in meets:
            check_standing(found, level)
        else:
            with pytest.raises(ValueError, match=f"required: {level}"):
                check_standing(found, level)


def test_the_reason_and_what_was_allowed_are_named(bundle, tmp_path):
    said = refusal(tmp_path, bundle.model_bytes, requires=VERIFIED)
    assert said.endswith("see `phalanx verify --record`; required: verified or fly with care or fly")
    said = refusal(tmp_path, add_record(bundle, record(REFUSED)), requires=CARE)
    assert said == "its verification says 'refused' (probes: 1, must be <= 1e-05); required: fly with care or fly"
    said = refusal(tmp_path, add_record(bundle, record(advice=NOT)), requires=VERIFIED)
    assert "says 'do not fly' (wind: falls at 0.02 N, trained for 0.03 N); required: verified" in said
    said = refusal(tmp_path, bundle.model_bytes, requires="perhaps")
    assert said == "requires 'perhaps': choose from verified, fly with care, fly; nothing for any file"


ALL, DELAY, BOTH = MarginCfg(), MarginCfg(only=("total delay",)), MarginCfg(only=("mass", "total delay"))


@pytest.mark.parametrize(
    ("margins", "starts", "pushed", "lost"),
    [
        (None, 256, None, ""),
        (None, 300, DELAY, ""),
        (None, 255, ALL, "256 held-out starts, this would have 255"),
        ({"episodes": 32, "only": []}, 256, ALL, ""),
        ({"episodes": 32, "only": []}, 256, None, "margins, this would have none"),
        ({"episodes": 65, "only": []}, 256, ALL, "65 episodes for each margin, this would have 64"),
        ({"episodes": 32, "only": []}, 256, DELAY, "margins of all, this would have only total delay"),
        ({"episodes": 32, "only": ["total delay"]}, 256, BOTH, ""),
        ({"episodes": 32, "only": ["mass", "total delay"]}, 256, DELAY, "margins of mass, total delay, this"),
    ],
)
def test_a_record_is_not_replaced_by_one_that_rests_on_less(bundle, tmp_path, margins, starts, pushed, lost):
    known = {} if margins is None else {"margins": margins}
    file = tmp_path / "policy.onnx"
    file.write_bytes(add_record(bundle, record(**known)))
    bundles = {file: load_bundle(file), tmp_path / "other.onnx": bundle}
    if lost:
        with pytest.raises(ValueError, match=f"{file}: its record has {lost}"):
            check_replaced(bundles, starts, pushed)
    else:
        check_replaced(bundles, starts, pushed)


@pytest.mark.slow
def test_the_command_records_what_it_finds_and_inspect_shows_it(tmp_path):
    path = tmp_path / "pd.onnx"
    save_pd_bundle(path, contract_of_calm_hover())
    path.write_bytes(add_signature(path.read_bytes(), MINE))
    done = here("verify", str(path), "--episodes", "4", "--record")
    assert done.returncode == 1  # four episodes show nothing, and it looks into empty slots
    assert f"it is not signed by {KEY} any more: phalanx sign" in done.stderr
    written = load_bundle(path)
    assert written.signer == "" and written.verification["verdict"] == REFUSED
    assert written.verification["fingerprint"] == written.fingerprint
    assert str(tmp_path) not in json.dumps(written.verification)
    before = path.read_bytes()
    fewer = here("verify", str(path), "--episodes", "3", "--record")
    assert_one_line_error(fewer, f"{path}: its record has 4 held-out starts, this would have 3: --replace to lose that")
    assert path.read_bytes() == before
    here("verify", str(path), "--episodes", "2", "--record", "--replace")
    assert load_bundle(path).verification["episodes"] == 2
    written = load_bundle(path)
    shown = " ".join(here("inspect", str(path)).stdout.split())
    assert "refused by slots" in shown and written.verification["verified_at_utc"] in shown
    assert json.loads(here("inspect", str(path), "--json").stdout)["verification"]["gates"]
    warned = here("deploy", str(path), "--kill-after-s", "900").stderr  # no flight, but a warning before
    assert f"{path} was refused by slots" in " ".join(warned.split())


@pytest.mark.parametrize(
    ("name", "found_now"),
    [("swarm-swap", {"centre of mass", "rate loop"}), ("swarm-swap-firmware", {"centre of mass", "wind"})],
)
def test_a_record_gets_the_advice_that_its_margins_come_to_today_and_nothing_else_changes(name, found_now, tmp_path):
    path, beside = tmp_path / f"{name}.onnx", tmp_path / f"{name}.json"
    shipped = load_bundle(ZOO / path.name)
    rows = [{**row, "field": None} for row in shipped.verification["margins"]["rows"]]
    margins = {**shipped.verification["margins"], "rows": rows}
    before = {**shipped.verification, "margins": margins, "flight": {"advice": FLY, "reasons": []}}
    path.write_bytes(add_record(shipped, before))
    beside.write_text(json.dumps({"bundle": "here", **before}), encoding="utf-8")
    assert here("verify", str(path), "--renew").returncode == 0
    found = load_bundle(path)
    assert found.fingerprint == shipped.fingerprint
    reasons = [reason["name"] for reason in found.verification["flight"]["reasons"]]
    assert found.verification["flight"]["advice"] == CARE and found_now <= set(reasons)
    assert json.loads(beside.read_text(encoding="utf-8")) == {"bundle": "here", **found.verification}
    with pytest.raises(ValueError, match="its verification says 'fly with care'"):
        load_bundle(path, requires=FLY)


def test_only_what_has_margins_is_renewed_and_a_team_as_a_whole(bundle, tmp_path):
    bare = tmp_path / "bare.onnx"
    bare.write_bytes(bundle.model_bytes)
    assert_one_line_error(here("verify", str(bare), "--renew"), "has no record of margins")
    assert_one_line_error(here("verify", str(ZOO / "perch-arm.onnx"), "--renew"), "give all of them")
    assert_one_line_error(here("verify", str(bare), "--renew", "--margins"), "flies nothing")
