"""Franka Research 3 of franky-sim, which speaks the Franka Control Interface, and what its limits say of its motion.

Runs in an environment of its own, where franky-sim is, and imports nothing of ours. Prints its address; then answers
each line of JSON, {} or {"user_stop": true}, with a line of JSON. franky-sim has no user stop of its own: what a
control unit says and does then is added here.
"""

import argparse
import json
import math
import select
import sys
import threading
import time

try:
    import numpy as np
    from franky_sim import SimulationServer
    from franky_sim.franka_robot_protocol import RobotMode
    from franky_sim.franka_robot_server import FrankaRobotServer
    from franky_sim.mujoco_simulator import MujocoSimulator
except ImportError as error:
    sys.exit(f"{error}: make franky-sim, then in tests: ../.venv-franky-sim/bin/python -m devices.franka")

STEP_S, ANSWER_S, BEHIND_S = 0.001, 0.05, 0.05
HOME = (0.0, -math.pi / 4, 0.0, -3 * math.pi / 4, 0.0, math.pi / 2, math.pi / 4)
# Franka's limits of speed near either end of a range: sqrt(b (high - q)) - a and a - sqrt(b (q - low)), see
# rate_limiting.h of libfranka, computeUpperLimitsJointVelocity and computeLowerLimitsJointVelocity.
SPEED = np.array([2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26])
A = np.array([0.30, 0.20, 0.20, 0.30, 0.35, 0.35, 0.35])
B = np.array([12.0, 5.17, 7.0, 8.0, 34.0, 11.0, 34.0])
HIGH = np.array([2.7501, 1.7918, 2.9065, -0.1458, 2.8101, 4.5205, 3.0196])
LOW = np.array([-2.7501, -1.7918, -2.9065, -3.0481, -2.8101, 0.54092, -3.0196])
# What else the control unit stops at, with a reflex: ends of the ranges and torques of
# https://frankarobotics.github.io/docs/robot_specifications.html, kMaxTorqueRate of libfranka's rate_limiting.h.
END_HIGH = np.array([2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159])
END_LOW = np.array([-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159])
TORQUE = np.array([87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0])
TORQUE_RATE = 1000.0  # N m/s


class Watch:
    """Counts steps in which the arm was faster than its limits allow, and those that would have been a reflex."""

    def __init__(self, robot):
        self.user_stop, self.moves = False, False
        self.robot, self.violations, self.reflexes, self.steps = robot, 0, 0, 0
        self.fastest = self.steepest = 0.0  # rad/s; N m/s, of a torque in motion
        self._torque = None  # of the step before, in motion

    def __call__(self, _) -> None:
        state = self.robot.inner_state
        q, dq = np.array(state.q), np.array(state.dq)
        high = np.minimum(SPEED, np.sqrt(np.maximum(0.0, B * (HIGH - q))) - A)
        low = np.minimum(SPEED, np.sqrt(np.maximum(0.0, B * (q - LOW))) - A)
        self.steps += 1
        self.violations += bool((dq > high).any() or (-dq > low).any())
        self.fastest = max(self.fastest, float(np.abs(dq).max()))
        torque, before = np.array(state.tau_j), self._torque
        rate = 0.0 if before is None else float(np.abs(torque - before).max()) / STEP_S
        jumps, self.steepest = rate > 1.001 * TORQUE_RATE, max(self.steepest, rate)
        stops = (q > END_HIGH).any() or (q < END_LOW).any() or (np.abs(torque) >= TORQUE).any() or jumps
        self.reflexes += bool(self.moves and stops)
        self._torque = torque if self.moves else None


def run(server, watch) -> None:
    """Step at 1 kHz, and catch up where the processor was not ours.

    In motion each step waits for the client's answer to the last one. A control unit does not; but here its client
    shares a few cores with it, and steps without an answer are a delay that no arm has.
    """
    (robot,) = server.robot_servers
    due_s = time.monotonic()
    while True:
        due_s = max(due_s + STEP_S, time.monotonic() - BEHIND_S)
        time.sleep(max(0.0, due_s - time.monotonic()))
        if robot.current_motion_id and (answers := robot._FrankaServer__udp_socket) is not None:
            select.select([answers], [], [], ANSWER_S)
        if watch.user_stop and robot.current_motion_id:
            robot.stop_motion()
        watch.moves = robot.current_motion_id > 0
        server.run_once(realtime=False)


def say_user_stop(watch) -> None:
    """Have the state that goes to the client carry the mode."""
    plain = FrankaRobotServer.robot_state.fget

    def state(server):
        said = plain(server)
        return said.replace(robot_mode=RobotMode.kUserStopped) if watch.user_stop else said

    FrankaRobotServer.robot_state = property(state)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with MujocoSimulator(enable_visualization=False) as simulator:
        robot = simulator.add_robot(initial_q=HOME, initial_hand_width=0.08)
        watch = Watch(robot)
        simulator.register_post_step_callback(watch)
        say_user_stop(watch)
        with SimulationServer(simulator) as server:
            threading.Thread(target=run, args=(server, watch), daemon=True).start()
            print(robot.hostname, flush=True)
            for line in sys.stdin:
                watch.user_stop = json.loads(line).get("user_stop", watch.user_stop)
                state = robot.inner_state
                said = {"q": list(state.q), "dq": list(state.dq), "width": robot.hand_width, "steps": watch.steps}
                said |= {name: getattr(watch, name) for name in ("violations", "reflexes", "fastest", "steepest")}
                print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
