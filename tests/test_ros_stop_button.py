"""An emergency stop is never lost: not to a reset of the same moment, nor to a restart of the loop that serves it."""

import threading

from ros_nodes.nodes.emergency_stop import StopButton


def test_a_stop_wins_over_a_reset_of_the_same_cycle_in_either_order():
    for asks in (("ask_stop", "ask_reset"), ("ask_reset", "ask_stop")):
        button = StopButton()
        for ask in asks:
            getattr(button, ask)()
        assert button.take() == "estop"
        assert button.take() == ""
        assert button.restart()


def test_a_stop_outlives_a_restart_and_only_a_reset_that_is_served_ends_it():
    button = StopButton()
    button.ask_stop()
    assert button.restart(), "asked while nobody looked"
    button.ask_reset()
    assert button.restart(), "a reset from before the restart was said to another run"
    assert button.take() == ""
    button.ask_reset()
    assert button.take() == "reset"
    assert not button.restart()


def test_no_stop_of_another_thread_is_lost_among_resets():
    button, asked, ended = StopButton(), threading.Event(), threading.Event()

    def serve() -> None:
        while not ended.is_set():
            if button.take() == "estop":
                asked.set()

    thread = threading.Thread(target=serve)
    thread.start()
    for _ in range(100):
        asked.clear()
        button.ask_stop()
        button.ask_reset()
        found = asked.wait(1.0)
        if not found:
            break
    ended.set()
    thread.join()
    assert found
