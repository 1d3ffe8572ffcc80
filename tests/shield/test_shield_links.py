"""The links of arms in real physics, measured by the simulator: off themselves, the floor, boxes and people."""

import mujoco
import numpy as np
import pytest
import torch
from shield_links import CORNER, Bounds, Cell, obstacles, person

from deploy.shield import Context, Mode, filter_command, make_shield_params
from deploy.shield.joints import links
from deploy.shield.joints.arm_obstacles import arm_obstacles
from deploy.shield.joints.capsules import NEVER_NEAR_M, Pairs, between, link_rows
from deploy.shield.types import NO_PEERS, Obstacles
from hardware import Peers, RobotState, load_robot
from hardware.rotation import rotate

ROBOTS = ("panda", "ur5e")
FOLDED = {"panda": [0, -1.7, 0, -3.0, 0, 0.0, 0, 0.04], "ur5e": [0, -np.pi / 2, 3.1, -1.5, 0, 0]}
LOW = {"panda": [0, 1.7, 0, -0.5, 0, 1.6, 0, 0.04], "ur5e": [0, 0.6, 0, 0, 0, 0]}
BOX = {"panda": ((0.3, 0.32, 0.4), (0.2, 0.08, 0.4)), "ur5e": ((0.5, 0.45, 0.4), (0.2, 0.08, 0.4))}


def heavy(name: str) -> Bounds:
    """All bounds at once, with the payload that is stated for this arm."""
    return Bounds(0.012, 0.004, 2e-4, 5e-3, gains=(1.1, 0.9), payload_kg=load_robot(name).payload_kg)


def asked(name: str, what: str, home: np.ndarray) -> np.ndarray:
    """Targets that lead an arm into itself, the floor or a box beside it."""
    if what == "box":
        turned = home.copy()
        turned[0] += 1.2
        return turned
    return np.array({"itself": FOLDED, "floor": LOW}[what][name])


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("what", ["itself", "floor", "box"])
def test_an_arm_asked_to_go_into_something_stops_before_it(name, what):
    boxes = [BOX[name]] if what == "box" else []
    spec = load_robot(name)
    bare = Cell(spec, Bounds(), boxes)
    bare.run(asked(name, what, bare.home), 2.0, shielded=False)
    assert bare.least_m < -0.03  # or there would be nothing to show
    for bounds in (heavy(name),) if what == "itself" else (CORNER, heavy(name)):
        cell = Cell(spec, bounds, boxes).settled()
        start = cell.pos
        cell.run(asked(name, what, cell.home), 4.0)
        print(name, what, bounds.payload_kg, cell.least_m, cell.nearest, cell.active)
        assert cell.least_m > 0.0, cell.nearest
        assert np.abs(cell.pos - start).max() > 0.15 and cell.still()
        kind = {"itself": "links: self", "floor": "links: floor", "box": "links: obstacle"}[what]
        assert kind in cell.active
        away = cell.pos  # a way that leads nowhere nearer is free: up with the shoulder alone, and then home
        away[1] -= 0.5 * (what == "floor")
        cell.run(away, 1.0)
        cell.run(cell.home, 3.0)
        np.testing.assert_allclose(cell.pos, cell.home, atol=0.03)


@pytest.mark.parametrize("off", [1.0, -1.0])
@pytest.mark.parametrize("name", ROBOTS)
def test_an_arm_that_is_blocked_does_not_creep_by_the_error_of_its_sensors(name, off):
    """A Panda's targets followed what was measured: it crept on by 3 mm/s, through the margin and into a shelf."""
    cell = Cell(load_robot(name), Bounds(0.012, 0.004, off=off), [BOX[name]]).settled()
    into = asked(name, "box", cell.home)
    cell.run(into, 3.0)
    assert "links: obstacle" in cell.active
    stopped = cell.pos
    cell.run(into, 2.0)
    assert np.abs(cell.pos - stopped).max() < 1e-3


