"""The compiled core of the shield: the numbers of NumPy."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from deploy.shield import Context, constraint_rows, filter_command, make_shield_params
from deploy.shield import native as shield_core
from deploy.shield.drone import compiled, constraints
from deploy.shield.drone import filter as drone_filter
from deploy.shield.drone.apart import NO_LIMIT
from deploy.shield.drone.constraints import climb_row, row_counts
from deploy.shield.joints import compiled as joint_compiled
from deploy.shield.joints import filter as joint_filter
from deploy.shield.joints.capsules import between, link_rows
from deploy.shield.types import Obstacles, Sharing
from hardware import Peers, RobotState, load_robot

SPEC = load_robot("crazyflie")
PARAMS = make_shield_params(SPEC)
WIDE = make_shield_params(SPEC, geofence_low=(-2.0, -2.5, 0.2), max_speed=0.7, downwash_ratio=3.0, stops_alone=True)
ASK = compiled.ask_core
ODD = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e8, -1e8, 1e160, 1e-300])


@pytest.fixture
def both(core, monkeypatch):
    """Answers of the filter, by NumPy and by the core, and whether the core had one."""

    def ask(params, spec, context, target):
        answers = []
        for module in (None, core):
            monkeypatch.setattr(shield_core, "compiled", module)
            with np.errstate(all="ignore"):
                answers.append(filter_command(params, spec, context, target))
        return answers

    return ask


def situation(rng: np.random.Generator, peers: int, span_m: float, dtype=np.float32) -> Context:
    """A drone anywhere, also outside its fence, calm or tumbling, among peers of any age."""
    wild = rng.choice([0.05, 1.0])
    none, quat = np.zeros(0, dtype), np.array([1.0, 0, 0, 0]) + wild * rng.normal(size=4)
    pos = rng.uniform(-1, 1, 3) * [span_m, span_m, 1.5] + [0, 0, 1.5]
    state = RobotState(
        none,
        none,
        pos.astype(dtype),
        (quat / np.linalg.norm(quat)).astype(dtype),
        rng.normal(0, wild, 3).astype(dtype),
        rng.normal(0, 2.0 * wild, 3).astype(dtype),
        dtype(rng.uniform(0, 0.05)),
    )
    others = Peers(
        (pos + rng.normal(0, span_m, (peers, 3))).astype(dtype),
        rng.normal(0, 1.0, (peers, 3)).astype(dtype),
        rng.choice([-0.01, 0.0, 0.01, 0.03, 0.05, 0.11, 0.29, 0.3, 0.6], peers).astype(dtype),
        rng.random(peers) < 0.8,
    )
    sharing = Sharing(rng.random(peers) < 0.7, rng.choice([0.0, 0.2, 0.5], peers))
    return Context(state, others, sharing=sharing if rng.random() < 0.5 else None)


def request(rng: np.random.Generator) -> np.ndarray:
    """As a share of the thrust of hover, and rad/s."""
    return rng.uniform(*rng.choice([[[0, -7, -7, -7], [2.5, 7, 7, 7]], [[0.9, 0, 0, -1], [1.1, 0, 0, 1]]])).astype(
        np.float32
    )


def same(numpy, core) -> None:
    """To the last bits of a command, and the rest to 1e-9; what is no number is the same."""
    (expected, info), (sent, its) = numpy, core
    assert sent.dtype == expected.dtype and its.active.shape == info.active.shape
    np.testing.assert_allclose(sent, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(its.margin, info.margin, rtol=1e-12)
    np.testing.assert_allclose(its.intervention, info.intervention, rtol=1e-9, atol=1e-9)
    assert its.feasible == info.feasible and (its.active == info.active).all()


def test_rows_are_those_of_numpy_to_the_last_digits(core, monkeypatch):
    monkeypatch.setattr(shield_core, "compiled", core)
    rng = np.random.default_rng(0)
    for number in range(1000):
        dtype = np.float64 if number % 5 == 0 else np.float32
        context = situation(rng, number % 20, 10.0 ** rng.uniform(-2, 1.5), dtype)
        params = (PARAMS, WIDE)[number % 2]
        found = compiled.ask_core(params, SPEC, context, request(rng))
        rows, bound = constraint_rows(params, context)
        np.testing.assert_allclose(found.rows, rows, rtol=1e-12, atol=1e-13)
        climb = climb_row(row_counts(context))
        if found.bound[climb] == NO_LIMIT:  # the filter takes it away where nothing is near
            bound[climb] = NO_LIMIT
        np.testing.assert_allclose(
            found.bound, bound, rtol=1e-12, atol=1e-12 * (1.0 + np.abs(bound[bound < 1e6]).max())
        )


@pytest.mark.parametrize("robot", ["crazyflie", "x500"])
def test_answers_of_the_filter_are_those_of_numpy(both, robot):
    spec, rng = load_robot(robot), np.random.default_rng(2)
    kinds, held_back, infeasible = [make_shield_params(spec, max_speed=speed) for speed in (2.5, 0.7)], 0, 0
    for number in range(1000):
        params = kinds[number % 2]
        context = situation(
            rng, number % 9, 10.0 ** rng.uniform(-0.5, 0.7), np.float64 if number % 5 == 0 else np.float32
        )
        target = request(rng)
        target[0] *= spec.flight.hover_thrust_n
        answers = both(params, spec, context, target)
        same(*answers)
        held_back += answers[1][1].intervention > 0.0
        infeasible += not answers[1][1].feasible
    assert 300 < held_back < 960 and infeasible > 100


def test_what_it_has_no_answer_to_numpy_answers(both, core, monkeypatch):
    """Numbers that are none, more peers than it has room for, types that it does not know, people and obstacles."""
    rng, answered, given = np.random.default_rng(1), [], []
    monkeypatch.setattr(compiled, "ask_core", lambda *args: answered.append(found := ASK(*args)) or found)
    monkeypatch.setattr(drone_filter, "ask_core", compiled.ask_core)
    for number in range(1000):
        context, target = (
            situation(rng, int(rng.integers(0, 8)), 1.0, (np.float32, np.float64)[number % 2]),
            request(rng),
        )
        state, peers = context.state, context.peers
        fields = [state.base_pos, state.base_quat, state.base_lin_vel, state.base_ang_vel, target]
        fields += [peers.pos, peers.lin_vel, peers.age]
        fields += [] if context.sharing is None else [context.sharing.separation_m]
        for _ in range(rng.integers(1, 4)):
            field = fields[rng.integers(0, len(fields))].reshape(-1)
            if len(field):
                with np.errstate(over="ignore"):
                    field[rng.integers(0, len(field))] = rng.choice(ODD)
        try:
            answers = both(PARAMS, SPEC, context, target)
        except (ValueError, OverflowError):  # NumPy's: it has no answer to an own state that is not finite either
            monkeypatch.setattr(shield_core, "compiled", core)
            assert ASK(PARAMS, SPEC, context, target) is None
            continue
        given.append(answered[-1] is not None)
        if given[-1]:
            same(*answers)
        else:
            np.testing.assert_array_equal(answers[1][0], answers[0][0])
    assert 200 < sum(given) < len(given) - 200
    answered.clear()
    many, people, boxes = situation(rng, 70, 1.0), situation(rng, 2, 1.0), situation(rng, 2, 1.0)
    people.people = people.peers
    flat, ones = np.tile([1.0, 0, 0, 0], (1, 1)), np.ones(1)
    boxes.obstacles = Obstacles(np.ones((1, 3)), flat, np.ones((1, 3)), 0 * ones, 0 * ones, ones > 0)
    sparse, whole = situation(rng, 8, 1.0), situation(rng, 3, 1.0)
    sparse.peers.pos = np.repeat(sparse.peers.pos, 2, axis=1)[:, ::2]
    whole.peers.age = np.zeros(3, int)
    for context in (many, people, boxes, sparse, whole):
        same(*both(PARAMS, SPEC, context, request(rng)))
    assert answered == [None] * 10
    whole = situation(rng, 3, 1.0)
    both(PARAMS, SPEC, whole, request(rng).astype(np.float64))
    assert answered[-1] is None


def joints_in_motion(rng: np.random.Generator, spec, dtype) -> tuple[Context, np.ndarray]:
    """Joints anywhere in their range and a little beyond, at any speed, with or without a load and a target before."""
    index = list(spec.joint_of_channel)
    low, high = (np.array([getattr(joint, side) for joint in spec.joints]) for side in ("low", "high"))
    fastest = np.array([joint.max_velocity for joint in spec.joints])
    effort = np.array([spec.joints[number].max_effort for number in index])
    pos = low + (high - low) * np.clip(rng.uniform(-0.1, 1.1, len(low)), -0.02, 1.02)
    vel = rng.choice([0.0, 0.1, 1.0]) * fastest * rng.uniform(-1.2, 1.2, len(low))
    base = np.array([0.0, 0.0, spec.home_height_m]), np.array([1.0, 0, 0, 0]), np.zeros(3), np.zeros(3)
    state = RobotState(*(each.astype(dtype) for each in (pos, vel, *base)), dtype(rng.uniform(0, 0.04)))
    context = Context(state, Peers(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0), np.zeros(0, bool)))
    near = pos[index] + rng.choice([0.0, 0.02, 0.5]) * rng.normal(size=len(index))
    if rng.random() < 0.6:
        context.load = rng.choice([0.01, 0.3, 2.0]) * effort * rng.uniform(-1, 1, len(index))
    if rng.random() < 0.6:
        context.sent = (near + 0.05 * rng.normal(size=len(index))).astype(np.float32)
    return context, near.astype(np.float32)


@pytest.mark.parametrize("robot", ["panda", "ur5e", "g1"])
def test_targets_of_joints_are_those_of_numpy(both, robot, monkeypatch):
    spec, rng = load_robot(robot), np.random.default_rng(5)
    kinds = [make_shield_params(spec, **given) for given in ({}, {"max_power_w": 5.0}, {"pickup_share": 0.0})]
    by_core, answered, kept = joint_filter._by_core, [], 0
    monkeypatch.setattr(joint_filter, "_by_core", lambda *args: answered.append(found := by_core(*args)) or found)
    for number in range(600):
        context, target = joints_in_motion(rng, spec, (np.float32, np.float64)[number % 2])
        answers = both(kinds[number % 3], spec, context, target)
        same(*answers)
        kept += answers[1][1].intervention == 0.0
    assert all(found is not None for found in answered[1::2]) and 0 < kept < 590
    for number in range(600):
        context, target = joints_in_motion(rng, spec, np.float32)
        fields = [context.state.joint_pos, context.state.joint_vel, target, context.load, context.sent]
        for field in [fields[number] for number in rng.integers(0, 5, 2) if fields[number] is not None]:
            with np.errstate(over="ignore"):
                field[rng.integers(0, len(field))] = rng.choice(ODD)
        numpy, core = both(kinds[number % 3], spec, context, target)
        np.testing.assert_allclose(core[0], numpy[0], rtol=1e-6, atol=1e-6)
    given = [found is not None for found in answered[1201::2]]
    assert 60 < sum(given) < 540


@pytest.mark.parametrize("robot", ["panda", "ur5e", "fr3"])
def test_links_and_their_gaps_are_those_of_numpy(core, robot, monkeypatch):
    monkeypatch.setattr(shield_core, "compiled", core)
    spec, rng = load_robot(robot), np.random.default_rng(6)
    rows = link_rows(spec)
    for number in range(200):
        poses = rng.uniform(-3.2, 3.2, (1 + number % 20, len(spec.channels)))
        lines = rows.links.place(poses)
        np.testing.assert_allclose(joint_compiled.place_of_core(rows, poses), lines, rtol=0, atol=1e-14)
        apart = between(np, lines, rows.pairs)
        np.testing.assert_allclose(joint_compiled.gaps_of_core(rows, lines), apart, rtol=0, atol=1e-14)
        up = rng.normal(size=4).tolist()
        points = rows.spheres @ lines  # (3, K, N)
        above = np.tensordot(up[:3], points, 1) + up[3] - rows.radius[:, None]
        np.testing.assert_allclose(joint_compiled.heights_of_core(rows, lines, up), above, rtol=0, atol=1e-14)
    poses[0, 0], lines[0, 0, 0] = np.nan, np.inf
    assert joint_compiled.place_of_core(rows, poses) is joint_compiled.gaps_of_core(rows, lines) is None
    assert joint_compiled.heights_of_core(rows, lines, up) is None
    assert joint_compiled.place_of_core(rows, np.zeros((65, len(spec.channels)))) is None


def test_a_constraint_that_was_added_is_not_left_out(both, monkeypatch):
    def still(ahead):
        return np.array([[0.0, 0.0, 1.0]]), np.array([-3.0])

    rng = np.random.default_rng(3)
    context, target = situation(rng, 0, 0.1), np.array([SPEC.flight.hover_thrust_n, 0, 0, 0], np.float32)
    context.state.base_quat[:], context.state.base_lin_vel[:], context.state.base_ang_vel[:] = [1, 0, 0, 0], 0, 0
    assert both(PARAMS, SPEC, context, target)[1][1].intervention == 0.0
    added = constraints.Constraint(still, {"still": constraints.Priority.LIMIT})
    monkeypatch.setattr(constraints, "CONSTRAINTS", [*constraints.CONSTRAINTS, added])
    constraints._layout.cache_clear()
    numpy, core = both(PARAMS, SPEC, context, target)
    assert core[0][0] < 0.8 * target[0] and (core[0] == numpy[0]).all()


def test_a_constraint_written_into_the_list_is_not_left_out():
    """As CONTRIBUTING says that one is added: the core, which does not know it, must not answer without it."""
    last = "    Constraint(envelope_rows,"
    source = Path(constraints.__file__).read_text()
    edited = ModuleType("edited")
    exec(source.replace(last, f"    Constraint(fence_rows, _FENCE),\n{last}"), vars(edited))
    assert len(edited.CONSTRAINTS) == len(constraints.CONSTRAINTS) + 1
    assert constraints.are_shipped() and not edited.are_shipped()


def test_wrong_arguments_are_refused_and_nothing_is_written(core):
    """Whatever the order of arrays, and whatever they are, memory is only touched where it belongs to them."""
    rng = np.random.default_rng(4)
    written = [np.full(shape, 7.0, kind) for shape, kind in (((19, 3), "d"), (19, "d"), (4, "f"), (14, "d"))]
    numbers, three, four = np.zeros(138), np.zeros(3), np.ones(4)
    good = [numbers, three, four, three, three, np.zeros(()), *[np.zeros((2, 3))] * 2, np.zeros(2), np.ones(2, bool)]
    good += [None, None, np.zeros(4, np.float32), *written]
    odd = [
        None,
        "pos",
        1.0,
        b"x" * 456,
        three,
        np.zeros((2, 3), int),
        np.ones((3, 2)).T,
        np.zeros(2, ">f8"),
        np.zeros(0),
        np.zeros(3, "V0"),
    ]
    for place in range(len(good)):
        for wrong in odd:
            if not (place in (1, 3, 4) and wrong is three) and not (place in (10, 11) and wrong is None):
                assert core.flight_request(*good[:place], wrong, *good[place + 1 :]) is None, (place, wrong)
    for _ in range(2000):
        core.flight_request(*rng.permutation(np.array([*good, *odd, None], object)[:-1])[: rng.integers(0, 19)])
        core.joint_targets(*rng.permutation(np.array([*good, *odd, None], object)[:-1])[: rng.integers(0, 12)])
        core.place_links(*rng.permutation(np.array([*good, *odd, None], object)[:-1])[: rng.integers(0, 6)])
        core.link_gaps(*rng.permutation(np.array([*good, *odd, None], object)[:-1])[: rng.integers(0, 6)])
        core.sphere_heights(*rng.permutation(np.array([*good, *odd, None], object)[:-1])[: rng.integers(0, 6)])
        core.flight_command(*rng.permutation(np.array([*good, *odd, None], object)[:-1])[: rng.integers(0, 9)])
    for nothing in (np.zeros(3, "V0"), np.zeros(7, "V0")):
        assert core.place_links(np.zeros((7, 38)), np.zeros((9, 7)), nothing, three) is None
        assert core.link_gaps(nothing, np.zeros((2, 4)), three, nothing) is None
        assert core.sphere_heights(nothing, three, four, nothing) is None
    assert core.flight_request() is core.flight_command() is core.joint_targets() is None
