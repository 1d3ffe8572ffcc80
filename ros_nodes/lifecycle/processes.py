"""The processes of a team: started together, watched, and never left behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from hardware.parent import end_with_parent
from ros_nodes.lifecycle.bring_up import NotUp
from ros_nodes.lifecycle.clock import machine_clock
from ros_nodes.lifecycle.fork_server import NODE_ENVIRONMENT, Forked, fork
from ros_nodes.lifecycle.log_lines import NEWS, telling_line
from ros_nodes.lifecycle.transport import LOCALHOST_ONLY, RANGE, transport_settings

PARENT, WHEN_GONE = "PHALANX_PARENT_PID", "PHALANX_PARENT_GONE"  # and the signal that its end sends
ORPHANED = signal.SIGUSR1  # the parent is gone: land the robot. Each of its threads may send it
DISPENSABLE = ("recorder",)  # processes without which a mission goes on
WITHOUT = {  # what the end of a process of the whole team means, by how its name ends
    "recorder": "what follows is not recorded; the robots go on",
    "simulated_robots": "simulated robots are not measured and obey no command from here on",
    "operator": "the team is sent no more orders; it listens to `phalanx operate` as before",
}
NO_SPACE = 1 << 16  # bytes; where fewer are left a line of a log may find no room
HIGHEST_DOMAIN = 101  # above, the ports of a domain run into those that Linux hands out


class ProcessError(RuntimeError):
    """A node's process ended when it should not have; the text holds its last line."""


def die_with_parent() -> None:
    """In a child that `Processes` started: be sent a signal when the parent is gone, however it went."""
    if parent := int(os.environ.get(PARENT, "0")):
        end_with_parent(parent, int(os.environ.get(WHEN_GONE, signal.SIGTERM)))


def free_domain_id() -> int:
    """A ROS domain that no process on this machine uses."""
    domains = list(range(1, HIGHEST_DOMAIN + 1))
    Random(os.urandom(8)).shuffle(domains)
    for domain in domains:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("", 7400 + 250 * domain + 10))  # discovery of the first participant
            except OSError:
                continue
            return domain
    raise ProcessError("no free ROS domain on this machine")


def ros_environment(domain_id: int) -> dict[str, str]:
    """Environment for nodes that talk to each other on this machine only."""
    environment = {"ROS_DOMAIN_ID": str(domain_id), RANGE: "LOCALHOST", "RMW_IMPLEMENTATION": "rmw_fastrtps_cpp"}
    return environment | transport_settings(environment)


def node_command(
    module: str,
    params_files: Sequence[Path | str],
    namespace: str = "",
    parameters: Sequence[str] = (),
    nodes: Sequence[str] = (),
    remaps: Sequence[str] = (),
) -> list[str]:
    """Command line of `ros_nodes.nodes.<module>`; later parameter files win, and `parameters` ("name:=value") over all.

    `nodes` ("namespace/kind") are those that the module "host" carries; `remaps` ("name:=other"): topics that have
    another name for them. `python -m` rather than an installed executable, so that it runs from a source tree too.
    """
    command = [sys.executable, "-m", f"ros_nodes.nodes.{module}", *nodes, "--ros-args"]
    for file in params_files:
        command += ["--params-file", str(file)]
    if namespace:
        command += ["-r", f"__ns:=/{namespace}"]
    for remap in remaps:
        command += ["-r", remap]
    for parameter in parameters:
        command += ["-p", parameter]
    return command