@pytest.mark.parametrize("name", ROBOTS)
def test_adversaries_at_the_corner_of_all_bounds_hit_nothing(name):
    spec = load_robot(name)
    for seed, hold_s in ((1, 0.3), (2, 0.8)):
        rng = np.random.default_rng(seed)
        cell = Cell(spec, heavy(name) if seed == 2 else CORNER, [BOX[name]], seed).settled()
        wild = rng.uniform(cell.low, cell.high, (100, len(cell.low)))
        cell.run(lambda t, wild=wild, hold_s=hold_s: wild[int(t / hold_s)], 6.0)
        assert cell.least_m > 0.0, cell.nearest


@pytest.mark.parametrize("name", ROBOTS)
def test_an_arm_is_at_rest_before_a_person_can_reach_it_and_goes_on_afterwards(name):
    spec = load_robot(name)
    cell = Cell(spec).settled()
    params = cell.shield.params
    swing = cell.home.copy()
    kept_m = params.person_radius_m + params.person_reach_m + params.person_error_m
    far_m, speeds, reached = 4.0, {}, []
    while far_m > 0.8:
        cell.people = person(far_m, 0.0)
        side = 1.0 if int(cell.now_s / 1.5) % 2 else -1.0
        swing[0] = cell.home[0] + 0.8 * side
        cell.run(swing, cell.dt_s)
        far_m -= params.person_speed * cell.dt_s
        speeds[far_m] = cell.speed
        if far_m < cell.ahead_m() + kept_m:
            reached.append(cell.speed)
    assert len(reached) > 20 and max(reached) < 0.01  # m/s, of any part of the arm
    assert max(speed for m, speed in speeds.items() if m > 3.0) > 0.3
    assert "links: person" in cell.active
    cell.people = NO_PEERS
    cell.run(cell.home, 3.0)
    np.testing.assert_allclose(cell.pos, cell.home, atol=0.03)


@pytest.mark.parametrize("name", ROBOTS)
def test_pairs_left_out_of_the_rows_stay_apart_in_other_poses_than_those_looked_at(name):
    spec = load_robot(name)
    rows = link_rows(spec)
    links = rows.links
    first, second = np.triu_indices(len(links.radius), 1)
    parent = np.array([-1, *links.parent])
    on, other = links.link[first], links.link[second]
    kept = set(zip(*np.split(rows.pairs.lines, 4)[:2], strict=True))
    out = (on != other) & (parent[on] != other) & (parent[other] != on)
    out &= np.array([pair not in kept for pair in zip(first, second, strict=True)])
    first, second = first[out], second[out]
    low, high = np.array(spec.command_low), np.array(spec.command_high)
    lines = links.place(np.random.default_rng(5).uniform(low, high, (8000, len(low))))
    gap = between(np, lines, Pairs.of(links, first, second)).min(-1)
    gap = gap - links.radius[first] - links.radius[second]
    assert len(first) and gap.min() > NEVER_NEAR_M / 2


@pytest.mark.parametrize("name", ROBOTS)
def test_gaps_change_no_faster_than_levers_say(name):
    spec, rng = load_robot(name), np.random.default_rng(6)
    rows = link_rows(spec)
    pos = rng.uniform(spec.command_low, spec.command_high, (4000, len(spec.channels)))
    moved = rng.normal(size=pos.shape) * (rng.random(pos.shape) < 0.4) * rng.choice([1e-3, 0.05, 0.5], (4000, 1))
    lines = [rows.links.place(each) for each in (pos, pos + moved)]
    apart, then = (between(np, each, rows.pairs) for each in lines)
    spheres = np.linalg.norm(rows.spheres @ (lines[1] - lines[0]), axis=0)
    change = np.concatenate([np.abs(then - apart), spheres])
    most = rows.levers @ np.abs(moved).T
    assert (change < most + 1e-9).all()
    assert (change > 0.9 * most)[most > 1e-3].any()  # they are not far from what happens


def sent_and_fresh(params, spec, pos, vel):
    """A request that goes on with `vel` at `pos`: what is sent of it, and what is where no gap is known; and the rows.

    Both are arrays of the command and of the rows that hold it back.
    """
    joints, still = np.zeros((2, len(spec.joints))), np.zeros(3)
    joints[:, list(spec.joint_of_channel)] = pos, vel
    context = Context(RobotState(*joints, still, np.array([1.0, 0, 0, 0]), still, still, np.zeros(())), NO_PEERS)
    target = np.clip(pos + 0.3 * vel, spec.command_low, spec.command_high)
    answers = [filter_command(each, spec, context, target) for each in (params, make_shield_params(spec))]
    return [np.concatenate([sent, info.active]) for sent, info in answers]


