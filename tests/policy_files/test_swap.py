"""Another policy takes over in flight, or is taken back: what flies is always a policy that does well."""

import numpy as np
import pytest

pytest.importorskip("torch")
from bundle_fixture import random_inputs, robot_view
from msgspec.structs import replace
from pd_bundle import FAULT_ABOVE_M, PdPolicy, PdPolicyWithFault, pd_contract, save_bundle_that_tells, save_pd_bundle

from deploy.runtime import InputError, PolicyRuntime
from deploy.runtime import swap as module
from deploy.runtime.swap import SwapCfg, SwapRuntime

PROBE, BLEND, TRIAL = 10, 5, 20  # cycles of 20 ms
CFG = SwapCfg(PROBE * 0.02, BLEND * 0.02, TRIAL * 0.02)
STATE, PEERS, COMMAND = robot_view(random_inputs(3, 1, 1, 2))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    contract = pd_contract()
    made = {
        "old": (contract, PdPolicy()),
        "new": (contract, PdPolicy(speed=0.3)),
        "faulty": (contract, PdPolicyWithFault()),
        "strong": (contract, PdPolicyWithFault(99.0)),
        "limits": (replace(contract, shield={"separation_m": 0.2}), PdPolicy()),
        "rate": (replace(contract, control_dt_s=0.01), PdPolicy()),
        "range": (replace(contract, commands=(replace(contract.commands[0], high=(5.0,) * 3),)), PdPolicy()),
    }
    for name, (its_contract, policy) in made.items():
        save_pd_bundle(folder / f"{name}.onnx", its_contract, policy)
    save_bundle_that_tells(folder / "shown.onnx")
    return {name: str(folder / f"{name}.onnx") for name in (*made, "shown")}


class Flight:
    """A SwapRuntime whose policy has the robot, and what it tells."""

    def __init__(self, files):
        self.said: list[str] = []
        self.old, self.new = (PolicyRuntime.load(files[name]) for name in ("old", "new"))
        self.swap = SwapRuntime(PolicyRuntime.load(files["old"]), files["old"], self.said.append, CFG)
        self.swap.shield_says(True, "")

    def fly(self, cycles, state=STATE):
        """Targets (cycles, 4) of the flight, of the old policy alone, and of the new one alone."""
        steps = [[r.step(state, PEERS, COMMAND) for r in (self.swap, self.old, self.new)] for _ in range(cycles)]
        return (np.array([step.requested.target for step in column]) for column in zip(*steps, strict=True))


def test_a_new_policy_is_probed_blended_in_and_tried_before_the_old_one_goes(files):
    flight = Flight(files)
    fingerprint = flight.swap.fingerprint
    flight.swap.offer(PolicyRuntime.load, files["new"])
    flown, old, new = flight.fly(PROBE)
    assert np.abs(old - new).max() > 0.01
    np.testing.assert_array_equal(flown, old)  # while it is probed, nothing of it flies
    flown, old, new = flight.fly(BLEND)
    shares = np.linspace(1 / BLEND, 1.0, BLEND)[:, None]
    np.testing.assert_allclose(flown, (1 - shares) * old + shares * new, atol=1e-6)
    flown, _, new = flight.fly(TRIAL)
    np.testing.assert_array_equal(flown, new)
    assert flight.swap.fingerprint == fingerprint  # it may still be taken back
    flown, _, new = flight.fly(3)
    np.testing.assert_array_equal(flown, new)
    assert (flight.swap.file, flight.swap.fingerprint) == (files["new"], PolicyRuntime.load(files["new"]).fingerprint)
    assert [text.removeprefix(files["new"])[:12] for text in flight.said] == [" runs beside", " takes over ", " flies"]


