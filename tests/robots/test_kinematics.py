"""Kinematics against MuJoCo, on random trees of joints and on every robot; inverse kinematics by where it arrives."""

import warnings
from pathlib import Path

import mujoco
import numpy as np
import onnxruntime
import pytest
import torch

from hardware import Joint, RobotSpec, load_robot, robot_names
from hardware.kinematics import load_chain
from hardware.lever import load_lever
from hardware.once import worked_out_once
from hardware.rotation import multiply, products, rotate_inverse
from sim.baselines.ik import joint_velocity, pose_error

FRAMES = [(name, role) for name in robot_names() for role in load_robot(name).frames]
ARMS = [name for name, role in FRAMES if role == "tool"]


def numbers(values) -> str:
    return " ".join(str(v) for v in values)


def spec_of(path: Path, mjcf: str, joints: tuple[str, ...]) -> RobotSpec:
    path.write_text(mjcf)
    drives = tuple(Joint(name, -2.0, 2.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0) for name in joints)
    return RobotSpec(
        name="made",
        kind="manipulator",
        mjcf=path,
        base_body="trunk",
        joints=drives,
        channels=(),
        mass_kg=1.0,
        radius_m=1.0,
        control_hz=50.0,
        sensor_hz=100.0,
        fallback="hold",
        frames={"tool": "tip", "side": "aside", "lost": "nowhere"},
    )


def random_tree(seed: int, path: Path) -> RobotSpec:
    """A free base with a limb of hinges and slides anywhere on their bodies, and a branch aside, in shuffled order."""
    rng = np.random.default_rng(seed)

    def body(name: str, count: int, inside: str) -> str:
        joints = "".join(
            f'<joint name="{name}{i}" type="{rng.choice(["hinge", "hinge", "slide"])}"'
            f' pos="{numbers(rng.normal(0, 0.1, 3))}" axis="{numbers(rng.normal(size=3))}"/>'
            for i in range(count)
        )
        place = f'pos="{numbers(rng.normal(0, 0.3, 3))}" quat="{numbers(rng.normal(size=4))}"'
        return f'<body name="{name}" {place}>{joints}<geom size="0.1"/>{inside}</body>'

    tip = f'<site name="tip" pos="{numbers(rng.normal(0, 0.2, 3))}" quat="{numbers(rng.normal(size=4))}"/>'
    limb = body("a", 1, body("b", 3, body("c", 0, body("d", 1, tip + body("beyond", 1, "")))))
    branch = body("e", 2, '<site name="aside"/>')
    trunk = f'<freejoint/><geom size="0.1"/>{limb}{branch}<site name="imu" pos="0 0 0.1"/>'
    joints = rng.permutation(["a0", "b0", "b1", "b2", "d0", "e0", "e1", "beyond0"])
    mjcf = f'<mujoco><worldbody><body name="trunk" pos="1 2 3">{trunk}</body></worldbody></mujoco>'
    return spec_of(path / "made.xml", mjcf, tuple(str(name) for name in joints))


