"""Forward kinematics of a robot's frames from its MJCF, for NumPy arrays and torch tensors alike; `...` is any batch.

A chain leads from the base body over the joints on the way to a site. Each joint is a link of the chain, with a frame
that lies at the joint and moves with it; the site is the last link. A link's turn is a quaternion, linear in the cosine
and sine of half its joint's angle, so that one matrix product turns all links and only chaining them is a loop.
"""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace, device

from hardware.rotation import cross, multiply, rotate, rotate_inverse_each
from hardware.spec import RobotSpec
from hardware.types import Array

_NO_TURN = np.array([1.0, 0.0, 0.0, 0.0])
_CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])
# (4, 16): from a quaternion r to the matrix that takes q to the product q r, so that products become matrix products.
_FOLLOWED_BY = np.stack([multiply(np.eye(4), unit) for unit in np.eye(4)]).reshape(4, 16)
# What MuJoCo also knows and would change where a site is: refused, for silently reading past it would be worse.
_UNREAD = frozenset({"euler", "axisangle", "xyaxes", "zaxis", "ref"})
_NO_DEFAULT = {"joint": _UNREAD | {"pos", "axis", "type"}, "site": _UNREAD | {"pos", "quat"}}


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The way from the base body to a site: L links, of which the last is the site; J = joints of the robot."""

    link_joint: np.ndarray  # (L) joint of each link; J for the site, which has none
    joint_link: np.ndarray  # (J) link of each joint; L - 1, the site, for a joint that is not on the way
    step: np.ndarray  # (2 L, 16 L): from cosines and sines of half the angles to each link's turn in the one before it
    half: np.ndarray  # (L) 1/2 for a hinge, else 0
    start: np.ndarray  # (3) m, the first link in the base body
    reach: np.ndarray  # (L, 3) m, the next link in this one's frame; 0 for the site
    hinge: np.ndarray  # (L, 3) axis of a hinge in the link's own frame, else 0
    slide: np.ndarray  # (L, 3) axis of a slide in the link's own frame, else 0

    def forward(self, joint_pos: Array) -> tuple[Array, Array]:
        """Position (..., 3) m and quaternion (..., 4) wxyz of the site in the base body at `joint_pos` (..., J)."""
        turns, reach = self._links(joint_pos)
        return rotate(turns, reach).sum(-2) + _constant(self.start, joint_pos), turns[..., -1, :]

    def jacobian(self, joint_pos: Array) -> Array:
        """(..., 6, J): linear, then angular velocity of the site per joint velocity, in the axes of the base body."""
        xp = array_namespace(joint_pos)
        turns, reach = self._links(joint_pos)
        hinge, slide = (xp.broadcast_to(_constant(axis, joint_pos), reach.shape) for axis in (self.hinge, self.slide))
        vectors = rotate_inverse_each(
            turns * _constant(_CONJUGATE, joint_pos), xp.stack([reach, hinge, slide], axis=-2)
        )
        reach, hinge, slide = (vectors[..., i, :] for i in range(3))
        to_site = reach.sum(-2)[..., None, :] - xp.cumulative_sum(reach, axis=-2) + reach
        of_link = xp.concat([cross(hinge, to_site) + slide, hinge], axis=-1)
        return xp.matrix_transpose(xp.take(of_link, _index(self.joint_link, joint_pos), axis=-2))

    def _links(self, joint_pos: Array) -> tuple[Array, Array]:
        """Each link's turn (..., L, 4) in the base body, and the way (..., L, 3) m in its own frame to the next one."""
        xp = array_namespace(joint_pos)
        none = xp.zeros((*joint_pos.shape[:-1], 1), dtype=joint_pos.dtype, device=device(joint_pos))
        moved = xp.take(xp.concat([joint_pos, none], axis=-1), _index(self.link_joint, joint_pos), axis=-1)
        angle = moved * _constant(self.half, joint_pos)
        step = xp.concat([xp.cos(angle), xp.sin(angle)], axis=-1) @ _constant(self.step, joint_pos)
        step = xp.reshape(step, (*moved.shape, 4, 4))
        turns = [step[..., 0, :1, :]]  # the first row of a step is its quaternion
        for i in range(1, len(self.link_joint)):
            turns.append(turns[-1] @ step[..., i, :, :])
        reach = xp.broadcast_to(_constant(self.reach, joint_pos), (*moved.shape, 3))
        if self.slide.any():
            reach = reach + moved[..., None] * _constant(self.slide, joint_pos)
        return xp.concat(turns, axis=-2), reach


def load_chain(spec: RobotSpec, role: str) -> Chain:
    """The chain to the frame `role` of `spec.frames`. Raises ValueError for what the spec or its MJCF does not have."""
    if role not in spec.frames:
        known = ", ".join(spec.frames) or "none"
        raise ValueError(f"robot {spec.name!r} has no frame {role!r}; it has: {known}")
    root = ET.parse(spec.mjcf).getroot()
    _check_file(spec, root)
    present = {joint.get("name") for joint in root.findall("worldbody//joint")}
    for name in spec.joint_names:
        if name not in present:
            raise ValueError(f"robot {spec.name!r}: joint {name!r} of the spec is not in {spec.mjcf.name}")
    base = root.find(f"worldbody//body[@name='{spec.base_body}']")
    way = None if base is None else _way(base, spec.frames[role])
    if way is None:
        wanted = f"site {spec.frames[role]!r} of frame {role!r}"
        raise ValueError(f"robot {spec.name!r}: {wanted} is not below body {spec.base_body!r} in {spec.mjcf.name}")
    return _chain(spec, way)