@pytest.mark.parametrize("cycles", [PROBE // 2, PROBE + BLEND // 2, PROBE + BLEND + TRIAL // 2])
@pytest.mark.parametrize(("name", "says"), [("faulty", "the policy's output is not"), ("strong", "asks for [99.0, ")])
def test_a_policy_that_fails_is_taken_back_in_the_same_cycle(files, cycles, name, says):
    flight = Flight(files)
    flight.swap.offer(PolicyRuntime.load, files[name])
    _ = [*flight.fly(cycles)]
    above = robot_view({**random_inputs(3, 1, 1, 2), "base_pos": np.full((1, 1, 3), FAULT_ABOVE_M + 0.1, np.float32)})
    flown, old, _ = flight.fly(PROBE + BLEND + TRIAL, above[0])
    np.testing.assert_array_equal(flown, old)
    assert f"{files[name]} was taken back, {files['old']} flies on: {says}" in flight.said[-1]
    flight.swap.offer(PolicyRuntime.load, files["new"])  # another may be tried


@pytest.mark.parametrize("cycles", [1, PROBE + 1, PROBE + BLEND + 1])
def test_a_shield_that_takes_over_ends_the_swap(files, cycles):
    flight = Flight(files)
    flight.swap.offer(PolicyRuntime.load, files["new"])
    _ = [*flight.fly(cycles)]
    flight.swap.shield_says(False, "HOLD: request too old")
    flown, old, _ = flight.fly(3)
    np.testing.assert_array_equal(flown, old)
    assert flight.said[-1].endswith("flies on: the shield: HOLD: request too old")
    with pytest.raises(ValueError, match=r"new\.onnx: no policy has the robot now"):
        flight.swap.offer(PolicyRuntime.load, files["new"])


def test_an_input_that_no_policy_takes_is_not_the_new_ones_fault(files):
    flight = Flight(files)
    flight.swap.offer(PolicyRuntime.load, files["new"])
    _ = [*flight.fly(3)]
    with pytest.raises(InputError, match="outside of"):
        flight.swap.step(STATE, PEERS, {"goal_pos": np.full(3, 99.0, np.float32)})
    _ = [*flight.fly(PROBE + BLEND + TRIAL)]
    assert flight.swap.file == files["new"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("limits", "its 'shield' is not that of the policy that flies"),
        ("rate", "control_dt_s is 0.01, of the policy that flies 0.02"),
        ("range", "its 'commands' is not that of the policy that flies"),
        ("shown", "its 'inputs' is not that of the policy that flies"),
    ],
)
def test_a_policy_for_anything_else_is_refused(files, name, says):
    flight = Flight(files)
    with pytest.raises(ValueError, match=f"{name}.onnx: {says}"):
        flight.swap.offer(PolicyRuntime.load, files[name])
    with pytest.raises(ValueError, match=r"none\.onnx: no such file"):
        flight.swap.offer(PolicyRuntime.load, "none.onnx")
    flown, old, _ = flight.fly(3)
    np.testing.assert_array_equal(flown, old)


def test_one_swap_at_a_time_and_none_goes_over_a_new_beginning(files):
    flight = Flight(files)
    flight.swap.offer(PolicyRuntime.load, files["new"])
    with pytest.raises(ValueError, match=r"new\.onnx is being tried already"):
        flight.swap.offer(PolicyRuntime.load, files["new"])
    flight.swap.reset()
    assert flight.said[-1].endswith("flies on: the policy began again") and flight.swap.file == files["old"]


def test_a_policy_that_takes_too_long_does_not_fly(files, monkeypatch):
    clock = iter(np.arange(0.0, 100.0, 0.006))  # 6 ms a look, of a period of 20
    monkeypatch.setattr(module, "perf_counter", lambda: next(clock))
    flight = Flight(files)
    flight.swap.offer(PolicyRuntime.load, files["new"])
    flown, old, _ = flight.fly(PROBE + BLEND)
    np.testing.assert_array_equal(flown, old)
    assert "a step takes 6.0 ms, at most 0.25 of its period" in flight.said[-1]
