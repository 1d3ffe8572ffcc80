"""A UR5e with its controller, as a process: RTDE, dashboard and script ports, and MuJoCo's arm behind them.

Written from Universal Robots' RTDE guide and script manual (see `devices.ur_rtde` and `devices.ur_script`); imports
nothing of the driver. `python -m devices.ur` prints its address, of this computer; then
answers each line of JSON, {} or {"stop": "protective"}, with a line of JSON, until Ctrl-D.
"""

import argparse
import json
import random
import selectors
import socket
import sys
import threading
import time
from collections import deque

import numpy as np

from devices.ur_body import CYCLE_S, Body
from devices.ur_rtde import Client
from devices.ur_script import Program, ScriptError

BEHIND_S = 0.05  # that is made up for where this processor was not ours


class Controller:
    """One arm and its program. Attributes without an underscore are set by orders."""

    FUNCTIONS = (
        "set_payload",
        "rtde_set_watchdog",
        "write_output_integer_register",
        "read_input_integer_register",
        "read_input_float_register",
        "textmsg",
    )

    def __init__(self):
        self.version, self.model = (5, 11), "UR5"
        self.stop, self.remote, self.robot_mode, self.speed_fraction = "", True, 7, 1.0
        self.teach = self.paused = self.keep_payload = self.frozen = False
        self.off_rad = 0.0  # of its elbow: what is measured, beside where the joint is
        self.spoils = ""  # "short": states lack their end; "nan": positions are none; "text": no states, but messages
        self.loss, self.delay_s = 0.0, 0.0  # share of states that are skipped; delay of each way
        self.body = Body()
        self.clients: list[Client] = []
        self.inputs: dict[str, float] = {}
        self.heard_s: dict[str, float] = {}  # when each input came last, in cycles that were run
        self.at_s = 0.0  # time in such cycles
        self.int_out = [0] * 48
        self.payload_kg, self.payload_m = 0.0, [0.0, 0.0, 0.0]
        self.program: Program | None = None
        self.watchdog: tuple[str, float, str] | None = None
        self.log: list[str] = []
        self.bitten_s = 0.0  # how long inputs had been silent when the watchdog acted
        self.rest_s = 0.0  # ... when the arm was at rest after that
        self.answers_s: deque[float] = deque(maxlen=2000)
        self.programs, self.servos = 0, False  # whether the newest one follows set-points
        self._began_s = time.monotonic()

    # URScript's functions

    def do_set_payload(self, mass: float, centre: list[float]) -> None:
        if not self.keep_payload:
            self.payload_kg, self.payload_m = float(mass), [float(each) for each in centre]

    def do_rtde_set_watchdog(self, variable: str, hz: float, action: str = "pause") -> None:
        if action not in ("ignore", "pause", "stop"):
            raise ValueError(f"action {action}")
        self.watchdog = variable, float(hz), action
        self.heard_s[variable] = self.at_s

    def do_write_output_integer_register(self, index: int, value: int) -> None:
        self.int_out[index] = value

    def do_read_input_integer_register(self, index: int) -> int:
        return int(self.inputs.get(f"input_int_register_{index}", 0))

    def do_read_input_float_register(self, index: int) -> float:
        return float(self.inputs.get(f"input_double_register_{index}", 0.0))

    def do_textmsg(self, *words) -> None:
        self.log.append("".join(map(str, words)))

    def do_servoj(self, q, a, v, t=0.002, lookahead_time=0.1, gain=300) -> None:
        if t != CYCLE_S or not 0.03 <= lookahead_time <= 0.2 or not 100 <= gain <= 2000 or len(q) != 6:
            raise ScriptError(f"servoj: t {t}, lookahead_time {lookahead_time}, gain {gain}")
        self.body.servo(np.array(q), lookahead_time)

    def do_stopj(self, a: float) -> None:
        self.body.brake(a)

    def do_sync(self) -> None:
        self.body.brake()

    # what happens to it

    def start(self, text: str) -> None:
        """A program came: it takes the place of the one that runs. In local control it is not obeyed."""
        if not self.remote or self.stop or self.robot_mode != 7:
            return
        try:
            self.program, self.watchdog = Program(text, self), None
        except ScriptError as error:
            self.log.append(str(error))
            return
        self.programs, self.servos, self.paused = self.programs + 1, "servoj" in text, False
        self.body.begin()

    def hear(self, inputs: dict[str, float], asked_s: float) -> None:
        """New values of inputs, in answer to the state that was sent at `asked_s`."""
        now_s = time.monotonic()
        self.inputs |= inputs
        self.heard_s |= dict.fromkeys(inputs, self.at_s)
        self.answers_s.append(now_s - asked_s)
        follows = self.program is not None and self.servos and self.runtime_state == 2
        if follows and self.do_read_input_integer_register(24):
            q = np.array([self.do_read_input_float_register(24 + i) for i in range(6)])
            if self.body.judge(q):
                self.stop = "protective"

    @property
    def runtime_state(self) -> int:
        return 1 if self.program is None else 4 if self.paused else 2

    @property
    def measured(self) -> np.ndarray:
        return self.body.q + self.off_rad * np.eye(6)[2]

    @property
    def timestamp(self) -> float:
        return time.monotonic() - self._began_s

    def cycle(self) -> None:
        self.at_s += CYCLE_S
        if self.stop or self.robot_mode != 7 or not self.remote:
            self.program = None
        if self.watchdog is not None and self.program is not None:
            variable, hz, action = self.watchdog
            silent_s = self.at_s - self.heard_s[variable]
            if silent_s > 1.0 / hz and action == "stop":
                self.program, self.bitten_s = None, silent_s
        before = self.body.velocity
        if self.program is None or self.paused:
            self.body.brake()
        else:
            try:
                if not self.program.cycle():
                    self.program = None
            except ScriptError as error:
                self.program = None
                self.log.append(str(error))
        if self.body.cycle() and self.program is not None:
            self.stop = "protective"
        if before.any() and not self.body.velocity.any() and self.bitten_s:
            self.rest_s = self.at_s - self.heard_s["input_int_register_24"]

    def ask(self, line: str) -> str:
        """The dashboard's answer."""
        return {
            "get robot model": self.model,
            "is in remote control": "true" if self.remote else "false",
            "PolyscopeVersion": f"URSoftware {'.'.join(map(str, self.version))}.0.0 (Feb 02 2021)",
            "robotmode": "Robotmode: RUNNING" if self.robot_mode == 7 else "Robotmode: POWER_OFF",
        }.get(line, f"could not understand: '{line}'")

    def report(self) -> dict:
        body = self.body
        percentiles = np.percentile(self.answers_s, [50, 99]) * 1e3 if self.answers_s else [0.0, 0.0]
        return body.counts | {
            "q": list(body.q),
            "moving": float(np.abs(body.qd).max()),
            "tool": list(body.tool),
            "fastest": body.fastest,
            "hardest": body.hardest,
            "session": self.int_out[24],
            "running": self.program is not None,
            "programs": self.programs,
            "payload": [self.payload_kg, *self.payload_m],
            "watchdog": self.watchdog,
            "bitten_s": self.bitten_s,
            "rest_s": self.rest_s,
            "answer_ms": list(percentiles),
            "stopped_for": self.stop,
            "log": self.log[-3:],
            "inputs": self.inputs,
        }


