"""A bare echo measures the machine when it is asked to, and is silent in between."""

import os
import signal
import time

import pytest

pytest.importorskip("rclpy")
from ros_nodes.lifecycle import processes
from ros_nodes.lifecycle.series import read_series
from ros_nodes.mission.bare_echo import SPAN_S, bare_echo
from ros_nodes.mission.deploy import CONFIG

pytestmark = pytest.mark.ros
RATE_HZ = 50.0


def test_an_echo_is_measured_twice_and_silent_between_and_one_that_died_is_not_measured(tmp_path, monkeypatch):
    started = []
    popen = processes.subprocess.Popen
    monkeypatch.setattr(processes, "fork", lambda *a: None)  # a process of its own each
    monkeypatch.setattr(processes.subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1])
    with bare_echo(tmp_path, RATE_HZ, CONFIG) as measure:
        before = measure()
        time.sleep(1.0)
        after = measure()
        times_s = read_series(tmp_path / "series" / "ping_echo.npy")["time_s"]
        os.kill(started[-1].pid, signal.SIGKILL)
        assert measure() is None
    for echo in (before, after):
        assert 0.1 < echo["p50"] <= echo["p95"] <= echo["p99"] <= echo["p100"]
    gaps_s = times_s[1:] - times_s[:-1]
    assert (gaps_s > 0.9).sum() == 1  # between the two
    assert len(times_s) == pytest.approx(2 * SPAN_S * RATE_HZ, rel=0.4)
