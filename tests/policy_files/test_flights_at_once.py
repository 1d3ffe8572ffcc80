"""What flies at once in several threads is what would fly one after the other, and ends when it should."""

import os
import signal
import time
from functools import partial

import pytest
from places import ZOO

from policies.evaluation.evaluate import evaluate
from policies.evaluation.verify import VerifyCfg, verify
from policies.evaluation.way import Way
from policies.threads import at_once


def lasting(check):
    """A job that does not end by itself for long."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        check()
        time.sleep(0.01)
    return "late"


def test_results_come_in_the_order_of_the_jobs(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1, 2})
    assert at_once([lambda check, i=i: time.sleep(0.05 * (3 - i)) or i for i in range(3)]) == [0, 1, 2]


def test_a_job_that_fails_ends_the_others(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})

    def failing(check):
        raise ValueError("no such robot")

    began = time.monotonic()
    with pytest.raises(ValueError, match="no such robot"):
        at_once([failing, lasting, lasting])
    assert time.monotonic() - began < 30


def test_ctrl_c_ends_all_jobs(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})

    def interrupted(check):
        time.sleep(0.3)  # an interrupted start of a thread is one that the pool does not wait for
        os.kill(os.getpid(), signal.SIGINT)
        return lasting(check)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        at_once([interrupted, lasting, lasting])
    assert time.monotonic() - began < 30


@pytest.mark.slow
def test_flights_at_once_come_to_what_they_come_to_one_after_the_other(monkeypatch):
    def fly(robots, check):
        return evaluate(ZOO / "swarm-swap.onnx", "swarm-swap", 4, num_agents=robots, shield=True, on_step=check)

    found = []
    for cores in ({0}, {0, 1, 2}):
        monkeypatch.setattr("os.sched_getaffinity", lambda process, cores=cores: cores)
        found.append(at_once([partial(fly, robots) for robots in (2, 3, 4)]))
    assert found[0] == found[1] and [flown.num_agents for flown in found[0]] == [2, 3, 4]


def test_the_way_of_several_flights_is_that_of_all_their_steps():
    said = []
    way = Way(lambda share, note: said.append((round(share, 3), note)), 0.5, robot_steps=40.0)
    way.begin("four robots")
    way.step(4)
    way.begin("one robot")
    for _ in range(40):  # more than were counted on: an episode of another length
        way.step(1)
    assert said[:4] == [(0.5, "four robots"), (0.55, "four robots"), (0.55, "one robot"), (0.562, "one robot")]
    assert said[-1] == (1.0, "one robot") and [share for share, _ in said] == sorted(share for share, _ in said)


@pytest.mark.slow
def test_verify_says_how_far_it_is_within_its_flights_too():
    """It stood still for as long as a flight took: minutes."""
    said = []
    checks = VerifyCfg(num_worlds=2, parity_worlds=1, teams=(1,))
    verify(ZOO / "hover.onnx", checks, on_progress=lambda share, what: said.append((share, what)))
    shares = [share for share, _ in said]
    assert [what for _, what in said[:2]] == ["probes", "parity"] and shares == sorted(shares) and shares[-1] <= 1.0
    assert len({share for share, what in said if "robot" in what}) > 20