class Server:
    """The sockets, served in one thread between the cycles of the controller."""

    def __init__(self, controller: Controller, host: str):
        self._controller, self._clients = controller, controller.clients
        self._selector = selectors.DefaultSelector()
        for port, accept in (
            (30004, self._rtde),
            (29999, self._dashboard),
            (30002, self._script),
            (30003, self._script),
        ):
            listening = socket.create_server((host, port))
            self._selector.register(listening, selectors.EVENT_READ, lambda s, accept=accept: accept(s.accept()[0]))

    def run(self) -> None:
        due_s = time.monotonic()
        while True:
            due_s = max(due_s + CYCLE_S, time.monotonic() - BEHIND_S)
            is_due = False
            while not is_due:  # sockets are looked at once at least
                for key, _ in self._selector.select(max(0.0, due_s - time.monotonic())):
                    key.data(key.fileobj)
                is_due = time.monotonic() >= due_s
            self._controller.cycle()
            if self._controller.frozen:
                continue
            for client in self._clients:
                client.tick()

    def _rtde(self, link: socket.socket) -> None:
        client = Client(link, self._controller)
        self._clients.append(client)
        self._selector.register(link, selectors.EVENT_READ, lambda _: client.read() or self._drop(link, client))

    def _dashboard(self, link: socket.socket) -> None:
        link.sendall(b"Connected: Universal Robots Dashboard Server\n")

        def answer(_) -> None:
            if not (lines := received(link)):
                return self._drop(link)
            for line in lines.decode().splitlines():
                link.sendall(f"{self._controller.ask(line.strip())}\n".encode())

        self._selector.register(link, selectors.EVENT_READ, answer)

    def _script(self, link: socket.socket) -> None:
        text = b""

        def gather(_) -> None:
            nonlocal text
            if not (more := received(link)):
                return self._drop(link)
            text += more
            if text.endswith(b"\nend\n"):
                self._controller.start(text.decode())
                text = b""

        self._selector.register(link, selectors.EVENT_READ, gather)

    def _drop(self, link: socket.socket, client: Client | None = None) -> None:
        self._selector.unregister(link)
        link.close()
        if client is not None:
            self._clients.remove(client)


def received(link: socket.socket) -> bytes:
    try:
        return link.recv(65536)
    except OSError:
        return b""


def serve(controller: Controller) -> tuple[Server, str]:
    """At an address of this computer whose ports are free."""
    while True:
        host = f"127.{random.randint(1, 254)}.{random.randint(0, 255)}.{random.randint(1, 254)}"
        try:
            return Server(controller, host), host
        except OSError:
            continue


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", help="address of this computer that it is reached at, such as 127.0.0.5; else any")
    arguments = parser.parse_args()
    controller = Controller()
    server, host = (Server(controller, arguments.host), arguments.host) if arguments.host else serve(controller)
    threading.Thread(target=server.run, daemon=True).start()
    print(host, flush=True)
    for line in sys.stdin:
        for name, value in json.loads(line).items():
            setattr(controller, name, value)
        print(json.dumps(controller.report()), flush=True)


if __name__ == "__main__":
    main()
