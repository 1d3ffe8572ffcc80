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
    ms, said, _ = fail("ur", CASES["ur"], fault)
    waits_s = START_S if fault == "refusal" else 0.0  # for a device that does not start
    assert says in said and 0.0 <= ms < 1e3 * (waits_s + patience(1.0))


def test_every_driver_is_asked_for_the_same_faults():
    """But for two whose emulated devices cannot do one of them."""
    of = {name: list(case.faults) for name, case in CASES.items()}
    assert of.pop("ros2_control") == ["loss", "delay", "reboot", "takeover"]  # no controller refuses set-points
    assert of.pop("franka") == ["loss", "reboot", "refusal", "takeover"]
    assert set(map(tuple, of.values())) == {("loss", "delay", "reboot", "refusal", "takeover")}


def test_a_driver_without_an_emulated_device_is_named():
    with pytest.raises(ValueError, match="driver 'panda': choose from crazyflie, px4, ur, unitree_g1, "):
        bench_devices(("panda",), on_progress=print)
