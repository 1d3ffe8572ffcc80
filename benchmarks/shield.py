"""What the shield costs on a robot's computer: whole steps of each class, and its filter beside other QP solvers."""

import os
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from benchmarks.control import NEIGHBOUR_M, percentiles_us, situation
from benchmarks.turns import Progress
from deploy.shield import Context, Shield, constraint_rows, filter_command, make_shield_params, native
from deploy.shield.drone.params import make_flight_params
from deploy.shield.qp.single import solve_one
from deploy.shield.types import NO_PEERS, Obstacles
from hardware import load_robot
from hardware.types import ActuatorCommand, Peers, RobotState

STEPS = 1000  # of one measurement
RATES_HZ = (50, 200, 500)
THINGS, PEOPLE = 256, 100  # around an arm at most
APART_M = 2.7  # neighbours at this distance are in no robot's way
BELOW_CEILING_M = 0.5  # where full thrust leads through it
PROBLEMS = 64  # of one kind
BARE, BARE_TURNS = "bare loop", 6000  # about as long as the step of a drone
BIG = 1e3  # rad, a target that every limit holds back


class Problem(NamedTuple):
    """The nearest x to `request` (U,) with rows (M, U) x <= bound (M,), and the situation that it comes from."""

    rows: np.ndarray
    bound: np.ndarray
    request: np.ndarray
    context: Context


Solver = Callable[[Problem], np.ndarray]