def _way(body: ET.Element, site: str) -> list[ET.Element] | None:
    """Bodies below `body`, their joints, and the site at last, in the order in which one passes them; None without."""
    for child in body.findall("site"):
        if child.get("name") == site:
            return [child]
    for child in body.findall("body"):
        rest = _way(child, site)
        if rest is not None:
            return [child, *(e for e in child if e.tag in ("joint", "freejoint")), *rest]
    return None


def _chain(spec: RobotSpec, way: Sequence[ET.Element]) -> Chain:
    """Fold all that does not move into the links; `pos` and `turn` lead from the last link to where we are."""
    pos, turn = np.zeros(3), _NO_TURN
    joints, places, stills, turneds, hinges, slides = [], [], [], [], [], []
    for element in way:
        _check_passed(spec, element)
        if element.tag != "joint":
            pos = pos + rotate(turn, _numbers(element, "pos", "0 0 0"))
            turn = multiply(turn, _unit(_numbers(element, "quat", "1 0 0 0")))
            continue
        axis, anchor = _unit(_numbers(element, "axis", "0 0 1")), _numbers(element, "pos", "0 0 0")
        is_hinge = element.get("type", "hinge") == "hinge"
        joints.append(spec.joint_names.index(element.get("name", "")))
        places.append(pos + rotate(turn, anchor))
        stills.append(turn)
        turneds.append(is_hinge * multiply(turn, np.array([0.0, *axis])))
        hinges.append(is_hinge * axis)
        slides.append((not is_hinge) * axis)
        pos, turn = -anchor, _NO_TURN
    link_of = {joint: link for link, joint in enumerate(joints)}
    site = len(joints)
    places.append(pos)
    hinge = np.stack([*hinges, np.zeros(3)])
    return Chain(
        link_joint=np.array([*joints, len(spec.joints)]),
        joint_link=np.array([link_of.get(joint, site) for joint in range(len(spec.joints))], dtype=np.int64),
        step=_steps(np.stack([*stills, turn]), np.stack([*turneds, np.zeros(4)])),
        half=np.where(np.any(hinge, axis=-1), 0.5, 0.0),
        start=places[0],
        reach=np.stack([*places[1:], np.zeros(3)]),
        hinge=hinge,
        slide=np.stack([*slides, np.zeros(3)]),
    )


def _steps(still: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """(2 L, 16 L) from the turns (L, 4) of the links at joint angles 0 and pi: see `Chain.step`."""
    matrices = np.stack([still, turned]) @ _FOLLOWED_BY
    return np.concatenate([(np.eye(len(part))[..., None] * part).reshape(len(part), -1) for part in matrices])


def _check_file(spec: RobotSpec, root: ET.Element) -> None:
    """Raise ValueError for what would move any site of the file and is not read here."""
    name = f"robot {spec.name!r}: {spec.mjcf.name}"
    if root.find("worldbody//frame") is not None:
        raise ValueError(f"{name} has a <frame>; kinematics reads nested bodies only")
    for element in root.iterfind("default//*"):
        if unread := sorted(_NO_DEFAULT.get(element.tag, frozenset()).intersection(element.keys())):
            raise ValueError(f"{name} has a default {unread[0]!r} of its {element.tag}s; kinematics reads no defaults")


def _check_passed(spec: RobotSpec, element: ET.Element) -> None:
    """Raise ValueError for what would move the site and is not read here."""
    name = f"robot {spec.name!r}: {element.tag} {element.get('name', '')!r} in {spec.mjcf.name}"
    if unread := sorted(_UNREAD.intersection(element.keys())):
        raise ValueError(f"{name} has {unread[0]!r}; kinematics reads pos, quat and axis only")
    if element.tag not in ("joint", "freejoint"):
        return
    if element.tag == "freejoint" or element.get("type", "hinge") not in ("hinge", "slide"):
        raise ValueError(f"{name} is on the way to a frame and neither a hinge nor a slide")
    if element.get("name") not in spec.joint_names:
        raise ValueError(f"{name} moves a frame and is not a joint of the spec")


def _numbers(element: ET.Element, attribute: str, default: str) -> np.ndarray:
    return np.array(element.get(attribute, default).split(), dtype=np.float64)


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def _constant(values: np.ndarray, like: Array) -> Array:
    """`values` as an array of the kind, type and device of `like`."""
    if isinstance(like, np.ndarray):
        return values.astype(like.dtype, copy=False)
    return array_namespace(like).asarray(values, dtype=like.dtype, device=device(like))


def _index(values: np.ndarray, like: Array) -> Array:
    return array_namespace(like).asarray(values, device=device(like))
