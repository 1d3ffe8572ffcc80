"""A policy file signed with the user's key: nothing can be changed, and no other file takes its signature."""

import json
import stat
import subprocess
import sys

import numpy as np
import onnx
import pytest

pytest.importorskip("onnx")
from bundle_fixture import make_contract, random_inputs, refusal, robot_view
from command import here
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pd_bundle import save_pd_bundle

from deploy.bundle import load_bundle
from deploy.bundle.fingerprint import add_fingerprint
from deploy.bundle.signature import add_signature, key_text, public_bytes, read_public_key, split_signature
from deploy.runtime import PolicyRuntime

MINE, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
KEY, OTHER_KEY = key_text(public_bytes(MINE)), key_text(public_bytes(OTHER))


@pytest.fixture(scope="module")
def signed(policy_file) -> bytes:
    bundle = load_bundle(policy_file)
    return add_signature(bundle.model_bytes, MINE)


def test_a_signed_file_is_the_same_policy(policy_file, signed, tmp_path):
    path = tmp_path / "policy.onnx"
    path.write_bytes(signed)
    bundle = load_bundle(path, [OTHER_KEY, KEY])
    assert (bundle.signer, load_bundle(policy_file).signer) == (KEY, "")
    assert bundle.fingerprint == load_bundle(policy_file).fingerprint
    metadata = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert metadata["phalanx.signer"] == KEY  # any reader of ONNX can say so
    view = robot_view(random_inputs(0, 4, 1, 3))
    steps = [PolicyRuntime.load(file).step(*view) for file in (path, policy_file)]
    np.testing.assert_array_equal(steps[0].requested.target, steps[1].requested.target)


def test_any_file_is_taken_where_no_key_is_trusted(policy_file, tmp_path):
    bundle = load_bundle(policy_file)
    (tmp_path / "policy.onnx").write_bytes(add_signature(bundle.model_bytes, OTHER))
    assert load_bundle(tmp_path / "policy.onnx").signer == OTHER_KEY


def test_an_unsigned_file_and_one_of_another_key_are_refused(policy_file, signed, tmp_path):
    assert refusal(tmp_path, policy_file.read_bytes(), [KEY]) == f"is not signed; trusted: {KEY}"
    said = refusal(tmp_path, signed, [OTHER_KEY])
    assert said == f"is signed by {KEY}, which is not trusted; trusted: {OTHER_KEY}"


@pytest.mark.parametrize("trusted", [(), (KEY,)])
def test_a_changed_bit_is_refused_wherever_it_is(signed, tmp_path, trusted):
    for place in [*np.linspace(0, len(signed) - 1, 40, dtype=int), *range(len(signed) - 190, len(signed), 7)]:
        changed = bytearray(signed)
        changed[place] ^= 1
        refusal(tmp_path, bytes(changed), trusted)


@pytest.mark.parametrize("end", [b"=rm", b"=="])  # of the signer, of the signature
def test_another_spelling_of_the_same_bytes_is_no_signature(signed, tmp_path, end):
    place = signed.rindex(end) - 1
    changed = bytearray(signed)
    changed[place] = LETTERS[LETTERS.index(changed[place]) + 1]
    refusal(tmp_path, bytes(changed))


def test_a_changed_file_with_a_fingerprint_that_fits_is_refused(signed, tmp_path):
    model = onnx.load_from_string(split_signature(signed)[0])
    kept = [entry for entry in model.metadata_props if entry.key not in ("phalanx.fingerprint", "phalanx.bytes")]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    model.producer_name = "an attacker"
    forged = add_fingerprint(model.SerializeToString())
    assert "is not signed" in refusal(tmp_path, forged, [KEY])
    tail = signed[len(split_signature(signed)[0]) :]
    for trusted in ((), (KEY,)):
        assert refusal(tmp_path, forged + tail, trusted).startswith(f"was changed after {KEY} signed it")


def test_the_signature_of_another_file_is_none(signed, tmp_path):
    save_pd_bundle(tmp_path / "other.onnx")
    tail = signed[len(split_signature(signed)[0]) :]
    said = refusal(tmp_path, (tmp_path / "other.onnx").read_bytes() + tail, [KEY])
    assert said == f"was changed after {KEY} signed it, or carries the signature of another file"


def test_a_signature_in_the_name_of_a_trusted_key_is_refused(policy_file, tmp_path):
    bundle = load_bundle(policy_file)
    forged = add_signature(bundle.model_bytes, OTHER).replace(OTHER_KEY.encode(), KEY.encode())
    assert refusal(tmp_path, forged, [KEY]).startswith(f"was changed after {KEY}")


def test_bytes_after_a_signature_are_refused(signed, tmp_path):
    assert "damaged or edited" in refusal(tmp_path, signed + b"\0", [KEY])
    assert "damaged or edited" in refusal(tmp_path, signed + signed[len(split_signature(signed)[0]) :], [KEY])


@pytest.mark.parametrize("key", ["me.pub", "c2hvcnQ=", "not base64"])
def test_what_is_no_key_is_named(signed, tmp_path, key):
    assert refusal(tmp_path, signed, [key]).startswith(f"trusted key {key!r}: ")


def test_a_file_without_signature_needs_no_cryptography(policy_file):
    code = f"import sys\nfrom deploy.bundle import load_bundle\nload_bundle({str(policy_file)!r})\n"
    subprocess.run([sys.executable, "-c", code + "assert 'cryptography' not in sys.modules"], check=True)


def test_the_command_makes_a_key_and_signs_with_it(policy_file, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "policy.onnx"
    file.write_bytes(policy_file.read_bytes())
    missing = here("sign", str(file))
    assert missing.returncode == 2 and "phalanx sign --new-key" in missing.stderr
    made = here("sign", "--new-key")
    kept = tmp_path / "phalanx" / "signing_key.pem"
    assert made.returncode == 0 and stat.S_IMODE(kept.stat().st_mode) == 0o600
    key = made.stdout.strip()
    assert kept.with_suffix(".pub").read_text().strip() == key == here("sign", str(file)).stdout.strip()
    assert load_bundle(file, [str(kept.with_suffix(".pub"))]).signer == key
    assert key in here("inspect", str(file)).stdout
    assert json.loads(here("inspect", str(file), "--json").stdout)["signer"] == key
    again = here("sign", "--new-key")
    assert again.returncode == 2 and "never written over" in again.stderr and kept.stat().st_size
    again = here("deploy", str(policy_file), "--trusted-keys", key)
    assert again.returncode == 2 and again.stderr.strip() == f"phalanx: {policy_file}: is not signed; trusted: {key}"
    kept.chmod(0o644)
    assert "chmod 600" in here("sign", str(file)).stderr
    assert load_bundle(file).contract == make_contract()


def test_what_is_no_key_file_is_refused_without_reading_all_of_it(tmp_path):
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    for path, said in ((large, "holds no public key"), ("/dev/zero", "neither a public key"), (tmp_path, "neither")):
        with pytest.raises(ValueError, match=said):
            read_public_key(str(path))
