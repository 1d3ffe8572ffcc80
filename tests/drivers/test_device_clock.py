"""How a device's clock is read on this computer, by exchanges and by packets one way."""

import pytest

from hardware.drivers.device_clock import DeviceClock


def test_the_clock_follows_the_quickest_exchange_and_notices_a_restart():
    clock = DeviceClock()
    for sent_s, there_s, now_s in ((10.0, 3.3, 10.5), (11.0, 4.01, 11.02), (12.0, 5.2, 12.4)):
        clock.exchange(sent_s, there_s, now_s)
    assert clock.here(5.0) == pytest.approx(12.0) and clock.there(12.0) == pytest.approx(5.0)
    assert clock.trip_s == pytest.approx(0.02) and not clock.restarts
    for sent_s in (13.0, 14.0, 15.0, 16.0):
        clock.exchange(sent_s, sent_s - 6.8, sent_s + 0.4)
    assert clock.trip_s == pytest.approx(0.4) and clock.here(5.0) == pytest.approx(12.0)
    for sent_s, there_s, now_s in ((16.5, 9.7, 16.4), (16.5, 10.6, 18.3)):  # that cannot be, and too slow
        clock.exchange(sent_s, there_s, now_s)
    assert clock.trip_s == pytest.approx(0.4) and clock.here(5.0) == pytest.approx(12.0) and not clock.restarts
    clock.exchange(17.0, 0.1, 17.04)  # slower than the quickest one before
    assert clock.restarts == 1 and clock.here(0.1) == pytest.approx(17.02)


def test_a_packet_that_comes_late_is_never_taken_for_a_young_one():
    """Also one of two seconds ago, and where the device's clock of 24 bits, ms, has begun again."""
    around_s = (1 << 24) * 1e-3
    clock = DeviceClock(around_s)
    for index in range(1000):
        now_s, late_s = 500.0 + 0.01 * index, {300: 2.0, 301: 1.99, 700: 0.3}.get(index, 0.0)
        sent_s = clock.packet((around_s - 5.0 + 0.01 * index - late_s) % around_s, now_s)
        assert now_s - sent_s == pytest.approx(late_s, abs=1e-6), index


def test_the_clocks_may_drift():
    """By a tenth of a percent, ten times what quartz does: what was quickest is forgotten after ten seconds."""
    clock = DeviceClock()
    for index in range(3000):
        now_s = 0.01 * index
        assert now_s - clock.packet(0.999 * now_s, now_s) < 0.0101