@pytest.mark.parametrize("name", ROBOTS)
def test_gaps_that_are_not_measured_again_change_no_command(name, monkeypatch):
    """A straight way to a random pose, fast and slowly, with every gap measured in every step, and as it is."""
    spec, rng = load_robot(name), np.random.default_rng(7)
    params, turning = make_shield_params(spec), np.array([c.unit for c in spec.channels]) == "rad"
    low, high = np.array(spec.command_low), np.array(spec.command_high)
    room, measured = links._Room, []
    monkeypatch.setattr(links, "_Room", lambda *args: measured.append(args) or room(*args))
    pos, speed, blocked = np.array(spec.home_target), 1.0, 0
    for step in range(600):
        if step % 40 == 0:
            aim, speed = rng.uniform(low, high), (0.005, 0.3, 3.0)[step // 40 % 3]
        vel = np.clip(aim - pos, -0.7, 0.7) * speed * turning
        sent, fresh = sent_and_fresh(params, spec, pos, vel)
        np.testing.assert_array_equal(sent, fresh)
        blocked += sent[-4:].any()
        pos = pos + 0.02 * vel
    assert blocked > 20 and 600 < len(measured) < 1150  # of 1200


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_a_gap_is_measured_again_before_it_is_used_up(name):
    """One joint leaps to where links come too near, from ever further off: what is known from there is not enough."""
    spec, rng = load_robot(name), np.random.default_rng(8)
    home = np.array(spec.home_target)
    leaps = 0
    for _ in range(90):
        step = np.zeros(len(home))
        step[rng.integers(4)] = rng.choice([-0.08, 0.08])
        way = [np.clip(home + rng.normal(0.0, 0.5, home.shape), spec.command_low, spec.command_high)]
        while len(way) < 16 and not sent_and_fresh(make_shield_params(spec), spec, way[-1], 0.1 * step)[0][-4:].any():
            way.append(np.clip(way[-1] + step, spec.command_low, spec.command_high))
        for before in way[:-1] if len(way) < 16 else ():
            params, leaps = make_shield_params(spec), leaps + 1
            for pos in (before, way[-1]):
                sent, fresh = sent_and_fresh(params, spec, pos, 0.1 * step)
                np.testing.assert_array_equal(sent, fresh)
    assert leaps > 50


@pytest.mark.parametrize("what", ["obstacle", "person"])
def test_what_is_no_number_stops_the_arm(what):
    spec = load_robot("panda")
    params = make_shield_params(spec)
    home = np.array(spec.home)
    state = RobotState(home, np.zeros(8), *np.zeros((1, 3)), np.array([1.0, 0, 0, 0]), *np.zeros((2, 3)), np.zeros(()))
    target = np.float32(home + 0.005 * (np.arange(8) < 7))
    context = Context(state, NO_PEERS)
    assert filter_command(params, spec, context, target)[1].intervention == 0.0
    if what == "obstacle":
        context.obstacles = obstacles([((np.nan, 0.0, 0.0), (0.1, 0.1, 0.1))])
    else:
        context.people = person(np.nan, 0.0)
    sent, info = filter_command(params, spec, context, target)
    np.testing.assert_allclose(sent[:7], home[:7], atol=1e-6)
    assert info.active[-2:].any()


@pytest.mark.parametrize("name", ROBOTS)
def test_another_arm_is_given_as_the_simulator_has_its_links(name):
    """Bolted down elsewhere and turned: middles, axes, radii and speeds of its capsules."""
    spec = load_robot(name)
    model = mujoco.MjModel.from_xml_path(str(spec.mjcf))
    data, rng = mujoco.MjData(model), np.random.default_rng(3)
    base, turn = np.array([0.4, -1.0, 0.2]), np.array([0.8, 0.0, 0.0, 0.6])
    low, high = (np.array([getattr(joint, side) for joint in spec.joints]) for side in ("low", "high"))
    pos, vel = rng.uniform(low, high), rng.uniform(-1.0, 1.0, len(low))
    for joint, at, speed in zip(spec.joints, pos, vel, strict=True):
        data.joint(joint.name).qpos, data.joint(joint.name).qvel = at, speed
    mujoco.mj_forward(model, data)
    found = arm_obstacles(spec, RobotState(pos, vel, base, turn, *np.zeros((2, 3)), np.zeros(())))
    shapes = [i for i in range(model.ngeom) if model.geom_type[i] == mujoco.mjtGeom.mjGEOM_CAPSULE]
    assert shapes
    for shape in shapes:
        middle = rotate(turn, data.geom_xpos[shape]) + base
        index = int(np.linalg.norm(found.pos - middle, axis=-1).argmin())
        np.testing.assert_allclose(found.pos[index], middle, atol=1e-9)
        along = rotate(turn, data.geom_xmat[shape].reshape(3, 3)[:, 2])
        assert abs(rotate(found.quat[index], np.array([0.0, 0.0, 1.0])) @ along) == pytest.approx(1.0)
        assert found.radius[index] == pytest.approx(model.geom_size[shape, 0])
        assert found.half[index, 2] == pytest.approx(model.geom_size[shape, 1], abs=1e-5)
        moving = np.zeros(6)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_GEOM, shape, moving, 0)
        assert found.speed[index] > np.linalg.norm(moving[3:]) - 1e-3


