"""A robot as URDF, for RViz, Foxglove and robot_state_publisher: from its MJCF, without meshes and inertias.

Links are called as the bodies are, but for the base, which is `base_link`; frames of the specification are links too.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from math import asin, atan2
from typing import Any

import numpy as np

from hardware.kinematics import UNREAD, check_file, numbers, unit
from hardware.rotation import rotate
from hardware.spec import RobotSpec

BASE_LINK = "base_link"
_NO_TURN = np.array([1.0, 0.0, 0.0, 0.0])


def make_urdf(spec: RobotSpec) -> str:
    """The robot without its free joint. ValueError for an MJCF that has what is not read here."""
    root = ET.parse(spec.mjcf).getroot()
    check_file(spec, root)
    base = root.find(f"worldbody//body[@name='{spec.base_body}']")
    if base is None:
        raise ValueError(f"robot {spec.name!r}: body {spec.base_body!r} is not in {spec.mjcf.name}")
    return _Writer(spec, root).write(base)


class _Writer:
    def __init__(self, spec: RobotSpec, root: ET.Element):
        self._spec, self._robot = spec, ET.Element("robot", name=spec.name)
        self._shapes = dict(_defaults(root.find("default"), {}))  # attributes of geoms, by class
        self._joints = {joint.name: joint for joint in spec.joints}
        self._frames = {site: frame for frame, site in spec.frames.items()}
        self._coupled = {e.get("joint1", ""): e for e in root.iterfind("equality/joint")}

    def write(self, base: ET.Element) -> str:
        self._fill(base, BASE_LINK, np.zeros(3), base.get("childclass", ""))
        ET.indent(self._robot)
        return ET.tostring(self._robot, encoding="unicode")

    def _fill(self, body: ET.Element, name: str, shift: np.ndarray, shape_class: str) -> None:
        """The link of `body`, whose origin lies at `shift` in the body, and all that hangs on it."""
        link = ET.SubElement(self._robot, "link", name=name)
        for geom in body.findall("geom"):
            self._show(link, geom, shift, shape_class)
        for site in body.findall("site"):
            if frame := self._frames.get(site.get("name", "")):
                pos, quat = self._place(site)
                ET.SubElement(self._robot, "link", name=frame)
                self._join(f"{frame}_frame", "fixed", name, frame, pos - shift, quat)
        for child in body.findall("body"):
            self._hang(child, name, shift, child.get("childclass", shape_class))

    def _hang(self, body: ET.Element, parent: str, shift: np.ndarray, shape_class: str) -> None:
        """`body` below the link `parent`, with a link between any two of its joints."""
        pos, quat = self._place(body)
        name, joints, pos = body.get("name", ""), body.findall("joint"), pos - shift
        anchor = np.zeros(3)
        for number, joint in enumerate(joints, 1):
            link = name if number == len(joints) else f"{name}_{number}"
            at = numbers(joint, "pos", "0 0 0")
            self._move(joint, parent, link, pos + rotate(quat, at - anchor), quat)
            if link != name:
                ET.SubElement(self._robot, "link", name=link)
            parent, pos, quat, anchor = link, np.zeros(3), _NO_TURN, at
        if not joints:
            self._join(f"{name}_fixed", "fixed", parent, name, pos, quat)
        self._fill(body, name, anchor, shape_class)

    def _move(self, joint: ET.Element, parent: str, child: str, pos: np.ndarray, quat: np.ndarray) -> None:
        name, kind = joint.get("name", ""), joint.get("type", "hinge")
        coupled = self._coupled.get(name)
        own = self._joints.get(name if coupled is None else coupled.get("joint2", ""))
        strange = own is None or kind not in ("hinge", "slide") or UNREAD.difference({"ref"}).intersection(joint.keys())
        if own is None or strange or (coupled is None and float(joint.get("ref", "0")) != 0.0):
            raise ValueError(
                f"robot {self._spec.name!r}: joint {name!r} in {self._spec.mjcf.name} has no place in URDF"
            )
        out = self._join(name, "prismatic" if kind == "slide" else "revolute", parent, child, pos, quat)
        ET.SubElement(out, "axis", xyz=_text(unit(numbers(joint, "axis", "0 0 1"))))
        low, high = own.low, own.high
        if coupled is not None:  # URDF counts from where MuJoCo has `ref`
            offset, factor = numbers(coupled, "polycoef", "0 1 0 0 0")[:2]
            ET.SubElement(out, "mimic", joint=own.name, multiplier=f"{factor:g}", offset=f"{offset:g}")
            low, high = sorted(offset + factor * bound for bound in (low, high))
        limits = {"lower": low, "upper": high, "effort": own.max_effort, "velocity": own.max_velocity}
        ET.SubElement(out, "limit", {key: f"{value:.9g}" for key, value in limits.items()})

    def _join(self, name: str, kind: str, parent: str, child: str, pos: np.ndarray, quat: np.ndarray) -> ET.Element:
        joint = ET.SubElement(self._robot, "joint", name=name, type=kind)
        ET.SubElement(joint, "parent", link=parent)
        ET.SubElement(joint, "child", link=child)
        _origin(joint, pos, quat)
        return joint

    def _show(self, link: ET.Element, geom: ET.Element, shift: np.ndarray, shape_class: str) -> None:
        values = {**self._shapes.get(geom.get("class", shape_class) or "main", {}), **geom.attrib}
        shape = ET.Element("geom", values)
        pos, quat = self._place(shape)
        size, kind = numbers(shape, "size", "0"), values.get("type", "sphere")
        if "fromto" in values:
            begin, end = np.split(numbers(shape, "fromto", ""), 2)
            pos, quat = (begin + end) / 2, _turn_z_to(end - begin)
            size = np.array([size[0], np.linalg.norm(end - begin) / 2])
        pos = pos - shift
        visuals: list[tuple[str, dict[str, Any], np.ndarray]] = []
        if kind == "box":
            visuals = [("box", {"size": _text(2 * size)}, pos)]
        if kind == "sphere":
            visuals = [("sphere", {"radius": f"{size[0]:g}"}, pos)]
        if kind in ("cylinder", "capsule"):
            visuals = [("cylinder", {"radius": f"{size[0]:g}", "length": f"{2 * size[1]:.6g}"}, pos)]
        if kind == "capsule":
            ends = [pos + rotate(quat, np.array([0.0, 0.0, side * size[1]])) for side in (-1, 1)]
            visuals += [("sphere", {"radius": f"{size[0]:g}"}, end) for end in ends]
        for name, shown, at in visuals:  # a mesh or plane is not shown
            visual = ET.SubElement(link, "visual")
            _origin(visual, at, quat)
            ET.SubElement(ET.SubElement(visual, "geometry"), name, shown)
            color = values.get("rgba", "0.5 0.5 0.5 1")
            ET.SubElement(ET.SubElement(visual, "material", name=color.replace(" ", "_")), "color", rgba=color)

    def _place(self, element: ET.Element) -> tuple[np.ndarray, np.ndarray]:
        if unread := UNREAD.intersection(element.keys()):
            raise ValueError(f"robot {self._spec.name!r}: {element.tag} in {self._spec.mjcf.name} has {min(unread)!r}")
        return numbers(element, "pos", "0 0 0"), unit(numbers(element, "quat", "1 0 0 0"))


def _defaults(default: ET.Element | None, inherited: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Attributes of geoms of each class."""
    if default is not None:
        own = default.find("geom")
        values = {**inherited, **(own.attrib if own is not None else {})}
        yield default.get("class", "main"), values
        for child in default.findall("default"):
            yield from _defaults(child, values)


def _turn_z_to(way: np.ndarray) -> np.ndarray:
    """A quaternion that turns z to `way`."""
    x, y, z = unit(way)
    return unit(np.array([1.0 + z, -y, x, 0.0])) if z > -0.999999 else np.array([0.0, 1.0, 0.0, 0.0])


def _origin(element: ET.Element, pos: np.ndarray, quat: np.ndarray) -> None:
    w, x, y, z = quat
    sine = 2 * (w * y - z * x)
    roll, yaw = atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)), atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    if abs(sine) > 1 - 1e-9:  # roll and yaw turn about the same axis
        roll, yaw = 0.0, -2 * np.sign(sine) * atan2(x, w)
    pitch = asin(np.clip(sine, -1.0, 1.0))
    ET.SubElement(element, "origin", xyz=_text(pos), rpy=_text(np.array([roll, pitch, yaw])))


def _text(values: np.ndarray) -> str:
    return " ".join(f"{value:.9g}" for value in values + 0.0)
