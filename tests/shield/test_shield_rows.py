"""The constraint rows against brute force: what they allow never breaks the barrier, what they forbid would."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from deploy.shield import (
    Context,
    ShieldParamsError,
    constraint_rows,
    filter_command,
    make_shield_params,
    row_names,
    safe_margin,
)
from deploy.shield.drone import constraints
from deploy.shield.drone.ahead import braking_curve
from deploy.shield.drone.limits import fence_bound
from deploy.shield.drone.words import in_words
from deploy.shield.types import Obstacles
from hardware import Peers, RobotState, load_robot
from hardware.types import ObjectState

SPEC = load_robot("crazyflie")
PARAMS = make_shield_params(SPEC)
WIDE = make_shield_params(SPEC, geofence_low=(-99, -99, -99), geofence_high=(99, 99, 99))
LEVEL = np.array([1.0, 0, 0, 0])


def robot(pos, vel=(0, 0, 0), quat=LEVEL) -> RobotState:
    none = np.empty(0)
    return RobotState(none, none, np.array(pos, float), np.array(quat), np.array(vel, float), np.zeros(3), np.zeros(()))


def peers(pos, vel=None, age=0.0, valid=True) -> Peers:
    pos = np.atleast_2d(np.array(pos, float))
    vel = np.zeros_like(pos) if vel is None else np.atleast_2d(np.array(vel, float))
    return Peers(pos, vel, np.full(len(pos), age), np.full(len(pos), valid))


def barrier(params, pos, vel, peer_pos, peer_vel) -> float:
    """The barrier h by its definition, from positions and velocities at the same instant."""
    scale = np.array([1, 1, 1 / params.downwash_ratio])
    diff, diff_vel = (pos - peer_pos) * scale, (vel - peer_vel) * scale
    distance = np.linalg.norm(diff)
    reach = params.separation_m + params.buffer_m
    allowed, _ = braking_curve(np, np.array(distance - reach), 2 * params.brake_accel, params.approach_gain)
    return float(diff @ diff_vel / distance + allowed)


def test_two_robots_inside_their_halves_keep_the_barrier_and_outside_them_break_it():
    rng = np.random.default_rng(0)
    dt, tried = 1e-6, 0
    params = replace(WIDE, latency_s=1e-9)
    for _ in range(200):
        pos, peer_pos = rng.uniform(-0.6, 0.6, (2, 3)) * [1, 1, 2]
        vel, peer_vel = rng.normal(0, 0.7, (2, 3))
        if safe_margin(params, pos, peer_pos[None])[0] < 0.1:
            continue
        own = [x[0] for x in constraint_rows(params, Context(robot(pos, vel), peers(peer_pos, peer_vel)))]
        other = [x[0] for x in constraint_rows(params, Context(robot(peer_pos, peer_vel), peers(pos, vel)))]
        before = barrier(params, pos, vel, peer_pos, peer_vel)
        for accel, peer_accel in rng.normal(0, 6, (50, 2, 3)):
            after = barrier(
                params,
                pos + vel * dt,
                vel + accel * dt,
                peer_pos + peer_vel * dt,
                peer_vel + peer_accel * dt,
            )
            kept = (after - before) / dt >= -params.barrier_gain * before - 1e-3
            if own[0] @ accel <= own[1] and other[0] @ peer_accel <= other[1]:
                assert kept
                tried += 1
            # Rows give no credit for circling, so only a straight approach is forbidden exactly at the bound.
    assert tried > 500
    head_on = [robot([0, 0, 1], [0.8, 0, 0]), peers([[0.7, 0, 1]], [[-0.8, 0, 0]])]
    row, bound = (x[0] for x in constraint_rows(params, Context(*head_on)))
    before = barrier(params, np.array([0, 0, 1]), np.array([0.8, 0, 0]), np.array([0.7, 0, 1]), np.array([-0.8, 0, 0]))
    for over, kept in ((-0.01, True), (0.01, False)):
        push = (bound + over) * row * dt
        after = barrier(
            params,
            np.array([0.8 * dt, 0, 1]),
            np.array([0.8, 0, 0]) + push,
            np.array([0.7 - 0.8 * dt, 0, 1]),
            np.array([-0.8, 0, 0]) - push,
        )
        assert ((after - before) / dt >= -params.barrier_gain * before) == kept


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_braking_for_the_fence_stops_inside_it_from_any_speed_that_the_rows_allow(axis):
    for start in np.linspace(0.2, 2.5, 5):
        pos, vel, dt = np.array([0.0, 0.0, 1.5]), np.zeros(3), 0.002
        pos[axis] = PARAMS.geofence_high[axis] - start
        for _ in range(3000):
            bound = fence_bound(np, PARAMS, np.stack([pos, vel]))[0, axis]
            vel[axis] += dt * min(6.0, bound)
            pos = pos + dt * vel
            assert pos[axis] < PARAMS.geofence_high[axis] - PARAMS.fence_buffer_m + 1e-3


def test_speed_tilt_climb_and_descent_rows_mean_what_they_are_called():
    alone = Context(robot([0, 0, 1], [WIDE.max_speed, 0, 0]), peers(np.zeros((0, 3))))
    rows, bound = constraint_rows(WIDE, alone)
    named = {name: (row, limit) for name, row, limit in zip(row_names(alone), rows, bound, strict=True)}
    assert named["speed"][0] == pytest.approx([1, 0, 0]) and named["speed"][1] == pytest.approx(0.0, abs=1e-5)
    assert named["climb"][1] == WIDE.max_climb_accel and named["descent"][1] == WIDE.max_descent_accel
    rng = np.random.default_rng(1)
    for accel in rng.uniform(-6, 6, (2000, 3)):
        lift = accel + np.array([0, 0, 9.81])
        tilt = np.arctan2(np.linalg.norm(lift[:2]), lift[2])
        allowed = all(named[f"tilt_{45 * k}"][0] @ accel <= named[f"tilt_{45 * k}"][1] for k in range(8))
        # The cone has eight sides: exact in their middles, 8 % more slope at their edges.
        if tilt < WIDE.max_tilt_rad:
            assert allowed
        if np.tan(tilt) > 1.09 * np.tan(WIDE.max_tilt_rad):
            assert not allowed


def test_latency_a_moving_robot_is_judged_where_it_will_be():
    late = replace(WIDE, latency_s=0.1)
    prompt = replace(WIDE, latency_s=1e-9)
    now = constraint_rows(late, Context(robot([0, 0, 1], [1, 0, 0]), peers([1, 0, 1], [-1, 0, 0])))
    then = constraint_rows(prompt, Context(robot([0.1, 0, 1], [1, 0, 0]), peers([0.9, 0, 1], [-1, 0, 0])))
    np.testing.assert_allclose(now[1][0], then[1][0], atol=1e-6)


def test_an_old_peer_is_given_more_room_up_to_a_limit_and_padding_none():
    bounds = [
        constraint_rows(WIDE, Context(robot([0, 0, 1]), peers([0.6, 0, 1], age=age)))[1][0]
        for age in (0.0, 0.1, 0.3, 5.0)
    ]
    assert bounds[0] > bounds[1] > bounds[2] == bounds[3]
    rows, bound = constraint_rows(WIDE, Context(robot([0, 0, 1]), peers([0.01, 0, 1], valid=False)))
    assert (rows[0] == 0).all() and bound[0] > 1e3


def test_the_fence_is_shared_the_one_behind_brakes_with_the_one_in_front():
    front, behind = [2.5, 0, 1.5], [2.0, 0, 1.5]
    vel = [1.5, 0, 0]
    near = constraint_rows(PARAMS, Context(robot(behind, vel), peers(front, vel)))[1][0]
    far = constraint_rows(WIDE, Context(robot(behind, vel), peers(front, vel)))[1][0]
    assert near < far - 2.0


def test_numpy_and_torch_write_the_same_rows():
    rng = np.random.default_rng(4)
    state = robot(rng.uniform(-1, 1, 3), rng.normal(size=3), [0.98, 0.1, -0.1, 0.139])
    others = peers(rng.uniform(-1, 1, (5, 3)), rng.normal(size=(5, 3)), age=0.03)
    rows, bound = constraint_rows(PARAMS, Context(state, others))

    def batch(value):
        return type(value)(
            *(torch.as_tensor(getattr(value, name))[None].repeat_interleave(3, 0) for name in value.__slots__)
        )

    many_rows, many_bound = constraint_rows(PARAMS, Context(batch(state), batch(others)))
    assert many_rows.shape == (3, len(row_names(Context(state, others))), 3)
    np.testing.assert_allclose(many_rows[1], rows, atol=1e-12)
    np.testing.assert_allclose(many_bound[1], bound, atol=1e-12)


def test_bad_parameters_are_named():
    with pytest.raises(ShieldParamsError, match=r"unknown shield parameter 'separation'; known: .*separation_m"):
        make_shield_params(SPEC, separation=1.0)
    with pytest.raises(ShieldParamsError, match=r"barrier_gain = -1\.0: must be greater than 0"):
        make_shield_params(SPEC, barrier_gain=-1.0)
    for name in ("buffer_m", "ground_z_m", "max_speed"):
        with pytest.raises(ShieldParamsError, match=f"{name} = nan: must be finite"):
            make_shield_params(SPEC, **{name: float("nan")})
    with pytest.raises(ShieldParamsError, match=r"geofence_high = .*nan.*: must be finite"):
        make_shield_params(SPEC, geofence_high=(1.0, float("nan"), 2.0))
    with pytest.raises(ShieldParamsError, match=r"buffer_m = -0.1: must be 0 or greater"):
        make_shield_params(SPEC, buffer_m=-0.1)
    with pytest.raises(ShieldParamsError, match=r"max_tilt_rad = 3: must be at most 0\.84"):
        make_shield_params(SPEC, max_tilt_rad=3.0)
    with pytest.raises(ShieldParamsError, match="low must be below high"):
        make_shield_params(SPEC, geofence_low=(0, 0, 5))
    with pytest.raises(ShieldParamsError, match="no flight model"):
        make_shield_params(replace(SPEC, name="arm", flight=None))


def test_a_constraint_on_new_data_is_one_function(monkeypatch):
    """A ball that stands in the way, known to the shield as a tracked object, holds a drone back and is named."""

    def object_rows(ahead):
        centre = np.stack([np.asarray(thing.pos) for thing in ahead.context.objects.values()])
        away = ahead.pos - centre
        distance = np.linalg.norm(away, axis=-1)
        allowed, slope = braking_curve(np, distance - 0.4, ahead.params.brake_accel, ahead.params.approach_gain)
        opening = (away @ ahead.vel) / distance
        bound = ahead.params.barrier_gain * (opening + allowed) + slope * opening
        return -away / distance[:, None], bound

    added = constraints.Constraint(object_rows, {"object": constraints.Priority.COLLISION}, each="objects")
    monkeypatch.setattr(constraints, "CONSTRAINTS", [*constraints.CONSTRAINTS, added])
    state, request = robot([0, 0, 1], [0.8, 0, 0]), np.float32([SPEC.flight.hover_thrust_n, 0, 0.6, 0])
    no_peers = peers(np.zeros((0, 3)))
    ball = ObjectState(np.array([0.6, 0, 1]), LEVEL, np.zeros(3), np.zeros(3), np.zeros(()))
    for objects, active in (({}, []), ({"ball": ball}, ["object_0"])):
        context = Context(state, no_peers, objects)
        sent, info = filter_command(WIDE, SPEC, context, request)
        assert [row_names(context)[i] for i in np.flatnonzero(info.active)] == active
        assert bool(sent[2] < request[2]) is bool(active)


def test_a_robot_that_is_in_the_way_is_called_by_its_name():
    state, request = robot([0, 0, 1], [0.8, 0, 0]), np.float32([SPEC.flight.hover_thrust_n, 0, 0.6, 0])
    met = peers(np.array([[9.0, 9.0, 1.0], [0.6, 0.05, 1.0]]))
    _, info = filter_command(WIDE, SPEC, Context(state, met), request)
    for names, called in ((["cf2", "cf7"], ("cf7",)), ([], ("peer_1",))):
        context = Context(state, met, peer_names=names)
        assert constraints.active_names(context, info.active) == called
        assert in_words(context, info.active, called) == f"kept off {called[0]}"


def test_people_read_sentences_where_machines_read_the_names_of_rows():
    """`tilt_90` and `fence_low_z` stood in events, on /diagnostics and in reports."""
    context = Context(robot([0, 0, 1], [0, 0, 0]), peers(np.full((2, 3), 9.0)), people=peers(np.full((1, 3), 9.0)))
    context.peer_names = ["cf2", "tilt_90"]  # a robot may be called so
    names = row_names(context)

    def said(*held: str) -> str:
        active = np.isin(names, held)
        return in_words(context, active, constraints.active_names(context, active))

    assert said() == ""
    assert said("tilt_90", "tilt_315") == "held by its tilt limit"
    assert said("peer_0", "peer_1", "person_0", "fence_low_z") == (
        "kept off cf2 and tilt_90 and a person; held by the fence's lower face"
    )
    assert said("fence_high_x", "speed") == "held by the fence's +x face and its speed limit"
    assert not [key for key in names if "_" in said(key).replace("tilt_90", "") or not said(key)], "no bare identifier"


@pytest.mark.parametrize("place", range(len(constraints.CONSTRAINTS) + 1))
def test_a_constraint_that_never_acts_changes_no_answer_wherever_it_is_written(place, monkeypatch):
    """The rows of the envelope, of peers and of obstacles are found by what they are: a climb stayed limited."""

    def idle(ahead):
        return np.array([[0.6, 0.0, 0.8]]), np.array([1e5])

    climb = np.float32([2.0 * SPEC.flight.hover_thrust_n, 0, 0, 0])
    forward = np.float32([SPEC.flight.hover_thrust_n, 0, 0.6, 0])
    of_box = ([0.7, 0.05, 1.0], LEVEL, [0.1, 0.1, 0.1], 0.0, 0.0, True)
    box = Obstacles(*(np.array([value]) for value in of_box))
    state, alone, met = robot([0, 0, 1], [0.8, 0, 0]), peers(np.zeros((0, 3))), peers(np.array([[0.6, 0.05, 1.0]]))
    cases = [
        (Context(robot([0, 0, 1], [0, 0, 0]), alone), climb),
        (Context(state, met), forward),
        (Context(state, alone, obstacles=box, obstacle_names=["box"]), forward),
    ]

    def forget():
        constraints._layout.cache_clear()
        constraints.rows_of.cache_clear()

    def answers():
        forget()
        for context, request in cases:
            sent, info = filter_command(WIDE, SPEC, context, request)
            yield sent.tolist(), constraints.active_names(context, info.active)

    before = list(answers())
    assert [names for _, names in before] == [(), ("peer_0",), ("box",)]
    added = [*constraints.CONSTRAINTS]
    added.insert(place, constraints.Constraint(idle, {"idle": constraints.Priority.LIMIT}))
    monkeypatch.setattr(constraints, "CONSTRAINTS", added)
    after = list(answers())
    monkeypatch.undo()
    forget()
    for (sent, names), (expected, called) in zip(after, before, strict=True):
        np.testing.assert_allclose(sent, expected, rtol=1e-5, atol=1e-5)
        assert names == called
