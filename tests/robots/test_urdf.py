"""URDF of every robot that ships, read by MuJoCo, an independent reader, and compared with the robot's own model."""

import xml.etree.ElementTree as ET

import mujoco
import numpy as np
import pytest

from hardware import load_robot, robot_names
from hardware.urdf import make_urdf

# Links need no mass to be shown, but MuJoCo wants some; and it is not to merge links or drop what is only seen.
FOR_MUJOCO = (
    """<mujoco><compiler boundmass="0.001" boundinertia="0.001" fusestatic="false" discardvisual="false"/></mujoco>"""
)


def placed(model: mujoco.MjModel, joints: dict[str, float], base: str):
    """Name -> pose of each body and site, and poses of geoms by kind and size, all in the body `base`."""
    data = mujoco.MjData(model)
    for name, value in joints.items():
        data.qpos[model.joint(name).qposadr[0]] = value
    mujoco.mj_forward(model, data)
    origin, turn = data.body(base).xpos, data.body(base).xmat.reshape(3, 3)

    def pose(thing) -> np.ndarray:
        return np.concatenate([turn.T @ (thing.xpos - origin), (turn.T @ thing.xmat.reshape(3, 3)).ravel()])

    bodies = {model.body(i).name: pose(data.body(i)) for i in range(1, model.nbody)}
    sites = {model.site(i).name: pose(data.site(i)) for i in range(model.nsite)}
    geoms = [(model.geom_type[i], model.geom_size[i], pose(data.geom(i))) for i in range(model.ngeom)]
    return bodies, sites, geoms


@pytest.mark.parametrize("name", robot_names())
def test_links_frames_and_shapes_are_where_the_model_has_them(name):
    spec = load_robot(name)
    text = make_urdf(spec)
    model = mujoco.MjModel.from_xml_path(str(spec.mjcf))
    shown = mujoco.MjModel.from_xml_string(text.replace("</robot>", f"{FOR_MUJOCO}</robot>"))
    rng = np.random.default_rng(0)
    for _ in range(3):
        joints = {joint.name: rng.uniform(joint.low, joint.high) for joint in spec.joints}
        mimics = {"finger_mirror": joints["finger"]} if name == "panda" else {}
        shifted = {"finger_mirror": joints["finger"] - 0.04} if name == "panda" else {}
        bodies, sites, geoms = placed(model, joints | mimics, spec.base_body)
        links, _, shapes = placed(shown, joints | shifted, "base_link")
        for body, pose in bodies.items():
            link = "base_link" if body == spec.base_body else body
            np.testing.assert_allclose(links[link], pose, atol=1e-6, err_msg=f"{name}: {link}")
        for frame, site in spec.frames.items():
            np.testing.assert_allclose(links[frame], sites[site], atol=1e-6, err_msg=f"{name}: {frame}")
        assert len(shapes) >= len(geoms)
        for kind, size, pose in geoms:
            kind = mujoco.mjtGeom.mjGEOM_CYLINDER if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else kind
            along = [] if kind == mujoco.mjtGeom.mjGEOM_SPHERE else [5, 8, 11]  # z, either way round
            found = [
                np.allclose(s, size, atol=1e-4)
                and np.allclose(p[:3], pose[:3], atol=1e-5)
                and np.allclose(np.abs(p[along]), np.abs(pose[along]), atol=1e-5)
                for k, s, p in shapes
                if k == kind
            ]
            assert any(found), f"{name}: no shape of kind {kind}, size {size} at {pose[:3]}"


def test_limits_are_those_of_the_specification_and_a_coupled_joint_follows():
    spec = load_robot("panda")
    robot = ET.fromstring(make_urdf(spec))
    limits = {joint.get("name"): joint.find("limit") for joint in robot.iterfind("joint")}
    for joint in spec.joints:
        given = [float(limits[joint.name].get(key)) for key in ("lower", "upper", "velocity", "effort")]
        np.testing.assert_allclose(given, [joint.low, joint.high, joint.max_velocity, joint.max_effort], rtol=1e-6)
    mimic = robot.find("joint[@name='finger_mirror']/mimic")
    assert (mimic.get("joint"), mimic.get("multiplier"), mimic.get("offset")) == ("finger", "1", "-0.04")


def test_what_cannot_be_described_is_refused_in_one_line(tmp_path):
    from dataclasses import replace

    file = tmp_path / "arm.xml"
    file.write_text(load_robot("ur5e").mjcf.read_text().replace('type="hinge"', 'type="ball"', 1))
    with pytest.raises(ValueError, match=r"joint .* in arm\.xml has no place in URDF"):
        make_urdf(replace(load_robot("ur5e"), mjcf=file))
