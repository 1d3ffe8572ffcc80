"""Learning while the next rollout is collected, for algorithms that learn from what was collected before."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from time import perf_counter
from typing import Any

from policies.threads import single_threaded_torch


class Overlap:
    """A thread for learning, and copies of the policies that act meanwhile as they were when it began."""

    def __init__(self, policies: Mapping[str, Any]) -> None:
        self.acting = {name: deepcopy(policy) for name, policy in policies.items()}
        self.took_s = 0.0  # what was learned last
        self._policies = policies
        self._thread = ThreadPoolExecutor(1, "overlap")

    @contextmanager
    def learning(self, learn: Callable[[], None] | None) -> Iterator[None]:
        """Runs `learn`, if there is anything, for as long as the context lasts or longer; what it raises is raised."""
        for name, policy in self.acting.items():
            policy.load_state_dict(self._policies[name].state_dict())
        running = None if learn is None else self._thread.submit(self._timed, learn)
        try:
            yield
        finally:
            self.took_s = 0.0 if running is None else running.result()

    def _timed(self, learn: Callable[[], None]) -> float:
        began = perf_counter()
        with single_threaded_torch():
            learn()
        return perf_counter() - began

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()
