"""An emergency stop is never lost: not to a reset of the same moment, nor to a restart of the loop that serves it."""

import threading

from ros_nodes.nodes.emergency_stop import RESET, STOP, EmergencyStop


def test_a_stop_wins_over_a_reset_of_the_same_cycle_in_either_order():
    for requests in ((STOP, RESET), (RESET, STOP)):
        stop = EmergencyStop()
        for what in requests:
            stop.request(what)
        assert stop.take() == STOP
        assert stop.take() == ""
        assert stop.restart()


def test_a_stop_outlives_a_restart_and_only_a_reset_that_is_served_ends_it():
    stop = EmergencyStop()
    stop.request(STOP)
    assert stop.restart(), "requested before the loop ran"
    stop.request(RESET)
    assert stop.restart(), "a reset from before the restart was for another run"
    assert stop.take() == ""
    stop.request(RESET)
    assert stop.take() == RESET
    assert not stop.restart()


def test_no_stop_of_another_thread_is_lost_among_resets():
    stop, asked, ended = EmergencyStop(), threading.Event(), threading.Event()

    def serve() -> None:
        while not ended.is_set():
            if stop.take() == STOP:
                asked.set()

    thread = threading.Thread(target=serve)
    thread.start()
    for _ in range(100):
        asked.clear()
        stop.request(STOP)
        stop.request(RESET)
        found = asked.wait(1.0)
        if not found:
            break
    ended.set()
    thread.join()
    assert found
