"""MuJoCo Warp moves robots as MuJoCo does, as far as single precision goes, and keeps the promises of `Physics`.

Free flight and an arm in the air stay together; where feet touch the ground small differences grow, and what counts
is that most worlds stay together. Tolerances are about ten times what was measured on one machine.
"""

import sys

import mujoco
import pytest
import torch
from one_group import make_env
from twins import ALL, WORLDS, Twins

from sim.physics import EngineError
from sim.physics.warp import capacity as warp_capacity
from sim.physics.warp import engine as warp_engine
from sim.physics.warp import setup as warp_setup
from sim.physics.warp.physics import WarpPhysics
from sim.scenes.scene import Scene

pytestmark = pytest.mark.slow  # it compiles


# Worst world after 1, 10 and 50 control steps; measured: 1e-7, 5e-7, 1e-4; 2e-7, 6e-7, 2e-6; 5e-7, 1e-6, 3e-5.
@pytest.mark.parametrize(
    "task, worst",
    [("hover", (2e-6, 1e-5, 1e-3)), ("swarm-swap", (2e-6, 1e-5, 1e-4)), ("reach", (5e-6, 1e-5, 3e-4))],
)
def test_in_the_air_both_engines_agree(task, worst):
    twins = Twins(task)
    for count, bound in zip((1, 9, 40), worst, strict=True):
        twins.go(count)
        assert float(twins.apart().max()) < bound
    assert float((twins.both[1].now(twins.columns) - torch.cat(twins.start[:2], dim=1)).abs().max()) > 0.1


def test_on_its_feet_most_worlds_stay_together():
    twins = Twins("stand")
    twins.go(1)
    assert float(twins.apart().max()) < 1e-5  # measured: 7e-7
    twins.go(9)
    assert float(twins.apart().median()) < 1e-5  # 7e-7
    twins.go(40)
    assert float(twins.apart().median()) < 1e-3  # 2e-5
    assert twins.both[1].finite().all()


@pytest.mark.parametrize("task", ["bimanual-lift", "payload-lift"])
def test_grasps_and_cables(task):
    twins = Twins(task)
    twins.go(10)
    assert float(twins.apart().median()) < 1e-4  # measured: 5e-7


@pytest.mark.parametrize(
    "task, terms, most",
    [
        ("hover", {"mass": {"scale": (0.7, 1.3)}, "centre_of_mass": {"shift_m": (-0.01, 0.01)}}, 5e-5),
        ("hover", {"base_mass": {"add_kg": (0.0, 0.01)}, "motor_failure": {"probability": 0.5}}, 5e-4),
        ("reach", {"gains": {"stiffness": (0.5, 1.5), "damping": (0.5, 1.5)}, "armature": {"scale": (0.5, 2.0)}}, 2e-5),
        ("reach", {"joint_friction": {"scale": (0.0, 3.0)}, "motor_strength": {"scale": (0.2, 0.5)}}, 2e-5),
        ("stand", {"mass": {"scale": (0.8, 1.2)}, "friction": {"scale": (0.1, 0.5)}}, 2e-5),
    ],
)
def test_worlds_that_differ_agree_too(task, terms, most):
    same, twins = Twins(task), Twins(task)
    twins.change(terms)
    for each in (same, twins):
        each.go(10)
    differs = (same.both[0].now(same.columns) - twins.both[0].now(same.columns)).abs().amax(dim=1)
    assert float(twins.apart().median()) < most < 0.1 * float(differs.max())


