"""Probes prove what they are there to prove."""

from dataclasses import replace

import numpy as np
import pytest
from bundle_fixture import TeamPolicy, make_contract, record_probes

from deploy.bundle.probes import (
    ProbeError,
    Probes,
    ProbeSequence,
    check_probes,
    probes_from_bytes,
    probes_to_bytes,
    replay,
)


@pytest.fixture(scope="module")
def recorded():
    contract = make_contract()
    return contract, record_probes(TeamPolicy(), contract)


def test_probes_that_prove_nothing_are_refused(recorded):
    contract, probes = recorded
    one, three, twelve = probes.sequences
    for sequences, complaint in (
        ((), "there are no probes"),
        ((one, three), r"probes cover \[1, 3\] peers; they need 1 and more than 3"),
        ((three, twelve), r"probes cover \[3, 12\] peers"),
        ((replace(one, outputs={"target": one.outputs["target"]}), twelve), "probe 0 outputs: has"),
        ((replace(one, memory={"last_action": np.zeros((2, 4), np.float32)}), twelve), "probe 0 inputs base_pos: has"),
        ((one, replace(twelve, outputs=twelve.outputs | {"obs": twelve.outputs["obs"] * np.nan})), "probe 1 .* finite"),
    ):
        with pytest.raises(ProbeError, match=complaint):
            check_probes(Probes(sequences), contract)


def test_replay_reports_the_largest_error_and_never_hides_nan():
    x = np.arange(6, dtype=np.float32).reshape(3, 2, 1)
    zero = np.zeros((2, 1), np.float32)
    total = {"sum_out": np.cumsum(x, axis=0)}
    probes = Probes((ProbeSequence({"sum": zero}, {"x": x}, total),))

    def adder(offset):
        return lambda inputs: {"sum_out": inputs["sum"] + inputs["x"] + offset}

    assert replay(adder(0), probes) == 0
    assert replay(adder(0.5), probes) == 1.5  # memory carries the error through three steps
    assert replay(adder(np.nan), probes) == np.inf
    assert replay(lambda inputs: {"sum_out": inputs["sum"][:1]}, probes) == np.inf


def test_probes_survive_bytes(recorded):
    probes = recorded[1]
    assert probes_to_bytes(probes_from_bytes(probes_to_bytes(probes))) == probes_to_bytes(probes)


def test_the_same_probes_are_the_same_bytes_in_whatever_order_they_were_recorded(recorded):
    _, probes = recorded
    turned = Probes(
        tuple(
            ProbeSequence(
                *(dict(reversed(getattr(sequence, part).items())) for part in ("memory", "inputs", "outputs"))
            )
            for sequence in probes.sequences
        )
    )
    assert probes_to_bytes(turned) == probes_to_bytes(probes)