class Processes:
    """Nodes as child processes. A context manager: leaving it ends them all."""

    def __init__(
        self, params_files: Sequence[Path], log_dir: Path, environment: Mapping[str, str], lands: bool = False
    ):
        """All nodes read `params_files`, of which the later win; what they print goes to `log_dir`/<name>.log.

        When this process is killed they end at once, or where it `lands` they land their robots first.
        """
        self._params_files = list(params_files)
        self._log_dir = log_dir
        log_dir.mkdir(parents=True, exist_ok=True)
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
        inherited = {name: value for name, value in os.environ.items() if name != LOCALHOST_ONLY}
        self._environment = {
            **inherited,
            **environment,
            **NODE_ENVIRONMENT,
            "PYTHONPATH": path,
            PARENT: str(os.getpid()),
            WHEN_GONE: str(int(ORPHANED if lands else signal.SIGTERM)),
        }
        self._running: dict[str, subprocess.Popen[bytes] | Forked] = {}
        self._process_of: dict[str, str] = {}  # node -> process
        self.lost: list[str] = []  # why processes ended that robots can do without

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """How many have not been ended."""
        return len(self._running)

    def start(
        self, name: str, module: str, namespace: str = "", parameters: Sequence[str] = (), remaps: Sequence[str] = ()
    ) -> None:
        """Start `ros_nodes.nodes.<module>` as process `name`; `parameters`, "name:=value", are on top of the files.

        `remaps`, "topic:=other", as in `start_host`: a topic has another name for this process.
        """
        node = f"{namespace}/{module.removesuffix('_node')}".strip("/")
        self._start(name, [node], node_command(module, self._params_files, namespace, parameters, remaps=remaps))

    def start_host(self, name: str, nodes: Sequence[str], remaps: Sequence[str] = ()) -> None:
        """Start the process `name` that carries `nodes`, each "namespace/kind"."""
        self._start(name, nodes, node_command("host", self._params_files, nodes=nodes, remaps=remaps))

    def _start(self, name: str, nodes: Sequence[str], command: Sequence[str]) -> None:
        self._process_of |= dict.fromkeys(nodes, name)
        with self.log_of(name).open("ab") as log:  # who looks for it finds it, however soon
            # A session of its own keeps the terminal's Ctrl-C from it: the parent ends its children in order.
            self._running[name] = fork(command, self.log_of(name), self._environment) or subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    def log_of(self, name: str) -> Path:
        """Where process `name` prints."""
        return self._log_dir / f"{name}.log"

    def process_of(self, node: str) -> str:
        """The process that carries `node`, "namespace/kind"."""
        return self._process_of[node]

    def robots_of(self, name: str, team: Sequence[str]) -> list[str]:
        """Those of `team` of which process `name` carries a node."""
        spaces = {node.rpartition("/")[0] for node, process in self._process_of.items() if process == name}
        return [robot for robot in team if robot in spaces]

    def pid(self, name: str) -> int:
        """Process id of `name`."""
        return self._running[name].pid

    def kill(self, name: str) -> int:
        """SIGKILL; returns the time, ns of robot time, just before."""
        process = self._running.pop(name)
        now_ns = machine_clock().now_ns()
        process.kill()
        process.wait()
        return now_ns

    def check(self) -> None:
        """ProcessError when a process has ended on its own; one that robots can do without is noted in `lost`."""
        for name in self.ended():
            reason = self.why_ended(name)
            if name not in DISPENSABLE:
                raise ProcessError(reason)
            self.forget(name)
            self.lost.append(reason)

    def ended(self) -> list[str]:
        """Processes that have ended on their own and were not forgotten."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def why_ended(self, name: str) -> str:
        """Exit code and nodes of a process that has ended, what that means, and its last line unless it was killed."""
        carried = ", ".join(
            node for node, process in self._process_of.items() if process == name and node.replace("/", "_") != name
        )
        who = f"{name} ({carried})" if carried else name
        code = self._running[name].returncode
        means = next((f"; {said}" for kind, said in WITHOUT.items() if name.endswith(kind)), "")
        killed = code == -signal.SIGKILL  # nothing that it said before is why
        why = "it was killed" if killed else self.last_line(name)
        return f"{who} ended with code {code}: {why}{means}"

    def forget(self, name: str) -> None:
        """It has ended, and the others go on."""
        del self._running[name]

    def cpu_s(self) -> dict[str, float]:
        """Processor time, s, that each running process has used; nothing where the system does not tell."""
        found = {}
        for name, process in self._running.items():
            with suppress(OSError):
                user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
                found[name] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        return found

    def said_by(self, node: NotUp) -> str:
        """What one that is not up said last, behind a colon; no news of one that is late: no reason is in them."""
        last = self.last_line_of(node.node)
        log = self.log_of(self._process_of[node.node.strip("/")]).read_text(errors="replace")
        is_news = any(NEWS in line and line.endswith(last) for line in log.splitlines())
        return "" if node.late and is_news else f": {last}"

    def last_line_of(self, node: str) -> str:
        """What the node with this fully qualified name said last, by `last_line` of the process that carries it."""
        node = node.strip("/")
        line, logger = self.last_line(self._process_of[node], node.replace("/", ".")), node.replace("/", ".")
        return line.partition(f"[{logger}]: ")[2] or line

    def last_line(self, name: str, about: str = "") -> str:
        """Why `name` ended, see `telling_line`, or "no output"; by lines `about` it, where there are any.

        News of others is none of it.
        """
        lines = [line for line in self.log_of(name).read_text(errors="replace").splitlines() if line.strip()]
        lines = [line for line in lines if about in line] or [line for line in lines if NEWS not in line]
        if all(NEWS in line for line in lines) and shutil.disk_usage(self._log_dir).free < NO_SPACE:
            return f"no output, for no space is left in {self._log_dir}"
        return telling_line(lines) or "no output"

    def end(self, name: str, timeout_s: float = 3.0, number: int = signal.SIGTERM) -> None:
        """Ask `name` to end, and make it. A shield lands its robot before when `number` is SIGINT."""
        process = self._running.pop(name)
        process.send_signal(number)
        _reap(process, timeout_s)

    def end_all(
        self,
        names: Sequence[str],
        timeout_s: float,
        number: int,
        watch: Callable[[], None] = lambda: None,
        again: Callable[[], int] = lambda: 0,
    ) -> dict[str, str]:
        """Send `names` the signal `number`, and then as often as `again()` says in all.

        `watch` is called again and again meanwhile. What has not ended after `timeout_s` is killed. Returns, by name,
        why a process did not end by itself.
        """
        ending = {name: self._running[name] for name in names if name in self._running}
        sent = 0
        for process in ending.values():
            process.send_signal(number)
        until = time.monotonic() + timeout_s
        while any(process.poll() is None for process in ending.values()) and time.monotonic() < until:
            watch()
            time.sleep(0.05)
            while again() > sent:
                sent += 1
                for process in ending.values():
                    process.send_signal(number)
        wrong = {}
        for name, process in ending.items():
            if process.poll() is None:
                _reap(process, 0.0)
                wrong[name] = f"{name} did not end within {timeout_s:g} s and was killed"
            elif (process.returncode or 0) < 0 and process.returncode != -number:  # by which one ends that still starts
                wrong[name] = self.why_ended(name)
            self.forget(name)
        return wrong

    def close(self, timeout_s: float = 5.0) -> None:
        """End all, the last one started first to be asked."""
        processes = list(self._running.values())
        self._running.clear()
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + timeout_s
        try:
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, until - time.monotonic()))
        finally:  # after an impatient Ctrl-C too
            for process in processes:
                _reap(process, 0.0)


def _reap(process: subprocess.Popen[bytes] | Forked, timeout_s: float) -> None:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