def test_a_gust_and_a_push_move_both_alike():
    twins = Twins("hover")
    force = torch.zeros(WORLDS, 6, dtype=torch.float64)
    force[:, 0] = torch.linspace(0.0, 0.05, WORLDS)
    some = torch.tensor([2, 5])
    for physics in twins.both:
        physics.add_velocity(some, torch.tensor([0, 1]), torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    before, now = twins.start[1][2, 0], twins.both[1].now(torch.tensor(twins.nq))[2]
    assert float(now - before) == pytest.approx(1.0, abs=1e-6)
    assert torch.equal(twins.both[1].recall(some, torch.zeros(2, 1).long(), torch.tensor([[twins.nq]]))[0, 0, 0], now)
    twins.go(5, force)
    twins.go(1)  # without wind again
    assert float(twins.apart().max()) < 1e-4
    assert float(twins.both[1].now(torch.tensor(0))[-1] - twins.start[0][-1, 0]) > 0.02


def test_it_remembers_two_control_steps():
    twins = Twins("swarm-swap")
    twins.go(3)
    some = torch.tensor([1, 4, 7])
    ago = torch.arange(3 * 4).view(3, 4) % (2 * twins.steps)
    columns = twins.columns[: 4 * 13].view(4, 13)
    native, warp = (physics.recall(some, ago, columns) for physics in twins.both)
    assert warp.shape == (3, 4, 13)
    torch.testing.assert_close(warp, native, atol=1e-4, rtol=0)
    now = twins.both[1].recall(ALL, torch.zeros(WORLDS, 1, dtype=torch.long), twins.columns[None])
    assert torch.equal(now[:, 0], twins.both[1].now(twins.columns))


def test_a_world_that_blew_up_is_told_and_starts_again_without_touching_others(capfd):
    twins = Twins("stand")
    broken, whole = twins.another(), twins.another()
    one, ctrls = torch.tensor([3]), twins.controls(7)
    for physics in (broken, whole):
        for ctrl in ctrls[:2]:
            physics.step(ctrl)
    broken.reset(one, twins.start[0][one] * torch.nan, twins.start[1][one], twins.start[2][one])
    broken.add_velocity(torch.tensor([5]), torch.arange(twins.nv), torch.full((1, twins.nv), 1e6))
    for physics in (broken, whole):
        physics.step(ctrls[2])
    assert [world for world, fine in enumerate(broken.finite()) if not fine] == [3, 5]
    for physics in (broken, whole):
        two = torch.tensor([3, 5])
        physics.reset(two, *(part[two] for part in twins.start))
        assert torch.equal(
            physics.recall(two, torch.tensor([[2 * twins.steps - 1]] * 2), twins.columns[None])[:, 0],
            torch.cat([part[two] for part in twins.start[:2]], dim=1).float(),
        )
        for ctrl in ctrls[3:]:
            physics.step(ctrl)
    assert torch.equal(broken.now(twins.columns), whole.now(twins.columns))
    assert "room" not in capfd.readouterr().err  # a world that is lost needs none


def test_a_saved_state_continues_bitwise():
    twins = Twins("stand")
    twins.go(3)
    twins.change({"mass": {"scale": (0.8, 1.2)}, "friction": {"scale": (0.3, 1.0)}})
    first, second = twins.both[1], twins.another()
    second.set_field("dof_armature", ALL, torch.arange(6, 10), torch.ones(WORLDS, 4))  # what was not saved is nominal
    second.step(twins.controls(1)[0])
    saved = first.state_dict()
    second.load_state_dict(saved)
    everything = torch.full((WORLDS, 1), twins.steps), twins.columns[None]
    assert torch.equal(second.recall(ALL, *everything), first.recall(ALL, *everything))
    for ctrl in twins.controls(10, seed=1):
        for physics in (first, second):
            physics.step(ctrl)
    assert torch.equal(first.now(twins.columns), second.now(twins.columns))


def test_too_small_a_capacity_for_contacts_is_reported_and_changes_nothing(monkeypatch, capfd):
    twins = Twins("stand")
    monkeypatch.setattr(warp_engine, "initial_capacity", lambda model: warp_capacity.Capacity(contacts=1, rows=16))
    small = twins.another()
    for ctrl in twins.controls(3):
        for physics in (small, twins.both[1]):
            physics.step(ctrl)
    told = [line for line in capfd.readouterr().err.splitlines() if "contacts" in line]
    assert told and "1 contacts and 16 rows" in told[0] and all(line.startswith("MuJoCo Warp: ") for line in told)
    assert torch.equal(small.now(twins.columns), twins.both[1].now(twins.columns))


def scene_of(xml: str) -> Scene:
    return Scene(mujoco.MjModel.from_xml_string(xml), (), ())


BOX = "<mujoco>{}<worldbody><body><joint name='j'/><geom size='.1'/></body></worldbody>{}</mujoco>"


@pytest.mark.parametrize(
    "scene, named",
    [
        (BOX.format("<option><flag sleep='enable'/></option>", ""), "fall asleep"),
        (BOX.format("", "<actuator><motor joint='j' nsample='4' delay='0.01'/></actuator>"), "delayed"),
        (BOX.format("<option jacobian='dense' noslip_iterations='3' integrator='discrete'/>", ""), "noslip"),
    ],
)
def test_what_is_not_supported_is_named_in_one_line(scene, named):
    with pytest.raises(EngineError, match=named) as refused:
        WarpPhysics(scene_of(scene), 2, 1)
    assert "\n" not in str(refused.value) and "mujoco" in str(refused.value)


GROUND = """<mujoco><asset><hfield name="ground" nrow="3" ncol="3" size="1 1 0.5 0.1"/></asset><worldbody>
<geom type="hfield" hfield="ground"/>
<body pos="0 0 0.6"><freejoint/><geom size="0.1" mass="1"/></body></worldbody></mujoco>
"""


def test_every_world_has_a_ground_of_its_own():
    scene, shares = scene_of(GROUND), torch.linspace(0.0, 0.8, 3)
    physics = WarpPhysics(scene, 3, 20)
    physics.step(torch.zeros(3, 20, 0))
    physics.set_heights(torch.arange(3), shares.double().unsqueeze(-1).expand(3, 9))
    for _ in range(50):
        physics.step(torch.zeros(3, 20, 0))
    torch.testing.assert_close(physics.now(torch.tensor(2)), 0.5 * shares + 0.1, atol=2e-3, rtol=0)
    with pytest.raises(EngineError, match="has 0"):
        WarpPhysics(scene_of(BOX.format("", "")), 2, 1).set_heights(torch.arange(2), torch.zeros(2, 4))


def test_on_uneven_ground_both_engines_stand_alike():
    native, warp = (
        make_env("velocity-rough", 64, seed=0, engine=engine, device="cpu") for engine in ("mujoco", "warp")
    )
    rewards = []
    for env in (native, warp):
        idle = torch.zeros(64, 1, env.action_dim)
        rewards.append(torch.stack([env.step(idle)[1].mean() for _ in range(20)]))
    assert float((rewards[0] - rewards[1]).abs().max()) < 0.1 * float(rewards[0].abs().max())


def test_what_cannot_be_had_is_said_in_one_line(monkeypatch):
    scene = scene_of(BOX.format("", ""))
    for device, message in [("gpu", "'gpu'.*'cpu', 'cuda'"), ("cuda:x", "'cuda:x'"), ("cpu:1", "'cpu:1'")]:
        with pytest.raises(EngineError, match=message):
            WarpPhysics(scene, 2, 1, device)
    if not torch.cuda.is_available():
        with pytest.raises(EngineError, match=r"device 'cuda'.*CUDA.*'cpu' works"):
            WarpPhysics(scene, 2, 1, "cuda")
    with pytest.raises(EngineError, match=r"1000000000 worlds.* 268435455"):
        WarpPhysics(scene, 10**9, 1)
    with pytest.raises(EngineError, match=r"2 worlds.*memory of 'cpu'"), WarpPhysics(scene, 2, 1)._engine._memory():
        torch.empty(10**15)
    with pytest.raises(ValueError, match="not 0"):
        WarpPhysics(scene, 0, 1)
    with pytest.raises(EngineError, match="its own 'jnt_type'"):
        WarpPhysics(scene, 2, 1).set_field("jnt_type", torch.arange(2), torch.arange(1), torch.zeros(2, 1))
    monkeypatch.setattr(warp_setup, "version", lambda name: "3.9.1")
    with pytest.raises(EngineError, match=f"mujoco {mujoco.__version__} and mujoco-warp 3.9.1"):
        WarpPhysics(scene, 2, 1)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "warp", None)
    with pytest.raises(EngineError, match=r"pip install 'phalanx\[warp\]'"):
        WarpPhysics(scene, 2, 1)
