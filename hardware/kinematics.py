"""Forward kinematics of a robot's frames from its MJCF, for NumPy arrays and torch tensors alike; `...` is any batch.

A chain leads from the base body over the joints on the way to a site. Each joint is a link of the chain, with a frame
that lies at the joint and moves with it; the site is the last link. A link's turn is a quaternion, linear in the cosine
and sine of half its joint's angle, so that one matrix product turns all links and only chaining them is a loop.
"""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from array_api_compat import device

from hardware.once import once
from hardware.rotation import Constant, cross, multiply, namespace_of, of_products, products, rotate
from hardware.spec import RobotSpec
from hardware.types import Array

_NO_TURN = np.array([1.0, 0.0, 0.0, 0.0])
# (4, 16): from a quaternion r to the matrix that takes q to the product q r, so that products become matrix products.
_FOLLOWED_BY = np.stack([multiply(np.eye(4), unit) for unit in np.eye(4)]).reshape(4, 16)
# What MuJoCo also knows and would change where a site is: refused, for silently reading past it would be worse.
UNREAD = frozenset({"euler", "axisangle", "xyaxes", "zaxis", "ref"})
_NO_DEFAULT = {"joint": UNREAD | {"pos", "axis", "type"}, "site": UNREAD | {"pos", "quat"}}


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The way from the base body to a site: L links, of which the last is the site; J = joints of the robot."""

    joint_link: np.ndarray  # (J) link of each joint; L - 1, the site, for a joint that is not on the way
    step: Constant  # (2 L, 16 L): from cosines and sines of half the angles to each link's turn in the one before it
    half: Constant  # (J, L) from joint positions to half the angle of each link's hinge
    out: Constant | None  # (J, L) from joint positions to how far each link's slide is out; None without any slide
    start: Constant  # (3) m, the first link in the base body
    # (10 L, 9 L) from `products` of the turns to three vectors of each link in the base body: the way from it to the
    # site before slides have moved, the axis of its hinge, the axis of its slide; 0 for what is not.
    vectors: Constant
    slid: Constant  # (10 L, 9 L) to what slides add to them per metre
    way: Constant  # (10 L, 3) of `vectors`, to the site's position
    way_slid: Constant  # (10 L, 3) of `slid`

    def forward(self, joint_pos: Array) -> tuple[Array, Array]:
        """Position (..., 3) m and quaternion (..., 4) wxyz of the site in the base body at `joint_pos` (..., J)."""
        return once(self._forward, joint_pos, self)

    def _forward(self, joint_pos: Array) -> tuple[Array, Array]:
        turns, pairs = once(self._turns, joint_pos, self)
        pos = self.start.like(joint_pos) + _flat(pairs) @ self.way.like(joint_pos)
        if self.out is not None:
            pos = pos + _flat(pairs * self._moved(joint_pos, self.out)) @ self.way_slid.like(joint_pos)
        return pos, turns[..., -1, :]

    def jacobian(self, joint_pos: Array) -> Array:
        """(..., 6, J): linear, then angular velocity of the site per joint velocity, in the axes of the base body."""
        xp = namespace_of(joint_pos)
        turns, pairs = once(self._turns, joint_pos, self)
        vectors = _flat(pairs) @ self.vectors.like(joint_pos)
        if self.out is not None:
            vectors = vectors + _flat(pairs * self._moved(joint_pos, self.out)) @ self.slid.like(joint_pos)
        vectors = xp.reshape(vectors, (*turns.shape[:-1], 3, 3))
        to_site, hinge, slide = (vectors[..., i, :] for i in range(3))
        of_link = xp.concat([cross(hinge, to_site) + slide, hinge], axis=-1)
        return xp.matrix_transpose(xp.take(of_link, _index(self.joint_link, joint_pos), axis=-2))

    @staticmethod
    def _moved(joint_pos: Array, out: Constant) -> Array:
        """How far the slide of each link is out, (..., L, 1) m."""
        return (joint_pos @ out.like(joint_pos))[..., None]

    def _turns(self, joint_pos: Array) -> tuple[Array, Array]:
        """How each link is turned in the base body, (..., L, 4), and `products` of it."""
        xp = namespace_of(joint_pos)
        half = joint_pos @ self.half.like(joint_pos)
        step = xp.concat([xp.cos(half), xp.sin(half)], axis=-1) @ self.step.like(joint_pos)
        step = xp.reshape(step, (*half.shape, 4, 4))
        turns = [step[..., 0, :1, :]]  # the first row of a step is its quaternion
        for i in range(1, step.shape[-3]):
            turns.append(turns[-1] @ step[..., i, :, :])
        turned = xp.concat(turns, axis=-2)
        return turned, products(turned)


def load_chain(spec: RobotSpec, frame: str) -> Chain:
    """The chain to `frame` of `spec.frames`. Raises ValueError for what the spec or its MJCF does not have."""
    return _chain(spec, way_to(spec, frame))


def way_to(spec: RobotSpec, frame: str) -> list[ET.Element]:
    """Bodies below the base, their joints, and the site at last, in the order in which one passes them.

    Raises ValueError for what the spec or its MJCF does not have.
    """
    if frame not in spec.frames:
        known = ", ".join(spec.frames) or "none"
        raise ValueError(f"robot {spec.name!r} has no frame {frame!r}; it has: {known}")
    root = ET.parse(spec.mjcf).getroot()
    check_file(spec, root)
    present = {joint.get("name") for joint in root.findall("worldbody//joint")}
    for name in spec.joint_names:
        if name not in present:
            raise ValueError(f"robot {spec.name!r}: joint {name!r} of the spec is not in {spec.mjcf.name}")
    base = root.find(f"worldbody//body[@name='{spec.base_body}']")
    way = None if base is None else _way(base, spec.frames[frame])
    if way is None:
        wanted = f"site {spec.frames[frame]!r} of frame {frame!r}"
        raise ValueError(f"robot {spec.name!r}: {wanted} is not below body {spec.base_body!r} in {spec.mjcf.name}")
    return way


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
            pos = pos + rotate(turn, numbers(element, "pos", "0 0 0"))
            turn = multiply(turn, unit(numbers(element, "quat", "1 0 0 0")))
            continue
        axis, anchor = unit(numbers(element, "axis", "0 0 1")), numbers(element, "pos", "0 0 0")
        is_hinge = element.get("type", "hinge") == "hinge"
        joints.append(spec.joint_names.index(element.get("name", "")))
        places.append(pos + rotate(turn, anchor))
        stills.append(turn)
        turneds.append(is_hinge * multiply(turn, np.array([0.0, *axis])))
        hinges.append(is_hinge * axis)
        slides.append((not is_hinge) * axis)
        pos, turn = -anchor, _NO_TURN
    link_of = {joint: link for link, joint in enumerate(joints)}
    of_joint = np.arange(len(spec.joints))[:, None] == np.array([*joints, -1])  # (J, L)
    site = len(joints)
    places.append(pos)
    stills.append(turn)
    turneds.append(np.zeros(4))
    # Three vectors of each link are fixed in it: the way to the next one, the axis of a hinge, the axis of a slide.
    fixed = np.stack([np.stack([*each, np.zeros(3)]) for each in (places[1:], hinges, slides)], axis=1)
    turned = np.stack([of_products(link) for link in fixed])  # (L, 10, 3, 3)
    vectors, slid = np.zeros((2, site + 1, 10, site + 1, 3, 3))
    for link, of_link in enumerate(turned):  # it is on the way of all links up to itself
        vectors[link, :, : link + 1, 0], slid[link, :, : link + 1, 0] = of_link[:, None, 0], of_link[:, None, 2]
        vectors[link, :, link, 1:] = of_link[:, 1:]
    steps = [_block_diagonal(np.stack(quats)[:, None] @ _FOLLOWED_BY) for quats in (stills, turneds)]
    # Laid out by columns, products with tall arrays take a third of the time.
    vectors, slid = (np.asfortranarray(each.reshape(10 * (site + 1), -1)) for each in (vectors, slid))
    out = of_joint * np.where(fixed[:, 2].any(axis=-1), 1.0, 0.0)
    return Chain(
        joint_link=np.array([link_of.get(joint, site) for joint in range(len(spec.joints))], dtype=np.int64),
        step=Constant(np.asfortranarray(np.concatenate(steps))),
        half=Constant(of_joint * np.where(fixed[:, 1].any(axis=-1), 0.5, 0.0)),
        out=Constant(out) if out.any() else None,
        start=Constant(places[0]),
        vectors=Constant(vectors),
        slid=Constant(slid),
        way=Constant(vectors[:, :3]),
        way_slid=Constant(slid[:, :3]),
    )


def _block_diagonal(blocks: np.ndarray) -> np.ndarray:
    """(n, a, b) -> (n a, n b)."""
    count, rows, columns = blocks.shape
    return np.einsum("ij,iab->iajb", np.eye(count), blocks).reshape(count * rows, count * columns)


def check_file(spec: RobotSpec, root: ET.Element) -> None:
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
    if unread := sorted(UNREAD.intersection(element.keys())):
        raise ValueError(f"{name} has {unread[0]!r}; kinematics reads pos, quat and axis only")
    if element.tag not in ("joint", "freejoint"):
        return
    if element.tag == "freejoint" or element.get("type", "hinge") not in ("hinge", "slide"):
        raise ValueError(f"{name} is on the way to a frame and neither a hinge nor a slide")
    if element.get("name") not in spec.joint_names:
        raise ValueError(f"{name} moves a frame and is not a joint of the spec")


def numbers(element: ET.Element, attribute: str, default: str) -> np.ndarray:
    """The numbers of an attribute; `default` is what MuJoCo takes where there is none."""
    return np.array(element.get(attribute, default).split(), dtype=np.float64)


def unit(vector: np.ndarray) -> np.ndarray:
    """`vector` (n,) with the length 1."""
    return vector / np.linalg.norm(vector)


def _flat(values: Array) -> Array:
    """(..., L, n) -> (..., L n)."""
    return namespace_of(values).reshape(values, (*values.shape[:-2], -1))


def _index(values: np.ndarray, like: Array) -> Array:
    return namespace_of(like).asarray(values, device=device(like))