def bench_shield(repeats: int = 5, *, on_progress: Progress) -> dict[str, Any]:
    """The shield's whole step for drones, arm and humanoid, and its filter beside OSQP and CBFpy (extra `bench`).

    Microseconds, by the wall and by CPU time, medians; and the least of them, for a busy machine.

    `step_us`: one `Shield.step`, and which share of a control period its p99 takes; without and with rows that act.
    `solve_us`: one answer of our filter, which writes its rows first, beside solvers that are given these rows.
    `bare_loop_us`: a loop without memory, measured alike: how far its p99 is above its p50 is the machine's.

    Args:
        repeats: Measurements; the median counts.
    """
    steps = {
        f"{name}, {'held back' if held_back else 'free'}": make(held_back)
        for name, make in _CASES.items()
        for held_back in (False, True)
    }
    solves: dict[str, tuple[Solver, list[Problem]]] = {}
    for name, (own, given) in {name: make() for name, make in _PROBLEMS.items()}.items():
        solves[f"{name}: filter, rows included"] = own, given
        solves |= {f"{name}: {lib}": (make(given[0]), given) for lib, make in _SOLVERS.items() if find_spec(lib)}
    calls = steps | {name: partial(_solve_kth, *each) for name, each in solves.items()} | {BARE: _bare_loop}
    times: dict[str, list[list[float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            cpu = percentiles_us(call, STEPS, clock=time.process_time_ns)
            times[name].append([*percentiles_us(call, STEPS), *cpu])
        on_progress(repeats)
    figures = {name: _figures(np.array(rows)) for name, rows in times.items()}
    return {
        "steps": STEPS,
        "core": "compiled" if native.compiled else "NumPy",
        "step_us": {name: figures[name] | _shares(figures[name]["p99"]) for name in steps},
        "solve_us": {name: figures[name] | {"violation": _violation(*each)} for name, each in solves.items()},
        "bare_loop_us": figures[BARE],
        "versions": {lib: version(lib) for lib in _SOLVERS if find_spec(lib)},
    }


def _bare_loop(k: int) -> None:
    for _ in range(BARE_TURNS):
        pass


def _figures(times: np.ndarray) -> dict[str, float]:
    names = ("p50", "p99", "max", "cpu_p50", "cpu_p99", "cpu_max")
    least = dict(zip(("least_p50", "least_p99"), times.min(axis=0).tolist(), strict=False))
    return dict(zip(names, np.median(times, axis=0).tolist(), strict=True)) | least


def _shares(p99_us: float) -> dict[str, float]:
    return {f"of_period_at_{hz}_hz": 1e-6 * p99_us * hz for hz in RATES_HZ}


def _solve_kth(solve: Solver, problems: list[Problem], k: int) -> np.ndarray:
    return solve(problems[k % len(problems)])


def _violation(solve: Solver, problems: list[Problem]) -> float:
    """How far answers break their rows at most, in the unit of the problem."""
    return max(float((each.rows @ solve(each) - each.bound).max()) for each in problems)


def _step(
    robot: str, state: RobotState, peers: Any, request: np.ndarray, held_back: bool, **around: Any
) -> Callable[[int], None]:
    """One period of the shield after another under a good request; an error where it is not as `held_back` says."""
    spec = load_robot(robot)
    shield = Shield(make_shield_params(spec), spec)
    period_s, periods = shield.params.control_dt_s, count()
    context, wanted = Context(state, peers, **around), ActuatorCommand(request.astype(np.float32))

    def step(k: int) -> None:
        period = next(periods)
        state.base_pos[0] += 0.006 if period % 2 else -0.006  # an estimate that stands still would be a frozen one
        state.base_lin_vel[0] *= -1.0
        _, report = shield.step(period * period_s, context, wanted, 0.005)
        if period > 50 and (report.intervention > 0.0) is not held_back:
            raise RuntimeError(f"{robot}: {report}")

    return step


def _drone_step(neighbours: int, held_back: bool) -> Callable[[int], None]:
    spec = load_robot("crazyflie")
    state, peers = situation(neighbours)
    if held_back and not neighbours:
        state.base_pos[2] = make_flight_params(spec).geofence_high[2] - BELOW_CEILING_M
    if not held_back:
        peers.pos = state.base_pos + (peers.pos - state.base_pos) * np.float32(APART_M / NEIGHBOUR_M)
        peers.lin_vel = np.zeros_like(peers.lin_vel)
    state.base_lin_vel[2] = 0.15  # it rises: where the height stands still, thrust is taken not to lift
    assert spec.flight is not None
    thrust = spec.command_high[0] if held_back else spec.flight.hover_thrust_n
    return _step("crazyflie", state, peers, np.array([thrust, 0.0, 0.0, 0.0]), held_back)


def _joint_step(robot: str, speed_share: float, held_back: bool, crowded: bool = False) -> Callable[[int], None]:
    """At home, at a share of each joint's speed limit: an arm that moves has to look where its links would stop."""
    state, home = _standing(robot)
    spec = load_robot(robot)
    joints = [spec.joints[index] for index in spec.joint_of_channel]
    speed = speed_share * np.array([joint.max_velocity for joint in joints])
    state.joint_vel[list(spec.joint_of_channel)] = speed
    lead_s = np.array([joint.damping / joint.stiffness for joint in joints])
    target = home + lead_s * speed + (0.5 if held_back else 0.0) * (np.arange(len(home)) % 2 * 2.0 - 1.0)
    around = _crowd() if crowded else {}
    return _step(robot, state, NO_PEERS, np.clip(target, spec.command_low, spec.command_high), held_back, **around)


def _crowd() -> dict[str, Any]:
    """As many things and people as a team file and a tracker may say there are, all out of reach."""
    rng = np.random.default_rng(0)

    def places(count: int, nearest_m: float) -> np.ndarray:
        angle, away = rng.uniform(-np.pi, np.pi, count), nearest_m + rng.uniform(0.0, 2.0, count)
        return np.stack([away * np.cos(angle), away * np.sin(angle), rng.uniform(0.0, 2.0, count)], axis=-1)

    level, ones = np.tile([1.0, 0.0, 0.0, 0.0], (THINGS, 1)), np.ones(THINGS)
    things = Obstacles(places(THINGS, 1.5), level, np.full((THINGS, 3), 0.1), 0.0 * ones, 0.0 * ones, ones > 0.0)
    people = Peers(places(PEOPLE, 4.0), np.zeros((PEOPLE, 3)), np.zeros(PEOPLE), np.ones(PEOPLE, bool))
    names = [f"thing{number}" for number in range(THINGS)]  # as a team file's have
    return {"obstacles": things, "obstacle_names": names, "people": people}


def _standing(robot: str) -> tuple[RobotState, np.ndarray]:
    """A robot at rest in its home pose, and the targets that hold it there."""
    spec = load_robot(robot)
    home = np.array([joint.home for joint in spec.joints])
    still = RobotState(
        joint_pos=home.astype(np.float32),
        joint_vel=np.zeros(len(home), np.float32),
        base_pos=np.array([0.0, 0.0, spec.home_height_m], np.float32),
        base_quat=np.array([1.0, 0.0, 0.0, 0.0], np.float32),
        base_lin_vel=np.zeros(3, np.float32),
        base_ang_vel=np.zeros(3, np.float32),
        age=np.float32(0.005),
    )
    return still, home[list(spec.joint_of_channel)]


def _drone_problems(neighbours: int) -> tuple[Solver, list[Problem]]:
    """Accelerations among neighbours that come closer from all sides, of which at least one row holds each back."""
    params, rng = make_flight_params(load_robot("crazyflie")), np.random.default_rng(0)
    given: list[Problem] = []
    while len(given) < PROBLEMS:
        context = Context(*situation(neighbours))
        assert context.state is not None
        context.state.base_lin_vel = rng.uniform(-0.5, 0.5, 3).astype(np.float32)
        rows, bound = constraint_rows(params, context)
        request = rng.uniform(-8.0, 8.0, 3)
        if (rows @ request > bound).any() and solve_one(rows, bound, request)[1]:
            given.append(Problem(rows, bound, request, context))
    return lambda each: solve_one(*constraint_rows(params, each.context), each.request)[0], given


def _joint_problems(robot: str) -> tuple[Solver, list[Problem]]:
    """Targets of all joints in motion, and the box that their filter allows in each state."""
    spec, rng = load_robot(robot), np.random.default_rng(0)
    params = make_shield_params(spec, max_power_w=1e9)  # which is no row: it depends on the answer
    most = np.array([joint.max_velocity for joint in spec.joints])
    given: list[Problem] = []
    for _ in range(PROBLEMS):
        state, home = _standing(robot)
        state.joint_vel = (0.2 * rng.normal(size=len(most)) * most).astype(np.float32)
        context, both_ways = Context(state, NO_PEERS), np.eye(len(home))
        high, low = (filter_command(params, spec, context, np.full(len(home), far))[0] for far in (BIG, -BIG))
        rows, bound = np.concatenate([both_ways, -both_ways]), np.concatenate([high, -low])
        given.append(Problem(rows, bound, rng.uniform(low - 0.2, high + 0.2), context))
    return lambda each: filter_command(params, spec, each.context, each.request)[0], given


def _daqp(like: Problem) -> Solver:
    import daqp

    identity = np.eye(len(like.request))
    return lambda each: daqp.solve(identity, -each.request, each.rows, each.bound, primal_tol=1e-9)[0]


def _osqp(like: Problem) -> Solver:
    """Set up once; then rows, bounds and request are new, and the last answer is where it starts from."""
    import osqp
    from scipy.sparse import csc_matrix

    solver, sizes = osqp.OSQP(), like.rows.shape
    quadratic, rows = csc_matrix(np.eye(sizes[1])), csc_matrix(np.ones(sizes))  # any entry may differ from zero
    below = np.full(sizes[0], -np.inf)
    solver.setup(quadratic, -like.request, rows, below, like.bound, eps_abs=1e-6, eps_rel=1e-6, verbose=False)

    def solve(each: Problem) -> np.ndarray:
        solver.update(q=-each.request, u=each.bound, Ax=each.rows.T.ravel())
        return solver.solve(raise_error=False).x

    return solve


def _cbfpy(like: Problem) -> Solver:
    """A system of one integrator: its barriers b - A z have, at z = 0, these very rows. Compiled by JAX."""
    os.environ.setdefault("JAX_ENABLE_X64", "1")  # as its README recommends for a CPU
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    import jax.numpy as jnp
    from cbfpy import CBF, CBFConfig

    size = len(like.request)

    class Rows(CBFConfig):
        def __init__(self) -> None:
            super().__init__(n=size, m=size, relax_qp=False, init_args=(like.rows, like.bound))

        def f(self, z: Any, *args: Any) -> Any:
            return jnp.zeros(size)

        def g(self, z: Any, *args: Any) -> Any:
            return jnp.eye(size)

        def h_1(self, z: Any, *args: Any) -> Any:
            return args[1] - args[0] @ z

    cbf, zero = CBF.from_config(Rows()), np.zeros(size)
    return lambda each: np.asarray(cbf.safety_filter(zero, each.request, each.rows, each.bound))


_CASES: dict[str, Callable[[bool], Callable[[int], None]]] = {
    **{f"drone, {n} neighbours": partial(_drone_step, n) for n in (0, 4, 16)},
    "arm, panda at rest": partial(_joint_step, "panda", 0.0),
    "arm, panda at 0.3 of its speed": partial(_joint_step, "panda", 0.3),
    f"arm, panda, {THINGS} things and {PEOPLE} people": partial(_joint_step, "panda", 0.3, crowded=True),
    "humanoid, g1": partial(_joint_step, "g1", 0.0),
}
_PROBLEMS: dict[str, Callable[[], tuple[Solver, list[Problem]]]] = {
    **{f"drone, {n} neighbours": partial(_drone_problems, n) for n in (4, 16)},
    "humanoid, g1": partial(_joint_problems, "g1"),  # arms look at their links besides, which is no such program
}
_SOLVERS: dict[str, Callable[[Problem], Solver]] = {"daqp": _daqp, "osqp": _osqp, "cbfpy": _cbfpy}
