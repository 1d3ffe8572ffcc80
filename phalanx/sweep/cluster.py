"""Runs of a sweep on a Ray cluster, whose machines share the folder of the sweep and have phalanx installed."""

import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phalanx.sweep.pool import start_command

LOOK_EVERY_S = 0.2
ANSWERS_S = 5.0
KILLED = -int(signal.SIGKILL)


def connect(address: str) -> int:
    """Connect to the cluster at `address`, "local" for one of this machine, and return how many cores it has.

    ValueError where Ray is not installed or no cluster answers.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise ValueError(
            "--cluster needs the package ray, which is not installed: pip install 'phalanx[ray]'"
        ) from None
    _check_answers(address)
    here: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **here)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ValueError(f"--cluster {address}: no Ray cluster answers: {str(error).splitlines()[0]}") from error
    return int(ray.cluster_resources().get("CPU", 1))


def _check_answers(address: str) -> None:
    """ValueError where nothing listens at "host:port": Ray itself tries for minutes, and prints why."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):  # "auto", "local"
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWERS_S).close()
    except (OSError, OverflowError) as error:
        why = str(getattr(error, "strerror", "") or error)
        raise ValueError(f"--cluster {address}: no Ray cluster answers: {why}") from error


class ClusterCommand:
    """A command of phalanx somewhere in the cluster; to be asked and ended as a process is."""

    def __init__(self, args: Sequence[str], log: Path) -> None:
        """The command with its arguments `args`; see `start_command`."""
        import ray

        run = ray.remote(max_retries=0, num_cpus=1)(_run)
        self._ray, self._log = ray, log
        self._ref = run.remote(list(args), str(log.absolute()), os.getcwd())

    def poll(self) -> int | None:
        """The exit status; None while it is running or waits for a core."""
        if not self._ray.wait([self._ref], timeout=0)[0]:
            return None
        try:
            return int(self._ray.get(self._ref))
        except self._ray.exceptions.RayTaskError as error:  # on that machine there is no such folder, say
            with self._log.open("a") as file:
                file.write(f"\n{' '.join(str(error.cause).split())}\n")
            return 1
        except self._ray.exceptions.RayError:  # its worker or its machine has gone
            return KILLED

    def wait(self) -> None:
        """Until it has ended."""
        while self.poll() is None:
            time.sleep(LOOK_EVERY_S)

    def send_signal(self, number: int) -> None:
        """End it; a training leaves a checkpoint."""
        self._ray.cancel(self._ref)

    def kill(self) -> None:
        """End it at once."""
        self._ray.cancel(self._ref, force=True)


def _run(args: Sequence[str], log: str, folder: str) -> int:
    """What a worker of the cluster does; to cancel it is a KeyboardInterrupt."""
    os.chdir(folder)
    process = start_command(args, Path(log))
    try:
        while (code := process.poll()) is None:
            time.sleep(LOOK_EVERY_S)
        return code
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        return process.wait()
