"""`python -m benchmarks devices`: faults of emulated devices, as their drivers report them."""

import pytest
from patience import patience

from benchmarks.devices import CASES, bench_devices, fail
from hardware.drivers.ur import START_S

pytestmark = pytest.mark.real_time


@pytest.mark.parametrize(
    ("fault", "says"), [("takeover", "freedrive button pressed"), ("refusal", "local control"), ("loss", "link lost")]
)
def test_a_fault_is_in_the_words_of_its_driver_and_soon(fault, says):
    ms, said = fail("ur", CASES["ur"], fault)
    waits_s = START_S if fault == "refusal" else 0.0  # for a device that does not start
    assert says in said and 0.0 <= ms < 1e3 * (waits_s + patience(1.0))


def test_every_driver_is_asked_for_the_same_faults():
    assert len({tuple(case.faults) for case in CASES.values()}) == 1


def test_a_driver_without_an_emulated_device_is_named():
    with pytest.raises(ValueError, match="driver 'franka': choose from crazyflie, px4, ur, unitree_g1"):
        bench_devices(("franka",), 1, lambda *_: None)