def in_mujoco(spec: RobotSpec, role: str, joint_pos: np.ndarray, rng) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Position, quaternion and Jacobian of a site in the base body, whose own pose is random where it is free."""
    model = mujoco.MjModel.from_xml_path(str(spec.mjcf))
    data = mujoco.MjData(model)
    if model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE:
        data.qpos[:7] = rng.normal(size=7)
    for name, value in zip(spec.joint_names, joint_pos, strict=True):
        data.joint(name).qpos = value
    mujoco.mj_forward(model, data)
    site, base = model.site(spec.frames[role]).id, data.body(spec.base_body)
    jacobian, quat = np.zeros((2, 3, model.nv)), np.zeros(4)
    mujoco.mj_jacSite(model, data, jacobian[0], jacobian[1], site)
    mujoco.mju_mat2Quat(quat, data.site_xmat[site])
    columns = jacobian[..., [model.joint(name).dofadr[0] for name in spec.joint_names]]
    in_base = rotate_inverse(base.xquat, np.swapaxes(columns, 1, 2))
    pos = rotate_inverse(base.xquat, data.site_xpos[site] - base.xpos)
    turn = multiply(base.xquat * [1, -1, -1, -1], quat)
    return pos, turn, np.concatenate(np.swapaxes(in_base, 1, 2))


def agrees(spec: RobotSpec, role: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = load_chain(spec, role)
    batch = rng.uniform(-2.5, 2.5, (3, len(spec.joints)))
    expected = [in_mujoco(spec, role, joint_pos, rng) for joint_pos in batch]
    for poses, jacobians in (
        (chain.forward(batch), chain.jacobian(batch)),
        (chain.forward(torch.from_numpy(batch)), chain.jacobian(torch.from_numpy(batch))),
        (zip(*(chain.forward(q) for q in batch), strict=True), [chain.jacobian(q) for q in batch]),
    ):
        pos, quat = (np.asarray(value) for value in map(list, poses))
        np.testing.assert_allclose(pos, [e[0] for e in expected], atol=1e-12)
        np.testing.assert_allclose(np.abs((quat * [e[1] for e in expected]).sum(-1)), 1.0, atol=1e-12)
        np.testing.assert_allclose(np.asarray(list(jacobians)), [e[2] for e in expected], atol=1e-12)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("role", ["tool", "side"])
def test_any_tree_of_hinges_and_slides_stands_and_moves_as_in_mujoco(seed, role, tmp_path):
    agrees(random_tree(seed, tmp_path), role, seed)


@pytest.mark.parametrize(("name", "role"), FRAMES)
def test_every_frame_of_every_robot_stands_and_moves_as_in_mujoco(name, role):
    agrees(load_robot(name), role, 0)


@pytest.mark.parametrize("name", [name for name in robot_names() if "tool" in load_robot(name).frames])
def test_the_lever_of_a_tool_is_a_row_of_its_jacobian(name):
    spec, draw = load_robot(name), np.random.default_rng(0)
    chain, lever = load_chain(spec, "tool"), load_lever(spec, "tool")
    for up in (np.array([0.0, 0.0, 1.0]), draw.normal(size=3)):
        pos = draw.uniform(-3.0, 3.0, len(spec.joints))
        np.testing.assert_allclose(lever.rise(pos, up), up @ chain.jacobian(pos)[:3], atol=1e-12)


@pytest.mark.parametrize("array", [np.asarray, torch.from_numpy])
def test_single_precision_stays_and_is_good_to_a_micrometre(array, tmp_path):
    spec = random_tree(3, tmp_path)
    chain = load_chain(spec, "tool")
    joint_pos = np.random.default_rng(0).uniform(-2, 2, (100, len(spec.joints)))
    exact = (*chain.forward(joint_pos), chain.jacobian(joint_pos))
    single = array(joint_pos.astype(np.float32))
    for value, expected in zip((*chain.forward(single), chain.jacobian(single)), exact, strict=True):
        assert value.dtype == single.dtype
        np.testing.assert_allclose(value, expected, atol=5e-6)


def test_what_several_terms_ask_of_one_array_is_worked_out_once_and_again_for_the_next(monkeypatch):
    made, chain = [], load_chain(load_robot("panda"), "tool")
    monkeypatch.setattr("hardware.kinematics.products", lambda turns: made.append(1) or products(turns))
    angles = torch.linspace(-1.0, 1.0, 16, dtype=torch.float64).view(2, 8)
    first, second = ((*chain.forward(each), chain.jacobian(each)) for each in (angles, 0.5 * angles))
    for expected in (first, second):
        made.clear()
        with worked_out_once():
            with worked_out_once():
                again = [*chain.forward(angles)]
            chain.forward(angles)
            again.append(chain.jacobian(angles))
        assert len(made) == 1 and all(map(torch.equal, again, expected))
        angles *= 0.5  # written to between two control periods


def test_a_site_on_the_base_itself_never_moves(tmp_path):
    spec = random_tree(0, tmp_path)
    spec.frames["imu"] = "imu"
    chain = load_chain(spec, "imu")
    pos, quat = chain.forward(np.ones((2, 8)))
    assert pos.tolist() == [[0, 0, 0.1]] * 2 and quat.tolist() == [[1, 0, 0, 0]] * 2
    assert not chain.jacobian(np.ones((2, 8))).any()


class Pose(torch.nn.Module):
    def __init__(self, chain) -> None:
        super().__init__()
        self.chain = chain

    def forward(self, joint_pos):
        return *self.chain.forward(joint_pos), self.chain.jacobian(joint_pos)


@pytest.mark.slow
def test_a_policy_file_can_carry_the_kinematics_for_any_batch(tmp_path):
    chain = load_chain(random_tree(1, tmp_path), "tool")
    free = ({0: torch.export.Dim("batch", min=1)},)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(Pose(chain), (torch.zeros(3, 8),), dynamo=True, dynamic_shapes=free, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    for batch in (1, 5):
        joint_pos = np.random.default_rng(batch).uniform(-2, 2, (batch, 8)).astype(np.float32)
        answers = session.run(None, {session.get_inputs()[0].name: joint_pos})
        for answer, expected in zip(answers, (*chain.forward(joint_pos), chain.jacobian(joint_pos)), strict=True):
            np.testing.assert_allclose(answer, expected, atol=5e-6)


@pytest.mark.parametrize(("role", "message"), [("hand", "it has: tool, side, lost"), ("lost", "site 'nowhere'")])
def test_a_frame_that_is_not_there_is_named(role, message, tmp_path):
    with pytest.raises(ValueError, match=f"{role}'.*{message}|{message}.*'{role}'"):
        load_chain(random_tree(0, tmp_path), role)


@pytest.mark.parametrize(
    ("text", "instead", "message"),
    [
        ('name="a0"', 'name="z0"', "joint 'a0' of the spec is not in"),
        ('name="b1"', 'name="b1" ref="1"', "joint 'b1' in .* has 'ref'"),
        ('name="tip"', 'name="tip" euler="0 1 0"', "site 'tip' in .* has 'euler'"),
        ('type="hinge"', 'type="ball"', "is on the way to a frame and neither a hinge nor a slide"),
        ("</body></body>", '</body><joint name="extra"/></body>', "joint 'extra' .* is not a joint of the spec"),
        ("<worldbody>", '<default><joint axis="1 0 0"/></default><worldbody>', "default 'axis' of its joints"),
        ('<body name="b"', '<frame/><body name="b"', "has a <frame>"),
    ],
)
def test_what_the_kinematics_would_misread_is_refused(text, instead, message, tmp_path):
    spec = random_tree(0, tmp_path)
    original = spec.mjcf.read_text()
    assert text in original
    spec.mjcf.write_text(original.replace(text, instead))
    with pytest.raises(ValueError, match=message):
        load_chain(spec, "tool")


def test_the_pose_error_turns_one_pose_into_the_other_the_short_way():
    rng = np.random.default_rng(0)
    for angle in (0.0, 1e-9, 1e-4, 1e-2, 1.0, 3.1):
        quat = rng.normal(size=4)
        quat /= np.linalg.norm(quat)
        axis = rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        goal = multiply(np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)]), quat)
        for sign in (1.0, -1.0):  # a quaternion and its negative are the same rotation
            error = pose_error(np.zeros(3), quat, np.array([1.0, 2.0, 3.0]), sign * goal)
            np.testing.assert_allclose(error, [1, 2, 3, *(angle * axis)], atol=1e-9 * angle + 1e-15)


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_reaches_poses_in_its_neighbourhood_by_least_squares(name):
    spec = load_robot(name)
    chain = load_chain(spec, "tool")
    generator = torch.Generator().manual_seed(0)
    low, high = torch.tensor([(j.low, j.high) for j in spec.joints]).T
    joint_pos = low + (high - low) * (0.1 + 0.8 * torch.rand(200, len(low), generator=generator))
    goal = chain.forward(joint_pos + 0.8 * torch.rand(joint_pos.shape, generator=generator) - 0.4)
    for _ in range(100):
        joint_pos = joint_pos + 0.5 * joint_velocity(
            chain, joint_pos, pose_error(*chain.forward(joint_pos), *goal), 0.05
        )
    error = pose_error(*chain.forward(joint_pos), *goal)
    there = (error[:, :3].norm(dim=-1) < 1e-3) & (error[:, 3:].norm(dim=-1) < np.deg2rad(0.5))
    assert there.float().mean() >= 0.95


def test_joint_velocity_moves_the_site_as_asked_and_stays_bounded_where_the_arm_is_stretched(tmp_path):
    joints = [f'<body pos="0.3 0 0"><joint name="j{i}" axis="0 {i % 2} {1 - i % 2}"/>' for i in range(6)]
    arm = "".join(joints) + '<site name="tip" pos="0.3 0 0"/>' + "</body>" * 6
    text = f'<mujoco><worldbody><body name="trunk">{arm}</body></worldbody></mujoco>'
    chain = load_chain(spec_of(tmp_path / "made.xml", text, tuple(f"j{i}" for i in range(6))), "tool")
    twist = np.array([0.1, -0.2, 0.05, 0.3, 0.1, -0.2])
    bent = np.array([0.3, -0.5, 0.8, 0.6, -0.7, 0.9])
    np.testing.assert_allclose(chain.jacobian(bent) @ joint_velocity(chain, bent, twist, 1e-5), twist, atol=1e-4)
    stretched = joint_velocity(chain, np.zeros(6), twist, 0.1)
    assert np.linalg.norm(stretched) <= np.linalg.norm(twist) / (2 * 0.1)