@pytest.mark.parametrize("name", ROBOTS)
def test_a_batch_in_torch_is_slowed_down_as_each_robot_in_numpy(name):
    spec, count = load_robot(name), 64
    params, rng = make_shield_params(spec), np.random.default_rng(4)
    low, high = np.array(spec.command_low), np.array(spec.command_high)
    pos, target = rng.uniform(low, high, (count, len(low))), rng.uniform(low, high, (count, len(low)))
    vel = rng.normal(0.0, 0.5, pos.shape) * (np.array([c.unit for c in spec.channels]) == "rad")
    base, turn = np.zeros((count, 3)), np.tile([0.8, 0.0, 0.0, 0.6], (count, 1))
    fields = (pos, vel, base, turn, base, base, np.full(count, 0.002))
    things, people = obstacles([BOX[name], ((-0.5, 0.0, 0.3), (0.1, 0.3, 0.3))]), person(1.8, 0.5)
    each = {field: torch.as_tensor(getattr(things, field)) for field in Obstacles.__slots__}
    everyone = {field: torch.as_tensor(getattr(people, field)) for field in Peers.__slots__}
    before = pos + rng.normal(0.0, 1e-3, pos.shape)  # near enough to rest there, and not
    batch = Context(RobotState(*map(torch.as_tensor, fields)), NO_PEERS, sent=torch.as_tensor(before))
    batch.obstacles = Obstacles(**{k: v.expand(count, *v.shape) for k, v in each.items()})
    batch.people = Peers(**{k: v.expand(count, *v.shape) for k, v in everyone.items()})
    sent, info = filter_command(params, spec, batch, torch.as_tensor(target))
    slowed = 0
    for i in range(count):
        state = RobotState(*(field[i] for field in fields))
        context = Context(state, NO_PEERS, people=people, obstacles=things, sent=before[i])
        one, single = filter_command(params, spec, context, target[i])
        np.testing.assert_allclose(sent[i].numpy(), one, atol=1e-9)
        np.testing.assert_array_equal(info.active[i].numpy(), single.active)
        slowed += single.active[-4:].any()
    assert slowed > 10


@pytest.mark.parametrize("field", ["people", "obstacles"])
@pytest.mark.parametrize("bad", [None, np.zeros(3), "nan"])
def test_people_and_obstacles_that_cannot_be_read_hold_the_arm(field, bad):
    cell = Cell(load_robot("ur5e"), Bounds()).settled()
    if field == "obstacles" and bad is None:
        return  # without obstacles nothing is said of them
    wrong = {"people": person(np.nan, 0.0), "obstacles": obstacles([((np.nan, 0, 0), (0.1, 0.1, 0.1))])}[field]
    setattr(cell, field, wrong if isinstance(bad, str) else bad)
    cell.run(cell.home + 0.2, 0.4)
    assert cell.modes[-1] is Mode.HOLD and cell.still()
